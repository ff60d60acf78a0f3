"""Files that a host downloads for a run: whole, verified, once, or not at all."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conversation import Host, Refused
from tests.file_server import Web, serving_files
from tests.hub_server import COMMIT, Hub, serving

BIG = random.Random(5).randbytes(400_000)
SHA256 = hashlib.sha256(BIG).hexdigest()
HUB_FILES = {
    "config.json": b"{}",
    "model.safetensors": BIG,
    "pytorch_model.bin": BIG,
    "sub/a.txt": b"a",
    "sub/b.txt": b"b",
}


@pytest.fixture
def web() -> Iterator[Web]:
    with serving_files(Web({"big.bin": BIG, "empty": b""})) as web:
        yield web


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub("acme/tiny", dict(HUB_FILES))) as hub:
        yield hub


def on_web(web: Web, path: str = "big.bin", **more: Any) -> dict[str, Any]:
    return {"kind": "web", "url": f"{web.address}/{path}", "name": "big.bin", **more}


def at_hub(path: str = "") -> dict[str, Any]:
    return {"kind": "hub", "collection": "models", "repo": "acme/tiny", "revision": "main", "path": path}


def look_up(host: Host, *sources: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = host.call("files.look_up", sources=list(sources), **more)["found"]
    return found


def fetch(host: Host, source: dict[str, Any], **more: Any) -> dict[str, Any]:
    (found,) = look_up(host, source, **more)
    answer: dict[str, Any] = host.call("files.fetch", source=source, identity=found["identity"], **more)
    return answer


def files_below(folder: str | Path) -> dict[str, bytes]:
    top = Path(folder)
    return {path.relative_to(top).as_posix(): path.read_bytes() for path in top.rglob("*") if path.is_file()}


@pytest.mark.parametrize("sha256", [None, SHA256])
def test_a_file_is_looked_up_downloaded_and_then_there(this_host: Host, web: Web, sha256: str | None) -> None:
    source = on_web(web) | ({"sha256": sha256} if sha256 else {})
    (found,) = look_up(this_host, source)
    assert (found["present"], found["size_bytes"], found["files"], found["problem"]) == (False, len(BIG), 1, None)
    assert not web.downloads
    fetched = fetch(this_host, source)
    assert Path(fetched["path"]).read_bytes() == BIG
    assert fetched["outcome"] == "fetched"
    (again,) = look_up(this_host, source)
    assert (again["present"], again["path"]) == (True, fetched["path"])
    assert fetch(this_host, source)["outcome"] == "ready"
    assert len(web.downloads) == 1
    assert not [path for path in (this_host.root / "data").iterdir() if path.name.startswith(".new-")]


def test_a_download_that_breaks_off_continues_where_it_was(this_host: Host, web: Web) -> None:
    web.breaks_after = 150_000
    assert Path(fetch(this_host, on_web(web))["path"]).read_bytes() == BIG
    assert [asked for _, asked in web.downloads] == ["", "bytes=150000-", "bytes=300000-"]


@pytest.mark.parametrize("ranges", [True, False])
def test_one_that_ended_with_its_agent_continues_too(this_host: Host, web: Web, ranges: bool) -> None:
    web.ranges = ranges
    (found,) = look_up(this_host, on_web(web))
    staging = this_host.root / "data" / f".new-{found['identity']}"
    staging.mkdir(parents=True)
    (staging / "big.bin").write_bytes(BIG[:1000])
    (staging / "left-over").write_bytes(b"of another version")
    fetched = fetch(this_host, on_web(web))
    assert files_below(Path(fetched["path"]).parent) == {"big.bin": BIG}
    assert [asked for _, asked in web.downloads] == ["bytes=1000-"]


def test_a_file_that_changed_meanwhile_is_not_taken_for_the_same(this_host: Host, web: Web) -> None:
    (found,) = look_up(this_host, on_web(web))
    web.files["big.bin"] = BIG[::-1]
    with pytest.raises(Refused, match="changed while the launch was prepared") as refused:
        this_host.call("files.fetch", source=on_web(web), identity=found["identity"])
    assert refused.value.kind == "conflict"
    assert Path(fetch(this_host, on_web(web))["path"]).read_bytes() == BIG[::-1]
    assert not look_up(this_host, on_web(web, "big.bin", name="other"))[0]["present"]


def test_a_server_that_tells_no_version_is_asked_each_time_and_never_patched_together(
    this_host: Host, web: Web
) -> None:
    web.etags = False
    (found,) = look_up(this_host, on_web(web))
    assert found["identity"] is None
    first = fetch(this_host, on_web(web))
    changed = BIG[:1000] + BIG[::-1][1000:]
    for staging in (this_host.root / "data").glob(".new-*"):
        pytest.fail(f"{staging} was left")
    web.files["big.bin"] = changed
    second = fetch(this_host, on_web(web))
    assert Path(first["path"]).read_bytes() == BIG
    assert Path(second["path"]).read_bytes() == changed


def test_another_hash_than_promised_is_refused_and_leaves_nothing(this_host: Host, web: Web) -> None:
    web.files["big.bin"] = BIG[::-1]
    with pytest.raises(Refused, match="arrived with SHA-256") as refused:
        fetch(this_host, on_web(web, sha256=SHA256))
    assert refused.value.kind == "environment"
    assert not list((this_host.root / "data").rglob("big.bin"))


def test_what_was_promised_and_is_there_needs_no_server(this_host: Host, web: Web) -> None:
    path = fetch(this_host, on_web(web, sha256=SHA256))["path"]
    web.status = 500
    (found,) = look_up(this_host, on_web(web, "moved", sha256=SHA256))
    assert (found["present"], found["path"], found["problem"]) == (True, path, None)


@pytest.mark.parametrize(("status", "refused"), [(403, True), (404, True), (500, False)])
def test_a_server_that_refuses_is_quoted_without_the_key_in_its_address(
    this_host: Host, web: Web, status: int, refused: bool
) -> None:
    web.status = status
    (found,) = look_up(this_host, on_web(web, "big.bin?X-Amz-Signature=secret"))
    assert f"answered {status}" in found["problem"]
    assert "secret" not in found["problem"]
    assert found["refused"] is refused


def test_an_empty_file_arrives(this_host: Host, web: Web) -> None:
    fetched = fetch(this_host, on_web(web, "empty"))
    assert Path(fetched["path"]).read_bytes() == b""


def test_what_was_changed_on_the_host_is_not_handed_out(this_host: Host, web: Web) -> None:
    path = Path(fetch(this_host, on_web(web))["path"])
    path.chmod(0o644)
    path.write_bytes(BIG[::-1])
    with pytest.raises(Refused, match="does not match its name"):
        look_up(this_host, on_web(web))


@pytest.mark.parametrize(
    ("path", "arrives"),
    [
        ("", {"config.json", "model.safetensors", "sub/a.txt", "sub/b.txt"}),
        ("sub", {"a.txt", "b.txt"}),
        ("sub/a.txt", {"a.txt"}),
        ("pytorch_model.bin", {"pytorch_model.bin"}),
    ],
)
def test_a_repository_of_the_hub_a_folder_of_it_or_a_file(
    this_host: Host, hub: Hub, path: str, arrives: set[str]
) -> None:
    hub.token = "t"
    way = {"variables": {"HF_ENDPOINT": hub.address}, "token": "t"}
    fetched = Path(fetch(this_host, at_hub(path), **way)["path"])
    folder = fetched if fetched.is_dir() else fetched.parent
    assert files_below(folder) == {
        name: HUB_FILES[f"{path}/{name}" if path == "sub" else "sub/a.txt" if path == "sub/a.txt" else name]
        for name in arrives
    }
    asked = len(hub.asked)
    assert look_up(this_host, at_hub(path), **way)[0]["present"]
    assert fetch(this_host, at_hub(path), **way)["outcome"] == "ready"
    assert not [each for each in hub.asked[asked:] if "resolve" in each]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_damage_on_the_way_from_the_hub_is_noticed(this_host: Host, hub: Hub, name: str) -> None:
    hub.damaged.add(name)
    with pytest.raises(Refused, match="arrived with"):
        fetch(this_host, at_hub(), variables={"HF_ENDPOINT": hub.address}, token=None)


def test_a_gated_repository_and_one_without_such_a_file_are_refused(this_host: Host, hub: Hub) -> None:
    way = {"variables": {"HF_ENDPOINT": hub.address}}
    (missing,) = look_up(this_host, at_hub("no/such"), **way)
    assert missing["problem"] == "acme/tiny holds no no/such at main"
    hub.token = "t"
    (gated,) = look_up(this_host, at_hub(), **way)
    assert (gated["refused"], "needs a token" in gated["problem"]) == (True, True)


def test_the_hosts_own_paths_are_looked_at(this_host: Host, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    paths = [tmp_path, tmp_path / "missing", fifo]
    here, missing, strange = look_up(this_host, *({"kind": "host", "path": str(path)} for path in paths))
    assert (here["present"], here["path"]) == (True, str(tmp_path))
    assert missing["problem"] == f"there is no {tmp_path}/missing on this host"
    assert strange["problem"] == f"{fifo} is neither a file nor a folder"


@pytest.mark.parametrize(
    "source",
    [
        7,
        {"kind": "ftp"},
        {"kind": "web", "url": "file:///etc/passwd", "name": "x"},
        {"kind": "web", "url": "http://example.org/x", "name": "x"},
        {"kind": "web", "url": "https://example.org/x", "name": "../x"},
        {"kind": "web", "url": "https://example.org/x", "name": "x", "sha256": "zz"},
        {"kind": "hub", "collection": "spaces", "repo": "a/b", "revision": "main", "path": ""},
        {"kind": "hub", "collection": "models", "repo": "../b", "revision": "main", "path": ""},
    ],
)
def test_what_is_no_source_is_refused(this_host: Host, source: object) -> None:
    with pytest.raises(Refused) as refused:
        this_host.call("files.look_up", sources=[source])
    assert refused.value.kind == "bad_request"


def test_two_downloads_at_once_are_one(this_host: Host, web: Web) -> None:
    (found,) = look_up(this_host, on_web(web))
    request = {"source": on_web(web), "identity": found["identity"]}
    asked = [this_host.conversation.ask("files.fetch", request) for _ in range(3)]
    outcomes = sorted(this_host.conversation.answer(number)["outcome"] for number in asked)
    assert outcomes == ["fetched", "ready", "ready"]
    assert len(web.downloads) == 1


def test_the_commit_names_what_the_hub_gave(this_host: Host, hub: Hub) -> None:
    way = {"variables": {"HF_ENDPOINT": hub.address}}
    fetch(this_host, at_hub(), **way)
    assert any(f"resolve/{COMMIT}/" in each for each in hub.asked)
