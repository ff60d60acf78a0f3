"""`armada.api` from Python, with this machine as the host."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from armada.api import (
    Armada,
    ArmadaError,
    ConfigError,
    Conflict,
    Metrics,
    NotFound,
    Point,
    PreflightRefused,
    Run,
    RunFailed,
    UsageError,
)
from armada.store import metrics, operations, runs
from armada.store.database import Database
from tests.conftest import Armada as Commands


@pytest.fixture
def fleet(armada: Commands, monkeypatch: pytest.MonkeyPatch) -> Armada:
    monkeypatch.setenv("ARMADA_NO_DAEMON", "1")
    monkeypatch.chdir(armada.folder)
    return Armada(armada.folder / "home", project=armada.folder)


def store(armada: Commands) -> Database:
    return Database(armada.folder / "home" / "state" / "armada.db")


def curve(armada: Commands, run_id: str, name: str, values: list[float]) -> None:
    """Record points of a metric, as a look at a host does."""
    rows: list[dict[str, object]] = [
        {"time": 1e9 + step, "step": step, "kind": "train", name: value} for step, value in enumerate(values, 1)
    ]
    with store(armada) as database:
        assert metrics.record_metrics(database, run_id, rows, offset=0, next_offset=1)


def test_a_run_from_the_plan_to_the_release(armada: Commands, fleet: Armada) -> None:
    experiment = armada.command("sh", "-c", "echo hello; echo '\x1b]0;owned\x07'")
    assert fleet.hosts() == ["local"]
    (plan,) = fleet.plan(experiment)
    assert (plan.host, plan.outcome, plan.problems) == ("local", "possible", ())
    assert fleet.runs() == []
    started = fleet.launch(experiment, host="local", name="from-python", changes=["tags=[api]"])
    seen: list[str] = []
    ended = fleet.wait(started, check=True, changed=lambda run: seen.append(run.state))
    assert (ended.state, ended.ended, ended.exit_code, ended.tags) == ("succeeded", True, 0, ("api",))
    assert seen[-1] == "succeeded"
    assert fleet.run(started.run_id[:-2]) == fleet.run(started, refresh=False) == fleet.runs(tag="api")[0]
    assert fleet.runs(state="failed") == fleet.runs(host="elsewhere") == fleet.runs(group="none") == []
    assert "hello" in fleet.log(started)
    assert "\x1b" not in fleet.log(started)
    (synced,) = fleet.sync(started)
    assert (synced.run_id, synced.problems, synced.kept) == (started.run_id, (), ())
    (armada.local_runs / started.run_id / "output.log").write_text("another\n")
    assert fleet.sync(started)[0].kept == ("output.log",)
    assert fleet.release("local").safe
    assert fleet.release("local").local
    assert fleet.checkpoints(started) == []
    with store(armada) as database:
        recorded = [(each.kind, each.by, each.state) for each in operations.recent(database)]
    assert recorded == [("launch", "api", "done")]
    (told,) = fleet.history()
    assert (told.kind, told.run_id, told.by, told.state) == ("launch", started.run_id, "api", "done")
    assert told.command[:4] == ("armada", "launch", "--host", "local")
    assert fleet.history(limit=0) == fleet.history(limit=-1) == []


def test_a_run_is_stopped_and_a_wait_gives_up(armada: Commands, fleet: Armada) -> None:
    started = fleet.launch(armada.command("sleep", "600"), host="local")
    assert not fleet.wait(started, timeout_s=0.0).ended
    stopped = fleet.stop(started, grace_s=0)
    assert stopped.state == "cancelled"
    with pytest.raises(RunFailed, match="cancelled"):
        fleet.wait(stopped, check=True)
    assert fleet.wait(stopped).state == "cancelled"
    with store(armada) as database:
        (newest, *_) = operations.recent(database)
    assert (newest.kind, newest.by, newest.run_id, newest.argv) == (
        "stop", "api", started.run_id, ("armada", "stop", started.run_id),
    )  # fmt: skip


def insert(armada: Commands, fleet: Armada, run_id: str, loss: list[float], **spec: object) -> None:
    fleet.runs()  # makes the store
    with store(armada) as database:
        whole = {"run_id": run_id, **spec}
        runs.insert(database, run_id=run_id, name="test", host="local", task="command", experiment=None, spec=whole)
    curve(armada, run_id, "loss", loss)


def test_metrics_are_rows_and_a_frame(armada: Commands, fleet: Armada) -> None:
    insert(armada, fleet, "one-aaaaaa", [2.0, float("nan"), 1.0])
    insert(armada, fleet, "two-bbbbbb", [3.0])
    found = fleet.metrics("one", "two", names=["loss"])
    assert found[0] == Point("one-aaaaaa", 1, 1e9 + 1, "loss", 2.0)
    assert math.isnan(found[1].value)
    assert [each.run for each in found[2:]] == ["one-aaaaaa", "two-bbbbbb"]
    assert isinstance(found[1:], Metrics)
    pytest.importorskip("pandas", reason="pandas is an extra")
    frame = found.to_pandas()
    assert list(frame.columns) == ["run", "step", "time", "metric", "value"]
    assert str(frame["time"][0]) == "2001-09-09 01:46:41+00:00"
    assert frame.pivot_table(index="step", columns="run", values="value")["one-aaaaaa"][3] == 1.0
    assert list(Metrics([]).to_pandas().columns) == list(frame.columns)
    absurd = Metrics([Point("x", 1, moment, "loss", math.inf) for moment in (-1e300, math.inf, 1e300)])
    assert len(absurd.to_pandas()) == 3


def test_without_pandas_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="no pandas") as caught:
        Metrics([]).to_pandas()
    assert "armada-gpu[pandas]" in str(caught.value.hint)


def test_runs_are_compared(armada: Commands, fleet: Armada) -> None:
    insert(armada, fleet, "one-aaaaaa", [2.0, 1.0, 1.5], train={"learning_rate": 1e-4})
    insert(armada, fleet, "two-bbbbbb", [3.0, float("nan")], train={"learning_rate": 1e-5})
    found = fleet.compare("one", "two", names=["loss"])
    assert [each.run.run_id for each in found.runs] == ["one-aaaaaa", "two-bbbbbb"]
    assert (found.runs[0].last, found.runs[0].best) == ({"loss": 1.5}, {"loss": 1.0})
    assert math.isnan(found.runs[1].last["loss"])
    with pytest.raises(NotFound, match="los"):
        fleet.compare("one", "two", names=["los"])


def test_compared_settings_have_neither_secrets_nor_control_characters(armada: Commands, fleet: Armada) -> None:
    for run_id, token in (
        ("one-aaaaaa", "hf_abcdefghijklmnopqrstuvwxyz"),
        ("two-bbbbbb", "hf_zyxwvutsrqponmlkjihgfedcba"),
    ):
        insert(armada, fleet, run_id, [1.0], env={"HF_TOKEN": token, "NOTE": f"{run_id}\n\x1b]52;c;aGk=\x07"})
    found = {each.key: each.values for each in fleet.compare("one", "two", names=["loss"]).settings}
    assert found["env.HF_TOKEN"] == ("***", "***")
    assert found["env.NOTE"] == ("one-aaaaaa\n�]52;c;aGk=�", "two-bbbbbb\n�]52;c;aGk=�")


def test_what_is_wrong_is_said(armada: Commands, fleet: Armada) -> None:
    experiment = armada.command("true")
    with pytest.raises(NotFound, match="no host is called 'moon'"):
        fleet.launch(experiment, host="moon")
    with pytest.raises(NotFound):
        fleet.plan(experiment, hosts=["moon"])
    with pytest.raises(UsageError, match="must be a list"):
        fleet.plan(experiment, hosts="local")
    with pytest.raises(UsageError, match="must be a list"):
        fleet.launch(experiment, host="local", changes="name=x")
    with pytest.raises(UsageError, match="not a text"):
        fleet.launch(experiment, host="local", changes=[1])  # type: ignore[list-item]  # a notebook has no mypy
    with pytest.raises(ConfigError, match="gpuz"):
        fleet.launch(experiment, host="local", changes=["resources.gpuz=1"])
    with pytest.raises(ConfigError):
        fleet.plan("missing.yaml")
    with pytest.raises(UsageError, match="folder"):
        fleet.plan(".")
    with pytest.raises(NotFound):
        fleet.run("nothing")
    with pytest.raises(UsageError, match="empty"):
        fleet.stop("")
    with pytest.raises(PreflightRefused):
        fleet.launch(experiment, host="local", changes=["resources.gpus=64"])
    for call in (fleet.metrics, fleet.sync, fleet.compare):
        with pytest.raises(UsageError):
            call()
    for wrong in (0, -1, 10**9):
        with pytest.raises(UsageError):
            fleet.log("x", lines=wrong)
    for limit in (10**30, True, "1"):
        with pytest.raises(UsageError, match="limit="):
            fleet.history(limit=limit)  # type: ignore[arg-type]  # the same
    with pytest.raises(UsageError, match="lines=True"):
        fleet.log("x", lines=True)
    with pytest.raises(UsageError, match="None is neither a run"):
        fleet.run(None)  # type: ignore[arg-type]  # the same
    with pytest.raises(UsageError, match="timeout_s=nan"):
        fleet.wait("x", timeout_s=math.nan)
    for grace in (-1.0, math.nan, math.inf):
        with pytest.raises(UsageError):
            fleet.stop("x", grace_s=grace)


@pytest.mark.parametrize("home", ["/proc/x", "/etc/passwd"])
def test_a_home_that_this_machine_refuses_is_an_error_with_a_sentence(home: str) -> None:
    with pytest.raises(ArmadaError, match=home):
        Armada(home=home).runs()


def test_an_experiment_with_a_sweep_is_not_launched_as_one_run(armada: Commands, fleet: Armada) -> None:
    experiment = armada.command("true", sweep={"grid": {"env.X": [1, 2]}})
    with pytest.raises(UsageError, match="has a `sweep`") as caught:
        fleet.launch(experiment, host="local")
    assert "changes=['sweep=null']" in str(caught.value.hint)
    assert fleet.runs() == []
    assert fleet.launch(experiment, host="local", changes=["sweep=null"]).run_id


def test_an_error_of_the_callers_own_function_is_not_explained_as_homes(armada: Commands, fleet: Armada) -> None:
    run = fleet.launch(armada.command("sleep", "600"), host="local")

    def broken(_: Run) -> None:
        raise FileNotFoundError("mine")

    with pytest.raises(FileNotFoundError, match="mine"):
        fleet.wait(run, changed=broken)
    fleet.stop(run, grace_s=1)


def test_another_homes_run_is_not_stopped(armada: Commands, fleet: Armada) -> None:
    other = {"id": "0" * 32, "label": "elsewhere", "path": "/elsewhere"}
    insert(armada, fleet, "one-aaaaaa", [1.0], home=other)
    with pytest.raises(Conflict, match="elsewhere"):
        fleet.stop("one")


def test_the_example_says_what_is_wrong(armada: Commands) -> None:
    example = Path(__file__).parents[2] / "examples" / "api" / "learning_rates.py"
    command = [sys.executable, str(example), armada.command("true"), "local", "1e-5"]
    env = armada.env | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, cwd=armada.folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "train" in done.stderr
    assert "Traceback" not in done.stderr


def test_runs_are_found_by_the_filters_of_the_commands(armada: Commands, fleet: Armada) -> None:
    first = fleet.launch(armada.command("true"), host="local", name="one", changes=["tags=[arc]"])
    second = fleet.launch(armada.command("true"), host="local", name="two")
    curve(armada, first.run_id, "loss", [0.9, 0.3])
    curve(armada, second.run_id, "loss", [0.9, 0.8])
    assert [run.run_id for run in fleet.runs("loss<0.4 tag:arc")] == [first.run_id]
    assert [run.name for run in fleet.runs("host:local age<1d")] == ["two", "one"]
    assert fleet.runs("name:one", tag="other") == []
    assert len(fleet.runs(" ")) == 2
    fleet.wait(first)
    assert armada.run("archive", first.run_id).returncode == 0
    assert [run.name for run in fleet.runs("age<1d")] == ["two"]
    assert {run.name for run in fleet.runs()} == {"one", "two"}
    for wrong in ("loss<", "no_such_key:3", "loss<\x1b[31m"):
        with pytest.raises(UsageError):
            fleet.runs(wrong)
    with pytest.raises(UsageError, match="is not a text"):
        fleet.runs(["loss<0.4"])  # type: ignore[arg-type]  # what people try


def test_costs_are_those_of_the_command(armada: Commands, fleet: Armada) -> None:
    config = armada.folder / "home" / "config"
    config.mkdir(parents=True)
    (config / "hosts.yaml").write_text("hosts: {local: {local: true, price: 10 EUR}}\n")
    run = fleet.wait(fleet.launch(armada.command("true"), host="local"))
    spent = fleet.costs(hosts=["local"])
    (own,) = spent.runs
    assert (own.run_id, own.state, own.forecast, own.assumed) == (run.run_id, "succeeded", None, False)
    assert set(own.cost or {}) == {"EUR"}
    assert [each.host for each in spent.hosts] == ["local"]
    told = armada.json("costs", "--host", "local")
    assert set(told["runs"][0]["costs"]) == {"EUR"}
    assert own.cost == told["runs"][0]["costs"]
    assert fleet.costs(weeks=0).weeks == ()
    with pytest.raises(NotFound, match="no host is called 'nowhere'"):
        fleet.costs(hosts=["nowhere"])
    for wrong in (-1, True, 10**9):
        with pytest.raises(UsageError):
            fleet.costs(weeks=wrong)
