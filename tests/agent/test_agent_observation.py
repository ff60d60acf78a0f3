"""Looking: whole lines, whole characters, bounded answers, and damaged files that hide nothing else."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, BinaryIO
from unittest import mock

import pytest
from armada_agent.foundation import files
from armada_agent.outbox import listing
from armada_agent.paths import RunPaths
from armada_agent.runs import observation, supervisor_liveness

from tests.agent.conversation import Host, Refused, check, spec_of
from tests.waiting import eventually


def question(run_id: str, metrics_offset: int = 0, events_offset: int = 0) -> dict[str, Any]:
    return {"run_id": run_id, "metrics_offset": metrics_offset, "events_offset": events_offset}


def test_one_answer_shows_many_runs_and_says_which_are_not_there(host: Host) -> None:
    for run_id in ("look-1", "look-2"):
        host.launch(run_id, "true")
    host.create("look-3", "true")
    for run_id in ("look-1", "look-2"):
        host.await_end(run_id)
    asked = [question(run_id) for run_id in ("look-2", "absent-1", "look-3", "look-1")]
    entries = host.call("run.observe", runs=asked)["runs"]
    assert [entry["run_id"] for entry in entries] == ["look-2", "absent-1", "look-3", "look-1"]
    assert [entry["exists"] for entry in entries] == [True, False, True, True]
    assert entries[1]["evidence"] is None
    evidence = entries[2]["evidence"]
    assert (evidence["submission"], evidence["supervisor"], evidence["state"]) == (None, "none", None)


def test_metrics_come_in_whole_lines_from_where_the_last_look_ended(this_host: Host) -> None:
    this_host.create("lines-1", "true")
    path = this_host.folder("lines-1") / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n{"st')
    first = this_host.call("run.observe", runs=[question("lines-1")])["runs"][0]["metrics"]
    assert first == {"text": '{"step": 1}\n{"step": 2}\n', "next_offset": 24}
    path.write_bytes(path.read_bytes() + b'ep": 3}\n')
    second = this_host.call("run.observe", runs=[question("lines-1", 24)])["runs"][0]["metrics"]
    assert second == {"text": '{"step": 3}\n', "next_offset": 36}
    assert this_host.call("run.observe", runs=[question("lines-1", 36)])["runs"][0]["metrics"]["text"] == ""
    path.write_bytes(b'{"step": 9}\n')
    again = this_host.call("run.observe", runs=[question("lines-1", 36)])["runs"][0]["metrics"]
    assert again == {"text": '{"step": 9}\n', "next_offset": 12, "offset": 0}, "it was begun anew"


def test_an_answer_is_bounded_and_every_line_arrives_once(this_host: Host) -> None:
    this_host.create("long-1", "true")
    lines = [json.dumps({"step": step, "text": "é" * 40}, ensure_ascii=False) for step in range(3000)]
    lines[1500] = json.dumps({"step": 1500, "text": "x" * 200_000})
    (this_host.folder("long-1") / "metrics.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    seen, offset = [], 0
    while True:
        part = this_host.call("run.observe", runs=[question("long-1", offset)])["runs"][0]["metrics"]
        assert len(part["text"].encode()) <= 65536
        if part["next_offset"] == offset:
            break
        offset = part["next_offset"]
        seen += [json.loads(line)["step"] for line in part["text"].splitlines()]
    assert seen == [step for step in range(3000) if step != 1500]


def test_all_texts_of_one_answer_together_are_bounded(this_host: Host) -> None:
    for number in range(70):
        folder = this_host.root / "runs" / f"many-{number}"
        folder.mkdir(parents=True)
        (folder / "metrics.jsonl").write_text(("x" * 99 + "\n") * 700)
    asked = [question(f"many-{number}") for number in range(70)]
    parts = [entry["metrics"] for entry in this_host.call("run.observe", runs=asked)["runs"]]
    assert sum(len(part["text"]) for part in parts) <= 4 * 2**20
    assert parts[-1] == {"text": "", "next_offset": 0}


@pytest.mark.parametrize(
    "name", ["state.json", "submissions/1/job.json", "attempts/1/run.json", "attempts/1/exit.json", "heartbeat-0.json"]
)
def test_a_damaged_file_is_a_finding_and_hides_no_other_run(this_host: Host, name: str) -> None:
    for run_id in ("whole-1", "torn-1"):
        this_host.launch(run_id, "true")
        this_host.await_end(run_id)
    for damage in (b"", b'{"state": "runn', b"[]", b"\xff\xfe", b"[" * 100_000):
        (this_host.folder("torn-1") / name).write_bytes(damage)
        torn, whole = this_host.call("run.observe", runs=[question("torn-1"), question("whole-1")])["runs"]
        assert len(torn["findings"]) == 1, damage
        assert name.rsplit("/", 1)[-1] in torn["findings"][0]
        assert whole["findings"] == []
        assert whole["evidence"]["state"]["state"] == "succeeded"


def test_the_newest_heartbeat_is_shown(this_host: Host) -> None:
    this_host.create("beat-1", "true")
    for rank, (moment, step) in enumerate([(100.0, 5), (102.0, 6), (101.0, 5)]):
        beat = {"rank": rank, "phase": "training", "step": step, "total_steps": 20, "time": moment, "attempt": 1}
        check(beat, "files", "heartbeat-<rank>.json")
        (this_host.folder("beat-1") / f"heartbeat-{rank}.json").write_text(json.dumps(beat))
    shown = this_host.look("beat-1")["evidence"]["heartbeat"]
    assert shown == {"rank": 1, "phase": "training", "step": 6, "total_steps": 20, "time": 102.0}


def test_the_files_of_a_run_are_what_the_protocol_says(this_host: Host) -> None:
    this_host.launch("files-1", "sh", "-c", "exit 3")
    this_host.await_end("files-1")
    folder = this_host.folder("files-1")
    telemetry = folder / "telemetry.jsonl"
    eventually(telemetry.exists)
    for name, where in {
        "spec.json": "spec.json",
        "state.json": "state.json",
        "submissions/1/claim.json": "submissions/<k>/claim.json",
        "submissions/1/job.json": "submissions/<k>/job.json",
        "attempts/1/run.json": "attempts/<n>/run.json",
        "attempts/1/exit.json": "attempts/<n>/exit.json",
    }.items():
        check(json.loads((folder / name).read_text()), "files", where)
    for name in ("events.jsonl", "telemetry.jsonl"):
        for line in (folder / name).read_text().splitlines():
            check(json.loads(line), "files", name)


@pytest.fixture
def logged(this_host: Host) -> Host:
    this_host.create("log-1", "true")
    return this_host


def write_log(host: Host, content: bytes) -> None:
    (host.folder("log-1") / "output.log").write_bytes(content)


def test_a_log_is_read_by_offset_without_cutting_a_character(logged: Host) -> None:
    text = "aé€💥" * 50
    write_log(logged, text.encode())
    for limit in (4, 5, 6, 7, 11):
        pieces, offset = [], 0
        while offset < len(text.encode()):
            piece = logged.call("run.log", run_id="log-1", offset=offset, limit_bytes=limit)
            assert piece["offset"] == offset
            assert piece["next_offset"] > offset
            pieces.append(piece["text"])
            offset = piece["next_offset"]
        assert "".join(pieces) == text


def test_bytes_that_are_no_text_are_replaced(logged: Host) -> None:
    write_log(logged, b"a\xff\xfe\x80b")
    assert logged.call("run.log", run_id="log-1")["text"] == "a\ufffd\ufffd\ufffdb"


@pytest.mark.parametrize(
    ("content", "lines", "expected"),
    [
        (b"1\n2\n3\n", 2, "2\n3\n"),
        (b"1\n2\n3", 2, "2\n3"),
        (b"1\n2\n3\n", 9, "1\n2\n3\n"),
        (b"\n\n\n", 1, "\n"),
        (b"1\n2\n", 0, ""),
        (b"", 5, ""),
    ],
)
def test_the_last_lines_of_a_log(logged: Host, content: bytes, lines: int, expected: str) -> None:
    write_log(logged, content)
    piece = logged.call("run.log", run_id="log-1", tail_lines=lines)
    assert piece["text"] == expected
    assert piece["offset"] == len(content) - len(expected)
    assert piece["next_offset"] == piece["size_bytes"] == len(content)


def test_the_tail_of_a_large_log_is_bounded(logged: Host) -> None:
    write_log(logged, b"x" * 99_999 + b"\nlast\n")
    piece = logged.call("run.log", run_id="log-1", tail_lines=1)
    assert piece["text"] == "last\n"
    assert len(logged.call("run.log", run_id="log-1", tail_lines=2)["text"]) == 65536


def test_a_log_of_nothing_and_an_offset_behind_its_end(logged: Host) -> None:
    empty = {"offset": 0, "text": "", "next_offset": 0, "size_bytes": 0}
    assert logged.call("run.log", run_id="log-1") == empty
    write_log(logged, b"abc")
    assert logged.call("run.log", run_id="log-1", offset=99)["next_offset"] == 3
    with pytest.raises(Refused) as refused:
        logged.call("run.log", run_id="log-1", offset=-1)
    assert refused.value.kind == "bad_request"


@pytest.mark.parametrize(
    ("block", "whole"),
    [
        (b"a\xc3", b"a"),
        (b"a\xe2\x82", b"a"),
        (b"a\xf0\x9f\x92", b"a"),
        (b"\xc3\xa9", b"\xc3\xa9"),
        (b"\x80\x80\x80\x80\x80", b"\x80" * 5),
        (b"\xc3", b"\xc3"),
    ],
)
def test_only_a_character_that_is_cut_is_put_back(block: bytes, whole: bytes) -> None:
    assert observation.whole_characters(block) == whole


def test_what_other_folders_lie_among_the_runs_is_not_listed(this_host: Host, tmp_path: Path) -> None:
    this_host.create("listed-1", "true")
    (this_host.root / "runs/.hidden").mkdir()
    (this_host.root / "runs/UPPER").mkdir()
    (this_host.root / "runs/file").touch()
    (this_host.folder("listed-1") / "spec.json").write_text("{")
    assert this_host.call("run.list")["runs"] == [
        {"run_id": "listed-1", "state": "unknown", "created_at": None, "submission": None}
    ]


def test_a_job_that_prints_without_end_is_named_before_its_disk_is_full(this_host: Host) -> None:
    script = "truncate -s 1200000000 ../output.log; while [ ! -e go ]; do sleep 0.05; done"  # a hole: no disk is needed
    this_host.launch("long-1", "sh", "-c", script)
    eventually(lambda: any("1.2 GB long" in str(event.get("message")) for event in this_host.events("long-1")))
    (this_host.folder("long-1") / "work" / "go").touch()
    this_host.await_end("long-1")
    said = [event["message"] for event in this_host.events("long-1") if event["kind"] == "finding"]
    assert len(said) == 1
    assert "is never shortened; its disk has" in said[0]


@pytest.mark.parametrize("wrong_s", [-3600.0, 3600.0], ids=["behind", "ahead"])
def test_a_worker_whose_clock_is_wrong_is_silent_for_as_long_as_its_files(tmp_path: Path, wrong_s: float) -> None:
    """A hung job is not hidden for an hour by a clock that is ahead, nor one that works called hung by one behind."""
    run = RunPaths(str(tmp_path), "a-1")
    now = time.time()
    said = {
        "spec.json": spec_of("a-1", "true", scheduler={"kind": "slurm", "poll_s": 1e9}),
        "submissions/1/job.json": {"submission": 1, "scheduler": "slurm", "job_id": "11"},
        "state.json": {"state": "running", "submission": 1, "attempt": 1, "started_at": now - 9000 + wrong_s},
        "attempts/1/run.json": {"attempt": 1, "submission": 1},
        "heartbeat-0.json": {"time": now - 600 + wrong_s, "attempt": 1, "phase": "training"},
    }
    _write(run, said)
    os.utime(run.state, (now - 9000, now - 9000))
    os.utime(run.attempt(1, "run.json"), (now - 9000, now - 9000))
    os.utime(Path(run.folder) / "heartbeat-0.json", (now - 600, now - 600))
    evidence = observation.Evidence(run).as_json()
    assert evidence["quiet_s"] == pytest.approx(600, abs=120)
    assert evidence["written_at"] == pytest.approx(now - 9000, abs=1)
    assert evidence["untouched_s"] == pytest.approx(600, abs=120)
    (Path(run.folder) / "heartbeat-0.json").unlink()
    assert observation.Evidence(run).as_json()["quiet_s"] == pytest.approx(9000, abs=120)


@pytest.mark.parametrize(("telemetry_s", "may"), [(-7200.0, True), (-7070.0, False)])
def test_a_script_that_outlived_its_supervisor_after_the_clock_was_set_back_may_have_succeeded(
    tmp_path: Path, telemetry_s: float, may: bool
) -> None:
    """What the supervisor wrote before that is dated later than the script's last word."""
    run = RunPaths(str(tmp_path), "a-1")
    now = time.time()
    said = {
        "spec.json": (
            spec_of("a-1", "true", watch={"checkpoints": {"pattern": "x", "quiet_s": 1.0}, "resume": []}),
            0.0,
        ),
        "submissions/1/job.json": ({"submission": 1, "scheduler": "direct", "supervisor": {"boot_id": "former"}}, 0.0),
        "state.json": ({"state": "running", "submission": 1, "attempt": 1, "started_at": now}, 0.0),
        "attempts/1/run.json": ({"attempt": 1, "submission": 1}, 0.0),
        "telemetry.jsonl": ({}, telemetry_s),
        "output.log": ({}, -7060.0),
    }
    for name, (value, moment) in said.items():
        path = Path(run.folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
        os.utime(path, (now + moment, now + moment))
    evidence = observation.Evidence(run)
    with mock.patch.object(supervisor_liveness, "judge_supervisor", return_value=("dead", True)):
        assert evidence.as_json()["may_have_succeeded"] is may


@pytest.mark.parametrize("plan", [None, "{", '{"task": "bench", "watch": null}'], ids=["lost", "damaged", "a bench"])
def test_a_job_of_which_no_final_checkpoint_can_be_asked_for_may_have_succeeded(
    tmp_path: Path, plan: str | None
) -> None:
    """What cannot be read, or writes no checkpoint, is no training that lacks its final one, which a retry would run again."""
    run = RunPaths(str(tmp_path), "a-1")
    said = {
        "submissions/1/job.json": {"submission": 1, "scheduler": "direct", "supervisor": {"boot_id": "former"}},
        "state.json": {"state": "running", "submission": 1, "attempt": 1, "started_at": time.time()},
        "attempts/1/run.json": {"attempt": 1, "submission": 1},
    }
    _write(run, said)
    if plan is not None:
        Path(run.spec).write_text(plan)
    evidence = observation.Evidence(run)
    with mock.patch.object(supervisor_liveness, "judge_supervisor", return_value=("dead", False)):
        assert evidence.as_json()["may_have_succeeded"] is True


OF_A_TRAINING = '{"step": 3, "kind": "%s", "created_at": 1.0, "files": []}'
PERIODIC, FINAL = OF_A_TRAINING % "periodic", OF_A_TRAINING % "final"


@pytest.mark.parametrize(
    ("there", "may"),
    [
        ({}, False),
        ({"a" * 64: PERIODIC, ".new-3/announce": PERIODIC}, False),
        ({"a" * 64: FINAL}, True),
        ({".new-3/announce": FINAL}, True),
        ({".new-3": FINAL}, True),
        ({"a" * 64: PERIODIC, "b" * 64: FINAL[:30]}, True),
        ({"a" * 64: None}, True),
        ({".new-3/announce": FINAL[:30]}, True),
        ({".new-3": None}, True),
    ],
    ids=[
        "none",
        "periodic",
        "final",
        "announced",
        "hashed",
        "half a manifest",
        "no manifest",
        "half announced",
        "lost",
    ],
)
def test_a_training_without_its_final_checkpoint_may_have_succeeded_if_a_checkpoint_there_cannot_be_read(
    tmp_path: Path, there: dict[str, str | None], may: bool
) -> None:
    """After a power cut, or an I/O error, what cannot be read may be its final one."""
    run = _lost_training(tmp_path, there)
    with mock.patch.object(supervisor_liveness, "judge_supervisor", return_value=("dead", True)):
        assert observation.Evidence(run).as_json()["may_have_succeeded"] is may


def test_a_training_whose_disk_gives_no_manifest_may_have_succeeded(tmp_path: Path) -> None:
    run = _lost_training(tmp_path, {"a" * 64: FINAL})
    opened = files.open_regular

    def broken(path: str) -> BinaryIO:
        if path.endswith("MANIFEST.json"):
            raise OSError(errno.EIO, "Input/output error", path)
        return opened(path)

    with (
        mock.patch.object(supervisor_liveness, "judge_supervisor", return_value=("dead", True)),
        mock.patch.object(files, "open_regular", broken),
    ):
        assert observation.Evidence(run).as_json()["may_have_succeeded"] is True


def test_a_checkpoint_that_is_deleted_while_it_is_asked_for_is_not_there(tmp_path: Path) -> None:
    run = _lost_training(tmp_path, {"a" * 64: PERIODIC})
    listed = run.checkpoints()
    shutil.rmtree(run.checkpoint("a" * 64))
    with mock.patch.object(run, "checkpoints", return_value=listed):
        assert listing.has_final(run) is False


def _write(run: RunPaths, records: dict[str, Any]) -> None:
    """Write records of a run, by their names in its folder."""
    for name, value in records.items():
        path = Path(run.folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))


def _lost_training(root: Path, there: dict[str, str | None]) -> RunPaths:
    """A training whose supervisor is dead, with these folders of its outbox: their manifests, or announcements."""
    run = RunPaths(str(root), "a-1")
    said = {
        "spec.json": spec_of("a-1", "true"),
        "submissions/1/job.json": {"submission": 1, "scheduler": "direct", "supervisor": {"boot_id": "former"}},
        "state.json": {"state": "running", "submission": 1, "attempt": 1, "started_at": time.time()},
        "attempts/1/run.json": {"attempt": 1, "submission": 1},
    }
    _write(run, said)
    for name, content in there.items():
        folder, _, is_announced = name.partition("/")
        place = Path(run.outbox) / folder
        place.mkdir(parents=True)
        if content is not None:
            (place / (listing.ANNOUNCEMENT if is_announced else listing.MANIFEST)).write_text(content)
    return run


@pytest.mark.parametrize(("attempt", "may"), [(0, False), (1, True)], ids=["it waited", "somebody deleted it"])
def test_a_job_of_which_no_attempt_was_begun_cannot_have_succeeded(tmp_path: Path, attempt: int, may: bool) -> None:
    """So a retry runs it again after a restart of its host."""
    run = RunPaths(str(tmp_path), "a-1")
    said = {
        "spec.json": spec_of("a-1", "true"),
        "submissions/1/job.json": {"submission": 1, "scheduler": "direct", "supervisor": {"boot_id": "former"}},
        "state.json": {"state": "queued", "submission": 1, "attempt": attempt},
    }
    _write(run, said)
    evidence = observation.Evidence(run)
    with mock.patch.object(supervisor_liveness, "judge_supervisor", return_value=("dead", True)):
        assert evidence.as_json()["may_have_succeeded"] is may


@pytest.mark.parametrize(
    ("files", "number", "claimed"),
    [
        ([], None, False),
        (["1/x"], 1, False),
        (["1/claim.json", "2/x"], 1, True),
        (["1/claim.json", "2/claim.json"], 2, True),
        (["1/claim.json", "2/x", "3/claim.json", "4/x"], 3, True),
        (["1/job.json"], 1, True),  # somebody deleted its claim
    ],
)
def test_the_newest_submission_is_the_newest_that_was_claimed(
    tmp_path: Path, files: list[str], number: int | None, claimed: bool
) -> None:
    run = RunPaths(str(tmp_path), "a-1")
    for name in files:
        path = Path(run.folder) / "submissions" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    evidence = observation.Evidence(run)
    assert (evidence.submission_number, evidence.claimed) == (number, claimed)
