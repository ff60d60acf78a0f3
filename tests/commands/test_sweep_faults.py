"""Sweeps where something breaks: a host, a connection, the command itself, a cell."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from armada.cli import main
from armada.errors import HostUnreachable, LinkLost
from armada.rpc.session import HostSession
from armada.store import sweeps
from armada.store.database import Database
from armada.sweeps import hand_over, service
from armada.sweeps.hand_over import provision_share
from armada.sweeps.unfinished import complete_launches
from tests.commands.sweeping import await_ends, cells, check, marking, starts
from tests.commands.task_box import configure
from tests.conftest import Armada
from tests.leftovers import end_all
from tests.ssh_server import SshServer
from tests.waiting import eventually


class InProcess:
    """The command line in this process, where what a host does can be replaced."""

    def __init__(self, armada: Armada, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in armada.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(armada.folder)

    def run(self, *words: str) -> int:
        return main.run(list(words))


@pytest.fixture
def here(armada: Armada, monkeypatch: pytest.MonkeyPatch) -> InProcess:
    return InProcess(armada, monkeypatch)


def two_hosts(armada: Armada, server: SshServer) -> None:
    (server.bin / "python3").symlink_to(Path(sys.executable).resolve())  # other tests need a box without
    configure(armada, server)
    assert armada.run("hosts", "trust", "box", "--yes").returncode == 0


def test_cells_are_dealt_to_two_hosts_and_stopped_on_both(armada: Armada, server: SshServer) -> None:
    two_hosts(armada, server)
    wait = f"until [ -e {armada.folder}/go ]; do sleep 0.05; done"
    told = armada.json(
        *["sweep", marking(armada, wait), "--host", "box", "--host", "local", "--parallel", "2"],
        *["--grid", "env.X=1,2,3,4,5,6"],
    )
    assert told["taken"] == {"box": 3, "local": 3}
    eventually(lambda: len(starts(armada)) == 2)
    stopped = armada.json("sweep", "stop", told["sweep"], "--grace", "1")
    assert {cell["state"] for cell in stopped["cells"]} == {"cancelled"}
    assert sorted(starts(armada)) == ["1", "2"]
    # Cells that are added to a stopped sweep run.
    (armada.folder / "go").touch()
    assert armada.run("sweep", "extend", told["sweep"], "--grid", "env.X=7").returncode == 0
    assert await_ends(armada, told["sweep"])[-1]["state"] == "succeeded"


def test_cells_of_a_host_that_fails_before_the_hand_over_go_to_the_other(
    armada: Armada, server: SshServer, here: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_hosts(armada, server)

    def failing(database: Any, share: Any, progress: Any) -> Any:
        if share.host == "box":
            raise HostUnreachable("the cable is out", host="box")
        return provision_share(database, share, progress)

    monkeypatch.setattr(service, "provision_share", failing)
    assert here.run("sweep", marking(armada), "--host", "box", "--host", "local", "--grid", "env.X=1,2,3,4") == 0
    (sweep,) = {run["sweep"] for run in armada.json("ps", "--cached")}
    found = await_ends(armada, sweep)
    assert [(cell["cell"], cell["host"]) for cell in found] == [(number, "local") for number in (1, 2, 3, 4)]
    assert sorted(starts(armada)) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("arrived", [True, False], ids=["the request arrived", "it did not"])
def test_cells_of_a_host_whose_answer_is_lost_are_given_to_nobody_else(
    armada: Armada, server: SshServer, here: InProcess, monkeypatch: pytest.MonkeyPatch, *, arrived: bool
) -> None:
    two_hosts(armada, server)
    words = ["sweep", marking(armada), "--host", "box", "--host", "local", "--grid", "env.X=1,2,3,4"]
    call = HostSession.call

    def losing(self: HostSession, request: Any, *more: Any, **options: Any) -> Any:
        if self.host.name != "box" or getattr(request, "method", None) != "sweep.start":
            return call(self, request, *more, **options)
        if arrived:
            call(self, request, *more, **options)
        raise LinkLost("the link broke", host="box")

    with monkeypatch.context() as broken:
        broken.setattr(HostSession, "call", losing)
        assert here.run(*words) == 9
    known = {(run["host"], run["state"]) for run in armada.json("ps", "--cached")}
    assert ("box", "unknown") in known
    told = armada.json(*words)
    assert {run["sweep"] for run in armada.json("ps", "--cached")} == {told["sweep"]}
    found = await_ends(armada, told["sweep"])
    assert {cell["host"] for cell in found} == {"box", "local"}
    assert sorted(starts(armada)) == ["1", "2", "3", "4"]


def test_a_search_whose_answer_was_lost_goes_on_by_itself_and_its_command_still_continues_it(
    armada: Armada, here: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = f"until [ -e {armada.folder}/go ]; do sleep 0.05; done"
    experiment = marking(armada, wait, sweep={"metric": "loss", "stop": {"target": 0.1}})
    words = ["sweep", experiment, "--host", "local", "--search", "3", "--space", "env.X={min: 0.0, max: 9.0}"]
    call = HostSession.call

    def losing(self: HostSession, request: Any, *more: Any, **options: Any) -> Any:
        told = call(self, request, *more, **options)
        if getattr(request, "method", None) == "sweep.start":
            raise LinkLost("the link broke", host="local")
        return told

    with monkeypatch.context() as broken:
        broken.setattr(HostSession, "call", losing)
        assert here.run(*words, "--parallel", "1") == 9
    (sweep,) = {run["sweep"] for run in armada.json("ps", "--cached")}
    assert armada.json("sweep", "show", sweep, "--cached")["state"] == "preparing"
    assert armada.json("sweep", "show", sweep)["state"] == "started"
    (armada.folder / "go").touch()
    eventually(lambda: len(cells(armada, sweep)) == 3)
    assert armada.json(*words, "--parallel", "1")["sweep"] == sweep, "not a second one"
    assert [cell["cell"] for cell in await_ends(armada, sweep)] == [1, 2, 3]


def interrupted(*_: Any) -> Any:
    """A step at which somebody presses Ctrl-C."""
    raise KeyboardInterrupt


def test_an_interrupted_extension_is_continued_under_the_same_numbers(
    armada: Armada, here: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = armada.json("sweep", marking(armada), "--host", "local", "--grid", "env.X=1")["sweep"]
    await_ends(armada, sweep)
    words = ["sweep", "extend", sweep, "--grid", "env.X=2,3"]

    with monkeypatch.context() as broken:
        broken.setattr(service, "provision_share", interrupted)
        assert here.run(*words) == 130
    assert "its launch was interrupted" in armada.run("sweep", "show", sweep).stdout
    with Database(armada.folder / "home" / "state" / "armada.db") as database:
        complete_launches(database, "local")
    assert "its launch was interrupted" in armada.run("sweep", "show", sweep).stdout, "no host has the cells"
    assert armada.run(*words).returncode == 0
    found = await_ends(armada, sweep)
    assert [(cell["cell"], cell["label"], cell["state"]) for cell in found] == [
        (number, f"X={number}", "succeeded") for number in (1, 2, 3)
    ]
    assert sorted(starts(armada)) == ["1", "2", "3"]


def test_a_continued_launch_has_the_rules_of_its_last_command(
    armada: Armada, here: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = {"metric": "loss", "stop": {"hours": 200}}
    words = ["sweep", marking(armada, sweep=sweep), "--host", "local", "--grid", "env.X=1,2"]
    with monkeypatch.context() as broken:
        broken.setattr(service, "provision_share", interrupted)
        assert here.run(*words) == 130
    renewed = [*words, "--set", "sweep.stop.hours=20", "--set", "sweep.goal=max"]
    told = armada.run(*renewed)
    assert told.returncode == 0, told.stderr
    assert "`stop`, `goal` of this command count now, not those of the interrupted one" in told.stdout
    with Database(armada.folder / "home" / "state" / "armada.db") as database:
        (name,) = sweeps.names(database)
        settings = sweeps.find(database, name).settings
    assert settings["sweep"] == {"grid": {"env.X": [1, 2]}, "metric": "loss", "goal": "max", "stop": {"hours": 20.0}}
    assert settings["shares"]
    assert settings["overrides"] == ["sweep.stop.hours=20", "sweep.goal=max"]
    await_ends(armada, name)
    assert sorted(starts(armada)) == ["1", "2"]


def test_extending_an_interrupted_sweep_leaves_its_launch_to_be_continued(
    armada: Armada, here: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["sweep", marking(armada), "--host", "local", "--grid", "env.X=1,2"]

    with monkeypatch.context() as broken:
        broken.setattr(service, "provision_share", interrupted)
        broken.setattr(sys, "argv", ["armada", *words])
        assert here.run(*words) == 130
    (sweep,) = {run["sweep"] for run in armada.json("ps", "--cached")}
    assert cells(armada, sweep)[0]["reason"] == "not_on_host"
    alone = armada.run("resume", f"{sweep}-001")
    assert alone.returncode == 8
    assert "--set sweep=null --set env.X=1" in alone.stderr
    assert armada.run("sweep", "extend", sweep, "--grid", "env.X=3").returncode == 0
    told = armada.run("sweep", "show", sweep).stdout
    assert "its launch was interrupted" in told
    assert f"    armada {shlex.join(words)}\n" in told
    assert armada.json(*words)["sweep"] == sweep
    found = await_ends(armada, sweep)
    assert [(cell["cell"], cell["state"]) for cell in found] == [(number, "succeeded") for number in (1, 2, 3)]
    assert sorted(starts(armada)) == ["1", "2", "3"]
    assert "interrupted" not in armada.run("sweep", "show", sweep).stdout
    assert armada.json(*words)["sweep"] != sweep


def test_a_launch_that_ended_before_it_was_recorded_is_continued_after_an_extension(
    armada: Armada, here: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["sweep", marking(armada), "--host", "local", "--grid", "env.X=1,2"]

    with monkeypatch.context() as broken:
        broken.setattr(service, "mark_started", interrupted)
        assert here.run(*words) == 130
    (sweep,) = {run["sweep"] for run in armada.json("ps", "--cached")}
    assert armada.run("sweep", "extend", sweep, "--grid", "env.X=3").returncode == 0
    assert armada.json(*words)["sweep"] == sweep
    await_ends(armada, sweep)
    assert sorted(starts(armada)) == ["1", "2", "3"]


def test_an_interrupted_extension_is_left_to_itself_when_the_launch_is_repeated(
    armada: Armada, here: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["sweep", marking(armada), "--host", "local", "--grid", "env.X=1"]
    sweep = armada.json(*words)["sweep"]

    with monkeypatch.context() as broken:
        broken.setattr(service, "provision_share", interrupted)
        assert here.run("sweep", "extend", sweep, "--grid", "env.X=2") == 130
    assert armada.json(*words)["sweep"] == sweep
    assert "its launch was interrupted" in armada.run("sweep", "show", sweep).stdout
    assert armada.run("sweep", "extend", sweep, "--grid", "env.X=2").returncode == 0
    await_ends(armada, sweep)
    assert sorted(starts(armada)) == ["1", "2"]


def test_a_removed_cell_never_gives_its_number_to_another(armada: Armada) -> None:
    sweep = armada.json("sweep", marking(armada), "--host", "local", "--grid", "env.X=1,2")["sweep"]
    await_ends(armada, sweep)
    assert armada.run("sync", "now", f"{sweep}-002").returncode == 0
    assert armada.run("rm", f"{sweep}-002").returncode == 0
    assert armada.run("sweep", "extend", sweep, "--grid", "env.X=3").returncode == 0
    assert [cell["cell"] for cell in await_ends(armada, sweep)] == [1, 3]


def test_a_cell_that_is_resumed_in_a_stopped_sweep_goes_on(armada: Armada) -> None:
    wait = f"until [ -e {armada.folder}/go ]; do sleep 0.05; done"
    sweep = armada.json("sweep", marking(armada, wait), "--host", "local", "--grid", "env.X=1")["sweep"]
    armada.run("sweep", "stop", sweep, "--grace", "1")
    assert armada.run("resume", f"{sweep}-001").returncode == 0
    eventually(lambda: cells(armada, sweep)[0]["state"] == "running")
    assert cells(armada, sweep)[0]["state"] == "running"
    (armada.folder / "go").touch()
    assert await_ends(armada, sweep)[0]["state"] == "succeeded"


REACHES = 'echo \'{"kind": "train", "step": 1, "time": 1.0, "loss": 0.2}\' >> "$ARMADA_RUN_DIR/metrics.jsonl"'


def test_a_stop_rule_ends_a_cell_that_was_resumed_before_and_none_that_is_resumed_since(armada: Armada) -> None:
    again = f"[ $X = again ] && [ ! -e {armada.folder}/go ] && exit 3"
    wait = f"until [ -e {armada.folder}/go ]; do sleep 0.05; done"
    script = f"{again}; [ $X = again ] || {{ {wait}; {REACHES}; }}; exec sleep 600"
    sweep = {"metric": "loss", "stop": {"target": 0.3}}
    grid = ["--grid", "env.X=again,best", "--parallel", "2"]
    name = armada.json("sweep", marking(armada, script, sweep=sweep), "--host", "local", *grid)["sweep"]
    eventually(lambda: cells(armada, name)[0]["reason"] == "exit_3")
    (armada.folder / "go").touch()
    assert armada.json("sweep", "retry", name, "--reason", "exit_3")["resumed"] == [f"{name}-001"]
    assert [cell["state"] for cell in await_ends(armada, name)][1] == "cancelled"
    assert [cell["state"] for cell in cells(armada, name)] == ["cancelled", "cancelled"]
    assert "reached loss 0.2" in armada.run("sweep", "show", name, "--cached").stdout
    assert armada.run("resume", f"{name}-001").returncode == 0
    eventually(lambda: cells(armada, name)[0]["state"] == "running")
    assert cells(armada, name)[0]["state"] == "running"
    assert armada.run("stop", f"{name}-001", "--grace", "0").returncode == 0


def test_a_stop_rule_holds_while_a_launch_or_an_extension_is_interrupted(armada: Armada) -> None:
    experiment = marking(armada, f"{REACHES}; exec sleep 600", sweep={"metric": "loss", "stop": {"target": 0.3}})
    name = armada.json("sweep", experiment, "--host", "local", "--grid", "env.X=1")["sweep"]
    with Database(armada.folder / "home" / "state" / "armada.db") as database:
        sweeps.set_state(database, name, "preparing")  # as a command leaves it that was killed
    assert await_ends(armada, name)[0]["state"] == "cancelled"
    assert armada.json("sweep", "show", name, "--cached")["state"] == "stopped"


def test_only_cells_that_were_lost_are_retried_and_others_when_their_reason_is_named(armada: Armada) -> None:
    script = f"[ $X = lost ] && [ ! -e {armada.folder}/go ] && exec sleep 600; [ -e {armada.folder}/go ]"
    grid = ["--grid", "env.X=lost,bad", "--parallel", "2"]
    sweep = armada.json("sweep", marking(armada, script), "--host", "local", *grid)["sweep"]
    eventually(lambda: len(starts(armada)) == 2)
    eventually(lambda: cells(armada, sweep)[1]["state"] == "failed")
    job = json.loads((armada.local_runs / f"{sweep}-001" / "submissions" / "1" / "job.json").read_text())
    os.kill(job["supervisor"]["pid"], signal.SIGTERM)
    eventually(lambda: cells(armada, sweep)[0]["reason"] == "terminated")
    (armada.folder / "go").touch()
    told = armada.json("sweep", "retry", sweep)
    check(told, "sweep retry")
    assert told["resumed"] == [f"{sweep}-001"]
    assert told["left"] == {f"{sweep}-002": "exit_1: it would fail again"}
    strange = armada.run("sweep", "retry", sweep, "--reason", "nosuch")
    assert strange.returncode == 2
    assert "has the reason 'nosuch'" in strange.stderr
    assert "reasons there are: exit_1" in strange.stderr
    assert armada.json("sweep", "retry", sweep, "--reason", "exit_1")["resumed"] == [f"{sweep}-002"]
    assert {cell["state"] for cell in await_ends(armada, sweep)} == {"succeeded"}
    said = armada.run("sweep", "retry", sweep).stdout
    assert "0 cells resumed" in said
    assert f"no cell of {sweep} has failed; armada resume RUN continues one that was stopped" in said


def test_more_cells_than_one_request_holds_are_handed_over_in_several(
    armada: Armada, here: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_over, "CELLS_PER_REQUEST", 2)
    assert here.run("sweep", marking(armada), "--host", "local", "--grid", "env.X=1,2,3,4,5") == 0
    (sweep,) = {run["sweep"] for run in armada.json("ps", "--cached")}
    await_ends(armada, sweep)
    assert sorted(starts(armada)) == ["1", "2", "3", "4", "5"]


def test_a_host_that_refuses_a_cell_starts_none_and_says_why(
    armada: Armada, here: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = HostSession.call

    def refusing(self: HostSession, request: Any, *more: Any, **options: Any) -> Any:
        if getattr(request, "method", None) == "sweep.start":
            last = request.cells[-1]
            worse = last.spec.model_copy(update={"format": 2})
            broken = last.model_copy(update={"spec": worse})
            request = request.model_copy(update={"cells": (*request.cells[:-1], broken)})
        return call(self, request, *more, **options)

    monkeypatch.setattr(HostSession, "call", refusing)
    assert here.run("sweep", marking(armada), "--host", "local", "--grid", "env.X=1,2,3") != 0
    found = armada.json("ps", "--cached")
    assert {(run["state"], run["reason"]) for run in found} == {("failed", "submit_refused")}
    assert "spec format" in found[0]["message"]
    assert starts(armada) == []
    assert not (armada.local_runs.parent / "sweeps").exists()


@pytest.mark.fault(
    "one of two hosts is killed in the middle of a sweep", "no cell twice by itself; what waited goes on"
)
def test_cells_of_a_host_that_is_away_are_stopped_once_it_answers(armada: Armada, server: SshServer) -> None:
    two_hosts(armada, server)
    hosts = ["--host", "box", "--host", "local"]
    experiment = marking(armada, "exec sleep 600", stop_grace_s=1)
    sweep = armada.json("sweep", experiment, *hosts, "--grid", "env.X=1,2")["sweep"]
    eventually(lambda: len(starts(armada)) == 2)
    server.stop()
    stopped = armada.run("sweep", "stop", sweep)
    assert stopped.returncode == 4
    assert f"once it answers, the daemon or armada sweep stop {sweep} stops its cells" in stopped.stderr
    assert {cell["host"]: cell["state"] for cell in cells(armada, sweep)}["local"] == "cancelled"
    server.restart()
    assert {cell["state"] for cell in await_ends(armada, sweep)} == {"cancelled"}


@pytest.mark.takes_long("twelve cells on two hosts, one of which dies and comes back")
def test_a_host_that_is_killed_in_the_middle_loses_only_what_ran_there(armada: Armada, server: SshServer) -> None:
    root = armada.folder / "box-root"
    (server.bin / "python3").symlink_to(Path(sys.executable).resolve())
    configure(armada, server, root=str(root))
    assert armada.run("hosts", "trust", "box", "--yes").returncode == 0
    wait = f"until [ -e {armada.folder}/go ]; do sleep 0.05; done"
    grid = f"env.X={','.join(f'x{number}' for number in range(12))}"
    hosts = ["--host", "box", "--host", "local", "--parallel", "4"]
    sweep = armada.json("sweep", marking(armada, wait), *hosts, "--grid", grid)["sweep"]
    eventually(lambda: len(starts(armada)) == 4)
    began = starts(armada)
    server.stop()
    end_all(root)
    (armada.folder / "go").touch()

    def local_is_done() -> bool:
        found = [cell for cell in cells(armada, sweep) if cell["host"] == "local"]
        return {cell["state"] for cell in found} == {"succeeded"}

    eventually(local_is_done)
    away = {cell["label"]: cell["state"] for cell in cells(armada, sweep) if cell["host"] == "box"}
    assert len(away) == 6
    assert set(away.values()) <= {
        "running",
        "queued",
        "submitted",
    }  # nothing is known of them, and nobody else has them
    assert len(starts(armada)) == 4 + 4
    server.restart()
    found = await_ends(armada, sweep)
    lost = [cell for cell in found if cell["state"] == "failed"]
    assert {cell["reason"] for cell in lost} == {"supervisor_lost"}
    assert len(lost) == 2
    told = armada.json("sweep", "retry", sweep)
    assert told["resumed"] == []
    assert all("it may have succeeded" in why for why in told["left"].values())
    assert len(armada.json("sweep", "retry", sweep, "--reason", "supervisor_lost")["resumed"]) == 2
    assert {cell["state"] for cell in await_ends(armada, sweep)} == {"succeeded"}
    again = {cell["values"]["env.X"] for cell in lost}
    assert again <= set(began)
    assert Counter(starts(armada)) == {f"x{number}": 2 if f"x{number}" in again else 1 for number in range(12)}


@pytest.mark.parametrize("files_too", [False, True], ids=["the store alone", "another copy of home"])
def test_a_store_that_is_older_than_its_sweep_gives_no_name_to_another_cell(armada: Armada, files_too: bool) -> None:
    state = armada.folder / "home" / "state"
    sweep = armada.json("sweep", marking(armada), "--host", "local", "--grid", "env.X=a,b", "--no-daemon")["sweep"]
    await_ends(armada, sweep)
    copies = {path: path.read_bytes() for path in state.glob("armada.db*")}
    extend = ("sweep", "extend", sweep, "--no-daemon", "--grid")
    armada.json(*extend, "env.X=c,d")
    assert len(await_ends(armada, sweep)) == 4
    for path in state.glob("armada.db*"):
        path.unlink()
    for path, content in copies.items():
        path.write_bytes(content)
    if files_too:
        for number in (3, 4):
            shutil.rmtree(state / "runs" / f"{sweep}-00{number}")
    refused = armada.run(*extend, "env.X=e")
    assert refused.returncode == 8
    assert f"{sweep} has cells that the store does not know" in refused.stderr
    assert "armada recover reads them from their hosts; then run the command again" in refused.stderr
    assert [cell["label"] for cell in cells(armada, sweep)] == ["X=a", "X=b"]
    assert armada.run("recover").returncode == 0
    assert [cell["label"] for cell in cells(armada, sweep)] == ["X=a", "X=b", "X=c", "X=d"]
    assert armada.json(*extend, "env.X=e,d")["taken"] == {"local": 1}
    assert [cell["run_id"] for cell in await_ends(armada, sweep)][4:] in ([f"{sweep}-005"], [f"{sweep}-006"])
    assert Counter(starts(armada)) == dict.fromkeys("abcde", 1)
