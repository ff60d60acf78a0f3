"""The daemon over real SSH: checkpoints come home through a link that goes away and comes back."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from armada.paths import HomePaths
from armada.store import runs
from armada.store.database import Database
from tests.conftest import Armada, eventually
from tests.daemon.conftest import SAVER, all_home, condition, published
from tests.fleet import machines
from tests.fleet.conftest import BadLink, Fleet


@pytest.fixture
def own_home(armada: Armada) -> HomePaths:
    base = armada.folder / "home"
    return HomePaths(config=base / "config", state=base / "state")


@contextlib.contextmanager
def daemon(armada: Armada) -> Iterator[subprocess.Popen[str]]:
    running = armada.start("daemon", "run")
    try:
        yield running
    finally:
        running.terminate()
        running.communicate(timeout=60)


@pytest.mark.fault(
    "black hole and reset under the daemon",
    "it looks again; everything comes home",
)
@pytest.mark.takes_long("nothing tells of a black hole but deadlines, and the daemon's pauses between looks grow")
def test_a_daemon_goes_on_after_a_black_hole_and_a_reset(
    armada: Armada, own_home: HomePaths, fleet: Fleet, bad_link: Callable[..., BadLink]
) -> None:
    link = bad_link(fleet.host("a100-1"), "--rtt-ms", "20")
    words = ["hosts", "add", "far", f"root@127.0.0.1:{link.port}", "--identity", str(machines.IDENTITY), "--yes"]
    assert armada.run(*words).returncode == 0
    # It goes on when told, so that nothing ends before the link does.
    told = SAVER.replace("    part =", "    while step == 3 and not os.path.exists('go'): time.sleep(0.1)\n    part =")
    experiment = armada.command("python3", "-c", told, "8", "200000", "0.2", name="saver")
    run_id = armada.json("launch", "--host", "far", experiment)["run_id"]

    def far() -> dict[str, Any]:
        seen: dict[str, Any] = condition(armada)["hosts"].get("far", {})
        return seen

    with daemon(armada):
        eventually(lambda: published(own_home, run_id))
        link.toggle()
        eventually(lambda: far().get("state") == "unreachable", within_s=120)
        (run,) = armada.json("ps", "--cached")
        assert run["state"] == "running"
        assert run["unreachable_since"] is not None
        link.toggle()
        eventually(lambda: far().get("state") == "ok", within_s=120)
        fleet.run("a100-1", f"touch ~/.armada/runs/{run_id}/work/go")
        link.reset()
        all_home(armada, own_home, run_id)
    assert {1, 8} <= set(published(own_home, run_id))
    (run,) = armada.json("ps", "--cached")
    assert (run["state"], run["unreachable_since"]) == ("succeeded", None)
    staging = own_home.checkpoints(run_id) / ".staging"
    assert not staging.exists() or not any(staging.iterdir())


@pytest.mark.fault(
    "black hole during the hand-over",
    "exit 9; the same command finds the run, one start",
)
@pytest.mark.takes_long("a launch says that its outcome is unknown when its last deadline has passed")
def test_a_launch_whose_outcome_is_unknown_is_found_by_the_same_command(
    armada: Armada, own_home: HomePaths, fleet: Fleet, bad_link: Callable[..., BadLink], there: str
) -> None:
    """The link becomes a black hole while the run is handed over: exit 9; the second launch finds the first one's run."""
    link = bad_link(fleet.host("a100-1"), "--rtt-ms", "600")
    fleet.run("a100-1", f"mkdir -p {there}")
    words = ["hosts", "add", "far", f"root@127.0.0.1:{link.port}", "--identity", str(machines.IDENTITY), "--yes"]
    assert armada.run(*words).returncode == 0
    experiment = armada.command("sh", "-c", f"echo start >> {there}/starts; sleep 1000")
    launch = armada.start("launch", "--host", "far", experiment)

    def handed_over() -> bool:
        with Database(own_home.store) as database:
            return [run.state for run in runs.every(database)] == ["preparing"]  # its request goes out now

    eventually(handed_over, longest_pause_s=0.02)  # it lasts for a round trip
    link.toggle()
    _, err = launch.communicate(timeout=240)
    assert launch.returncode == 9, err
    assert "was interrupted" in armada.run("ps", "--cached").stdout
    (run,) = armada.json("ps", "--cached")
    assert (run["state"], run["reason"]) == ("unknown", "link_lost")
    link.toggle()
    again = armada.json("launch", "--host", "far", experiment)
    assert again["run_id"] == run["run_id"]
    eventually(lambda: fleet.run("a100-1", f"cat {there}/starts 2>/dev/null || true") == "start\n")
    eventually(lambda: armada.json("ps")[0]["state"] == "running")
    assert armada.run("stop", run["run_id"], "--grace", "0").returncode == 0
    assert fleet.run("a100-1", f"cat {there}/starts") == "start\n"


@pytest.mark.fault(
    "host killed and restarted under a run with `retries`, nobody there",
    "the daemon sees the restart and resumes it, with its secrets, once",
)
@pytest.mark.takes_long("a host is restarted, and the daemon must have seen it down and up")
def test_a_run_goes_on_by_itself_after_its_host_was_restarted(
    armada: Armada, own_home: HomePaths, fleet: Fleet
) -> None:
    with fleet.borrow("a100-2") as machine:
        words = ["hosts", "add", "a100-2", machine.target, "--identity", str(machines.IDENTITY), "--yes"]
        assert armada.run(*words).returncode == 0
        armada.env["TOKEN"] = "canary-79"
        script = 'echo "attempt $ARMADA_ATTEMPT $TOKEN" >> said; exec sleep 1000'
        experiment = armada.command("sh", "-c", script, secrets=["TOKEN"], retries=1)
        run_id = armada.json("launch", "--host", "a100-2", experiment)["run_id"]
        del armada.env["TOKEN"]
        with Database(own_home.store) as database:
            with daemon(armada):
                eventually(lambda: runs.find(database, run_id).state == "running")
                machines.kill(machine)
                eventually(lambda: runs.find(database, run_id).unreachable_since, within_s=120)
                machines.start([machine])
                eventually(lambda: runs.find(database, run_id).attempt == 2, within_s=180)
            states = database.connection.execute(
                "SELECT state, reason FROM transitions WHERE run_id = ? ORDER BY rowid", (run_id,)
            )
            assert ("failed", "host_rebooted") in [(row["state"], row["reason"]) for row in states]
        said = fleet.run("a100-2", f"cat ~/.armada/runs/{run_id}/work/said")
        assert said.split("\n") == ["attempt 1 canary-79", "attempt 2 canary-79", ""]
        assert armada.run("stop", run_id, "--grace", "0").returncode == 0
