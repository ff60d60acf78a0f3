"""What the hub says of a model before a run fetches it: its shape, who may read it, and what the host has already."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from tests.agent.conversation import Host
from tests.agent.test_agent_hostile_servers import Request, answering
from tests.hub_server import COMMIT, Hub, serving

CONFIG = json.dumps({"model_type": "qwen2"}).encode()
LISTED = {"config.json": len(CONFIG), "model.safetensors": 4_000_000}


def listing(files: dict[str, int]) -> bytes:
    siblings = [{"rfilename": name, "size": size, "blobId": None} for name, size in files.items()]
    return json.dumps({"sha": COMMIT, "siblings": siblings}).encode()


def find(host: Host, address: str, token: str | None = None, **variables: str) -> dict[str, Any]:
    way = {"HF_ENDPOINT": address, **variables}
    found: dict[str, Any] = host.call("model.find", repo="acme/m", revision="main", variables=way, token=token)
    return found


def hub_with(config: Callable[[Request], None], files: dict[str, int] | None = None) -> Callable[[Request], None]:
    """A hub that lists files, and answers for config.json with a function."""

    def answer(request: Request) -> None:
        if request.path.startswith("/api/"):
            request.answer(200, listing(LISTED if files is None else files))
        else:
            config(request)

    return answer


def test_a_models_config_comes_with_its_listing(this_host: Host) -> None:
    with answering(hub_with(lambda request: request.answer(200, CONFIG))) as address:
        found = find(this_host, address)
    assert (found["config"], found["config_problem"], found["denied"]) == (CONFIG.decode(), None, None)
    assert found["size_bytes"] == sum(LISTED.values())


@pytest.mark.parametrize("code", [401, 403])
def test_a_model_whose_files_only_some_may_read_is_denied_although_the_hub_lists_it(this_host: Host, code: int) -> None:
    with answering(hub_with(lambda request: request.answer(code, b"{}"))) as address:
        found = find(this_host, address)
    assert (found["commit"], found["refused"], found["config"]) == (COMMIT, False, None)
    assert found["denied"] == f"answered {code} for config.json"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{" + b" " * 2_000_000, "config.json is longer than 1000 kB"),
        (b"\xff\xfe{}", "its config.json is not text"),
    ],
)
def test_a_config_that_is_none_is_a_problem_and_no_refusal(this_host: Host, body: bytes, said: str) -> None:
    with answering(hub_with(lambda request: request.answer(200, body))) as address:
        found = find(this_host, address)
    assert (found["config"], found["config_problem"], found["refused"], found["denied"]) == (None, said, False, None)


def test_a_config_that_the_hub_cannot_give_is_a_problem_and_no_refusal(this_host: Host) -> None:
    with answering(hub_with(lambda request: request.answer(500, b""))) as address:
        found = find(this_host, address)
    assert (found["commit"], found["config_problem"]) == (COMMIT, "answered 500 for config.json")


@pytest.mark.parametrize("page", [b"<html>sign in to the network</html>", b"[]", b"null", b'{"sha": 5}'])
def test_a_page_that_is_no_listing_means_that_the_hub_was_not_reached(this_host: Host, page: bytes) -> None:
    with answering(lambda request: request.answer(200, page)) as address:
        found = find(this_host, address)
    assert (found["commit"], found["refused"]) == (None, False)
    assert found["error"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "acme/m holds no files at main"),
        ({"model.gguf": 5, "README.md": 1}, "acme/m has no config.json, which transformers needs, at main"),
        ({"config.json": 5, "model.gguf": 5}, "acme/m has no weights that transformers reads at main"),
    ],
)
def test_a_repository_that_transformers_cannot_load_is_refused(
    this_host: Host, files: dict[str, int], said: str
) -> None:
    with answering(hub_with(lambda request: request.answer(200, CONFIG), files)) as address:
        found = find(this_host, address)
    assert (found["commit"], found["refused"], found["error"]) == (None, True, said)


def test_a_token_follows_to_the_hub_itself_and_to_no_other_server(this_host: Host) -> None:
    tokens: list[tuple[str, str | None]] = []

    def elsewhere(request: Request) -> None:
        tokens.append(("other", request.token))
        request.answer(200, CONFIG)

    with answering(elsewhere) as other:

        def config(request: Request) -> None:
            tokens.append((request.path.split("/")[1], request.token))
            if request.path.startswith("/cache/"):
                request.answer(302, b"", Location=f"{other}/config.json")
            else:
                request.answer(307, b"", Location="/cache/config.json")

        with answering(hub_with(config)) as address:
            found = find(this_host, address, token="t0ken")
    assert found["config"] == CONFIG.decode()
    assert tokens == [("acme", "Bearer t0ken"), ("cache", "Bearer t0ken"), ("other", None)]


def test_what_the_hosts_cache_has_of_a_model_need_not_be_downloaded(this_host: Host, tmp_path: Path) -> None:
    files = {"config.json": CONFIG, "model.safetensors": b"w" * 5000, "pytorch_model.bin": b"w" * 5000}
    snapshot = tmp_path / "hf" / "hub" / "models--acme--m" / "snapshots" / COMMIT
    with serving(Hub("acme/m", files)) as hub:
        empty = find(this_host, hub.address, HF_HOME=str(tmp_path / "hf"))["cache"]
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_bytes(CONFIG)
        (snapshot / "model.safetensors").write_bytes(b"w" * 4999)  # cut short
        part = find(this_host, hub.address, HF_HOME=str(tmp_path / "hf"))["cache"]
        (snapshot / "model.safetensors").write_bytes(b"w" * 5000)
        whole = find(this_host, hub.address, HF_HOME=str(tmp_path / "hf"))
        moved = {"HF_HOME": str(tmp_path / "other"), "HF_HUB_CACHE": str(tmp_path / "hf" / "hub")}
        assert find(this_host, hub.address, **moved)["cache"] == whole["cache"] | {"free_bytes": ANY}
    assert [found["size_bytes"] for found in (empty, part, whole["cache"])] == [0, len(CONFIG), 5000 + len(CONFIG)]
    assert whole["size_bytes"] == whole["cache"]["size_bytes"]
    assert whole["cache"]["free_bytes"] > 0
    assert isinstance(whole["cache"]["shares_disk"], bool)
