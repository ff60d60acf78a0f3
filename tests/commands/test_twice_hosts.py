"""Two of anything at once, of hosts: release, wipe, rm, and each of them beside a launch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.chance import dice
from tests.commands.saved_run import save_and_end
from tests.conftest import Armada, eventually
from tests.together import by_code, codes, rounds, said, together

pytestmark = pytest.mark.takes_long(
    "two commands, of which one waits for the other, three times over with runs of their own"
)

RELEASE = ["hosts", "release", "local", "--ignore-work"]
WIPE = [*RELEASE, "--wipe", "--yes"]


def stored(armada: Armada) -> dict[str, dict[str, Any]]:
    return {run["run_id"]: run for run in armada.json("ps", "--all", "--cached")}


def sleeper(armada: Armada, name: str) -> str:
    return armada.command("sh", "-c", f"echo begun > {armada.folder / name}; exec sleep 1000", name=name)


@pytest.mark.fault("the same release twice at once", "one brings what is left; both say what destroying would lose")
def test_the_same_release_twice_at_once_says_the_same(armada: Armada) -> None:
    for lags in rounds(dice(51)):
        run_id = save_and_end(armada)
        both = together(armada, *2 * [[*RELEASE, "--drain"]], lags=lags)
        assert codes(both) == [0, 0], [said(each) for each in both]
        assert all("local is this machine, where home is: nothing waits there" in each.stdout for each in both)
        assert armada.run("rm", run_id, "--force").returncode == 0  # despite its file that no sync.outputs names


@pytest.mark.fault("the same wipe twice at once", "one deletes; the other says that it was done, exit 0")
def test_the_same_wipe_twice_at_once_deletes_once(armada: Armada) -> None:
    for lags in rounds(dice(52)):
        run_id = save_and_end(armada)
        assert armada.run("pull", run_id).returncode == 0
        both = together(armada, WIPE, WIPE, lags=lags)
        assert codes(both) == [0, 0], [said(each) for each in both]
        (first,) = [each for each in both if "deleted there: runs" in each.stdout]
        (second,) = [each for each in both if each is not first]
        assert "local was just wiped by another armada" in second.stdout or "deleted there: agent" in second.stdout
        assert not armada.local_runs.exists()
        assert not (armada.local_runs.parent / "agent").exists()
        assert armada.run("rm", run_id).returncode == 0


@pytest.mark.fault("a wipe and a launch at once", "either the launch has its run, or it says that the host is released")
def test_of_a_wipe_and_a_launch_at_once_one_gives_way(armada: Armada) -> None:
    for number, lags in enumerate(rounds(dice(53))):
        run_id = save_and_end(armada)
        assert armada.run("pull", run_id).returncode == 0
        words = ["launch", "--host", "local", sleeper(armada, f"job-{number}")]
        order = [WIPE, words] if number % 2 else [words, WIPE]
        both = together(armada, *order, lags=lags)
        codes(both)
        wipe, launch = both if number % 2 else both[::-1]
        new = [run for run in stored(armada).values() if run["name"] == f"job-{number}"]
        if launch.returncode == 0:
            (run,) = new
            eventually((armada.folder / f"job-{number}").exists)
            wiped_before = wipe.returncode == 0 and "deleted there" in wipe.stdout
            assert wiped_before or wipe.returncode == 8, said(wipe)
            assert becomes(armada, run["run_id"], "running")
            assert armada.run("stop", run["run_id"], "--grace", "0").returncode == 0
            assert armada.run("rm", run["run_id"], "--force").returncode == 0
        else:
            assert (launch.returncode, wipe.returncode) == (8, 0), said(launch) + said(wipe)
            assert "is releasing it" in launch.stderr
            assert "nothing was started" in launch.stderr
            assert new == []
        assert armada.run("rm", run_id, "--force").returncode == 0


def becomes(armada: Armada, run_id: str, state: str) -> bool:
    """Wait until a run is in this state."""
    return bool(eventually(lambda: armada.json("show", run_id)["state"] == state))


@pytest.mark.fault("a release and a launch with a secret at once", "the job has its secret, or was not started")
def test_a_release_beside_a_launch_takes_no_secret_of_it(armada: Armada) -> None:
    armada.env["MY_TOKEN"] = "canary-2210"
    for number, lags in enumerate(rounds(dice(54))):
        mark = armada.folder / f"told-{number}"
        script = f'printf %s "$MY_TOKEN" > {mark}.part; mv {mark}.part {mark}; exec sleep 1000'
        name = f"job-{number}"
        experiment = armada.command("sh", "-c", script, name=name, secrets=["MY_TOKEN"])
        both = together(armada, ["launch", "--host", "local", experiment], RELEASE, lags=lags)
        launch, release = both
        codes(both)
        if launch.returncode == 0:
            eventually(mark.exists)
            assert mark.read_text() == "canary-2210"
            (run,) = [run for run in stored(armada).values() if run["name"] == name]
            assert armada.run("stop", run["run_id"], "--grace", "0").returncode == 0
            assert armada.run("rm", run["run_id"], "--force").returncode == 0
        else:
            assert (launch.returncode, release.returncode) == (8, 0), said(launch) + said(release)
            assert "is releasing it" in launch.stderr


def other_host(armada: Armada) -> None:
    config = armada.folder / "home" / "config"
    config.mkdir(parents=True, exist_ok=True)
    hosts = {"hosts": {"other": {"local": True, "root": str(armada.folder / "other")}}}
    (config / "hosts.yaml").write_text(json.dumps(hosts))


@pytest.mark.fault("the same hosts rm twice at once", "the host is forgotten once; the other says so, exit 7")
def test_the_same_hosts_rm_twice_at_once_forgets_once(armada: Armada) -> None:
    for lags in rounds(dice(55)):
        other_host(armada)
        both = together(armada, *2 * [["hosts", "rm", "other"]], lags=lags)
        assert codes(both) == [0, 7], [said(each) for each in both]
        assert "other removed from hosts.yaml" in by_code(both, 0).stdout


@pytest.mark.fault("hosts rm and launch at once", "the run's host is known, or nothing was started")
def test_no_run_starts_on_a_host_that_is_forgotten_at_that_moment(armada: Armada) -> None:
    for number, lags in enumerate(rounds(dice(56))):
        other_host(armada)
        words = ["launch", "--host", "other", sleeper(armada, f"job-{number}")]
        order = [["hosts", "rm", "other"], words] if number % 2 else [words, ["hosts", "rm", "other"]]
        both = together(armada, *order, lags=lags)
        codes(both)
        rm, launch = both if number % 2 else both[::-1]
        new = [run for run in stored(armada).values() if run["name"] == f"job-{number}"]
        if launch.returncode == 0:
            assert rm.returncode == 8, said(rm)
            assert "other" in {host["name"] for host in armada.json("hosts", "ls")}
            (run,) = new
            assert armada.run("stop", run["run_id"], "--grace", "0").returncode == 0
        else:
            assert rm.returncode == 0, said(rm)
            assert launch.returncode in (7, 8), said(launch)
            assert "removed from hosts.yaml by another armada" in launch.stderr or "no host is called" in launch.stderr
            assert new == []


def test_no_run_starts_below_a_root_that_changes_at_that_moment(armada: Armada) -> None:
    for number, lags in enumerate(rounds(dice(57))):
        other_host(armada)
        move = ["hosts", "set", "other", "--root", str(armada.folder / f"moved-{number}")]
        words = ["launch", "--host", "other", sleeper(armada, f"job-{number}")]
        both = together(armada, *([move, words] if number % 2 else [words, move]), lags=lags)
        codes(both)
        moved, launch = both if number % 2 else both[::-1]
        if launch.returncode:
            assert (launch.returncode, moved.returncode) == (8, 0), said(launch) + said(moved)
            assert "changed in hosts.yaml a moment ago; nothing was started" in launch.stderr
            continue
        assert moved.returncode in (0, 8), said(moved)
        (run,) = [run for run in stored(armada).values() if run["name"] == f"job-{number}"]
        eventually((armada.folder / f"job-{number}").exists)
        # Armada finds it where it was started.
        assert becomes(armada, run["run_id"], "running")
        assert armada.run("stop", run["run_id"], "--grace", "0").returncode == 0
