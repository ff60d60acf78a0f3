"""Models of the hub staged on a login node: whole, verified, under their commit, or not at all."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conversation import Host, Refused
from tests.hub_server import COMMIT, Hub, serving

KEY = "hub-test"
WEIGHTS = random.Random(3).randbytes(300_000)
FILES = {
    "config.json": b'{"model_type": "qwen2"}',
    "tokenizer.json": b"{}",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": WEIGHTS,
    "onnx/model.onnx": b"not for us",
    "deep/notes.txt": b"kept",
}
WANTED = {"config.json", "tokenizer.json", "model.safetensors", "deep/notes.txt"}


def python_with_hub() -> str:
    """A Python that has huggingface_hub, as a payload's environment does."""
    for python in filter(None, (os.environ.get("ARMADA_PAYLOAD_PYTHON"), sys.executable)):
        if subprocess.run([python, "-c", "import huggingface_hub"], capture_output=True, check=False).returncode == 0:
            return python
    if os.environ.get("CI"):
        pytest.fail("no Python here has huggingface_hub; set ARMADA_PAYLOAD_PYTHON")
    pytest.skip("no Python here has huggingface_hub; set ARMADA_PAYLOAD_PYTHON")


@pytest.fixture
def environment(root: Path) -> str:
    """An environment of the host's, whose interpreter is the payload's."""
    folder = root / "envs" / KEY / "bin"
    folder.mkdir(parents=True)
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec "{python_with_hub()}" "$@"\n')
    program.chmod(0o755)
    (folder.parent / "READY").write_text(f'{{"key": "{KEY}"}}')
    return KEY


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub("acme/tiny", dict(FILES))) as hub:
        yield hub


def question(hub: Hub, **more: Any) -> dict[str, Any]:
    return {"repo": hub.repo, "revision": "main", "variables": {"HF_ENDPOINT": hub.address}, "token": None, **more}


def fetch(host: Host, hub: Hub, **more: Any) -> dict[str, Any]:
    return host.call("model.fetch", **question(hub, commit=COMMIT, environment=KEY, **more))


def test_a_model_is_found_then_fetched_under_its_commit(this_host: Host, hub: Hub, environment: str) -> None:
    found = this_host.call("model.find", **question(hub))
    sizes = sum(len(FILES[name]) for name in WANTED)
    assert (found["commit"], found["present"], found["size_bytes"], found["error"]) == (COMMIT, False, sizes, None)
    fetched = fetch(this_host, hub)
    folder = Path(fetched["path"])
    assert (fetched["outcome"], fetched["path"], folder.name) == ("fetched", found["path"], COMMIT)
    arrived = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert arrived == {name: FILES[name] for name in WANTED}
    assert this_host.call("model.find", **question(hub))["present"] is True
    before = len(hub.asked)
    assert fetch(this_host, hub)["outcome"] == "ready"
    assert len(hub.asked) == before


def test_what_arrives_damaged_never_gets_its_name_and_is_fetched_again(
    this_host: Host, hub: Hub, environment: str, root: Path
) -> None:
    hub.damaged = {"model.safetensors"}
    with pytest.raises(Refused, match=r"model.safetensors arrived damaged"):
        fetch(this_host, hub)
    assert not (root / "models/hub/acme--tiny" / COMMIT).exists()
    hub.damaged = set()
    assert fetch(this_host, hub)["outcome"] == "fetched"
    assert (root / "models/hub/acme--tiny" / COMMIT / "model.safetensors").read_bytes() == WEIGHTS


def test_a_token_opens_a_gated_model_and_is_in_no_argument(this_host: Host, hub: Hub, environment: str) -> None:
    hub.token = "hf_canary"
    refused = this_host.call("model.find", **question(hub))
    assert refused["refused"] is True
    assert "401" in refused["error"]
    assert this_host.call("model.find", **question(hub, token="hf_canary"))["commit"] == COMMIT
    program = Path(this_host.root) / "envs" / KEY / "bin" / "python"
    program.write_text(program.read_text().replace("exec ", f'echo "$@" > {this_host.root}/argv; exec '))
    assert fetch(this_host, hub, token="hf_canary")["outcome"] == "fetched"
    assert "hf_canary" not in (Path(this_host.root) / "argv").read_text()


def test_a_model_fetched_before_is_found_while_the_hub_is_away(this_host: Host, hub: Hub, environment: str) -> None:
    path = fetch(this_host, hub)["path"]
    nowhere = {"variables": {"HF_ENDPOINT": "http://127.0.0.1:9"}}
    found = this_host.call("model.find", **question(hub, **nowhere))
    assert (found["commit"], found["path"], found["present"]) == (COMMIT, path, True)
    assert "cannot be reached" in found["error"]
    unknown = this_host.call("model.find", **question(hub, repo="acme/other", **nowhere))
    assert (unknown["commit"], unknown["present"], unknown["refused"]) == (None, False, False)


def test_a_model_that_does_not_exist_is_a_refusal(this_host: Host, hub: Hub) -> None:
    found = this_host.call("model.find", **question(hub, repo="acme/nothing"))
    assert (found["commit"], found["refused"]) == (None, True)
    assert "404" in found["error"]


@pytest.mark.parametrize("repo", ["../x", "a/b/c", "-x/y", "a/..", "a b/c", "a--b/c"])
def test_a_name_that_would_leave_the_shelf_is_refused(shared_host: Host, repo: str) -> None:
    with pytest.raises(Refused) as caught:
        shared_host.call("model.find", repo=repo, revision="main")
    assert caught.value.kind == "bad_request"


def test_a_model_waits_for_its_environment(this_host: Host, hub: Hub) -> None:
    with pytest.raises(Refused) as caught:
        fetch(this_host, hub)
    assert caught.value.kind == "environment"
