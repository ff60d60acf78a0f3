"""`armada compare`: several runs in one table, whatever their names, values and number."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from armada.store import runs
from armada.verdicts.states import Verdict
from tests.conftest import Armada
from tests.published_run import opened, record, record_losses, sft_plan


def add(armada: Armada, run_id: str, losses: list[float], **train: Any) -> None:
    """Record a run with a loss for each step, that took an hour."""
    plan = copy.deepcopy(sft_plan(run_id))
    plan["experiment"]["train"] = {"learning_rate": 2e-4, **train}
    plan["gpus"] = 2
    with opened(armada.folder / "home") as (_, database):
        record(database, run_id, plan)
        lines: list[dict[str, object]] = [
            {"kind": "train", "step": step, "loss": loss, "num_tokens": step * 1000}
            for step, loss in enumerate(losses, 1)
        ]
        record_losses(database, run_id, lines)
        ended = Verdict("succeeded", None, None, 1, 100)
        facts: dict[str, Any] = {
            "started_at": 1_000_000.0,
            "ended_at": 1_003_600.0,
            "step": len(losses),
            "total_steps": len(losses),
        }
        runs.record(database, run_id, ended, **facts)


@pytest.fixture
def home(armada: Armada) -> Armada:
    add(armada, "one-aaaaaa", [0.5, 0.25, 0.75])
    add(armada, "two-bbbbbb", [0.5, math.nan], learning_rate=1e-3)
    return armada


def test_runs_are_compared_by_metrics_time_and_differing_settings(home: Armada) -> None:
    answer = home.run("compare", "one", "two")
    assert answer.returncode == 0, answer.stderr
    assert "0.25 at 2" in answer.stdout
    assert "NaN" in answer.stdout
    assert "train.learning_rate" in answer.stdout
    assert "0.001" in answer.stdout
    assert "1 h 00 m" in answer.stdout
    assert "lora" not in answer.stdout
    assert "format" not in answer.stdout


def test_json_has_numbers_and_no_nan(home: Armada) -> None:
    found = home.json("compare", "one", "two")
    one, two = found["runs"]
    assert one["metrics"]["loss"] == {
        "goal": "min",
        "last": {"step": 3, "value": 0.75, "not_finite": None},
        "best": {"step": 2, "value": 0.25, "not_finite": None},
    }
    assert two["metrics"]["loss"]["last"] == {"step": 2, "value": None, "not_finite": "NaN"}
    assert (one["tokens"], one["seconds"], one["cost"], one["gpus"]) == (3000, 3600.0, None, "2")
    assert found["settings"] == [{"key": "train.learning_rate", "values": [2e-4, 1e-3]}]
    assert found["metrics"] == ["loss"]


def test_the_last_value_is_the_one_that_was_written_last_as_in_ps(armada: Armada) -> None:
    with opened(armada.folder / "home") as (_, database):
        for run_id in ("one-aaaaaa", "two-bbbbbb"):
            record(database, run_id, sft_plan(run_id))
            lines: list[dict[str, object]] = [
                {"kind": "train", "step": step, "loss": loss, "time": float(place)}
                for place, (step, loss) in enumerate([(1, 0.5), (3, 0.25), (2, 0.75)])
            ]
            evaluated: list[dict[str, object]] = [{**line, "kind": "eval", "eval_loss": line["loss"]} for line in lines]
            record_losses(database, run_id, [*lines, *evaluated])
    metrics = armada.json("compare", "one", "two", "--metrics", "loss,eval_loss")["runs"][0]["metrics"]
    for name in ("loss", "eval_loss"):
        assert metrics[name]["last"] == {"step": 2, "value": 0.75, "not_finite": None}
        assert metrics[name]["best"] == {"step": 3, "value": 0.25, "not_finite": None}
    listed = armada.json("ps", "--cached", "--all", "--columns", "id,loss,eval_loss,last(loss)")
    shown = str(listed)
    assert "0.25" not in shown
    assert "0.75" in shown


def test_values_of_secret_names_are_masked_wherever_settings_are_shown(armada: Armada) -> None:
    for run_id, number in (("one-aaaaaa", "1"), ("two-bbbbbb", "2")):
        plan = copy.deepcopy(sft_plan(run_id))
        plan["experiment"]["env"] = {"HF_TOKEN": f"clear{number}", "LOGIN": "hf_" + number * 20, "SEED": number}
        with opened(armada.folder / "home") as (_, database):
            record(database, run_id, plan)
    for command in (("compare", "one", "two"), ("compare", "one", "two", "--all"), ("diff", "one", "two")):
        for words in (command, (*command, "--json")):
            shown = armada.run(*words).stdout
            assert "env.HF_TOKEN" in shown
            assert "env.LOGIN" in shown
            assert "***" in shown
            assert "clear" not in shown
            assert "hf_1" not in shown
    assert {"key": "env.SEED", "values": ["1", "2"]} in armada.json("compare", "one", "two")["settings"]


def test_the_price_of_the_host_gives_the_cost(home: Armada) -> None:
    (home.folder / "home" / "config" / "hosts.yaml").write_text(
        "hosts:\n  gpu-1: {ssh: 'me@gpu-1', price_per_hour: 3.5}\n"
    )
    assert [run["cost"] for run in home.json("compare", "one", "two")["runs"]] == [3.5, 3.5]
    assert "$3.50" in home.run("compare", "one", "two").stdout


def test_all_lists_equal_settings_too(home: Armada) -> None:
    keys = {each["key"] for each in home.json("compare", "one", "two", "--all")["settings"]}
    assert {"model", "train.learning_rate", "data.train[0].path"} <= keys


def test_chosen_metrics_are_shown_and_unknown_ones_are_named(home: Armada) -> None:
    assert home.json("compare", "one", "two", "--metrics", "num_tokens")["metrics"] == ["num_tokens"]
    answer = home.run("compare", "one", "two", "--metrics", "los")
    assert answer.returncode == 7
    assert "did you mean loss?" in answer.stderr
    assert home.run("compare", "one", "two", "--metrics", "loss,").returncode == 2


def test_one_run_is_not_a_comparison(home: Armada) -> None:
    answer = home.run("compare", "one")
    assert answer.returncode == 2
    assert "armada show RUN" in answer.stderr
    assert home.run("compare", "one", "one").returncode == 2
    assert home.run("compare", "one", "nothing").returncode == 7


def test_a_filter_chooses_what_is_compared(home: Armada) -> None:
    found = home.json("compare", "--where", "host:gpu-1")
    assert sorted(run["run_id"] for run in found["runs"]) == ["one-aaaaaa", "two-bbbbbb"]
    alone = home.run("compare", "--where", "id:one")
    assert (alone.returncode, "matches one-aaaaaa alone" in alone.stderr) == (2, True), alone.stderr
    assert home.run("compare", "--where", "host:nowhere").returncode == 7
    assert home.run("compare", "--where", "los<(").returncode == 2
    assert home.run("compare", "one", "two", "--where", "id:one").returncode == 2
    assert home.run("compare").returncode == 2


def test_twenty_runs_fit_80_columns(armada: Armada) -> None:
    names = [f"a-rather-long-name-of-a-training-{place:02}-aaaaaa" for place in range(20)]
    for place, name in enumerate(names):
        add(armada, name, [0.5], learning_rate=place * 1e-5, seed=place, warmup_ratio=place / 7, output="x" * place * 9)
    narrow = Armada(armada.folder, {**armada.env, "COLUMNS": "80"})
    answer = narrow.run("compare", *names)
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("name-of-a" in line or "aaaaaa" in line for line in lines) >= 20
    assert "warmup_ratio" in answer.stdout


def test_hostile_names_of_metrics_and_settings_are_sanitized(armada: Armada) -> None:
    for name, text in (("one", "\x1b]52;c;aGk=\x07"), ("two", "b")):
        plan = {"experiment": {"x\x1b[2J": text}, "name": text, "gpus": "many", "training": [], "environment": 7}
        with opened(armada.folder / "home") as (_, database):
            record(database, name, plan)
            metric = {"kind": "train", "step": 1, "loss\x1b[31m\u202e": 1.0}
            record_losses(database, name, [metric])
    answer = armada.run("compare", "one", "two")
    assert answer.returncode == 0, answer.stderr
    assert not {"\x1b", "\x07", "\u202e"} & set(answer.stdout)
