"""What the hub says of a model, and which copies of one in home's own Hugging Face cache are whole enough to be sent to a host."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from armada.config.hosts import Host
from armada.paths import HomePaths
from armada.provision.environment_key import has_package
from armada.provision.hub import HubAnswer, ask_hub, cached_content, cached_snapshot
from tests.answers import Answering

if TYPE_CHECKING:
    from armada.rpc.session import HostSession

COMMIT = "89abcdef" * 5
Fill = Callable[..., Path]


@pytest.fixture
def fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fill:
    """Lay a model down as huggingface_hub does: blobs, and links to them under the commit."""
    for name in ("HF_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))

    def lay_down(*names: str, commit: str = COMMIT) -> Path:
        folder = tmp_path / "hf" / "hub" / "models--acme--tiny"
        snapshot = folder / "snapshots" / commit
        for part in (folder / "blobs", folder / "refs", snapshot):
            part.mkdir(parents=True, exist_ok=True)
        (folder / "refs" / "main").write_text(commit)
        for number, name in enumerate(names):
            (folder / "blobs" / f"{number}").write_bytes(name.encode())
            (snapshot / name).parent.mkdir(exist_ok=True, parents=True)
            up = "../" * (2 + name.count("/"))
            (snapshot / name).symlink_to(f"{up}blobs/{number}")
        return snapshot

    return lay_down


def test_a_whole_snapshot_is_found_where_main_points(fill: Fill) -> None:
    snapshot = fill("config.json", "model.safetensors")
    assert cached_snapshot("acme/tiny") == snapshot
    assert cached_snapshot("acme/other") is None


@pytest.mark.parametrize("names", [("config.json",), ("model.safetensors",), ("config.json", "notes.txt")])
def test_a_snapshot_without_weights_or_configuration_is_none(fill: Fill, names: tuple[str, ...]) -> None:
    fill(*names)
    assert cached_snapshot("acme/tiny") is None


def test_a_download_that_broke_off_is_none(fill: Fill) -> None:
    snapshot = fill("config.json", "model-00001-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    assert cached_snapshot("acme/tiny") is None
    (snapshot / "model-00002-of-00002.safetensors").write_bytes(b"2")
    assert cached_snapshot("acme/tiny") == snapshot


def test_a_ref_that_leads_elsewhere_is_none(fill: Fill) -> None:
    snapshot = fill("config.json", "model.safetensors")
    (snapshot.parent.parent / "refs" / "main").write_text("../../../../etc")
    assert cached_snapshot("acme/tiny") is None


def test_what_travels_are_the_files_behind_the_links_once(fill: Fill, tmp_path: Path) -> None:
    snapshot = fill("config.json", "model.safetensors", "pytorch_model.bin", "sub/vocab.txt")
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    content = cached_content(home, "acme/tiny", snapshot)
    assert content.files == ["config.json", "model.safetensors", "sub/vocab.txt"]
    assert not any((content.source / name).is_symlink() for name in content.files)
    assert (content.source / "sub/vocab.txt").read_bytes() == b"sub/vocab.txt"
    assert cached_content(home, "acme/tiny", snapshot).sha == content.sha


@pytest.mark.parametrize(
    ("text", "there"),
    [("wandb==0.31.0\n", True), ("trl==1\nWandb>=0.2\n", True), ("wandb-core==1\n", False), ("# wandb\n", False)],
)
def test_a_requirements_list_has_a_package_or_not(text: str, there: bool) -> None:
    assert has_package(text, "wandb") is there


class Asked(Answering):
    """A session that gives one answer, and keeps what it was asked."""

    def __init__(self, **answer: Any) -> None:
        self.host = Host(name="box", ssh="box")
        self.answer = {"commit": None, "path": None, "present": False, **answer}
        self.question: dict[str, Any] = {}

    def said(self, method: str, question: dict[str, Any], /, **options: Any) -> dict[str, Any]:
        assert (method, options["timeout_s"]) == ("model.find", 60.0)
        self.question = question
        return self.answer


def ask(asked: Asked, *secrets: str) -> HubAnswer:
    return ask_hub(cast("HostSession", asked), "a/b", {"HF_ENDPOINT": "http://h", "OTHER": "x"}, secrets)


def test_only_a_hub_that_answers_says_anything_against_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert ask(Asked(size_bytes=5, error=None, refused=False)) == HubAnswer(size_bytes=5)
    silent = Asked(size_bytes=None, error="cannot be reached", refused=False)
    assert ask(silent) == HubAnswer(unreachable="cannot be reached")
    assert (silent.question["token"], silent.question["variables"]) == (None, {"HF_ENDPOINT": "http://h"})
    refusing = Asked(size_bytes=None, error="says 404\x1b[2J", refused=True)
    assert ask(refusing, "HF_TOKEN") == HubAnswer("says 404\N{REPLACEMENT CHARACTER}[2J", token=True)
    assert refusing.question["token"] == "secret"
