"""Each reader of a host, with whatever a job may put in the place of the record that it reads; another run's is read as ever."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from armada_agent.engines import allowance, array_records, htcondor_log, job_activity
from armada_agent.engines.engine import Handed
from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.host import roots
from armada_agent.outbox import homes, listing, thinning
from armada_agent.outbox.finishing import Outbox
from armada_agent.outbox.watch_record import is_damaged, last_whole, read_record
from armada_agent.paths import RunPaths, SweepPaths
from armada_agent.records import job_status
from armada_agent.records.ending import ENDED
from armada_agent.records.journal import Journal
from armada_agent.records.spent import Spent
from armada_agent.records.stop_request import concerns, ending_of, read_stop_request
from armada_agent.runs import dispatcher, scheduler
from armada_agent.runs.observation import Evidence
from armada_agent.supervisor import job, post_mortem, progress, used_data
from armada_agent.verdicts import letting_go

from tests import hostile
from tests.agent.conversation import Host
from tests.agent.test_agent_checkpoint_links import find_resumable
from tests.agent.test_agent_hostile_records import DIGESTS, JOB_LOG, write_run
from tests.chance import dice

SWEEP = "grid-1"
FAILURE = {"reason": "exception", "message": "ValueError: no", "rank": 1, "lines": ["Traceback", "ValueError: no"]}
PRINTED = (
    "[rank1]: Traceback (most recent call last):\n[rank1]:   File x\n[rank1]: ValueError: no\n"
    "Root Cause (first observed failure):\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 77)\n"
    "Sending process 78 closing signal SIGTERM\nfailed (exitcode: 1) local_rank: 1 (pid: 77)\n"
)
EXIT = {"state": "failed", "reason": "exit_1", "submission": 1, "attempt": 1, "step_before": 3, "step": 6}


class Reader(NamedTuple):
    """What reads records of a run or of its sweep.

    Attributes:
        read: Returns what it makes of the files of a run.
        names: Which records it reads, below the run's folder.
        refuses: What it raises where a record is damaged; its callers expect that.
        travels: What it returns is a part of answers to home.
    """

    read: Callable[[RunPaths], Any]
    names: tuple[str, ...]
    refuses: tuple[type[Exception], ...] = ()
    travels: bool = False


def _evidence(paths: RunPaths) -> Any:
    found = Evidence(paths, [])
    told = found.as_json()
    return [told, found.findings, found.may_still_start, found.is_over, found.is_gone]


def _manifests(paths: RunPaths) -> Any:
    listing._known.clear()  # noqa: SLF001  # as in the next conversation
    found = listing.list_finished(paths)
    metrics = [thinning._metrics(paths, digest) for digest in DIGESTS]  # noqa: SLF001
    return [found, listing.has_final(paths), metrics]


def _manifest_text(paths: RunPaths) -> Any:
    return listing.manifest_text(paths, DIGESTS[0], listing.MANIFEST_LIMIT)


def _finish(paths: RunPaths) -> Any:
    """Hash and publish what was announced, and announce what is there."""
    outbox = Outbox(paths, {}, Journal(paths, 1))
    for _ in range(3):
        outbox.look()
    return sorted(map(os.path.basename, outbox.given_up()))


def _taken(paths: RunPaths) -> Any:
    damaged, record = is_damaged(paths), read_record(paths)
    return [damaged, record, last_whole(paths), find_resumable(paths)]


def _homes(paths: RunPaths) -> Any:
    words = homes.read_words(paths, DIGESTS[0])
    return [
        sorted(words.registered),
        sorted(letting_go.lacking(words)),
        homes.describe(paths),
        homes.find_lacking(paths, None),
    ]


def _progress(paths: RunPaths) -> Any:
    return [progress.Progress(paths).measure(), progress.ended_attempts(paths, 1)]


def _stop(paths: RunPaths) -> Any:
    asked = read_stop_request(paths)
    return asked and [concerns(asked, 1), ending_of(asked, has_started=True)]


def _status(paths: RunPaths) -> Any:
    return [job_status.read_status(paths, 1, 1), job_status.ended_at(paths, 1)]


def _spent(paths: RunPaths) -> Any:
    spent = Spent(paths, {"budget": {"seconds": 60}, "stop_grace_s": 5.0})
    return [spent.used_s, spent.granted_s(1), spent.is_over]


def _journal(paths: RunPaths) -> Any:
    made = Journal(paths, 1, clock=lambda: 1.0)
    made.take_up(1)
    return made.state["state"]


def _watched_log(paths: RunPaths) -> Any:
    log = htcondor_log.Log(Handed(paths, 1, {"job_id": "3.0"}))
    return [{**log.read(), "at": None}, log.error]


def _activity(paths: RunPaths) -> Any:
    handed = Handed(paths, 1, {"job_id": "3.0"})
    memory = job_activity.Memory(handed, lambda: {"boot": "one", "seconds": 100.0})
    memory.follow("missing", 1.0, paths)
    return [memory.lasted_s, memory.changed_s, memory.recall_end(paths), job_activity.last_word(paths, 1)]


def _plan(paths: RunPaths) -> Any:
    return [scheduler.read_scheduler(paths), scheduler.asked_scheduler(Handed(paths, 1))]


def _user(paths: RunPaths) -> Any:
    """Whether another run's supervisor takes this run for one that uses a content; it does where nobody knows."""
    return paths.run_id in used_data._users(RunPaths(paths.root, "third"), "5" * 64)  # noqa: SLF001


def _array(paths: RunPaths) -> Any:
    sweep = SweepPaths(paths.root, f"{SWEEP}-{paths.run_id}")
    array = array_records.read(sweep, 1)
    told = array and [array.run_ids, array.limit, array.after]
    return [told, array_records.read_id(sweep, 1), array_records.is_all_stopped(sweep, 1)]


def _cells(paths: RunPaths) -> Any:
    plan = dispatcher.read_plan(SweepPaths(paths.root, f"{SWEEP}-{paths.run_id}"))
    return plan and [plan.cells, plan.parallel, plan.exported, [_standing(paths, each) for each in plan.cells]]


def _standing(paths: RunPaths, run_id: str) -> str:
    """What a dispatcher makes of a cell, which may be named anything."""
    try:
        return dispatcher.standing(RunPaths(paths.root, run_id))
    except (AgentError, OSError) as error:
        return type(error).__name__


def _lines(paths: RunPaths) -> Any:
    found = [files.read_lines(path, 0) for path in (paths.metrics, paths.events)]
    return [found, files.last_line(paths.events), files.read_tail(paths.output, 400), files.read_text(paths.output)]


_SWEEP = f"../../sweeps/{SWEEP}-a-1"
READERS = {
    "evidence": Reader(_evidence, ("state.json", "stop.json", "heartbeat-0.json", "heartbeat-1.json", "submissions/1/job.json",
                                   "submissions/1/claim.json", "submissions/1/successor.json", "attempts/1/run.json",
                                   "attempts/1/exit.json", "spec.json"), (AgentError, OSError), travels=True),
    "failure": Reader(lambda paths: post_mortem.examine(paths, 1, 1),
                      ("attempts/1/failure.json", "attempts/1/failure-1.json", "attempts/1/run.json", "output.log")),
    "manifests": Reader(_manifests, tuple(f"outbox/{digest}/MANIFEST.json" for digest in DIGESTS), travels=True),
    "manifest text": Reader(_manifest_text, (f"outbox/{DIGESTS[0]}/MANIFEST.json",), (AgentError, OSError), travels=True),
    "harvest": Reader(_taken, ("harvest.json",)),
    "homes": Reader(_homes, tuple(f"homes/{'b' * 32}/{name}" for name in ("home.json", "settled.json", "forgotten.json")), (OSError,)),
    "progress": Reader(_progress, ("attempts/1/exit.json", "attempts/1/run.json", f"outbox/{DIGESTS[0]}/MANIFEST.json",
                                   "outbox/.new-9/.announce.json", "harvest.json")),
    "stop": Reader(_stop, ("stop.json",)),
    "status": Reader(_status, ("attempts/1/status.json",), (files.UnseenError,)),
    "spent": Reader(_spent, ("spent.json",)),
    "journal": Reader(_journal, ("state.json", "events.jsonl")),
    "secrets": Reader(lambda paths: job.read_secrets(paths, ["TOKEN"]), ("secrets.env",), (job.StartError,)),
    "HTCondor's log": Reader(_watched_log, ("submissions/1/job.log", "submissions/1/watch.json"), travels=True),
    "activity": Reader(_activity, ("submissions/1/liveness.json", "state.json", "attempts/1/exit.json", "attempts/1/run.json")),
    "quota": Reader(lambda paths: allowance._read(paths, 1), ("submissions/1/quota.json",), travels=True),  # noqa: SLF001
    "plan": Reader(_plan, ("spec.json", "submissions/1/asked.json", "submissions/1/array.json"), (AgentError,)),
    "used data": Reader(_user, ("state.json", "spec.json")),
    "arrays": Reader(_array, tuple(f"{_SWEEP}/arrays/1/{name}" for name in ("array.json", "job.json")), (files.UnreadableError,)),
    "cells": Reader(_cells, (f"{_SWEEP}/cells.json",), (files.UnreadableError,)),
    "lines": Reader(_lines, ("metrics.jsonl", "events.jsonl", "output.log"), travels=True),
    "root": Reader(lambda paths: roots.describe(paths.root, roots.identify(paths.root)),
                   ("../../root.json", "../../runs.json", "../.root.json"), travels=True),
}  # fmt: skip


def write_all(folder: Path, run_id: str) -> None:
    """Write a run with one of every record, and its sweep."""
    write_run(folder, run_id, "htcondor")
    texts = {
        "attempts/1/failure.json": json.dumps(FAILURE),
        "attempts/1/failure-1.json": json.dumps(FAILURE),
        "attempts/1/exit.json": json.dumps(EXIT),
        "attempts/1/status.json": json.dumps({"submission": 1, "exit_code": 3, "signal": None, "ended_at": 7.0}),
        "output.log": PRINTED,
        "stop.json": json.dumps({"time": 1.0, "submission": 1, "reason": "pruned", "message": "it does badly"}),
        "spent.json": json.dumps({"spent_s": 5.0, "allowed_s": 60.0, "submission": 1}),
        "submissions/1/job.log": JOB_LOG,
        "submissions/1/array.json": json.dumps({"sweep": SWEEP, "number": 1, "index": 0}),
        "outbox/.new-8/MANIFEST.json": json.dumps({"format": 1, "step": 8, "created_at": 1.0, "files": []}),
        "outbox/.new-9/weights": "w",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    sweep = folder.parent.parent / "sweeps" / f"{SWEEP}-{run_id}"
    shutil.rmtree(sweep, ignore_errors=True)
    (sweep / "arrays" / "1").mkdir(parents=True)
    (sweep / "cells.json").write_text(json.dumps({"cells": [run_id], "parallel": 2, "exported": {"PATH": "/bin"}}))
    told = {"format": 1, "cells": [run_id], "limit": 2, "after": None, "time": 1.0}
    (sweep / "arrays" / "1" / "array.json").write_text(json.dumps(told))
    (sweep / "arrays" / "1" / "job.json").write_text(json.dumps({"job_id": "7", "time": 1.0}))
    (folder.parent.parent / "root.json").write_text(json.dumps({"id": "c" * 32, "wiped": []}))
    (folder.parent.parent / "runs.json").write_text(json.dumps({"root": "c" * 32}))
    (folder.parent / ".root.json").write_text(json.dumps({"id": "c" * 32}))


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)  # no power is cut here
    for run_id in ("a-1", "innocent"):
        write_all(tmp_path / "runs" / run_id, run_id)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text('{"step": 5, "cells": ["innocent"]}')
    return tmp_path


def innocent_files(top: Path) -> dict[str, bytes]:
    found = [*(top / "runs" / "innocent").rglob("*"), *(top / "outside").rglob("*")]
    return {str(path): path.read_bytes() for path in found if path.is_file()}


def steady(told: Any) -> Any:
    """What a reader says, as JSON, without what every look changes."""
    text = json.dumps(told, default=_plain, sort_keys=True)
    if not isinstance(told, list) or not told or not isinstance(told[0], dict):
        return text
    first = {name: value for name, value in told[0].items() if name not in ("quiet_s", "untouched_s", "modified_at")}
    return json.dumps([first, *told[1:]], default=_plain, sort_keys=True)


def _plain(value: Any) -> Any:
    return vars(value) if hasattr(value, "__dict__") else repr(value)


class Records:
    """The records of the hostile run that one reader reads, and how to make them right again."""

    def __init__(self, top: Path, names: tuple[str, ...]) -> None:
        self._top = top
        self._run = top / "runs" / "a-1"
        self._places = {name: Path(os.path.normpath(self._run / name)) for name in names}
        self._right = {name: place.read_bytes() for name, place in self._places.items() if place.is_file()}

    def again(self) -> None:
        for name, place in self._places.items():
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            place.unlink(missing_ok=True)
            place.parent.mkdir(parents=True, exist_ok=True)
            if name in self._right:
                place.write_bytes(self._right[name])

    def throw(self, chance: random.Random) -> str:
        """Put something else in the place of one of them; says what."""
        name = chance.choice(list(self._places))
        outside = self._top / "outside"
        elsewhere = [outside / "file", outside, self._top / "nowhere", self._top / "runs" / "innocent" / name]
        return f"{name}: {hostile.replace(chance, self._places[name], elsewhere)}"


@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_whatever_lies_there(top: Path, name: str) -> None:
    reader, chance = READERS[name], dice(481 + list(READERS).index(name))
    innocent = RunPaths(str(top), "innocent")
    right = steady(reader.read(innocent)) if name != "root" else ""
    before = innocent_files(top)
    records = Records(top, reader.names)
    for number in range(hostile.CASES):
        if number % 5 == 0:
            records.again()
        said = records.throw(chance)
        try:
            told = reader.read(RunPaths(str(top), "a-1"))
        except reader.refuses:
            continue
        except Exception:
            print(said)
            raise
        if reader.travels:
            json.dumps(told, allow_nan=False, default=_plain)
        if name != "root" and number % 10 == 0:
            assert steady(reader.read(innocent)) == right, said
    records.again()
    reader.read(RunPaths(str(top), "a-1"))  # once the records are right again, nothing is refused
    assert innocent_files(top) == before


def test_what_a_job_announces_wrongly_keeps_no_other_checkpoint_back(top: Path) -> None:
    chance, run = dice(510), top / "runs" / "a-1"
    for step in range(10, 10 + hostile.CASES):
        bad, good = (run / "outbox" / f".new-{step}-{word}" for word in ("bad", "good"))
        shutil.rmtree(run / "outbox")
        for folder in (bad, good):
            folder.mkdir(parents=True)
            (folder / "weights").write_text("w")
            (folder / ".announce.json").write_text(json.dumps({"step": step, "kind": "periodic", "time": 3.0}))
        name = chance.choice([".announce.json", "MANIFEST.json"])
        if name == "MANIFEST.json":
            (bad / ".announce.json").unlink()
        said = hostile.replace(chance, bad / name, [top / "outside" / "file"])
        _finish(RunPaths(str(top), "a-1"))
        assert not good.exists(), said
        assert step in {entry["step"] for entry in listing.list_finished(RunPaths(str(top), "a-1"))}, said


def test_a_checkpoint_whose_place_is_taken_is_given_up_and_the_next_is_finished(top: Path) -> None:
    """A job that knows its manifest can put something in the place that its checkpoint will get."""
    chance, run = dice(511), top / "runs" / "a-1"
    paths = RunPaths(str(top), "a-1")

    def announce(name: str) -> Path:
        folder = run / "outbox" / name
        folder.mkdir(parents=True)
        (folder / ".announce.json").write_text('{"step": 5, "kind": "periodic", "time": 3.0}')
        return folder

    for _ in range(hostile.CASES // 10):
        shutil.rmtree(run / "outbox")
        announce(".new-1")
        _finish(paths)
        (published,) = (run / "outbox").iterdir()
        shutil.rmtree(published)
        published.mkdir()
        said = hostile.replace(chance, published / "MANIFEST.json", [top / "outside" / "file"])
        taken, other = announce(".new-1"), announce(".new-2")
        (other / "weights").write_text("w")
        assert _finish(paths) == [".new-1"], said
        assert taken.exists()
        assert not other.exists()


def test_the_states_of_the_tests_are_those_of_the_agent() -> None:
    assert EXIT["state"] in ENDED


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder"])
def test_a_line_is_never_appended_to_what_a_job_put_in_the_files_place(tmp_path: Path, kind: str) -> None:
    other, place = tmp_path / "other", tmp_path / "events.jsonl"
    other.write_text("somebody's")
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(other if kind == "link" else tmp_path / "nowhere")
    files.append_line(str(place), {"seq": 1})
    files.append_line(str(place), {"seq": 2})
    assert place.read_text() == '{"seq": 1}\n{"seq": 2}\n'
    assert not place.is_symlink()
    assert other.read_text() == "somebody's"
    assert not (tmp_path / "nowhere").exists()
    assert len([each for each in tmp_path.iterdir() if ".set-aside-" in each.name]) == 1


def test_a_job_that_replaces_its_events_by_a_link_still_ends(this_host: Host, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("somebody's")
    this_host.launch(
        "aside-1", "sh", "-c", f"cd $ARMADA_RUN_DIR; until ln -sfn {tmp_path}/other events.jsonl; do :; done"
    )
    assert this_host.await_end("aside-1")["state"] == "succeeded"
    assert (tmp_path / "other").read_text() == "somebody's"
