"""Checkpoints on their way out: announced, hashed, named, thinned, never half."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from armada_agent import paths
from armada_agent.foundation import files
from armada_agent.outbox import finishing, homes, listing, thinning
from armada_agent.records.journal import Journal

from armada.protocol.files import ManifestRecord
from tests.agent.conversation import Host, Refused, check
from tests.supervisors import kill_both
from tests.waiting import eventually

FILES = {"model.safetensors": b"\0weights" * 5000, "tokenizer/vocab.json": b'{"\xc3\xa9": 1}', "empty": b""}


def announce(
    folder: Path, step: int, /, kind: str = "periodic", metrics: dict[str, float] | None = None, **changed: Any
) -> Path:
    """Do what the payload does: everything under a private name, then one rename."""
    part = folder / "outbox" / f".part-{step}"
    for name, content in {**FILES, "step": str(step).encode()}.items():
        (part / name).parent.mkdir(parents=True, exist_ok=True)
        (part / name).write_bytes(content)
    announcement = {"step": step, "kind": kind, "time": 1000.0 + step, "metrics": metrics or {}, **changed}
    (part / ".announce.json").write_text(json.dumps(announcement))
    return part.rename(folder / "outbox" / f".new-{step}")


def checkpoints_of(host: Host, run_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = host.look(run_id)["outbox"]
    return found


def start_waiting(host: Host, run_id: str, **changes: Any) -> None:
    host.launch(run_id, "sh", "-c", "until [ -e go ]; do sleep 0.05; done", **changes)
    host.await_state(run_id, "running")


def let_go(host: Host, run_id: str) -> dict[str, Any]:
    (host.folder(run_id) / "work/go").touch()
    return host.await_end(run_id)


def test_an_announced_checkpoint_gets_its_manifest_and_its_name(some_host: Host) -> None:
    start_waiting(some_host, "save-1")
    announce(some_host.folder("save-1"), 50, metrics={"eval_loss": 1.5})
    (entry,) = eventually(lambda: checkpoints_of(some_host, "save-1"))
    assert (entry["step"], entry["file_count"], entry["acknowledged"]) == (50, 4, False)
    text = some_host.call("outbox.manifest", run_id="save-1", digest=entry["digest"])["text"]
    assert hashlib.sha256(text.encode()).hexdigest() == entry["digest"]
    manifest = json.loads(text)
    check(manifest, "files", "outbox/<digest>/MANIFEST.json")
    assert (manifest["created_at"], manifest["metrics"], manifest["attempt"]) == (1050.0, {"eval_loss": 1.5}, 1)
    folder = some_host.folder("save-1") / "outbox" / entry["digest"]
    for listed in manifest["files"]:
        content = (folder / listed["path"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (listed["size"], listed["sha256"])
    assert {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} == {
        "MANIFEST.json", *(listed["path"] for listed in manifest["files"]),
    }  # fmt: skip
    assert some_host.call("outbox.ack", run_id="save-1", digest=entry["digest"]) == {}
    assert checkpoints_of(some_host, "save-1")[0]["acknowledged"] is True
    (event,) = [e for e in some_host.events("save-1") if e["kind"] == "checkpoint"]
    assert (event["digest"], event["step"], event["final"]) == (entry["digest"], 50, False)


def test_the_run_ends_only_when_its_last_checkpoint_is_named(this_host: Host) -> None:
    script = (
        'cd "$ARMADA_RUN_DIR/outbox"; mkdir .part-9; head -c 30000000 /dev/zero > .part-9/big; '
        'echo \'{"step": 9, "kind": "final", "metrics": {}}\' > .part-9/.announce.json; mv .part-9 .new-9'
    )
    this_host.launch("final-1", "sh", "-c", script)
    this_host.await_end("final-1")
    (entry,) = checkpoints_of(this_host, "final-1")
    assert entry["size_bytes"] == 30_000_000
    kinds = [event["kind"] for event in this_host.events("final-1")]
    assert kinds[-2:] == ["checkpoint", "state"]
    (event,) = [event for event in this_host.events("final-1") if event["kind"] == "checkpoint"]
    assert event["final"] is True


def test_what_a_killed_supervisor_announced_is_named_when_the_run_is_cleared(this_host: Host) -> None:
    start_waiting(this_host, "save-2")
    kill_both(this_host.look("save-2")["evidence"]["submission"]["job"])
    announce(this_host.folder("save-2"), 10)
    assert checkpoints_of(this_host, "save-2") == []
    this_host.call("run.stop", run_id="save-2", grace_s=0)
    this_host.await_end("save-2")
    assert [entry["step"] for entry in checkpoints_of(this_host, "save-2")] == [10]


def test_what_an_earlier_attempt_announced_is_named_by_the_next(this_host: Host) -> None:
    this_host.launch("save-3", "true")
    this_host.await_end("save-3")
    announce(this_host.folder("save-3"), 10)
    eventually(lambda: this_host.look("save-3")["evidence"]["supervisor"] == "dead")
    this_host.call("run.submit", run_id="save-3", submission=2)
    eventually(lambda: this_host.state("save-3").get("submission") == 2)
    this_host.await_end("save-3")
    assert [entry["step"] for entry in checkpoints_of(this_host, "save-3")] == [10]


@pytest.fixture
def here(tmp_path: Path) -> paths.RunPaths:
    place = paths.RunPaths(str(tmp_path), "box-1")
    Path(place.outbox).mkdir(parents=True)
    return place


def finish(here: paths.RunPaths, step: int, **announced: Any) -> str:
    folder = announce(_folder(here), step, **announced)
    return finishing.publish(here, str(folder), 1, lambda: 5.0)


def _folder(here: paths.RunPaths) -> Path:
    return Path(here.folder)


def test_a_folder_hashed_but_not_moved_is_moved(here: paths.RunPaths) -> None:
    digest = finish(here, 1)
    folder = Path(here.checkpoint(digest)).rename(Path(here.outbox, ".new-1"))
    assert finishing.publish(here, str(folder), 1, lambda: 6.0) == digest


def test_the_same_checkpoint_twice_is_one(here: paths.RunPaths) -> None:
    assert finish(here, 1) == finish(here, 1)
    assert here.announced() == []
    assert len(here.checkpoints()) == 1


def model_of(here: paths.RunPaths, digest: str) -> Path:
    return Path(here.checkpoint(digest, "model.safetensors"))


def test_a_damaged_checkpoint_is_replaced_by_the_same_one_that_was_saved_again(here: paths.RunPaths) -> None:
    digest = finish(here, 1)
    inode = model_of(here, digest).stat().st_ino
    finish(here, 1)
    assert model_of(here, digest).stat().st_ino == inode  # it is whole, and stays
    model_of(here, digest).write_bytes(b"!" * len(FILES["model.safetensors"]))
    assert finish(here, 1) == digest
    assert model_of(here, digest).read_bytes() == FILES["model.safetensors"]
    assert [path.name for path in Path(here.outbox).iterdir()] == [digest]


def test_a_checkpoint_that_lost_a_file_is_replaced_too(here: paths.RunPaths) -> None:
    digest = finish(here, 1)
    model_of(here, digest).unlink()
    finish(here, 1)
    assert model_of(here, digest).read_bytes() == FILES["model.safetensors"]


def test_a_supervisor_that_is_killed_while_it_replaces_one_loses_neither(
    here: paths.RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = finish(here, 1)
    left, replace = [0], finishing._replace

    def dying(real: Any) -> Any:
        def act(*words: Any, **more: Any) -> Any:
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            return real(*words, **more)

        return act

    for step in range(5):
        model_of(here, digest).write_bytes(b"!")
        folder, left[0] = announce(_folder(here), 1), step
        with monkeypatch.context() as patched:

            def replace_and_die(*words: str, patched: pytest.MonkeyPatch = patched) -> None:
                for module, name in ((shutil, "rmtree"), (os, "rename"), (files, "fsync_folder")):
                    patched.setattr(module, name, dying(getattr(module, name)))
                replace(*words)

            patched.setattr(finishing, "_replace", replace_and_die)
            with pytest.raises(KeyboardInterrupt):
                finishing.publish(here, str(folder), 1, lambda: 5.0)
        for waiting in here.announced():
            finishing.publish(here, waiting, 1, lambda: 6.0)
        assert here.checkpoints() == [digest]
        assert model_of(here, digest).read_bytes() == FILES["model.safetensors"], step


def test_a_folder_of_a_killed_supervisor_whose_bytes_changed_replaces_nothing(here: paths.RunPaths) -> None:
    digest = finish(here, 1)
    left = Path(here.outbox, ".new-1")
    shutil.copytree(here.checkpoint(digest), left)
    (left / "model.safetensors").write_bytes(b"!")
    model_of(here, digest).write_bytes(b"?")
    assert finishing.publish(here, str(left), 1, lambda: 6.0) == digest
    assert model_of(here, digest).read_bytes() == b"?"
    assert here.announced() == []


def test_links_do_not_travel(here: paths.RunPaths) -> None:
    folder = announce(_folder(here), 1)
    (folder / "passwd").symlink_to("/etc/passwd")
    digest = finishing.publish(here, str(folder), 1, lambda: 5.0)
    manifest = json.loads((_folder(here) / "outbox" / digest / "MANIFEST.json").read_text())
    assert "passwd" not in [entry["path"] for entry in manifest["files"]]


def test_a_hard_link_whose_source_is_gone_is_hashed_as_the_outbox_holds_it(here: paths.RunPaths) -> None:
    source = _folder(here) / "checkpoint-1"
    source.write_bytes(b"weights")
    folder = announce(_folder(here), 1)
    os.link(source, folder / "linked")
    source.unlink()
    digest = finishing.publish(here, str(folder), 1, lambda: 5.0)
    assert (_folder(here) / "outbox" / digest / "linked").read_bytes() == b"weights"


@pytest.mark.parametrize(
    "announced",
    [{"step": "ten"}, {"step": -1}, {"step": float("nan")}, {"kind": "odd"}, {"time": "now"}],
)
def test_a_wrong_announcement_is_refused(here: paths.RunPaths, announced: dict[str, Any]) -> None:
    folder = announce(_folder(here), 1)
    content = {"step": 1, "kind": "periodic", "time": 1.0, "metrics": {}, **announced}
    (folder / ".announce.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"announced|JSON"):
        finishing.publish(here, str(folder), 1, lambda: 5.0)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ('{"loss": 1.5, "eval_loss": NaN, "best": Infinity, "worst": -1e999}', {"loss": 1.5}),
        ('{"count": 1%s}' % ("0" * 200), {}),
        ("[1.5]", {}),
    ],
)
def test_a_metric_that_is_no_number_keeps_no_checkpoint_back(
    here: paths.RunPaths, written: str, kept: dict[str, float]
) -> None:
    folder = announce(_folder(here), 1, kind="final")
    (folder / ".announce.json").write_text(f'{{"step": 1, "kind": "final", "time": 1.0, "metrics": {written}}}')
    assert listing.has_final(here) is True
    digest = finishing.publish(here, str(folder), 1, lambda: 5.0)
    manifest = (_folder(here) / "outbox" / digest / "MANIFEST.json").read_text()
    assert ManifestRecord.model_validate_json(manifest).metrics == kept
    assert listing.has_final(here) is True


def test_a_checkpoint_that_cannot_be_finished_becomes_a_finding_and_does_not_hold_the_run(this_host: Host) -> None:
    start_waiting(this_host, "save-4")
    announce(this_host.folder("save-4"), 7, step="ten")
    announce(this_host.folder("save-4"), 8)
    assert let_go(this_host, "save-4")["state"] == "succeeded"
    (finding,) = [e for e in this_host.events("save-4") if e["kind"] == "finding"]
    assert "checkpoint 7" in finding["message"]
    assert [entry["step"] for entry in checkpoints_of(this_host, "save-4")] == [8]


def test_a_file_that_changes_while_it_is_hashed_is_noticed(
    here: paths.RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = announce(_folder(here), 1)
    real = os.fsync

    def touch(descriptor: int) -> None:
        real(descriptor)
        os.utime(folder / "model.safetensors", (1, 1))

    monkeypatch.setattr(os, "fsync", touch)
    with pytest.raises(finishing.ChangedError):
        finishing.publish(here, str(folder), 1, lambda: 5.0)
    monkeypatch.undo()
    assert finishing.publish(here, str(folder), 1, lambda: 5.0)


FULL = 1 << 62
"""A floor that no disk has above it."""


def thin(here: paths.RunPaths, keep: int, floor: int = 0, most: int = 1000) -> list[int]:
    journal = Journal(here, 1)
    thinning.thin(here, {"keep": keep, "disk_floor_bytes": floor}, journal, most)
    from armada_agent.outbox import listing

    return [entry["step"] for entry in listing.list_finished(here)]


def test_a_full_disk_takes_first_what_every_home_has_and_says_from_whom_it_takes_more(here: paths.RunPaths) -> None:
    digests = [finish(here, step) for step in (10, 20, 30, 40)]
    laptop = {"id": "a" * 32, "label": "ann@laptop", "path": "/home/ann"}
    desktop = {**laptop, "id": "b" * 32, "label": "ann@desktop"}
    for home, held in ((laptop, digests), (desktop, digests[2:3])):
        for digest in held:
            homes.note(here, home, digest, is_wanted=True)
    for digest in digests:
        files.write_json(here.acknowledgement(digest), {"time": 1.0})
    assert thin(here, keep=1, floor=FULL, most=1) == [10, 20, 40]
    assert thin(here, keep=1, floor=FULL, most=1) == [10, 40]
    told = [json.loads(line) for line in Path(here.events).read_text().splitlines()]
    assert [(event["step"], event["acknowledged"]) for event in told] == [(30, True), (20, False)]
    assert "home said that it has it" in told[0]["message"]
    assert "ann@desktop (home bbbbbbbb) has not got this checkpoint" in told[1]["message"]


def test_while_there_is_room_nothing_goes_on_an_old_word_of_homes(here: paths.RunPaths) -> None:
    """What home acknowledged it may have lost since; it looks, and then asks for what is to go."""
    digests = {step: finish(here, step) for step in (10, 20, 30, 40, 50)}
    for step in (10, 30, 50):
        files.write_json(here.acknowledgement(digests[step]), {"time": 1.0})
    assert thin(here, keep=2) == [10, 20, 30, 40, 50]
    assert thin(here, keep=2, floor=FULL, most=2) == [20, 40, 50]
    assert not Path(here.acknowledgement(digests[10])).exists()


@pytest.mark.parametrize(
    ("floor", "left"),
    [(4096 * 10, [10, 20, 30]), (4096 * 10 + 1, [10, 30]), ("all of it", [10, 20, 30]), (None, [10, 20, 30])],
)
def test_a_disk_that_has_as_much_room_as_it_should_have_is_not_thinned(
    here: paths.RunPaths, monkeypatch: pytest.MonkeyPatch, floor: Any, left: list[int]
) -> None:
    for step in (10, 20, 30):
        finish(here, step)
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=10, f_frsize=4096))
    assert thin(here, keep=1, floor=floor, most=1) == left


def test_the_best_and_the_newest_stay(here: paths.RunPaths) -> None:
    losses = {10: 3.0, 20: 1.0, 30: 2.0, 40: 1.0, 50: 4.0}
    for step, loss in losses.items():
        files.write_json(here.acknowledgement(finish(here, step, metrics={"eval_loss": loss})), {"time": 1.0})
    assert thin(here, keep=1, floor=FULL) == [20, 50]


def test_the_checkpoint_that_the_job_calls_its_best_stays_whatever_its_own_manifest_says(here: paths.RunPaths) -> None:
    """A resumed job knows the best of former attempts from its own state; that checkpoint's manifest may hold no loss."""
    for step, metrics in {
        10: {},
        20: {"best_step": 10},
        30: {"eval_loss": 2.0, "best_step": 20, "best_eval_loss": 1.5},
        40: {"eval_loss": 3.0, "best_step": 20, "best_eval_loss": 1.5},
        50: {},
    }.items():
        files.write_json(here.acknowledgement(finish(here, step, metrics=metrics)), {"time": 1.0})
    assert thin(here, keep=1, floor=FULL) == [20, 30, 50]


def test_a_full_disk_thins_the_middle_and_says_so(here: paths.RunPaths) -> None:
    for step in (10, 20, 25, 40, 50):
        finish(here, step)
    assert thin(here, keep=9, floor=1 << 62, most=1) == [10, 25, 40, 50]
    assert thin(here, keep=9, floor=1 << 62) == [10, 50]
    events = [json.loads(line) for line in (_folder(here) / "events.jsonl").read_text().splitlines()]
    for event in events:
        check(event, "files", "events.jsonl")
    assert [event["step"] for event in events] == [20, 40, 25]
    assert "home has not got" in events[0]["message"]


def test_the_checkpoint_that_was_recorded_last_stays_whatever_its_step_and_its_time(here: paths.RunPaths) -> None:
    for step, moment in ((10, 100.0), (20, 200.0), (30, 300.0), (15, 150.0), (25, 250.0)):
        digest = finish(here, step, time=moment)  # a script whose clock was set back, and whose steps went back
        Journal(here, 1).record("checkpoint", digest=digest, step=step)
    with Path(here.events).open("a") as stream:
        stream.write('{"kind": "checkpoint", "digest": []}\n[]\nhalf of a line\n')
    assert thin(here, keep=9, floor=1 << 62) == [10, 25, 30]
    Path(here.events).unlink()
    assert thin(here, keep=9, floor=1 << 62) == [10, 30]


def test_acknowledged_ones_go_first_when_the_disk_is_full(here: paths.RunPaths) -> None:
    digests = {step: finish(here, step) for step in (10, 20, 30)}
    files.write_json(here.acknowledgement(digests[10]), {"time": 1.0})
    assert thin(here, keep=9, floor=1 << 62, most=1) == [20, 30]


def test_a_checkpoint_that_is_not_there_cannot_be_asked_for(this_host: Host) -> None:
    this_host.create("save-5", "true")
    for method in ("outbox.manifest", "outbox.ack"):
        with pytest.raises(Refused) as refused:
            this_host.call(method, run_id="save-5", digest="0" * 64)
        assert refused.value.kind == "not_found"
        with pytest.raises(Refused) as refused:
            this_host.call(method, run_id="save-5", digest="../../" + "0" * 58)
        assert refused.value.kind == "bad_request"


def test_hashing_happens_at_idle_priority(this_host: Host) -> None:
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    start_waiting(this_host, "nice-1")
    supervisor = this_host.look("nice-1")["evidence"]["submission"]["job"]["supervisor"]["pid"]
    job = this_host.look("nice-1")["evidence"]["attempt"]["run"]["process"]["pid"]

    def niceness() -> set[int]:
        threads = [int(path.name) for path in Path(f"/proc/{supervisor}/task").iterdir()]
        return {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads}

    eventually(lambda: 19 in niceness())
    assert os.getpriority(os.PRIO_PROCESS, supervisor) == os.getpriority(os.PRIO_PROCESS, job) == usual
