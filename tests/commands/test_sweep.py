"""`armada sweep`: one hand-over for many cells, each started once, whatever is killed or asked for twice."""

from __future__ import annotations

import functools
import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from armada.cli import main
from armada.rpc.client import Agent
from armada.store import hosts as host_records
from armada.store.database import Database
from tests import moments
from tests.chance import dice
from tests.commands.sweeping import await_ends, cells, check, marking, starts
from tests.conftest import Armada
from tests.fleet.typist import Typist
from tests.supervisors import kill_all
from tests.together import by_code, codes, together
from tests.waiting import eventually

MOST_ROUND_TRIPS = 12
BEFORE_THE_FIRST_REQUEST = 6
"""Round trips of TCP and SSH, as docs/design.md counts them."""


def test_a_sweep_runs_every_cell_once_and_is_one_row(armada: Armada) -> None:
    told = armada.json("sweep", "--host", "local", marking(armada), "--grid", "env.X=a,b", "--grid", "env.Y=1,2")
    check(told, "sweep launch")
    sweep = told["sweep"]
    assert told["taken"] == {"local": 4}
    found = await_ends(armada, sweep)
    assert [(cell["cell"], cell["label"], cell["state"]) for cell in found] == [
        (1, "X=a Y=1", "succeeded"),
        (2, "X=a Y=2", "succeeded"),
        (3, "X=b Y=1", "succeeded"),
        (4, "X=b Y=2", "succeeded"),
    ]
    assert Counter(starts(armada)) == {"a": 2, "b": 2}
    check(armada.json("sweep", "show", sweep, "--cached"), "sweep show")
    row = next(line for line in armada.run("ps").stdout.splitlines() if line.startswith(sweep))
    assert row.split("  ")[0] == f"{sweep} (4 cells)"
    assert "4 succeeded" in row
    unfolded = armada.run("ps", "--unfold").stdout
    assert all(cell["run_id"] in unfolded for cell in found)
    runs = armada.json("ps")
    check(runs, "ps")
    assert {(run["sweep"], run["cell"]) for run in runs} == {(sweep, number) for number in (1, 2, 3, 4)}


def test_two_hundred_cells_are_one_hand_over(armada: Armada, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request that the command waits for is a round trip, and those of the connection come before."""
    asked: list[str] = []
    call, call_all = Agent.call, Agent.call_all

    def counted(self: Agent, method: str, *words: Any, **more: Any) -> Any:
        asked.append(method)
        return call(self, method, *words, **more)

    def counted_all(self: Agent, calls: Any) -> Any:
        asked.extend(["+".join(sorted({each.method for each in calls}))] if calls else [])
        return call_all(self, calls)

    monkeypatch.setattr(Agent, "call", counted)
    monkeypatch.setattr(Agent, "call_all", counted_all)
    for name, value in armada.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(armada.folder)
    experiment = armada.command("true", name="many")
    values = ",".join(map(str, range(200)))
    assert (
        main.run(["sweep", experiment, "--host", "local", "--grid", f"env.X={values}", "--yes", "--parallel", "1"]) == 0
    )
    assert asked == ["host.facts", "sweep.start"]
    assert BEFORE_THE_FIRST_REQUEST + len(asked) <= MOST_ROUND_TRIPS
    (sweep,) = {run["sweep"] for run in armada.json("ps", "--cached")}
    stopped = armada.json("sweep", "stop", sweep)
    check(stopped, "sweep stop")
    assert len(stopped["cells"]) == 200
    assert {cell["state"] for cell in stopped["cells"]} <= {"cancelled", "succeeded"}
    (again,) = (line for line in armada.run("sweep", "stop", sweep).stdout.splitlines() if line.startswith(sweep))
    assert "200" not in again.split("·")[0] or "cancelled" in again


def test_cells_of_a_sweep_with_a_limit_wait(armada: Armada) -> None:
    wait = f"until [ -e {armada.folder}/go ]; do sleep 0.05; done"
    sweep = armada.json("sweep", marking(armada, wait), "--host", "local", "--grid", "env.X=1,2,3", "--parallel", "1")[
        "sweep"
    ]
    eventually(lambda: starts(armada) == ["1"])
    assert [cell["state"] for cell in cells(armada, sweep)][1:] == ["submitted", "submitted"]
    shown = armada.run("show", f"{sweep}-002").stdout
    assert f"  sweep      {sweep}, cell 2 (X=2); it waits for its turn" in shown
    (armada.folder / "go").touch()
    await_ends(armada, sweep)
    assert starts(armada) == ["1", "2", "3"]


@pytest.mark.fault("Ctrl-C and kill -9 of `armada sweep`", "the same command again; each cell starts once")
@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_a_sweep_ended_at_any_point_and_repeated_starts_each_cell_once(armada: Armada, what: signal.Signals) -> None:
    chance = dice(7)
    for number in range(4):
        grid = f"env.X={number}a,{number}b"
        words = ["sweep", marking(armada, name=f"cut-{number}"), "--host", "local", "--grid", grid]
        step = moments.of_a_launch(armada)[number]
        launch = armada.start(*words)
        moments.end_after(launch, step, functools.partial(launch.send_signal, what), chance)
        _, err = launch.communicate()
        assert launch.returncode in (0, 130, -signal.SIGINT, -signal.SIGKILL), err
        if launch.returncode != 0:
            armada.json(*words)
        # Where the first command was ended after all was done, the second one is another sweep.
        own = {run["sweep"] for run in armada.json("ps", "--cached") if run["name"].startswith(f"cut-{number} ")}
        for sweep in own:
            await_ends(armada, sweep)
        told = [each for each in starts(armada) if each.startswith(str(number))]
        assert Counter(told) == {f"{number}a": len(own), f"{number}b": len(own)}


def test_the_same_sweep_twice_at_once_starts_each_cell_once(armada: Armada) -> None:
    words = ["sweep", marking(armada), "--host", "local", "--grid", "env.X=1,2,3"]
    both = together(armada, words, words)
    assert codes(both) == [0, 8]
    assert "was just launched by another armada; nothing was started twice" in by_code(both, 8).stderr
    eventually(lambda: len(starts(armada)) >= 3)
    (sweep,) = {run["sweep"] for run in armada.json("ps", "--cached")}
    await_ends(armada, sweep)
    assert sorted(starts(armada)) == ["1", "2", "3"]


def test_more_cells_are_added_and_those_that_are_there_are_not_repeated(armada: Armada) -> None:
    sweep = armada.json("sweep", marking(armada), "--host", "local", "--grid", "env.X=1,2")["sweep"]
    told = armada.json("sweep", "extend", sweep, "--grid", "env.X=2,3,4")
    check(told, "sweep extend")
    assert told == {"format": 1, "sweep": sweep, "taken": {"local": 2}}
    found = await_ends(armada, sweep)
    assert [(cell["cell"], cell["label"]) for cell in found] == [(1, "X=1"), (2, "X=2"), (3, "X=3"), (4, "X=4")]
    assert sorted(starts(armada)) == ["1", "2", "3", "4"]
    nothing = armada.run("sweep", "extend", sweep, "--grid", "env.X=1")
    assert nothing.returncode == 2
    assert "all of these cells are in the sweep already\n  → give other values" in nothing.stderr


def test_the_best_cell_is_the_one_with_the_best_value_at_any_step(armada: Armada) -> None:
    script = """
import json, os
x = float(os.environ["X"])
with open(os.environ["ARMADA_RUN_DIR"] + "/metrics.jsonl", "a") as out:
    for step in range(3):
        line = {"kind": "eval", "step": step, "time": 1.0, "eval_loss": abs(x - 2) + abs(step - 1), "eval_accuracy": x}
        print(json.dumps(line), file=out)
"""
    experiment = armada.command("python3", "-c", script, name="metrics")
    sweep = armada.json(
        "sweep", experiment, "--host", "local", "--grid", "env.X=1,2,5", "--set", "sweep.metric=eval_loss"
    )["sweep"]
    await_ends(armada, sweep)
    told = armada.json("sweep", "best", sweep)
    check(told, "sweep best")
    assert [(cell["label"], cell["value"], cell["value_step"]) for cell in told["cells"]] == [
        ("X=2", 0.0, 1),
        ("X=1", 1.0, 1),
        ("X=5", 3.0, 1),
    ]
    largest = armada.json("sweep", "best", sweep, "--goal", "max", "--cached")
    assert [cell["label"] for cell in largest["cells"]] == ["X=5", "X=1", "X=2"]
    named = armada.json("sweep", "best", sweep, "--metric", "eval_accuracy", "--cached")
    assert [cell["label"] for cell in named["cells"]] == ["X=5", "X=2", "X=1"]
    printed = armada.run("sweep", "best", sweep, "--metric", "eval_accuracy", "--cached").stdout
    assert "(the highest eval_accuracy is best)" in printed
    never = armada.run("sweep", "best", sweep, "--metric", "eval_acc", "--cached")
    assert never.returncode == 7
    assert f"no cell of {sweep} has recorded eval_acc yet; metrics there are: eval_accuracy, eval_loss" in never.stderr


def test_a_sweep_stops_when_a_cell_reaches_the_target(armada: Armada) -> None:
    script = 'echo \'{"kind": "train", "step": 1, "time": 1.0, "loss": 0.2}\' >> "$ARMADA_RUN_DIR/metrics.jsonl"; exec sleep 600'
    experiment = armada.command("sh", "-c", script, name="target", sweep={"metric": "loss", "stop": {"target": 0.3}})
    sweep = armada.json("sweep", experiment, "--host", "local", "--grid", "env.X=1,2,3", "--parallel", "1")["sweep"]
    found = await_ends(armada, sweep)
    assert {(cell["state"], cell["reason"]) for cell in found} == {("cancelled", "sweep_stopped")}
    why = {cell["cell"]: armada.json("show", cell["run_id"])["message"] for cell in found}
    ended = f"its sweep ended: {sweep}-001 reached loss 0.2, and the target is 0.3"
    assert why == {1: ended, 2: f"cancelled before it started; {ended}", 3: f"cancelled before it started; {ended}"}
    said = armada.run("sweep", "show", sweep, "--cached").stdout
    assert f"stopped: {sweep}-001 reached loss 0.2, and the target is 0.3" in said
    more = armada.run("sweep", "extend", sweep, "--grid", "env.X=4")
    assert more.returncode == 8
    assert f"would be stopped at once: {sweep}-001 reached loss 0.2" in more.stderr
    assert len(armada.json("ps", "--all", "--cached")) == 3


def test_a_cell_that_does_badly_at_a_step_is_pruned_after_it_saved_and_goes_on_when_resumed(armada: Armada) -> None:
    told = '{\\"kind\\": \\"train\\", \\"step\\": 100, \\"time\\": 1.0, \\"loss\\": $X}'
    begin = f'echo "{told}" >> "$ARMADA_RUN_DIR/metrics.jsonl"; echo $X >> {armada.folder}/starts'
    script = f"trap 'echo saved > {armada.folder}/kept; exit 0' TERM; {begin}; while :; do sleep 0.05; done"
    sweep_settings = {"metric": "loss", "prune": {"at": [100], "reduction": 2}}
    experiment = armada.command("sh", "-c", script, name="asha", sweep=sweep_settings, stop_grace_s=30)
    sweep = armada.json("sweep", experiment, "--host", "local", "--grid", "env.X=2,1")["sweep"]
    eventually(lambda: len(starts(armada)) == 2)

    def reasons() -> list[str | None]:
        return [cell["reason"] for cell in armada.json("sweep", "show", sweep)["cells"]]

    eventually(lambda: reasons()[0] == "pruned")
    bad = f"{sweep}-001"
    assert armada.json("show", bad)["message"] == "pruned at step 100: loss 2, the best of 2 cells has 1"
    assert (armada.folder / "kept").read_text() == "saved\n"
    assert armada.run("sweep", "extend", sweep, "--grid", "env.X=3", "--parallel", "3").returncode == 0
    eventually(lambda: len(starts(armada)) == 3)
    eventually(lambda: reasons() == ["pruned", None, "pruned"])
    assert "1 running · 2 pruned" in armada.run("sweep", "show", sweep).stdout
    assert armada.run("resume", bad).returncode == 0
    eventually(lambda: len(starts(armada)) == 4)
    eventually(lambda: reasons() == [None, None, "pruned"])
    assert armada.run("sweep", "stop", sweep, "--grace", "5").returncode == 0
    assert reasons() == ["killed_by_user", "killed_by_user", "pruned"]


def test_a_sweep_that_has_cost_its_limit_gets_no_more_cells_and_a_limit_needs_a_price(armada: Armada) -> None:
    experiment = armada.command("sleep", "0.01", sweep={"stop": {"cost": "0.000001 EUR"}})
    grid = ("sweep", experiment, "--host", "local", "--grid", "env.X=1")
    refused = armada.run(*grid)
    assert refused.returncode == 3
    assert "`sweep.stop.cost` cannot be kept: no price of local is known" in refused.stderr
    assert armada.json("ps", "--all", "--cached") == []
    assert armada.run("hosts", "set", "local", "--price", "3600 EUR").returncode == 0
    sweep = armada.json(*grid)["sweep"]
    await_ends(armada, sweep)
    more = armada.run("sweep", "extend", sweep, "--grid", "env.X=2")
    assert more.returncode == 8
    assert f"cells that are added to {sweep} would be stopped at once: it has cost" in more.stderr


def test_a_large_sweep_counts_the_gpus_of_a_cell(armada: Armada) -> None:
    hosts_file = armada.folder / "home" / "config" / "hosts.yaml"
    hosts_file.parent.mkdir(parents=True)
    hosts_file.write_text("hosts: {box: {ssh: 'nobody@127.0.0.1:1', price: 2 EUR}}\n")
    assert armada.run("hosts", "ls").returncode == 0  # makes the store
    with Database(armada.folder / "home" / "state" / "armada.db") as database:
        gpus = [{"index": number, "name": "A100"} for number in range(8)]
        host_records.record_facts(database, "box", {"gpus": gpus, "cpu_count": 64})
    grid = ["--host", "box", "--grid", f"env.X={','.join(map(str, range(128)))}"]
    experiment = armada.command("true", resources={"time_limit": "1h"})
    for words, said in (
        ([], "64 run at once, it takes 2 h and costs 4.00 EUR"),
        (["--gpus", "4"], "2 run at once, it takes 64 h and costs 128.00 EUR"),
        (["--gpus", "all"], "1 run at once, it takes 128 h and costs 256.00 EUR"),
    ):
        assert said in armada.run("sweep", experiment, *grid, *words).stderr


def test_a_large_sweep_asks_with_hours_and_money(armada: Armada) -> None:
    config = armada.folder / "home" / "config"
    config.mkdir(parents=True)
    (config / "hosts.yaml").write_text(
        json.dumps({"hosts": {"box": {"ssh": "nobody@127.0.0.1:1", "price_per_hour": 12.0}}})
    )
    experiment = armada.command("true", resources={"time_limit": "2h"})
    axis = ",".join(map(str, range(100)))
    million = [word for name in "ABC" for word in ("--grid", f"env.{name}={axis}")]
    done = armada.run("sweep", experiment, "--host", "box", *million, "--yes")
    assert done.returncode == 2
    assert (
        "test has 1,000,000 cells. With its time limit of 2 h a cell and 1 run at once, it takes 2,000,000 h and costs "
        "$24,000,000. A sweep has at most 10,000 cells"
    ) in done.stderr
    two = ["--grid", f"env.A={axis}", "--grid", "env.B=1,2"]
    nobody = armada.run("sweep", experiment, "--host", "box", *two)
    assert nobody.returncode == 2
    assert (
        "it takes 400 h and costs $4,800. Launch it? Nobody is there to be asked, so nothing was launched"
        in nobody.stderr
    )
    with Typist(armada, "sweep", experiment, "--host", "box", *two) as person:
        person.waits_for("Launch it? [y/N]")
        person.types("n")
        person.waits_for("nothing was launched")
        assert person.status() == 8
    assert armada.json("ps", "--all") == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["exp.yaml", "--host", "local"], 2, "there is nothing to sweep over"),
        (["exp.yaml", "--grid", "env.X=1"], 2, "the following arguments are required: --host"),
        (
            ["exp.yaml", "--host", "local", "--grid", "train.seed=1"],
            2,
            "--grid train.seed=1: `train` belongs to `task: sft`",
        ),
        (["exp.yaml", "--host", "local", "--grid", "stop_grace=1"], 2, "unknown key `stop_grace`"),
        (["exp.yaml", "--host", "nowhere", "--grid", "env.X=1"], 7, "no host is called 'nowhere'"),
        (["exp.yaml", "--host", "local", "--host", "local", "--grid", "env.X=1"], 2, "a host is named twice"),
        (["exp.yaml", "other.yaml", "--host", "local"], 2, "unrecognized arguments: other.yaml"),
        (["shwo", "x"], 2, "there is no command armada sweep 'shwo'"),
        (["missing.yaml", "--host", "local"], 2, "missing.yaml: cannot read it"),
        (["show"], 2, "the following arguments are required: NAME"),
        (["show", "none"], 7, "no sweep's name begins with 'none'"),
        (["show", "none", "--grid", "a=1"], 2, "unrecognized arguments: --grid a=1"),
        (["best", "none"], 7, "no sweep's name begins with 'none'"),
        (["extend", "none", "--grid", "a=1"], 7, "no sweep's name begins with 'none'"),
        (["exp.yaml", "--host", "local", "--random", "0"], 2, "'0' is not a whole number from 1"),
        (
            ["exp.yaml", "--host", "local", "--grid", "env.X=1", "--metric", "loss"],
            2,
            "unrecognized arguments: --metric loss",
        ),
    ],
)
def test_bad_input_gets_a_sentence_and_starts_nothing(armada: Armada, words: list[str], code: int, said: str) -> None:
    armada.command("true")
    done = armada.run("sweep", *words)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr
    assert not armada.local_runs.exists()


def test_an_experiment_with_a_sweep_is_not_launched_as_one_run(armada: Armada) -> None:
    experiment = armada.command("true", sweep={"grid": {"env.X": [1, 2]}})
    done = armada.run("launch", "--host", "local", experiment)
    assert done.returncode == 2
    assert "test has a `sweep`, so it is more than one run" in done.stderr
    assert f"armada sweep {experiment}" in done.stderr


def test_a_dry_run_shows_cells_and_starts_nothing(armada: Armada) -> None:
    experiment = armada.command("true", sweep={"cells": [{"env.X": "1"}, {"env.X": "2", "stop_grace_s": 3}]})
    told = armada.json("sweep", experiment, "--host", "local", "--dry-run")
    check(told, "sweep launch --dry-run")
    assert [(cell["cell"], cell["label"], cell["host"]) for cell in told["cells"]] == [
        (1, "X=1", "local"),
        (2, "X=2 stop_grace_s=3", "local"),
    ]
    assert not armada.local_runs.exists()
    assert armada.json("ps", "--all") == []


def test_a_host_that_does_not_answer_leaves_its_cells_to_the_others(armada: Armada) -> None:
    config = armada.folder / "home" / "config"
    config.mkdir(parents=True)
    (config / "hosts.yaml").write_text(json.dumps({"hosts": {"box": {"ssh": "nobody@127.0.0.1:1"}}}))
    experiment = marking(armada)
    done = armada.run("sweep", experiment, "--host", "box", "--host", "local", "--grid", "env.X=1,2,3")
    assert done.returncode == 0, done.stderr
    assert "box takes no part: " in done.stdout
    (sweep,) = {run["sweep"] for run in armada.json("ps", "--cached")}
    assert {cell["host"] for cell in await_ends(armada, sweep)} == {"local"}
    assert sorted(starts(armada)) == ["1", "2", "3"]
    alone = armada.run("sweep", experiment, "--host", "box", "--grid", "env.X=1")
    assert alone.returncode == 4


def test_a_cell_that_was_resumed_alone_stays_in_its_sweep(armada: Armada) -> None:
    script = f"[ -e {armada.folder}/go ]"
    sweep = armada.json("sweep", marking(armada, script), "--host", "local", "--grid", "env.X=1")["sweep"]
    (cell,) = await_ends(armada, sweep)
    assert cell["state"] == "failed"
    (armada.folder / "go").touch()
    assert armada.run("resume", cell["run_id"], "--follow").returncode == 0
    (cell,) = cells(armada, sweep)
    assert cell["state"] == "succeeded"


def test_tending_starts_what_a_killed_dispatcher_left(armada: Armada) -> None:
    wait = f"until [ -e {armada.folder}/go ]; do sleep 0.05; done"
    sweep = armada.json("sweep", marking(armada, wait), "--host", "local", "--grid", "env.X=1,2", "--parallel", "1")[
        "sweep"
    ]
    eventually(lambda: starts(armada) == ["1"])
    pids = _dispatchers(armada)
    assert pids
    kill_all(pids)
    eventually(lambda: not _dispatchers(armada))
    (armada.folder / "go").touch()
    await_ends(armada, sweep)  # `sweep show` looks after it
    assert starts(armada) == ["1", "2"]


def _dispatchers(armada: Armada) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if b"dispatch" in words and any(str(armada.folder).encode() in word for word in words):
            found.append(int(entry.name))
    return found


def test_secrets_reach_cells_and_are_needed_before_anything_starts(
    armada: Armada, monkeypatch: pytest.MonkeyPatch
) -> None:
    del monkeypatch
    experiment = armada.command(
        "sh", "-c", f'echo "$TOKEN" >> {armada.folder}/starts', name="secret", secrets=["TOKEN"]
    )
    words = ["sweep", experiment, "--host", "local", "--grid", "env.X=1,2"]
    missing = armada.run(*words)
    assert missing.returncode == 3
    assert "cell 1 (X=1): " in missing.stderr
    assert armada.json("ps", "--all") == []
    armada.env["TOKEN"] = "s3cret"
    sweep = armada.json(*words)["sweep"]
    await_ends(armada, sweep)
    assert starts(armada) == ["s3cret", "s3cret"]
