"""Two of anything at once: one effect, and both say what happened."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.chance import dice
from tests.commands import array_slurm
from tests.conftest import Armada, eventually
from tests.together import by_code, codes, rounds, said, together

pytestmark = pytest.mark.takes_long(
    "two commands, of which one waits for the other, three times over with runs of their own"
)


def stored(armada: Armada) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = armada.json("ps", "--all", "--cached")
    return found


def waiting_job(armada: Armada, name: str) -> str:
    """A job that notes each of its starts and goes on until it is stopped."""
    return armada.command("sh", "-c", f"echo start >> {armada.folder / name}.starts; exec sleep 1000", name=name)


def starts(armada: Armada, name: str) -> int:
    marks = armada.folder / f"{name}.starts"
    return marks.read_text().count("start") if marks.exists() else 0


@pytest.mark.fault("the same launch twice at the same moment", "one job; the other names it, exit 8")
def test_the_same_launch_twice_at_once_starts_one_job(armada: Armada) -> None:
    for number, lags in enumerate(rounds(dice(41))):
        name = f"short-{number}"
        words = ["launch", "--host", "local", waiting_job(armada, name)]
        both = together(armada, words, words, lags=lags)
        of_name = [run for run in stored(armada) if run["name"] == name]
        eventually(lambda name=name, runs=of_name: starts(armada, name) == len(runs))  # type: ignore[misc]
        if codes(both) == [0, 0]:  # the second began after the first had ended: a second run was meant
            assert lags[1] > 0
            assert len(of_name) == 2
            continue
        assert codes(both) == [0, 8], [said(each) for each in both]
        (run,) = of_name
        assert run["run_id"] in by_code(both, 0).stdout
        second = by_code(both, 8).stderr
        assert f"{run['run_id']} was just launched by another armada" in second
        assert f"armada logs -f {run['run_id']}" in second
        assert starts(armada, name) == 1


@pytest.mark.fault("the same launch twice at the same moment, on a batch system", "one job; the other names it, exit 8")
def test_the_same_launch_twice_at_once_hands_slurm_one_job(armada: Armada) -> None:
    slurm = array_slurm.make_cluster(armada.folder, armada.env)
    words = ["launch", "--host", "local", waiting_job(armada, "job")]
    both = together(armada, words, words)
    assert codes(both) == [0, 8], [said(each) for each in both]
    (run,) = stored(armada)
    assert f"{run['run_id']} was just launched by another armada" in by_code(both, 8).stderr
    assert len((slurm / "sbatch.calls").read_text().splitlines()) == 1
    armada.run("stop", run["run_id"], "--grace", "1")


def test_the_same_launch_later_starts_another(armada: Armada) -> None:
    words = ["launch", "--host", "local", waiting_job(armada, "later"), "--json"]
    both = together(armada, words, words)
    assert codes(both) == [0, 8]
    again = armada.run(*words)
    assert again.returncode == 0, again.stderr
    first = json.loads(by_code(both, 0).stdout)["run_id"]
    assert json.loads(again.stdout)["run_id"] != first
    assert len(stored(armada)) == 2


def test_of_two_launches_the_second_starts_the_job_where_the_first_could_not(armada: Armada) -> None:
    """The first is refused (its secret is not set at that moment); nothing was launched, so the second is no second."""
    words = ["launch", "--host", "local", armada.command("true", secrets=["NO_SUCH_SECRET"])]
    both = together(armada, words, words)
    assert codes(both) == [3, 3]
    assert stored(armada) == []


def test_launches_that_differ_do_not_take_each_other_for_the_same(armada: Armada) -> None:
    words = ["launch", "--host", "local", waiting_job(armada, "pair")]
    both = together(armada, [*words, "--name", "one"], [*words, "--name", "two"])
    assert codes(both) == [0, 0]
    assert sorted(run["name"] for run in stored(armada)) == ["one", "two"]


def launched(armada: Armada, name: str = "job") -> str:
    run_id: str = armada.json("launch", "--host", "local", waiting_job(armada, name))["run_id"]
    eventually(lambda: starts(armada, name) == 1)
    return run_id


@pytest.mark.fault("the same stop twice at once", "the run ends once; both say that it is cancelled")
def test_the_same_stop_twice_at_once_ends_the_run_and_both_say_so(armada: Armada) -> None:
    for number, lags in enumerate(rounds(dice(42))):
        run_id = launched(armada, f"job-{number}")
        words = ["stop", run_id, "--grace", "1"]
        both = together(armada, words, words, lags=lags)
        assert codes(both) == [0, 0], [said(each) for each in both]
        for each in both:
            assert re.search(rf"{run_id}: – cancelled: killed_by_user", each.stdout), each.stdout


@pytest.mark.fault("the same resume twice at once", "one more attempt; the other says so, exit 8")
def test_the_same_resume_twice_at_once_begins_one_attempt(armada: Armada) -> None:
    run_id = launched(armada)
    for number, lags in enumerate(rounds(dice(43)), 1):
        assert armada.run("stop", run_id, "--grace", "1").returncode == 0
        both = together(armada, ["resume", run_id], ["resume", run_id], lags=lags)
        eventually(lambda number=number: starts(armada, "job") > number)  # type: ignore[misc]
        attempts = len(list((armada.local_runs / run_id / "attempts").iterdir()))
        assert attempts == number + 1
        assert starts(armada, "job") == number + 1
        assert codes(both) == [0, 8], [said(each) for each in both]
        second = by_code(both, 8).stderr
        assert re.search(f"{run_id} (was just resumed by another armada|is (submitted|running), so)", second), second


@pytest.mark.fault("stop and resume at once", "the run is running or cancelled, as the two together say")
def test_a_stop_and_a_resume_at_once_say_together_what_the_run_is(armada: Armada) -> None:
    run_id = launched(armada)
    for number, lags in enumerate(rounds(dice(44))):
        if number % 2:
            armada.run("stop", run_id, "--grace", "1")
        both = together(armada, ["stop", run_id, "--grace", "1"], ["resume", run_id], lags=lags)
        stop, resume = both
        codes(both)
        (run,) = armada.json("ps", "--all")
        told = f"{stop.returncode} {said(stop)}{resume.returncode} {said(resume)}{run['state']}"
        # Whoever came last decides; what was asked for and is not so is said by an exit code.
        if resume.returncode == 0:
            assert run["state"] in ("submitted", "queued", "running", "cancelled"), told
            assert stop.returncode == 0 or "resumed by another armada" in stop.stderr, told
        else:
            assert resume.returncode == 8, told
            assert stop.returncode == 0, told
            assert run["state"] == "cancelled", told
        if run["state"] == "cancelled":
            assert armada.run("resume", run_id).returncode == 0


@pytest.mark.fault("two people resume what a third stops", "one more attempt at most; each is told what came of it")
def test_resumes_at_once_beside_a_stop_begin_at_most_one_attempt(armada: Armada) -> None:
    run_id = launched(armada)
    assert armada.run("stop", run_id, "--grace", "1").returncode == 0
    all_three = together(armada, ["resume", run_id], ["stop", run_id, "--grace", "1"], ["resume", run_id])
    assert set(codes(all_three)) <= {0, 8}
    assert len(list((armada.local_runs / run_id / "attempts").iterdir())) <= 2
