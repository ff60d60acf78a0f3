"""What a host says of a run, as it gets into the store: numbers that no run has are treated as not said."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from armada.config.hosts import Host as HostConfig
from armada.monitor.look import Folder, Look
from armada.monitor.observe import observe, observe_all, record_look
from armada.paths import HomePaths
from armada.protocol.observation import Moment, Observation
from armada.store import checkpoints, metrics, run_sync, runs, transitions
from armada.store.database import Database
from armada.store.queries.uses import read_use
from armada.verdicts.state import of_put_back, submission_shown
from armada.verdicts.states import Verdict
from tests.unit.monitor.observations import LINE, STATE, Host, ended_by_slurm, entry, of_slurm, see


class Silent(Host):
    """One of three hosts: `box` answers, `slow` answers once it was asked whether it has, `frozen` never."""

    def __init__(self, host: HostConfig, _home: HomePaths, **_: object) -> None:
        super().__init__({**entry(), "run_id": f"q-{host.name}"})
        self._name = host.name
        self._may_answer = threading.Event()
        if host.name == "box":
            self._may_answer.set()

    @property
    def has_greeted(self) -> bool:
        if self._name == "slow":
            self._may_answer.set()
        return self._name != "frozen"

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was opened."""

    def call_all(self, questions: list[Any]) -> list[Any]:
        self._may_answer.wait()
        return super().call_all(questions)


def test_a_frozen_host_keeps_a_glance_at_all_runs_from_none_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    home.make()
    hosts = {name: HostConfig(name=name, ssh=f"me@{name}") for name in ("box", "slow", "frozen")}
    monkeypatch.setattr("armada.monitor.observe.HostSession", Silent)
    with Database(home.store) as database:
        for name in hosts:
            runs.insert(database, run_id=f"q-{name}", name="q", host=name, task="sft", experiment=None, spec={})
        said = observe_all(home, hosts, runs.every(database), greeting_s=0.2)
        assert said == {"frozen": "no answer within 0.2 s; its runs are shown as they were seen last"}
        seen = {name: runs.find(database, f"q-{name}") for name in hosts}
    assert (seen["box"].state, seen["slow"].state) == ("running", "running")
    assert seen["frozen"].unreachable_since is not None


LISTED = {"digest": "d" * 64, "step": 7, "size_bytes": 1, "file_count": 1, "created_at": 1.0}


@pytest.mark.parametrize(
    "later",
    [
        {"evidence": None, "findings": ["its records on the host cannot be read: OSError: Input/output error"]},
        {"exists": False, "evidence": None},  # nobody knows whether its root is the one that it was put into
        {"unreadable": ["d" * 64]},
    ],
    ids=["an error", "away", "half a manifest"],
)
def test_a_checkpoint_of_which_an_answer_shows_nothing_is_not_gone_from_its_host(
    database: Database, later: dict[str, Any]
) -> None:
    see(database, entry(outbox=[LISTED]))
    see(database, {**entry(), "outbox": [], **later})
    (known,) = checkpoints.of_run(database, "q-aaaaaa")
    assert (known.on_host, known.trouble) == (True, None)
    see(database, entry(outbox=[]))
    (known,) = checkpoints.of_run(database, "q-aaaaaa")
    assert (known.on_host, known.trouble) == (False, checkpoints.NEVER_CAME)


@pytest.mark.parametrize("number", [10**30, 10**400, -1, 1e300, float("nan"), float("inf"), True, "7", None, [], {}])
def test_numbers_that_no_run_has_are_left_out(database: Database, number: Any) -> None:
    before = see(database, entry())
    assert (before.step, before.total_steps, before.started_at, before.gpus) == (7, 90, STATE["started_at"], (0,))
    text = "".join(
        json.dumps(line) + "\n" for line in ({**LINE, "step": number}, {**LINE, "step": 8}, {**LINE, "loss": number})
    )
    events = "".join(json.dumps({"seq": seq, "time": 1.0, "kind": "finding"}) + "\n" for seq in (number, 3))
    wild = entry(
        state={"started_at": number, "gpus": [number, 0], "ended_at": number, "seq": 5},
        beat={"step": number, "total_steps": number},
        log_size_bytes=number,
        metrics={"text": text, "next_offset": len(text)},
        events={"text": events, "next_offset": len(events)},
    )
    seen = see(database, wild)
    assert (seen.state, seen.seq) == ("running", 5)
    assert (seen.step, seen.total_steps, seen.log_size_bytes) == (7, 90, 10)
    assert seen.started_at is None or 0 <= seen.started_at < 1e11
    assert 0 in seen.gpus
    assert (8, 2.5) in metrics.curve(database, "q-aaaaaa", "loss")
    assert metrics.curve(database, "q-aaaaaa", "loss")[-1][0] == 8


@pytest.mark.parametrize("number", [10**30, -3, 1.5, "x", None])
def test_offsets_out_of_the_world_read_nothing(database: Database, number: Any) -> None:
    seen = see(database, entry(metrics={"text": "{}\n", "next_offset": number}))
    assert seen.metrics_offset == 0


@pytest.mark.parametrize("key", ["attempt", "seq", "submission"])
def test_an_order_beyond_all_numbers_does_not_end_the_look(database: Database, key: str) -> None:
    assert see(database, entry(state={key: 10**40})).state == "running"


def test_a_guessed_end_is_revised_by_evidence_and_not_by_silence(database: Database) -> None:
    assert see(database, of_slurm("running")).state == "running"
    gone = see(database, of_slurm("gone"))
    assert (gone.state, gone.reason, gone.is_settled(gone.guessed_at or 0)) == ("failed", "gone", False)
    run_sync.succeeded(database, gone.run_id, began=1.0, next_due_at=None, final_of=1)  # by an armada that believed it
    silent = see(database, of_slurm("unknown"))
    assert (silent.state, silent.reason) == ("failed", "gone")
    assert transitions.revised_at(database, gone.run_id) is None
    back = see(database, of_slurm("running"))
    assert (back.state, back.reason) == ("running", None)
    assert not run_sync.find(database, gone.run_id).final_done
    assert transitions.revised_at(database, gone.run_id) is not None
    see(database, of_slurm("gone"))
    assert see(database, of_slurm("gone", state="succeeded", ended_at=1_795_000_200.0)).state == "succeeded"


@pytest.mark.parametrize("state", ["running", "succeeded"])
def test_what_another_home_resumed_is_synced_to_its_end_once_more(database: Database, state: str) -> None:
    done = see(database, entry(state={"state": "failed", "seq": 5}))
    assert run_sync.succeeded(database, done.run_id, began=1.0, next_due_at=None, final_of=1)
    see(database, entry(state={"state": "failed", "seq": 5}))
    assert run_sync.find(database, done.run_id).final_done
    again = entry(state={"state": state, "submission": 2, "attempt": 2, "seq": 9})
    again["evidence"]["submission"] |= {"number": 2}
    again["evidence"]["attempt"] = {"number": 2, "run": {"submission": 2}, "exit": None}
    assert see(database, again).state == state
    assert not run_sync.find(database, done.run_id).final_done


def test_a_run_whose_end_is_guessed_is_looked_at_for_a_week(database: Database) -> None:
    see(database, of_slurm("running"))
    gone = see(database, of_slurm("gone"))
    since = gone.guessed_at
    assert since is not None
    for later_s, expected in ((6.9 * 86_400, [gone.run_id]), (7.1 * 86_400, [])):
        listed = runs.every(database, host="box", active=True, now=since + later_s)
        assert [run.run_id for run in listed] == expected


def test_an_end_that_only_slurm_told_is_an_end_that_evidence_revises(database: Database) -> None:
    see(database, of_slurm("running"))
    told = see(database, ended_by_slurm())
    assert (told.state, told.reason, told.is_settled(time.time())) == ("failed", "node_failure", True)
    assert run_sync.succeeded(database, told.run_id, began=1.0, next_due_at=None, final_of=1)
    for word in ("unknown", "gone", "ending", "ended"):
        later = see(database, of_slurm(word) if word != "ended" else ended_by_slurm())
        assert (later.state, later.reason, later.told_at) == ("failed", "node_failure", told.told_at), word
    assert run_sync.find(database, told.run_id).final_done
    back = see(database, of_slurm("pending", state="queued"))
    assert (back.state, back.told_at, back.is_only_told) == ("queued", None, False)
    assert back.revised_at is not None
    assert not run_sync.find(database, told.run_id).final_done


def test_a_run_whose_end_only_slurm_told_is_looked_at_for_a_week(database: Database) -> None:
    see(database, of_slurm("running"))
    told = see(database, ended_by_slurm())
    assert told.told_at is not None
    for later_s, expected in ((6.9 * 86_400, [told.run_id]), (7.1 * 86_400, [])):
        listed = runs.every(database, host="box", watched=True, now=told.told_at + later_s)
        assert [run.run_id for run in listed] == expected
    assert runs.every(database, active=True, now=told.told_at) == []  # for nobody else it is one that goes on


@pytest.mark.parametrize("later", ["recorded", "stopped"])
def test_an_end_that_is_recorded_or_was_asked_for_is_not_looked_at_again(database: Database, later: str) -> None:
    see(database, of_slurm("running"))
    told = see(database, ended_by_slurm(stop_wished=later == "stopped"))
    if later == "recorded":
        assert told.is_only_told
        told = see(database, of_slurm("ended", state="failed", seq=5))
    assert (told.ended, told.is_only_told) == (True, False)
    assert runs.every(database, watched=True) == []


def test_what_ran_and_ended_between_two_looks_is_synced_once_more(database: Database) -> None:
    see(database, of_slurm("running"))
    told = see(database, ended_by_slurm())
    run_sync.succeeded(database, told.run_id, began=1.0, next_due_at=None, final_of=1)
    again = of_slurm("ended", state="succeeded", attempt=2, seq=9)
    again["evidence"]["attempt"] = {"number": 2, "run": {"submission": 1}, "exit": None}
    assert see(database, again).state == "succeeded"
    assert not run_sync.find(database, told.run_id).final_done


def test_a_run_that_is_handed_over_again_is_not_said_to_have_come_back(database: Database) -> None:
    see(database, of_slurm("running"))
    see(database, of_slurm("gone"))
    runs.set_state(database, "q-aaaaaa", "submitted", message="submitted again")
    see(database, of_slurm("running", submission=2, seq=9))
    assert transitions.revised_at(database, "q-aaaaaa") is None


def test_a_step_is_never_below_that_of_a_checkpoint_of_the_same_attempt(database: Database) -> None:
    began = STATE["started_at"]
    assert isinstance(began, float)
    saved = {"digest": "a" * 64, "step": 60, "size_bytes": 1, "file_count": 1, "created_at": began + 50}
    before = {**saved, "digest": "b" * 64, "step": 80, "created_at": began - 50}
    assert see(database, entry(outbox=[before])).step == 7
    assert see(database, entry(outbox=[before, saved])).step == 60
    assert see(database, entry(outbox=[])).step == 60  # the host has thinned it out
    assert see(database, entry(beat={"step": 61}, outbox=[saved])).step == 61
    assert see(database, entry(beat={"step": None}, outbox=[saved])).step == 60


@pytest.mark.parametrize(
    ("known_for_s", "untouched_s", "lasted_s"), [(600.0, 9000.0, 1000.0), (3600.0, 9000.0, 3600.0)]
)
def test_a_lost_run_costs_until_it_last_was_alive_and_not_until_somebody_asked(
    database: Database, known_for_s: float, untouched_s: float, lasted_s: float
) -> None:
    """After `armada recover`, a run of last week had cost 2,479 EUR instead of 3.52 EUR."""
    began, asked_at = 1_795_000_000.0, 1_795_010_000.0
    with database.transaction() as connection:
        connection.execute("UPDATE runs SET created_at = ?", (began,))
    look = Look(Observation.model_validate(entry()), Folder(exists=True))
    record_look(database, runs.find(database, "q"), look, observed_at=began + known_for_s)
    assert runs.find(database, "q").alive_at == began + known_for_s
    lost = entry()
    lost["evidence"] |= {"supervisor": "dead", "processes": 0, "untouched_s": untouched_s}
    for later_s in (0.0, 86_400.0):  # asked again a day later: the same end
        lost["evidence"]["untouched_s"] = untouched_s + later_s
        look = Look(Observation.model_validate(lost), Folder(exists=True))
        record_look(database, runs.find(database, "q"), look, observed_at=asked_at + later_s)
        found = runs.find(database, "q")
        assert (found.state, found.reason) == ("failed", "supervisor_lost")
        assert read_use(database, found, asked_at + 2e6).spans == ((began, began + lasted_s),)


def test_a_lost_run_of_a_host_whose_clock_is_years_off_lasted_as_long_as_home_saw_it(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute("UPDATE runs SET created_at = 1795000000.0")
    seen = entry(state={"started_at": 5.0})
    record_look(
        database,
        runs.find(database, "q"),
        Look(Observation.model_validate(seen), Folder(exists=True)),
        observed_at=1_795_000_700.0,
    )
    seen["evidence"] |= {"supervisor": "dead", "processes": 0}
    found = see(database, seen)
    assert read_use(database, found, 1_795_900_000.0).spans == ((1_795_000_000.0, 1_795_000_700.0),)


@pytest.mark.parametrize("lie", [float("nan"), -5.0, 1e300, "long", None])
def test_what_a_host_lies_about_the_last_file_makes_no_run_longer(database: Database, lie: Any) -> None:
    lost = entry()
    lost["evidence"] |= {"supervisor": "dead", "processes": 0, "untouched_s": lie}
    found = see(database, lost)
    assert found.reason == "supervisor_lost"
    seen_at = time.time()
    (span,) = read_use(database, found, seen_at + 2e6).spans
    assert span[1] <= seen_at


def looked(database: Database, seen: dict[str, Any], moment: Moment | None) -> runs.Run:
    """Record a look that the host gave at a moment, or did not say when."""
    look = Look(Observation.model_validate(seen), Folder(exists=True), moment)
    record_look(database, runs.find(database, "q-aaaaaa"), look)
    return runs.find(database, "q-aaaaaa")


def test_a_time_counts_for_the_answer_that_it_came_with_and_for_no_later_one(database: Database) -> None:
    """An agent that says no time told more since; what another one gives between the two is no older disk."""
    assert looked(database, entry(), Moment(boot="a", seconds=10.0)).seen_at_s == 10.0
    assert looked(database, entry(), None).seen_at_s == 10.0
    assert looked(database, entry(state={"seq": 9}), None).seen_at_s is None
    late = looked(database, entry(state={"seq": 5}), Moment(boot="a", seconds=20.0))
    assert (late.seq, late.less_since_s) == (9, 20.0)


def test_a_host_that_showed_more_again_has_to_show_less_for_as_long_once_more(database: Database) -> None:
    looked(database, entry(state={"seq": 9}), None)
    assert looked(database, entry(), Moment(boot="a", seconds=10.0)).less_since_s == 10.0
    assert looked(database, entry(state={"seq": 9}), None).less_since_s is None
    assert looked(database, entry(), Moment(boot="a", seconds=500.0)).seq == 9
    assert looked(database, entry(), Moment(boot="a", seconds=700.0)).seq == 4


@pytest.mark.parametrize(
    ("scheduler", "processes", "state", "reason", "submission"),
    [
        ("slurm", 0, "unknown", "put_back", 2),
        ("direct", 3, "unknown", "put_back", 2),
        ("direct", 0, "failed", "exit_1", 1),
    ],
)
def test_a_submission_that_was_seen_is_not_ended_by_an_older_disk_that_shows_the_end_of_another(
    database: Database, scheduler: str, processes: int, state: str, reason: str, submission: int
) -> None:
    """A job in a batch system's queue does not end with the disk of a file server."""
    job = {"submission": 1, "scheduler": scheduler, "job_id": "11"}
    ended = entry(state={"state": "failed", "reason": "exit_1"})
    ended["evidence"] |= {
        "supervisor": "dead", "processes": processes, "submission": {"number": 1, "claimed": True, "job": job},
    }  # fmt: skip
    waits = entry(state={"state": "failed", "reason": "exit_1"})
    waits["evidence"] |= {"supervisor": "none", "submission": {"number": 2, "claimed": True, "job": None}}

    def record(seen: dict[str, Any], boot: str, seconds: float) -> tuple[str, str | None, int]:
        look = Look(Observation.model_validate(seen), Folder(exists=True), Moment(boot=boot, seconds=seconds))
        record_look(database, runs.find(database, "q"), look)
        run = runs.find(database, "q")
        return run.state, run.reason, run.submission

    assert record(ended, "a", 1.0) == ("failed", "exit_1", 1)
    assert record(waits, "a", 2.0) == ("submitted", None, 2)
    assert record(ended, "a", 1.5) == ("submitted", None, 2)  # a late answer
    assert record(ended, "b", 1.0) == ("submitted", None, 2)  # after a restart an older file may be seen for a while
    for later_s in (200.0, 300.0):
        assert record(ended, "b", later_s) == (state, reason, submission)
    assert record(waits, "b", 400.0) == ("submitted", None, 2)


@pytest.mark.parametrize(
    ("processes", "state", "reason"), [(0, "unknown", "put_back"), (2, "running", "folder_removed")]
)
def test_a_run_that_was_submitted_is_not_prepared_again_where_its_folder_shows_no_submission(
    database: Database, processes: int, state: str, reason: str
) -> None:
    """Somebody removed its folder, and its job made it again."""
    bare = entry()
    bare["evidence"] |= {"submission": None, "state": None, "attempt": None, "processes": processes}

    def record(seen: dict[str, Any], seconds: float) -> tuple[str, str | None]:
        look = Look(Observation.model_validate(seen), Folder(exists=True), Moment(boot="a", seconds=seconds))
        record_look(database, runs.find(database, "q"), look)
        run = runs.find(database, "q")
        return run.state, run.reason

    assert record(bare, 1.0) == ("preparing", None)
    assert record(entry(state={"state": "running"}), 2.0) == ("running", None)
    assert record(bare, 3.0) == record(bare, 4.0) == (state, reason)
    assert record(entry(state={"state": "running"}), 5.0) == ("running", None)


@pytest.mark.parametrize(("written", "shown"), [(2, 2), (9, 1)])
def test_a_supervisor_that_lives_tells_of_a_submission_whose_folder_is_gone_and_of_none_that_nobody_saw(
    written: int, shown: int
) -> None:
    evidence = Observation.model_validate(entry(state={"submission": written})).evidence
    assert submission_shown(evidence, known=2) == shown
    assert submission_shown(None, known=2) is None


@pytest.mark.parametrize(
    ("job", "processes", "state"),
    [(None, 0, "failed"), ({"submission": 1, "scheduler": "slurm"}, 0, "running"), (None, 2, "running")],
)
def test_an_older_disk_that_shows_no_end_or_nothing_that_may_live_elsewhere_is_believed(
    job: dict[str, Any] | None, processes: int, state: str
) -> None:
    older = entry()
    older["evidence"] |= {"processes": processes, "submission": {"number": 1, "claimed": True, "job": job}}
    evidence = Observation.model_validate(older).evidence
    assert evidence is not None
    shown = Verdict(state, None, None, 1, 4, "")
    assert of_put_back(evidence, shown, submission=2, attempt=2, seq=9) is shown


@pytest.mark.parametrize(
    ("remains", "words"),
    [
        ({"processes": 0}, "none of its processes is there"),
        ({"processes": "many"}, "it is unknown whether processes of it live there"),
        (None, "it is unknown whether processes of it live there"),
    ],
)
def test_that_none_of_its_processes_is_there_is_said_only_where_its_host_says_so(
    database: Database, remains: object, words: str
) -> None:
    runs.set_root(database, "q-aaaaaa", "r")
    observe(database, Host(entry()), [runs.find(database, "q-aaaaaa")])  # type: ignore[arg-type]  # all that is used of a session
    gone = {"run_id": "q-aaaaaa", "exists": False, "evidence": None, "remains": remains}
    for _ in range(2):
        look = Look(Observation.model_validate(gone), Folder(exists=False, root="r"))
        record_look(database, runs.find(database, "q-aaaaaa"), look)
        run = runs.find(database, "q-aaaaaa")
        assert (run.state, run.reason) == ("unknown", "not_on_host")
        assert run.message is not None
        assert run.message.startswith("its folder on box was removed while it ran")
        assert words in run.message


@pytest.mark.parametrize("unseen", ["its root is away", "it cannot be read"])
def test_a_checkpoint_whose_folder_was_not_read_is_still_on_its_host(database: Database, unseen: str) -> None:
    checkpoint = {"digest": "d" * 64, "step": 7, "size_bytes": 9, "file_count": 1, "created_at": 1_795_000_000.0}
    runs.set_root(database, "q-aaaaaa", "r")
    see(database, entry(outbox=[checkpoint]))
    away = {"exists": False} if unseen == "its root is away" else {"exists": True, "findings": ["Permission denied"]}
    run = see(database, {"run_id": "q-aaaaaa", "outbox": [], **away})
    assert (run.state, run.reason) == ("unknown", "root_away" if unseen == "its root is away" else "unreadable")
    (known,) = checkpoints.of_run(database, "q-aaaaaa")
    assert (known.on_host, known.trouble) == (True, None)
