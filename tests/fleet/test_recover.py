"""A lost store made anew from hosts over SSH and from clusters: those that answer now, and those that answer later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from armada.config.hosts import Host
from armada.errors import HostUnreachable
from armada.foundation.progress import NullProgress
from armada.paths import HomePaths
from armada.recovery.recover import recover
from armada.store import checkpoints, runs
from armada.store.database import Database
from tests.conftest import Armada
from tests.fleet.batch_hosts import Cluster, add_cluster
from tests.fleet.conftest import BadLink, Fleet
from tests.fleet.machines import Machine
from tests.fleet.remote_run import Remote


def lose(home: HomePaths) -> None:
    for file in home.state.glob("armada.db*"):
        file.unlink()


def known(home: HomePaths) -> dict[str, Any]:
    """What the store says, without when it was seen."""
    with Database(home.store) as database:
        return {
            run.run_id: (
                run.host,
                run.state,
                run.reason,
                [(c.step, c.digest, c.on_host, c.home_path) for c in checkpoints.of_run(database, run.run_id)],
            )
            for run in runs.every(database)
        }


@pytest.fixture
def remotes(home: HomePaths, fleet: Fleet, there: str, ssh_config: Path) -> Iterator[Callable[..., Remote]]:
    made: list[Remote] = []

    def make(machine: str, port: int | None = None) -> Remote:
        made.append(Remote(home, fleet, machine, there, port))
        made[-1].create()
        for step in (1, 2):
            made[-1].save(step, {"a.bin": 3_000_000, "b.bin": step})
        made[-1].sync(insist=True)
        made[-1].save(3, {"a.bin": 1_000_000})
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def borrowed(fleet: Fleet) -> Iterator[Machine]:
    """A host that no other test restarts, freezes or rekeys meanwhile."""
    with fleet.borrow("a100-2") as machine:
        yield machine


@pytest.mark.takes_long("a host that does not answer is given up after its deadline")
def test_hosts_that_answer_are_read_and_the_others_later(
    borrowed: Machine, home: HomePaths, remotes: Callable[..., Remote], bad_link: Callable[..., BadLink]
) -> None:
    link = bad_link(borrowed)
    near, far = remotes("a100-1"), remotes("a100-2", link.port)
    hosts: dict[str, Host] = {each.host.name: each.host for each in (near, far)}
    for each in (near, far):
        each.sync(only="nothing")  # so that both outboxes were looked at last
    before = known(home)
    arrived = {
        path: path.stat().st_ino for each in (near, far) for path in home.checkpoints(each.run_id).rglob("*.bin")
    }
    for each in (near, far):
        each.close()
    lose(home)
    link.toggle()
    first = recover(home, lambda _: hosts, NullProgress())
    assert {found.host: found.added for found in first.hosts} == {near.host.name: (near.run_id,), far.host.name: ()}
    (silent,) = [found for found in first.hosts if found.error is not None]
    assert isinstance(silent.error, HostUnreachable)
    assert silent.host == far.host.name
    assert (first.runs_from_home, len(first.recognised)) == ([far.run_id], 4)
    assert known(home)[near.run_id] == before[near.run_id]
    link.toggle()
    second = recover(home, lambda _: hosts, NullProgress())
    assert [found.error for found in second.hosts] == [None, None]
    assert (second.recognised, second.already) == ([], 4)
    assert known(home) == before
    assert {path: path.stat().st_ino for path in arrived} == arrived
    again = recover(home, lambda _: hosts, NullProgress())
    assert known(home) == before
    assert [found.added for found in again.hosts] == [(), ()]
    with Database(home.store) as database:
        assert [len(checkpoints.of_run(database, each.run_id)) for each in (near, far)] == [3, 3]
    for each in (near, far):
        assert each.leftovers() == []


@pytest.fixture(
    params=[pytest.param(engine, marks=pytest.mark.xdist_group(engine)) for engine in ("slurm", "htcondor")]
)
def cluster(request: pytest.FixtureRequest, armada: Armada, fleet: Fleet) -> Cluster:
    return add_cluster(armada, fleet, request.param)


@pytest.mark.takes_long("the batch system must start two jobs")
def test_runs_of_a_cluster_are_read_and_those_that_run_go_on(cluster: Cluster) -> None:
    armada = cluster.armada
    home = HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state")
    armada.command("sh", "-c", "exit 3", resources={"memory": "200M"})
    ended = cluster.launch()
    cluster.becomes(ended, "failed")
    armada.command("sh", "-c", "echo begun; sleep 1000", name="long", resources={"memory": "200M"})
    running = cluster.launch()
    cluster.becomes(running, "running")
    jobs = cluster.job_ids(running)
    lose(home)
    done = armada.json("recover", "--host", cluster.host)
    assert {ended, running} <= set(done["hosts"][0]["added"])
    found = {run["run_id"]: run for run in armada.json("ps", "--cached")}
    assert (found[ended]["state"], found[ended]["reason"], found[ended]["exit_code"]) == ("failed", "exit_3", 3)
    assert (found[running]["state"], found[running]["host"]) == ("running", cluster.host)
    assert cluster.job_ids(running) == jobs
    assert "begun" in armada.run("logs", running).stdout
    assert armada.run("stop", running, "--grace", "1").returncode == 0
    assert cluster.look(running)["state"] == "cancelled"
