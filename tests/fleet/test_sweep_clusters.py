"""Sweeps on real Slurm and real HTCondor: one array, a limit that holds, cells that are runs of their own."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.conftest import Armada, eventually
from tests.fleet.batch_hosts import ROOT, SELDOM_S, Cluster, add_cluster
from tests.fleet.conftest import Fleet
from tests.fleet.test_batch import shell_job

pytestmark = [pytest.mark.timeout(1500)]
MARKS = 'echo "+$X" >> $HOME/marks-$SWEEP; {}; echo "-$X" >> $HOME/marks-$SWEEP'


@pytest.fixture(
    params=[pytest.param(engine, marks=pytest.mark.xdist_group(engine)) for engine in ("slurm", "htcondor")]
)
def cluster(request: pytest.FixtureRequest, armada: Armada, fleet: Fleet) -> Cluster:
    return add_cluster(armada, fleet, request.param)


def sweep_of(cluster: Cluster, script: str, *words: str, name: str) -> str:
    shell_job(cluster.armada, MARKS.format(script), name=name, env={"SWEEP": name, "X": "0"})
    cluster.shell(f"rm -f marks-{name}")
    return str(cluster.armada.json("sweep", "exp.yaml", "--host", cluster.host, *words)["sweep"])


def marks(cluster: Cluster, name: str) -> list[str]:
    return cluster.shell(f"cat marks-{name} 2>/dev/null || true").split()


def cells(cluster: Cluster, sweep: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.armada.json("sweep", "show", sweep)["cells"]
    return found


def await_ends(cluster: Cluster, sweep: str, within_s: float = 240.0) -> list[dict[str, Any]]:
    def ended() -> list[dict[str, Any]] | None:
        found = cells(cluster, sweep)
        return found if all(cell["state"] in ("succeeded", "failed", "cancelled") for cell in found) else None

    return eventually(ended, within_s=within_s, longest_pause_s=SELDOM_S) or []


def arrays(cluster: Cluster, sweep: str) -> set[str]:
    """The arrays of a sweep that the batch system knows."""
    if cluster.engine == "slurm":
        said = cluster.shell("squeue --noheader --states=all --format='%F %j'")
        return {line.split()[0] for line in said.splitlines() if f"armada.{sweep}.array" in line}
    ask = f"-constraint 'regexp(\"^armada.{sweep}.array\", ArmadaArray)' -autoformat ClusterId"
    return set((cluster.shell(f"condor_q {ask}") + cluster.shell(f"condor_history {ask}")).split())


def most_at_once(told: list[str]) -> int:
    running = most = 0
    for mark in told:
        running += 1 if mark.startswith("+") else -1
        most = max(most, running)
    return most


@pytest.mark.takes_long("a batch system starts four rounds of jobs")
def test_twelve_cells_are_one_array_that_keeps_its_limit_and_a_cell_that_lost_its_node_goes_on(
    cluster: Cluster,
) -> None:
    name = f"twelve-{cluster.engine}"
    values = ",".join(map(str, range(1, 13)))
    script = "if [ $X = 2 ] && [ $ARMADA_ATTEMPT = 1 ]; then sleep 600; fi; sleep 1"
    sweep = sweep_of(cluster, script, "--grid", f"env.X={values}", "--parallel", "3", name=name)
    assert len(arrays(cluster, sweep)) == 1
    eventually(lambda: "+2" in marks(cluster, name), within_s=60)
    run_id = f"{sweep}-002"
    job = json.loads(cluster.shell(f"cat {ROOT}/runs/{run_id}/submissions/1/job.json"))["job_id"]
    cluster.shell(f"scontrol requeue {job}" if cluster.engine == "slurm" else f"condor_vacate_job -fast {job}")
    if cluster.engine == "slurm":
        hurry(cluster, job)
    found = await_ends(cluster, sweep)
    assert {cell["state"] for cell in found} == {"succeeded"}, found
    told = marks(cluster, name)
    assert sorted(mark for mark in told if mark != "+2") == sorted(
        [f"{sign}{x}" for sign in "+-" for x in range(1, 13) if (sign, x) != ("+", 2)]
    )
    assert told.count("+2") == 2
    told.remove("+2")  # the attempt that was taken away
    assert most_at_once(told) <= 3
    assert len(arrays(cluster, sweep)) == 1
    assert cluster.look(run_id)["attempt"] == 2


def hurry(cluster: Cluster, job: str) -> None:
    """Spare a requeued job the two minutes that Slurm makes it wait."""

    def waits() -> bool:
        said = cluster.shell(f"squeue --noheader --array --jobs={job} --format='%T %S' || true").split() or ["", ""]
        if said[0] == "PENDING" and said[-1] > cluster.shell("date -d '+9 seconds' +%FT%T").strip():
            cluster.shell(f"scontrol update JobId={job} StartTime=now+2seconds || true")
        return said[0] in ("PENDING", "FAILED", "COMPLETING")

    eventually(waits)
    eventually(lambda: not waits(), within_s=60)


@pytest.mark.takes_long("jobs start, are stopped, and fail")
def test_cells_are_stopped_shown_and_retried_one_by_one(cluster: Cluster) -> None:
    name = f"stop-{cluster.engine}"
    script = "[ $X = 1 ] && [ ! -e again ] && touch again && exit 3; [ $X = 1 ] || sleep 600"
    sweep = sweep_of(cluster, script, "--grid", "env.X=1,2,3,4", "--parallel", "2", name=name)
    eventually(lambda: "+2" in marks(cluster, name), within_s=60)
    eventually(lambda: cells(cluster, sweep)[0]["state"] == "failed", within_s=60, longest_pause_s=SELDOM_S)
    stopped = cluster.armada.run("sweep", "stop", sweep, "--grace", "5")
    assert stopped.returncode == 0, stopped.stderr
    assert [cell["state"] for cell in cells(cluster, sweep)] == ["failed", "cancelled", "cancelled", "cancelled"]
    assert "+4" not in marks(cluster, name)
    left = cluster.armada.json("sweep", "retry", sweep)
    assert left["resumed"] == []
    retried = cluster.armada.json("sweep", "retry", sweep, "--reason", "exit_3")
    assert retried["resumed"] == [f"{sweep}-001"]
    found = await_ends(cluster, sweep)
    assert found[0]["state"] == "succeeded", found


@pytest.mark.takes_long("a launch is killed at several places and repeated")
def test_a_sweep_killed_while_it_is_handed_over_and_repeated_is_one_array(cluster: Cluster) -> None:
    for number, pause_s in enumerate((0.4, 1.2)):
        name = f"cut-{cluster.engine}-{number}"
        shell_job(cluster.armada, MARKS.format("true"), name=name, env={"SWEEP": name, "X": "0"})
        cluster.shell(f"rm -f marks-{name}")
        words = ["sweep", "exp.yaml", "--host", cluster.host, "--grid", "env.X=1,2,3"]
        launch = cluster.armada.start(*words)
        recorded = f"{name} X=1"
        eventually(lambda: any(run["name"] == recorded for run in cluster.armada.json("ps", "--cached")))  # noqa: B023
        try:
            launch.wait(timeout=pause_s)
        except subprocess.TimeoutExpired:
            launch.kill()
        launch.communicate()
        if launch.returncode != 0:
            cluster.armada.json(*words)
        (sweep,) = {run["sweep"] for run in cluster.armada.json("ps", "--cached") if run["name"].startswith(f"{name} ")}
        found = await_ends(cluster, sweep)
        assert {cell["state"] for cell in found} == {"succeeded"}, found
        assert sorted(marks(cluster, name)) == ["+1", "+2", "+3", "-1", "-2", "-3"]
        assert len(arrays(cluster, sweep)) == 1
