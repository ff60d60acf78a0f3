"""`ps EXPR`, `--where EXPR` and `--columns`: which runs are meant, what is asked first, and what is shown of them."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from armada.cli.main import run
from armada.paths import HomePaths
from armada.store import labels, metrics, runs
from armada.store.database import Database
from armada.store.queries import facts
from armada.tui import remembered

LOW = {"model": "Qwen/Qwen3-8B", "train": {"learning_rate": 1e-6, "seed": 1}, "data": {"train": [{"path": "a.jsonl"}]}}
BOTH = [{"path": "b.jsonl"}, {"path": "a.jsonl"}]
HIGH = {"model": {"tiny": {"layers": 2}}, "train": {"learning_rate": 1e-3}, "data": {"train": BOTH}}
SPECS: dict[str, dict[str, Any]] = {
    "low-aaaaaa": {"experiment": LOW},
    "high-bbbbbb": {"experiment": HIGH},
    "other-cccccc": {"experiment": {"command": ["sleep", "1"], "env": {'A"B': "x", "A.B": "y", "N": 3}}},
    "bare-dddddd": {},
}
STATES = {"low-aaaaaa": "succeeded", "high-bbbbbb": "failed", "other-cccccc": "running", "bare-dddddd": "cancelled"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HomePaths:
    monkeypatch.setenv("ARMADA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    found = HomePaths.from_environment()
    found.make()
    found.hosts_file.write_text("hosts:\n  desk: {ssh: me@127.0.0.1:1, price_per_hour: 2.0}\n")
    now = time.time()
    with Database(found.store) as database:
        for place, (run_id, spec) in enumerate(SPECS.items()):
            name = run_id.partition("-")[0]
            runs.insert(database, run_id=run_id, name=name, host="desk", task="sft", experiment=None, spec=spec)
            runs.set_state(database, run_id, STATES[run_id])
            times = (
                now - (90 - place) * 86_400,
                now - 7200,
                None if STATES[run_id] == "running" else now - 3600,
                run_id,
            )
            database.connection.execute(
                "UPDATE runs SET created_at = ?, started_at = ?, ended_at = ? WHERE run_id = ?", times
            )
        for run_id, losses in {"low-aaaaaa": (0.9, 0.3, 0.5), "high-bbbbbb": (2.0, float("nan"))}.items():
            lines: list[dict[str, object]] = [
                {"kind": "eval", "step": step, "time": now, "eval_loss": loss} for step, loss in enumerate(losses)
            ]
            metrics.record_metrics(database, run_id, lines, offset=0, next_offset=10)
    return found


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    capsys.readouterr()
    assert run(["ps", "--cached", *words, "--json"]) == 0, capsys.readouterr().err
    return sorted(each["name"] for each in json.loads(capsys.readouterr().out))


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["lr>1e-5"], ["high"]),
        (["learning_rate<1"], ["high", "low"]),
        (["train.seed=1"], ["low"]),
        (["model:qwen"], ["low"]),
        (["model!=x"], ["low"]),
        (["layers=2"], ["high"]),
        (["path:a.jsonl"], ["high", "low"]),
        (["data.train.path=b*"], ["high"]),
        (["env.A.B=y"], ["other"]),
        (["N>2"], ["other"]),
        (["eval_loss<1"], ["low"]),
        (["min(eval_loss)<0.4"], ["low"]),
        (["max(eval_loss)>=2"], ["high"]),
        (["cost>=2"], ["bare", "high", "low", "other"]),
        (["cost>2.5", "price=2"], ["other"]),
        (["is:trouble"], ["high"]),
        (["state:failed", "or", "state:running"], ["high", "other"]),
        (["not", "state:failed", "lr<1"], ["low"]),
        (["max_length>0"], []),
        (["eval_loss<9", "--state", "succeeded"], ["low"]),
    ],
)
def test_ps_lists_the_runs_that_match(
    home: HomePaths, capsys: pytest.CaptureFixture[str], words: list[str], names: list[str]
) -> None:
    del home
    assert listed(capsys, *words) == names


def test_a_filter_finds_runs_however_old_and_hides_archived_ones(
    home: HomePaths, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ps", "--cached", "lr<1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    with Database(home.store) as database:
        labels.archive(database, "low-aaaaaa")
    assert listed(capsys, "lr<1") == ["high"]
    assert listed(capsys, "lr<1", "--archived") == ["high", "low"]
    assert listed(capsys, "archived") == ["low"]
    assert listed(capsys) == ["bare", "high", "other"]
    assert run(["ps", "--cached", "--all"]) == 0
    assert "1 archived: armada ps --archived" in capsys.readouterr().out
    assert run(["ps", "--cached", "model:qwen"]) == 0
    assert capsys.readouterr().out == "No such runs. 1 archived: armada ps --archived\n"


def test_a_wrong_filter_points_to_the_place_also_in_json(home: HomePaths, capsys: pytest.CaptureFixture[str]) -> None:
    del home
    assert run(["ps", "--cached", "tag:a eval_los<1", "--json"]) == 2
    out, err = capsys.readouterr()
    sentence = "no run has a key called `eval_los`\n  tag:a eval_los<1\n        ^^^^^^^^"
    assert err == f"armada: {sentence}\n  → did you mean eval_loss or exit_code?\n" or err.startswith(
        f"armada: {sentence}"
    )
    assert json.loads(out)["error"]["message"] == sentence


def test_settings_are_read_from_hostile_plans(home: HomePaths) -> None:
    with Database(home.store) as database:
        hostile = {
            "experiment": {
                "a\"b'": 1,
                "c]d": 2,
                "$": 3,
                "": 4,
                "ü.ö": 5,
                "deep": [[["x"]]],
                "big": 10**30,
                "long": "x" * 9000,
            }
        }
        runs.set_spec(database, "bare-dddddd", hostile)
        database.connection.execute("UPDATE runs SET spec = '{oops' WHERE run_id = 'other-cccccc'")
        database.connection.execute("""UPDATE runs SET spec = '{"experiment": 7}' WHERE run_id = 'high-bbbbbb'""")
        paths = facts.setting_paths(database)
        assert "train.learning_rate" in paths
        found = facts.read_settings(database, paths)
        some = facts.read_settings(database, paths, {"low-aaaaaa"})
    assert set(found) == {"low-aaaaaa", "bare-dddddd"}
    assert found["bare-dddddd"]["deep"] == ("x",)
    assert some == {"low-aaaaaa": found["low-aaaaaa"]}


def test_where_labels_all_matching_runs_and_says_when_there_are_none(
    home: HomePaths, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tag", "--where", "lr<1", "--add", "swept", "--json"]) == 0
    assert sorted(each["run_id"] for each in json.loads(capsys.readouterr().out)) == ["high-bbbbbb", "low-aaaaaa"]
    assert run(["group", "--where", "tag:swept model:qwen", "big one"]) == 0
    assert run(["star", "--where", "group:big*", "--json"]) == 0
    capsys.readouterr()
    assert listed(capsys, "starred") == ["low"]
    assert run(["archive", "--where", "tag:nothing", "--json"]) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == ([], "armada: no run matches tag:nothing\n")
    with Database(home.store) as database:
        assert runs.find(database, "high").tags == ("swept",)


@pytest.mark.parametrize("verb", ["stop", "rm", "pull", "tag", "star", "archive"])
def test_names_and_a_filter_exclude_each_other_and_one_is_needed(
    home: HomePaths, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    del home
    assert run([verb]) == 2
    assert "required: RUN" in capsys.readouterr().err
    assert run([verb, "low", "--where", "starred"]) == 2
    assert "either RUN or --where" in capsys.readouterr().err
    assert run([verb, "--where", " "]) == 2
    assert "the filter is empty" in capsys.readouterr().err


@pytest.mark.parametrize(("verb", "said"), [("stop", ["other-cccccc"]), ("rm", ["bare-dddddd", "other-cccccc"])])
def test_what_cannot_be_undone_lists_the_runs_and_needs_a_yes(
    home: HomePaths, capsys: pytest.CaptureFixture[str], verb: str, said: list[str]
) -> None:
    assert run([verb, "--where", "other or bare"]) == 2  # the tests have no terminal
    err = capsys.readouterr().err
    assert sorted(line.split()[0] for line in err.splitlines() if line.startswith("  ") and "→" not in line) == said
    assert "Nobody is there to be asked, so nothing was done" in err
    with Database(home.store) as database:
        assert len(runs.every(database)) == len(SPECS)


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("", 8), ("n", 8)])
def test_a_yes_on_the_terminal_is_enough(
    home: HomePaths,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
) -> None:
    from armada.cli import several
    from armada.cli.context import Context

    del home
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    from argparse import Namespace

    from armada.errors import Conflict

    options = Namespace(where="lr<1", runs=[], yes=False)
    try:
        found = several.choose_runs(Context(), options, asks="remove")
        assert (code, len(found)) == (0, 2)
    except Conflict:
        assert code == 8
    assert "Remove 2 runs? [y/N]" in capsys.readouterr().err


def test_columns_show_settings_metrics_and_facts_and_are_remembered(
    home: HomePaths, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = "id,state,lr,eval_loss,min(eval_loss),cost"
    assert run(["ps", "--cached", "lr<1", "--columns", chosen]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["RUN", "STATE", "LEARNING_RATE", "EVAL_LOSS", "MIN(EVAL_LOSS)", "COST"],
        ["high-bbbbbb", "failed", "0.001", "—", "2", "$2.00"],
        ["low-aaaaaa", "succeeded", "1e-06", "0.5", "0.3", "$2.00"],
    ]
    remembered.keep_theme(home, "armada-contrast")
    assert run(["ps", "--cached", "--columns", " name , tag", "--remember"]) == 0
    capsys.readouterr()
    assert run(["ps", "--cached", "lr<1"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["NAME", "TAG"]
    assert remembered.theme(home) == "armada-contrast"
    assert run(["ps", "--cached", "lr<1", "--why"]) == 0
    assert "BECAUSE" in capsys.readouterr().out
    assert run(["ps", "--cached", "--columns", "default", "--remember"]) == 0
    capsys.readouterr()
    assert run(["ps", "--cached", "lr<1"]) == 0
    assert capsys.readouterr().out.startswith("RUN  ")
    assert remembered.columns(home) == []


@pytest.mark.parametrize("text", ["", ",", "nonsense", "id,losss", ",".join(["id"] * 31)])
def test_wrong_columns_are_refused(home: HomePaths, capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert run(["ps", "--cached", "--columns", text, "--remember"]) == 2
    assert "column" in capsys.readouterr().err
    assert remembered.columns(home) == []


@pytest.mark.parametrize("text", ["{", "[]", '{"columns": 5}', '{"columns": [4, "", "gone", "id"]}', "[" * 90_000])
def test_a_damaged_choice_of_columns_is_left_out(
    home: HomePaths, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file = home.state / "dashboard" / "chosen.json"
    file.parent.mkdir()
    file.write_text(text)
    assert run(["ps", "--cached", "lr<1"]) == 0
    assert capsys.readouterr().out.startswith("RUN")


def test_labels_are_a_column_where_a_run_has_some(home: HomePaths, capsys: pytest.CaptureFixture[str]) -> None:
    with Database(home.store) as database:
        labels.change_tags(database, "low-aaaaaa", add=["arc"])
        labels.star(database, "low-aaaaaa")
    assert run(["ps", "--cached", "lr<1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("LABELS")
    assert lines[2].endswith("★ #arc")
