"""Cells of a sweep: handed over in one request, started as there is room, each once, whatever is killed."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from armada_agent.foundation import files

from tests.agent.conversation import Conversation, Host, Refused, spec_of
from tests.supervisors import kill_all, kill_both
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@pytest.fixture
def this_host(converse: Callable[..., Conversation]) -> Host:
    return Host(converse(sys.executable))


def hand_over(host: Host, cells: Sequence[str], script: str, parallel: int = 2, **changes: Any) -> dict[str, Any]:
    asked = [{"run_id": each, "spec": spec_of(each, "sh", "-c", script, **changes), "files": {}} for each in cells]
    return host.call("sweep.start", sweep="grid-1", parallel=parallel, cells=asked)


def names(count: int) -> list[str]:
    return [f"grid-1-{number:03}" for number in range(1, count + 1)]


def dispatchers(host: Host) -> list[int]:
    """Pids of the living dispatchers of the sweep below this root."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if b"dispatch" in words and str(host.root).encode() in words:
            found.append(int(entry.name))
    return found


def starts(host: Host) -> list[str]:
    """The lines that the cells wrote, in order."""
    log = host.root / "starts"
    return log.read_text().split() if log.exists() else []


def test_cells_are_handed_over_in_one_request_and_all_run(host: Host) -> None:
    cells = names(5)
    answer = hand_over(host, cells, f'echo "$ARMADA_RUN_ID" >> {host.root}/starts')
    assert answer == {"cells": [{"run_id": each, "outcome": "claimed"} for each in cells]}
    for each in cells:
        assert host.await_end(each)["state"] == "succeeded"
    assert sorted(starts(host)) == cells
    eventually(lambda: not dispatchers(host))


def test_no_more_cells_run_at_once_than_asked_and_they_start_in_order(this_host: Host) -> None:
    script = f'echo "+$ARMADA_RUN_ID" >> {this_host.root}/starts; while [ ! -e {this_host.root}/go-$ARMADA_RUN_ID ]; do sleep 0.05; done'
    cells = names(4)
    hand_over(this_host, cells, script, parallel=2)
    eventually(lambda: len(starts(this_host)) == 2)
    assert this_host.look(cells[2])["evidence"]["submission"] == {"number": 1, "claimed": True, "job": None}
    assert sorted(starts(this_host)) == [f"+{each}" for each in cells[:2]]
    (this_host.root / f"go-{cells[0]}").touch()
    eventually(lambda: len(starts(this_host)) == 3)
    assert starts(this_host)[2] == f"+{cells[2]}"
    for each in cells:
        (this_host.root / f"go-{each}").touch()
    for each in cells:
        assert this_host.await_end(each)["state"] == "succeeded"


def test_handing_over_twice_starts_nothing_twice(this_host: Host) -> None:
    cells = names(3)
    script = f'echo "$ARMADA_RUN_ID" >> {this_host.root}/starts'
    hand_over(this_host, cells, script, parallel=3)
    answer = hand_over(this_host, cells, script, parallel=3)
    assert {cell["outcome"] for cell in answer["cells"]} == {"already"}
    for each in cells:
        this_host.await_end(each)
    hand_over(this_host, cells, script, parallel=3)
    eventually(lambda: not dispatchers(this_host))
    assert sorted(starts(this_host)) == cells


def test_two_homes_handing_over_the_same_at_once_start_each_cell_once(converse: Callable[..., Conversation]) -> None:
    first, second = Host(converse(sys.executable)), Host(converse(sys.executable))
    cells = names(6)
    script = f'echo "$ARMADA_RUN_ID" >> {first.root}/starts'
    asked = [{"run_id": each, "spec": spec_of(each, "sh", "-c", script), "files": {}} for each in cells]
    flights = [
        (host, host.conversation.ask("sweep.start", {"sweep": "grid-1", "parallel": 6, "cells": asked}))
        for host in (first, second)
    ]
    words = [[cell["outcome"] for cell in host.conversation.answer(number)["cells"]] for host, number in flights]
    assert all(sorted(pair) == ["already", "claimed"] for pair in zip(*words, strict=True))
    for each in cells:
        first.await_end(each)
    assert sorted(starts(first)) == cells


def test_a_killed_dispatcher_is_replaced_when_home_tends(this_host: Host) -> None:
    cells = names(3)
    script = (
        f'echo "$ARMADA_RUN_ID" >> {this_host.root}/starts; while [ ! -e {this_host.root}/go ]; do sleep 0.05; done'
    )
    hand_over(this_host, cells, script, parallel=1)
    eventually(lambda: starts(this_host) == cells[:1])
    kill_all(dispatchers(this_host))
    # A dying process shows no command line a moment before its lock is free.
    lock = this_host.root / "sweeps" / "grid-1" / ".dispatcher.lock"
    eventually(lambda: not files.is_locked(str(lock)))
    assert this_host.call("sweep.tend", sweeps=["grid-1", "grid-2"]) == {"sweeps": [{"sweep": "grid-1", "waiting": 2}]}
    (this_host.root / "go").touch()
    for each in cells:
        assert this_host.await_end(each)["state"] == "succeeded"
    assert starts(this_host) == cells


def test_a_job_that_outlives_its_supervisor_keeps_its_place(this_host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    from armada_agent.host import detached
    from armada_agent.paths import SweepPaths
    from armada_agent.runs import dispatcher

    cells = names(2)
    script = (
        f'echo "$ARMADA_RUN_ID" >> {this_host.root}/starts; while [ ! -e {this_host.root}/go ]; do sleep 0.05; done'
    )
    hand_over(this_host, cells, script, parallel=1)
    eventually(lambda: starts(this_host) == cells[:1])
    kill_all(dispatchers(this_host))
    kill_both(json.loads((this_host.folder(cells[0]) / "submissions" / "1" / "job.json").read_text()))
    eventually(lambda: this_host.look(cells[0])["evidence"]["supervisor"] == "dead")
    tried: list[str] = []
    monkeypatch.setattr(detached, "start", lambda *words: tried.append(words[2].run_id))
    own = dispatcher.Dispatcher(SweepPaths(str(this_host.root), "grid-1"), "agent.pyz")
    assert all(own.step(moment) for moment in (0.0, 1.0, 2.0))
    assert tried == []
    (this_host.root / "go").touch()
    eventually(lambda: this_host.look(cells[0])["evidence"]["processes"] == 0)
    assert all(own.step(moment) for moment in (3.0, 4.0))
    assert tried == cells[1:]


def test_a_stopped_cell_never_starts_and_the_next_takes_its_place(this_host: Host) -> None:
    cells = names(3)
    script = (
        f'echo "$ARMADA_RUN_ID" >> {this_host.root}/starts; while [ ! -e {this_host.root}/go ]; do sleep 0.05; done'
    )
    hand_over(this_host, cells, script, parallel=1)
    eventually(lambda: starts(this_host) == cells[:1])
    answer = this_host.call("run.stop", run_id=cells[1], grace_s=1.0)
    assert answer["outcome"] == "cancelled_before_start"
    (this_host.root / "go").touch()
    assert this_host.await_end(cells[2])["state"] == "succeeded"
    assert this_host.state(cells[1])["state"] == "cancelled"
    assert starts(this_host) == [cells[0], cells[2]]


def test_a_removed_cell_holds_up_no_other(this_host: Host) -> None:
    cells = names(3)
    script = (
        f'echo "$ARMADA_RUN_ID" >> {this_host.root}/starts; while [ ! -e {this_host.root}/go ]; do sleep 0.05; done'
    )
    hand_over(this_host, cells, script, parallel=1)
    eventually(lambda: starts(this_host) == cells[:1])
    with pytest.raises(Refused, match=f"{cells[1]} may still start"):
        this_host.call("run.remove", run_id=cells[1])
    with pytest.raises(Refused, match="is still alive"):
        this_host.call("host.wipe")
    shutil.rmtree(this_host.folder(cells[1]))
    (this_host.root / "go").touch()
    assert this_host.await_end(cells[2])["state"] == "succeeded"


def test_cells_that_come_later_join_the_queue(this_host: Host) -> None:
    script = (
        f'echo "$ARMADA_RUN_ID" >> {this_host.root}/starts; while [ ! -e {this_host.root}/go ]; do sleep 0.05; done'
    )
    cells = names(4)
    hand_over(this_host, cells[:2], script, parallel=1)
    hand_over(this_host, cells[2:], script, parallel=1)
    (this_host.root / "go").touch()
    for each in cells:
        assert this_host.await_end(each)["state"] == "succeeded"
    assert starts(this_host) == cells


def test_one_refused_cell_starts_none(this_host: Host) -> None:
    specs = {each: spec_of(each, "sh", "-c", "true") for each in names(2)}
    specs["grid-1-002"]["job"]["argv"] = []
    asked = [{"run_id": each, "spec": spec, "files": {}} for each, spec in specs.items()]
    with pytest.raises(Refused, match="must be a list of strings that begins with a program"):
        this_host.call("sweep.start", sweep="grid-1", parallel=2, cells=asked)
    assert this_host.look("grid-1-001")["evidence"]["submission"] is None
    assert not (this_host.root / "sweeps").exists()


def test_a_name_that_leaves_the_root_is_refused(this_host: Host) -> None:
    with pytest.raises(Refused, match="is not a run id"):
        this_host.call("sweep.start", sweep="../x", parallel=1, cells=[])
    with pytest.raises(Refused, match="must be a whole number from 1"):
        this_host.call("sweep.start", sweep="grid-1", parallel=0, cells=[])


def test_a_damaged_list_of_cells_is_named_and_starts_nothing(this_host: Host) -> None:
    folder = this_host.root / "sweeps" / "grid-1"
    folder.mkdir(parents=True)
    (folder / "cells.json").write_text(json.dumps({"cells": [1], "parallel": 1}))
    with pytest.raises(Refused, match="lists no runs"):
        this_host.call("sweep.tend", sweeps=["grid-1"])


def test_what_cannot_be_seen_of_one_cell_or_sweep_keeps_no_other_from_its_dispatcher(this_host: Host) -> None:
    cells = names(3)
    script = (
        f'echo "$ARMADA_RUN_ID" >> {this_host.root}/starts; while [ ! -e {this_host.root}/go ]; do sleep 0.05; done'
    )
    hand_over(this_host, cells, script, parallel=1)
    eventually(lambda: starts(this_host) == cells[:1])
    kill_all(dispatchers(this_host))
    lock = this_host.root / "sweeps" / "grid-1" / ".dispatcher.lock"
    eventually(lambda: not files.is_locked(str(lock)))
    hidden = this_host.root / "runs" / cells[1] / "submissions"
    hidden.rename(hidden.with_name("aside"))
    hidden.symlink_to("submissions")  # a job may put anything there: this is a loop
    damaged = this_host.root / "sweeps" / "a-1"
    damaged.mkdir()
    (damaged / "cells.json").write_text("[")
    with pytest.raises(Refused, match="sweep a-1: ") as refused:
        this_host.call("sweep.tend", sweeps=["a-1", "grid-1"])
    assert "grid-1" not in refused.value.args[0]
    assert len(dispatchers(this_host)) == 1
    hidden.unlink()
    hidden.with_name("aside").rename(hidden)
    (this_host.root / "go").touch()
    for each in cells:
        assert this_host.await_end(each)["state"] == "succeeded"


def test_a_repeated_request_that_fails_is_no_refusal_of_cells_that_were_claimed(this_host: Host) -> None:
    cells = names(2)
    hand_over(this_host, cells, "true")
    for each in cells:
        this_host.await_end(each)
    eventually(lambda: not dispatchers(this_host))
    (this_host.root / "sweeps" / "grid-1" / "cells.json").write_text("{}")
    with pytest.raises(Refused, match="may have been claimed before") as refused:
        hand_over(this_host, cells, "true")
    assert refused.value.kind == "outcome_unknown"


def test_a_supervisor_that_never_starts_ends_its_cell(this_host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    from armada_agent.host import detached
    from armada_agent.paths import SweepPaths
    from armada_agent.runs import dispatcher

    hand_over(this_host, names(1), "true", parallel=1)
    this_host.await_end("grid-1-001")
    this_host.create("grid-1-002", "true")
    claim = this_host.folder("grid-1-002") / "submissions" / "1" / "claim.json"
    claim.parent.mkdir()
    claim.write_text("{}")
    sweep = SweepPaths(str(this_host.root), "grid-1")
    plan = json.loads(Path(sweep.cells).read_text())
    Path(sweep.cells).write_text(json.dumps({**plan, "cells": ["grid-1-001", "grid-1-002"]}))
    tried: list[str] = []
    monkeypatch.setattr(detached, "start", lambda *words: tried.append(words[2].run_id))
    own = dispatcher.Dispatcher(sweep, "agent.pyz")
    for moment in (0.0, 1.0, 31.0, 62.0):
        assert own.step(moment)
    assert not own.step(93.0)
    assert tried == ["grid-1-002"] * 3
    state = this_host.await_end("grid-1-002")
    assert (state["state"], state["reason"]) == ("failed", "never_started")


def test_secrets_of_a_waiting_cell_stay_and_those_of_an_ended_one_go(this_host: Host) -> None:
    script = f'echo "$TOKEN" >> {this_host.root}/starts; while [ ! -e {this_host.root}/go ]; do sleep 0.05; done'
    cells = names(2)
    asked = [
        {"run_id": each, "spec": spec_of(each, "sh", "-c", script, job={"secrets": ["TOKEN"]}), "files": {}}
        for each in cells
    ]
    this_host.call("sweep.start", sweep="grid-1", parallel=1, cells=asked, secrets={"TOKEN": "s3cret"})
    eventually(lambda: starts(this_host) == ["s3cret"])
    assert cells[1] in this_host.call("host.forget_secrets", leaves=True)["kept"]
    (this_host.root / "go").touch()
    for each in cells:
        assert this_host.await_end(each)["state"] == "succeeded"
    assert starts(this_host) == ["s3cret", "s3cret"]
    assert not (this_host.folder(cells[1]) / "secrets.env").exists()


def test_what_setup_exports_reaches_cells(converse: Callable[..., Conversation]) -> None:
    host = Host(converse(sys.executable, setup=["export FROM_SETUP=yes"]))
    hand_over(host, names(1), f'echo "$FROM_SETUP" >> {host.root}/starts')
    host.await_end("grid-1-001")
    assert starts(host) == ["yes"]
