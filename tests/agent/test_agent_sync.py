"""What home asks for when it syncs: listings, hashes, blocks of files, deletions."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from armada.config.hosts import Host as ConfiguredHost
from armada.errors import ArmadaError, NotFound
from armada.paths import HomePaths
from armada.rpc.byte_stream import Block, Stream
from armada.transport.local import LocalTransport
from tests.agent.conversation import Host, Refused, check


def save(host: Host, run_id: str, step: int, data: bytes = b"x", at: float | None = None) -> str:
    entry = {"path": "model", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest = {
        "format": 1,
        "run_id": run_id,
        "attempt": 1,
        "step": step,
        "kind": "periodic",
        "created_at": float(step) if at is None else at,
    }
    text = json.dumps({**manifest, "metrics": {}, "files": [entry]})
    digest = hashlib.sha256(text.encode()).hexdigest()
    folder = host.folder(run_id) / "outbox" / digest
    folder.mkdir()
    (folder / "model").write_bytes(data)
    (folder / "MANIFEST.json").write_text(text)
    return digest


def test_one_look_lists_checkpoints_outputs_and_what_nobody_asked_for(host: Host) -> None:
    host.create("r-1", "true")
    digest = save(host, "r-1", 5)
    work = host.folder("r-1") / "work"
    for name in ("results/a/b.txt", "results.txt", "plot.png", "__pycache__/x.pyc"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(name)
    (work / "link").symlink_to("/etc/passwd")
    (host.folder("r-1") / "output.log").write_text("hello")
    (host.folder("r-1") / "samples.jsonl").write_text("{}\n")
    first, second = host.call(
        "sync.look", runs=[{"run_id": "r-1", "outputs": ["results/**", "*.png"]}, {"run_id": "no"}]
    )["runs"]
    assert [entry["digest"] for entry in first["outbox"]] == [digest]
    assert {entry["path"] for entry in first["outputs"]} == {
        "output.log",
        "spec.json",
        "samples.jsonl",
        "work/results/a/b.txt",
        "work/plot.png",
    }
    assert first["others"] == {"count": 1, "size_bytes": len("results.txt"), "examples": ["work/results.txt"]}
    assert (second["exists"], second["outbox"], second["outputs"]) == (False, [], [])
    (named,) = host.call("sync.look", runs=[{"run_id": "r-1", "outputs": ["*.png"], "list_others": True}])["runs"]
    assert sorted(named["others"]["files"]) == [["work/results.txt", 11], ["work/results/a/b.txt", 15]]


@pytest.mark.parametrize(
    ("task", "counted"),
    [("script", ["checkpoints/1.pt", "mine/b", "model.pt", "way"]), ("sft", ["mine/b", "model.pt", "way"])],
)
def test_what_a_job_puts_beside_its_work_folder_is_counted(host: Host, task: str, counted: list[str]) -> None:
    host.create("r-3", "true", task=task)
    folder = host.folder("r-3")
    for name in ("model.pt", "mine/b", "checkpoints/1.pt", "heartbeat-12.json", ".cache/x", "attempts/1/failure.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("12")
    (folder / "way").symlink_to("/etc")
    (told,) = host.call("sync.look", runs=[{"run_id": "r-3", "outputs": ["**"], "list_others": True}])["runs"]
    others = told["others"]
    assert others.pop("files") == [], "nobody may read these"
    assert sorted(others["examples"]) == counted
    assert (others["count"], others["size_bytes"]) == (len(counted), 2 * (len(counted) - 1))
    assert not told["truncated"]


@pytest.mark.parametrize("broken", ["half", "folder", "none"])
def test_a_checkpoint_whose_manifest_cannot_be_read_is_named(host: Host, broken: str) -> None:
    host.create("r-2", "true")
    good, bad = save(host, "r-2", 5), save(host, "r-2", 6)
    manifest = host.folder("r-2") / "outbox" / bad / "MANIFEST.json"
    whole = manifest.read_text()
    manifest.unlink()
    if broken == "half":
        manifest.write_text(whole[:40])
    elif broken == "folder":
        manifest.mkdir()
    (listed,) = host.call("sync.look", runs=[{"run_id": "r-2"}])["runs"]
    assert ([entry["digest"] for entry in listed["outbox"]], listed["unreadable"]) == ([good], [bad])
    seen = host.look("r-2")
    assert ([entry["digest"] for entry in seen["outbox"]], seen["unreadable"]) == ([good], [bad])
    shutil.rmtree(host.folder("r-2") / "outbox" / bad)
    assert host.look("r-2")["unreadable"] == []


def test_the_newest_stays_although_the_clock_was_set_back_before_it(some_host: Host) -> None:
    some_host.create("r-3", "true")
    first, second = save(some_host, "r-3", 5, at=50.0), save(some_host, "r-3", 6, at=40.0)
    asked: dict[str, Any] = {"run_id": "r-3", "home": {"id": "a" * 32, "label": "ann", "path": "/home/ann"}}
    for digest in (first, second):
        some_host.call("outbox.ack", digest=digest, **asked)
    answer = some_host.call("outbox.prune", digests=[first, second], **asked)
    assert answer == {"pruned": [], "refused": dict.fromkeys((first, second), "it is the newest on this host")}


def test_a_look_brings_the_manifests_that_home_would_ask_for_next(host: Host) -> None:
    host.create("r-1", "true")
    first, second, third = (save(host, "r-1", step) for step in (1, 2, 3))
    long = save(host, "r-1", 4)
    folder = host.folder("r-1") / "outbox"
    (folder / long / "MANIFEST.json").write_text((folder / long / "MANIFEST.json").read_text() + " " * 70_000)

    def manifests(most: int, home: dict[str, str] = LAPTOP) -> dict[str, str]:
        question = [{"run_id": "r-1", "outputs": [], "manifests": most}]
        answer: dict[str, str] = host.call("sync.look", runs=question, home=home)["runs"][0].get("manifests", {})
        return answer

    assert manifests(0) == {}
    assert set(manifests(3)) == {third, second}  # a long one is not worth sending unasked
    host.call("outbox.ack", run_id="r-1", digest=third, home=LAPTOP)
    host.call("outbox.ack", run_id="r-1", digest=second, home=LAPTOP, wanted=False)
    assert manifests(3) == {first: (folder / first / "MANIFEST.json").read_text()}
    assert set(manifests(2, DESKTOP)) == {third}  # another home holds nothing yet


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.csv", ["a.csv"], ["a/b.csv", "a.csvx"]),
        ("**/*.csv", ["a.csv", "x/y/a.csv"], ["a.txt"]),
        ("results/**", ["results/a", "results/a/b"], ["results2/a"]),
        ("results", ["results", "results/a/b"], ["results2"]),
        ("results/", ["results/a"], []),
        ("a[0].txt", ["a[0].txt"], ["a0.txt"]),
        ("?.bin", ["a.bin"], ["/.bin", "ab.bin"]),
    ],
)
def test_patterns_mean_what_people_expect(pattern: str, yes: list[str], no: list[str]) -> None:
    from armada_agent.runs.outputs import matcher

    assert [path for path in yes + no if matcher(pattern).fullmatch(path)] == yes


def test_hashes_are_of_the_length_that_was_asked_for(some_host: Host) -> None:
    some_host.create("r-1", "true")
    (some_host.folder("r-1") / "output.log").write_bytes(b"12345")
    files = [["output.log", 3], ["output.log", 9], ["work/missing", 1]]
    expected = [hashlib.sha256(b"123").hexdigest(), None, None]
    assert some_host.call("sync.hash", run_id="r-1", files=files)["sha256"] == expected


@pytest.mark.parametrize(
    "path", ["secrets.env", "../x", "/etc/passwd", "work/../secrets.env", "", "supervisor.log", "attempts/1"]
)
def test_nothing_else_of_a_run_can_be_read(this_host: Host, path: str) -> None:
    this_host.create("r-1", "true")
    with pytest.raises(Refused):
        this_host.call("sync.hash", run_id="r-1", files=[[path, 0]])


def test_blocks_of_files_follow_their_answers(python: str, tmp_path: Path) -> None:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    folder = home.local_root / "runs" / "r-1"
    (folder / "work" / "sub").mkdir(parents=True)
    data = os.urandom(3_000_000)
    (folder / "work" / "big").write_bytes(data)
    (folder / "work" / "sub" / "ü 日本").write_bytes(b"name")
    (folder / "work" / "out").symlink_to("/etc/hostname")
    local = ConfiguredHost(name="local")
    transport = LocalTransport(local, python=python)
    stream = Stream(transport.open_bulk_channel(), local, home)
    came = bytearray(len(data))

    def take(block: Block, offset: int, part: bytes | memoryview) -> None:
        came[offset : offset + len(part)] = part

    try:
        for offset in range(0, 4_000_000, 1_000_000):
            stream.ask(Block("r-1", "work/big", offset, 1_000_000))
        sizes = [stream.receive(take)[1] for _ in range(4)]
        assert sorted(sizes) == [0, 1_000_000, 1_000_000, 1_000_000]
        assert bytes(came) == data
        stream.ask(Block("r-1", "work/sub/ü 日本", 0, 100))
        assert stream.receive(take)[1] == 4
        stream.ask(Block("r-1", "work/out", 0, 10))
        with pytest.raises(NotFound):
            stream.receive(take)
    finally:
        transport.close()
    stream = Stream(transport.open_bulk_channel(), local, home)
    try:
        stream.ask(Block("r-1", "secrets.env", 0, 10))
        with pytest.raises(ArmadaError, match="may transfer"):
            stream.receive(take)
    finally:
        transport.close()


def test_a_host_is_wiped_of_everything_that_is_ours_and_of_nothing_else(some_host: Host) -> None:
    some_host.create("r-1", "true", secrets={"KEY": "value"})
    (some_host.root / "somebody's").write_text("else")
    assert some_host.call("host.forget_secrets", leaves=False) == {
        "removed": [],
        "kept": ["r-1"],
    }  # it may be submitted yet
    assert some_host.call("host.forget_secrets", leaves=True) == {"removed": ["r-1"], "kept": []}
    answer = some_host.call("host.wipe")
    assert "runs" in answer["removed"]
    assert answer["left"] == ["somebody's"]
    assert [path.name for path in some_host.root.iterdir()] == ["somebody's"]


def test_a_host_with_a_living_run_keeps_everything(some_host: Host) -> None:
    some_host.launch("r-1", "sleep", "100", secrets={"KEY": "value"})
    some_host.await_state("r-1", "running")
    assert some_host.call("host.forget_secrets", leaves=True)["kept"] == ["r-1"]
    with pytest.raises(Refused, match="is still alive"):
        some_host.call("host.wipe")
    assert some_host.folder("r-1").is_dir()


def test_a_run_that_was_claimed_and_not_seen_since_is_kept_until_it_is_stopped(some_host: Host) -> None:
    """Whoever claimed it was killed: a batch system may have its job all the same."""
    some_host.create("r-1", "true")
    claim = some_host.folder("r-1") / "submissions/1/claim.json"
    claim.parent.mkdir(parents=True)
    claim.write_text("{}")
    with pytest.raises(Refused, match="r-1 may still start"):
        some_host.call("run.remove", run_id="r-1")
    with pytest.raises(Refused, match="r-1 may still start"):
        some_host.call("host.wipe")
    assert some_host.call("run.stop", run_id="r-1", grace_s=1)["outcome"] == "cancelled_before_start"
    assert "runs" in some_host.call("host.wipe")["removed"]


def test_pruning_takes_a_left_over_trash_with_it(some_host: Host) -> None:
    some_host.create("r-1", "true")
    first, second = save(some_host, "r-1", 1), save(some_host, "r-1", 2)
    some_host.call("outbox.ack", run_id="r-1", digest=first)
    outbox = some_host.folder("r-1") / "outbox"
    (outbox / f".trash-{'f' * 64}").mkdir()
    assert some_host.call("outbox.prune", run_id="r-1", digests=[first])["pruned"] == [first]
    assert some_host.call("outbox.prune", run_id="r-1", digests=[first])["pruned"] == [first]  # again is no harm
    assert sorted(path.name for path in outbox.iterdir()) == [second]


def test_a_host_says_for_which_runs_it_could_not_register_a_home(some_host: Host) -> None:
    for run_id in ("r-1", "r-2"):
        some_host.create(run_id, "true")
    shutil.rmtree(some_host.folder("r-1") / "homes", ignore_errors=True)
    (some_host.folder("r-1") / "homes").write_text("in the way")
    assert some_host.call("homes.enroll", home=LAPTOP, run_ids=["r-1", "r-2"]) == {"runs": ["r-2"]}


LAPTOP = {"id": "a" * 32, "label": "ann@laptop", "path": "/home/ann"}
DESKTOP = {"id": "b" * 32, "label": "ann@desktop", "path": "/home/ann"}


def test_a_host_keeps_what_each_home_said_apart(some_host: Host) -> None:
    some_host.create("r-1", "true")
    first, second = save(some_host, "r-1", 1), save(some_host, "r-1", 2)
    for home in (LAPTOP, DESKTOP):
        assert some_host.call("homes.enroll", home=home, run_ids=["r-1", "no"]) == {"runs": ["r-1"]}
    some_host.call("outbox.ack", run_id="r-1", digest=first, home=LAPTOP)
    folder = some_host.folder("r-1") / "homes" / LAPTOP["id"]
    check(json.loads((folder / "home.json").read_text()), "files", "homes/<home>/home.json")
    check(json.loads((folder / f"{first}.ack").read_text()), "files", "homes/<home>/<digest>.ack")
    refused = some_host.call("outbox.prune", run_id="r-1", digests=[first], home=LAPTOP)
    assert (refused["pruned"], refused["refused"][first]) == ([], "ann@desktop (home bbbbbbbb) has not fetched it")
    assert some_host.call("outbox.prune", run_id="r-1", digests=[first])["pruned"] == []  # a home without a name
    assert some_host.call("outbox.prune", run_id="r-1", digests=[first], home=DESKTOP)["pruned"] == []
    with pytest.raises(Refused, match=r"ann@desktop .* has not fetched 2 checkpoints of r-1"):
        some_host.call("run.remove", run_id="r-1", home=LAPTOP)
    some_host.call("outbox.ack", run_id="r-1", digest=first, home=DESKTOP, wanted=False)
    assert some_host.call("outbox.prune", run_id="r-1", digests=[first], home=LAPTOP)["pruned"] == [first]
    assert not (folder / f"{first}.ack").exists()
    some_host.call("homes.settle", run_id="r-1", home=DESKTOP, digests=[second])
    settled = json.loads((some_host.folder("r-1") / "homes" / DESKTOP["id"] / "settled.json").read_text())
    check(settled, "files", "homes/<home>/settled.json")
    assert some_host.call("run.remove", run_id="r-1", home=LAPTOP) == {}


@pytest.mark.parametrize(("up_to", "has_all"), [(0, False), (1, True), (None, True)])
def test_a_home_has_all_of_a_run_only_as_far_as_it_says(some_host: Host, up_to: int | None, has_all: bool) -> None:
    """It was resumed while the last sync of what had ended was under way."""
    some_host.launch("r-1", "true")
    said = {} if up_to is None else {"submission": up_to}  # an older armada says no number
    some_host.call("homes.settle", run_id="r-1", home=LAPTOP, digests=[], **said)
    look = some_host.call("sync.look", runs=[{"run_id": "r-1", "outputs": []}])["runs"][0]
    assert [home["settled"] for home in look["homes"]] == [has_all]


@pytest.mark.parametrize(
    "home", [7, {"id": "../../x", "label": "a", "path": "b"}, {"id": "a" * 32, "label": 1, "path": ""}]
)
def test_a_home_that_cannot_be_one_is_refused(this_host: Host, home: object) -> None:
    this_host.create("r-1", "true")
    digest = save(this_host, "r-1", 1)
    number = this_host.conversation.ask("outbox.ack", {"run_id": "r-1", "digest": digest, "home": home})
    with pytest.raises(Refused) as refusal:
        this_host.conversation.answer(number)
    assert refusal.value.kind == "bad_request"


def test_a_record_of_a_home_that_cannot_be_read_keeps_what_it_kept(this_host: Host) -> None:
    this_host.create("r-1", "true")
    first, _second = save(this_host, "r-1", 1), save(this_host, "r-1", 2)
    this_host.call("homes.enroll", home=DESKTOP, run_ids=["r-1"])
    (this_host.folder("r-1") / "homes" / DESKTOP["id"] / "home.json").write_text("{")
    this_host.call("outbox.ack", run_id="r-1", digest=first, home=LAPTOP)
    assert this_host.call("outbox.prune", run_id="r-1", digests=[first], home=LAPTOP)["pruned"] == []
