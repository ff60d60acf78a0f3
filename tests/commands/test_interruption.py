"""Ctrl-C and kill -9 of the command at any point of a launch: at most one start, and a record that says what is so."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable

import pytest

from tests import moments
from tests.chance import dice
from tests.conftest import Armada
from tests.waiting import eventually

CUTS = moments.times(5)

# Python reads this at its start. Importing `armada.cli.runs` is then interrupted inside an `exec` of text.
PRESSES_CTRL_C = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "armada.cli.runs":
            exec("import os, signal; os.kill(os.getpid(), signal.SIGINT); [None for _ in range(10)]")

sys.meta_path.insert(0, Finder())
"""


@pytest.mark.fault(
    "Ctrl-C and kill -9 of `armada launch`",
    "at most one start; a record that says what is so",
)
@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_a_launch_ended_at_any_point_starts_at_most_one_job(
    armada: Armada, what: signal.Signals, record_property: Callable[[str, object], None]
) -> None:
    chance = dice(3)
    record_property("times", CUTS)
    marks = armada.folder / "starts"
    marks.mkdir()
    for number in range(CUTS):
        script = f"echo start >> {marks / str(number)}"
        steps = moments.of_a_launch(armada)
        launch = armada.start("launch", "--host", "local", armada.command("sh", "-c", script, name=f"cut-{number}"))
        moments.end_after(launch, steps[number % len(steps)], functools.partial(launch.send_signal, what), chance)
        _, err = launch.communicate()
        assert launch.returncode in (0, 130, -signal.SIGINT, -signal.SIGKILL), err
        # An interpreter that is just taking itself apart says so; by then all was done.
        assert "Traceback" not in err or "Exception ignored in" in err

    looks: list[dict[str, str]] = []

    def settled() -> bool:
        """Nothing moves any more; a claim whose launch died before anybody took it up stays `submitted`."""
        looks.append({run["run_id"]: run["state"] for run in armada.json("ps")})
        still = len(looks) >= 6 and all(look == looks[-1] for look in looks[-6:])
        return still and not {"queued", "running"} & set(looks[-1].values())

    eventually(settled)
    runs = {run["name"]: run for run in armada.json("ps")}
    for number in range(CUTS):
        started = (marks / str(number)).read_text().count("start") if (marks / str(number)).exists() else 0
        run = runs.get(f"cut-{number}")
        assert started == int(run is not None and run["state"] == "succeeded"), (number, run)


def test_stop_ends_a_launch_that_broke_off_before_the_host_heard_of_it(armada: Armada) -> None:
    armada.json("launch", "--host", "local", armada.command("true"), "--follow")
    from armada.paths import HomePaths
    from armada.store import runs
    from armada.store.database import Database

    home = HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state")
    with Database(home.store) as database:
        runs.insert(
            database,
            run_id="half-aaaaaa",
            name="half",
            host="local",
            task="command",
            experiment=None,
            spec={"stop_grace_s": 1},
        )
    assert armada.run("stop", "half").returncode == 0
    (half,) = [run for run in armada.json("ps", "--cached") if run["run_id"] == "half-aaaaaa"]
    assert half["state"] == "cancelled"
    assert armada.run("rm", "half").returncode == 0


def test_ctrl_c_inside_an_exec_of_text_ends_with_the_code_of_the_table(armada: Armada) -> None:
    armada.write("sitecustomize.py", PRESSES_CTRL_C)
    armada.env["PYTHONPATH"] = str(armada.folder)
    answer = armada.run("ps", process=True)
    assert (answer.returncode, answer.stderr) == (
        130,
        "\narmada: interrupted; started runs continue (armada ps)\n",
    )
