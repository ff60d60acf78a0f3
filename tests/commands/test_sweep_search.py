"""`armada sweep --search`: each trial is asked for once, by results of former ones, whatever is killed or runs twice."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import Any

import pytest

from armada.cli import main
from armada.store.database import Database
from armada.sweeps import hand_over, service
from tests.commands.sweeping import check, starts
from tests.conftest import Armada
from tests.together import codes, together
from tests.waiting import eventually

QUADRATIC = """
import os, armada_log
x = float(os.environ["X"])
with open("{folder}/starts", "a") as log:
    log.write(os.environ["X"] + "\\n")
{before}
armada_log.log(1, loss=(x - 3.0) ** 2)
"""
SPACE = ["--space", "env.X={min: 0.0, max: 10.0}"]
ENDS = ("succeeded", "failed", "cancelled")


def quadratic(armada: Armada, before: str = "", **more: Any) -> str:
    sweep = {"metric": "loss", **more}
    script = QUADRATIC.format(folder=armada.folder, before=before)
    return armada.command("python3", "-c", script, name="quadratic", sweep=sweep)


def look(armada: Armada, sweep: str) -> dict[str, Any]:
    found: dict[str, Any] = armada.json("sweep", "show", sweep)
    return found


def await_trials(armada: Armada, sweep: str, count: int) -> dict[str, Any]:
    """Look, as the daemon does, until so many trials have ended."""

    def ended() -> dict[str, Any] | None:
        found = look(armada, sweep)
        return found if sum(cell["state"] in ENDS for cell in found["cells"]) >= count else None

    return eventually(ended) or {}


def await_cached_ends(armada: Armada, sweep: str) -> None:
    """Wait for the end of the first trials without a look, which would hand over the next ones."""
    for cell in armada.json("sweep", "show", sweep, "--cached")["cells"]:
        armada.await_end(cell["run_id"])


def test_a_search_hands_over_as_many_trials_as_ended_until_there_are_enough(armada: Armada) -> None:
    told = armada.json("sweep", quadratic(armada), "--host", "local", "--search", "7", *SPACE, "--parallel", "3")
    check(told, "sweep launch")
    assert told["taken"] == {"local": 3}
    sweep = told["sweep"]
    found = await_trials(armada, sweep, 7)
    check(found, "sweep show")
    assert [cell["cell"] for cell in found["cells"]] == list(range(1, 8))
    values = [float(cell["values"]["env.X"]) for cell in found["cells"]]
    assert len(set(values)) == 7
    assert sorted(map(float, starts(armada))) == sorted(values)
    best = min((value - 3.0) ** 2 for value in values)
    assert found["search"] == {
        "trials": 7, "ended": 7, "failed": 0, "pruned": 0, "best": pytest.approx(best, rel=1e-4), "note": None,
    }  # fmt: skip
    shown = armada.run("sweep", "show", sweep).stdout
    assert f"{sweep} · 7 of 7 trials; best loss {best:.3g}"[:-1] in shown
    assert armada.json("sweep", "best", sweep, "--cached")["cells"][0]["value"] == pytest.approx(best, rel=1e-4)
    assert len(look(armada, sweep)["cells"]) == 7


def test_looking_twice_at_once_hands_each_trial_over_once(armada: Armada) -> None:
    sweep = armada.json("sweep", quadratic(armada), "--host", "local", "--search", "6", *SPACE, "--parallel", "2")[
        "sweep"
    ]
    words = ["sweep", "show", sweep]
    eventually(lambda: len(starts(armada)) >= 2)
    assert codes(together(armada, words, words)) == [0, 0]
    found = await_trials(armada, sweep, 6)
    assert [cell["cell"] for cell in found["cells"]] == [1, 2, 3, 4, 5, 6]
    assert Counter(Counter(starts(armada)).values()) == {1: 6}


def test_a_search_begins_no_trial_on_another_machine_of_the_name(armada: Armada) -> None:
    armada.write("armada.yaml", f"hosts: {{local: {{root: {armada.folder}/theirs}}}}\n")
    words = ["--host", "local", "--search", "4", *SPACE, "--parallel", "2"]
    sweep = armada.json("sweep", quadratic(armada), *words)["sweep"]
    eventually(lambda: [run["state"] for run in armada.json("ps", "--all")] == ["succeeded"] * 2)
    hosts_file = armada.folder / "home" / "config" / "hosts.yaml"
    hosts_file.parent.mkdir(parents=True, exist_ok=True)
    hosts_file.write_text(f"hosts: {{local: {{root: {armada.folder}/mine}}}}\n")
    found = look(armada, sweep)
    assert len(found["cells"]) == 2
    assert "by the first one, runs were started last, so nothing was started" in found["search"]["note"]
    hosts_file.unlink()
    assert len(await_trials(armada, sweep, 4)["cells"]) == 4


@pytest.mark.fault("kill -9 while the next trials of a search are handed over", "none is repeated or forgotten")
@pytest.mark.parametrize("moment", ["provision_share", "_hand_over", "mark_taken"])
def test_a_killed_round_is_continued_under_the_same_numbers(
    armada: Armada, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    sweep = armada.json("sweep", quadratic(armada), "--host", "local", "--search", "4", *SPACE, "--parallel", "2")[
        "sweep"
    ]
    await_cached_ends(armada, sweep)
    for name, value in armada.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(armada.folder)
    process = os.fork()
    if process == 0:
        where = (hand_over, "_record_taken") if moment == "mark_taken" else (service, moment)
        setattr(*where, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        main.run(["sweep", "show", sweep])
        os._exit(0)
    _, status = os.waitpid(process, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    cells = armada.json("sweep", "show", sweep, "--cached")["cells"]
    assert [cell["state"] for cell in cells[2:]] == ["preparing", "preparing"]
    found = await_trials(armada, sweep, 4)
    assert [cell["values"] for cell in found["cells"]] == [cell["values"] for cell in cells]
    assert Counter(Counter(starts(armada)).values()) == {1: 4}


def test_a_trial_without_its_metric_is_a_failed_one_and_says_so(armada: Armada) -> None:
    never = quadratic(armada, before="raise SystemExit(0)")
    sweep = armada.json("sweep", never, "--host", "local", "--search", "20", *SPACE, "--parallel", "5")["sweep"]

    def stopped() -> bool:
        return bool(look(armada, sweep)["state"] == "stopped")

    eventually(stopped)
    count = len(look(armada, sweep)["cells"])
    found = await_trials(armada, sweep, count)
    assert 5 <= found["search"]["failed"] == len(found["cells"]) < 20
    assert "the last 5 trials failed, such as " in found["why"]
    assert f"⚠ {sweep}-001 counts as failed: it ended without loss" in armada.run("sweep", "show", sweep).stdout
    told = armada.json("sweep", "extend", sweep, "--search", "2")
    check(told, "sweep extend")
    assert len(await_trials(armada, sweep, count + 1)["cells"]) > count


def test_a_stopped_search_asks_for_no_more_trials(armada: Armada) -> None:
    wait = quadratic(armada, before="import time; time.sleep(600)")
    sweep = armada.json("sweep", wait, "--host", "local", "--search", "9", *SPACE, "--parallel", "2")["sweep"]
    eventually(lambda: len(starts(armada)) == 2)
    assert armada.run("sweep", "stop", sweep, "--grace", "1").returncode == 0
    found = look(armada, sweep)
    assert (found["state"], len(found["cells"])) == ("stopped", 2)


def test_a_search_that_its_rule_stopped_gets_no_more_trials(armada: Armada) -> None:
    experiment = quadratic(armada, stop={"target": 100.0})
    sweep = armada.json("sweep", experiment, "--host", "local", "--search", "9", *SPACE, "--parallel", "1")["sweep"]
    await_cached_ends(armada, sweep)
    assert look(armada, sweep)["state"] == "stopped"
    refused = armada.run("sweep", "extend", sweep, "--search", "2")
    assert refused.returncode == 8
    assert f"would be stopped at once: {sweep}-001 reached loss" in refused.stderr
    found = armada.json("sweep", "show", sweep, "--cached")
    assert (found["state"], found["search"]["trials"]) == ("stopped", 9)


def test_a_search_begins_no_trial_on_a_host_whose_budget_is_spent(armada: Armada) -> None:
    hosts_file = armada.folder / "home" / "config" / "hosts.yaml"
    hosts_file.parent.mkdir(parents=True, exist_ok=True)
    entry = "hosts: {{local: {{local: true, price: 10 EUR, budget: {} EUR}}}}\n"
    hosts_file.write_text(entry.format(100))
    sweep = armada.json("sweep", quadratic(armada), "--host", "local", "--search", "4", *SPACE, "--parallel", "2")[
        "sweep"
    ]
    await_cached_ends(armada, sweep)
    with (
        Database(armada.folder / "home" / "state" / "armada.db") as database,
        database.transaction() as connection,
    ):
        connection.execute("UPDATE hosts SET first_seen_at = first_seen_at - 11 * 3600.0")
    found = look(armada, sweep)
    assert len(found["cells"]) == 2
    assert "and its budget is 100.00 EUR; nothing was started" in found["search"]["note"]
    hosts_file.write_text(entry.format(1000))
    assert len(await_trials(armada, sweep, 4)["cells"]) == 4


def test_edits_of_the_file_change_no_later_trial(armada: Armada) -> None:
    words = ["sweep", quadratic(armada), "--host", "local", "--search", "3", *SPACE, "--parallel", "1"]
    sweep = armada.json(*words)["sweep"]
    armada.command("false", name="another")
    found = await_trials(armada, sweep, 3)
    assert {cell["state"] for cell in found["cells"]} == {"succeeded"}


@pytest.mark.parametrize(
    ("more", "words", "code", "said"),
    [
        ({"metric": None}, ["--search", "3", *SPACE], 2, "needs `metric`, by which cells are chosen"),
        ({}, ["--search", "3"], 2, "has no `space` to draw from"),
        ({}, ["--search", "3", *SPACE, "--grid", "env.Y=a,b"], 2, "cannot stand beside `grid`, `random` or `cells`"),
        ({}, ["--search", "9", "--space", "env.X=a,b"], 2, "its space has only 2 combinations"),
        ({}, ["--search", "0", *SPACE], 2, "'0' is not a whole number from 1"),
        ({}, ["--search", "10001", *SPACE], 2, "10001"),
        ({}, ["--search", "2", "--space", "train.seed={min: 1, max: 5}"], 2, "`train` belongs to `task: sft`"),
    ],
)
def test_a_wrong_search_gets_a_sentence_and_starts_nothing(
    armada: Armada, more: dict[str, Any], words: list[str], code: int, said: str
) -> None:
    done = armada.run("sweep", quadratic(armada, **more), "--host", "local", *words)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert not armada.local_runs.exists()


def test_a_search_cannot_have_secrets_nor_other_cells_later(armada: Armada) -> None:
    secret = armada.command("true", sweep={"metric": "loss"}, secrets=["TOKEN"])
    refused = armada.run("sweep", secret, "--host", "local", "--search", "3", *SPACE)
    assert (refused.returncode, "a search cannot have `secrets`" in refused.stderr) == (2, True)
    sweep = armada.json("sweep", quadratic(armada), "--host", "local", "--search", "1", *SPACE)["sweep"]
    other = armada.run("sweep", "extend", sweep, "--grid", "env.X=1")
    assert (other.returncode, f"{sweep} is a search" in other.stderr) == (2, True)
    grid = armada.json("sweep", armada.command("true", name="plain"), "--host", "local", "--grid", "env.X=a")["sweep"]
    none = armada.run("sweep", "extend", grid, "--search", "3")
    assert (none.returncode, f"{grid} is no search" in none.stderr) == (2, True)
