"""Sweeps on real Slurm and real HTCondor: one array, a limit that holds, cells that are runs of their own."""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
from typing import Any

import pytest

from tests.conftest import Armada, eventually
from tests.fleet.batch_hosts import ROOT, SELDOM_S, Cluster, add_cluster
from tests.fleet.conftest import Fleet
from tests.fleet.test_batch import shell_job
from tests.fleet.test_launch import ROWS, TRAINING

pytestmark = [pytest.mark.timeout(1500)]
MARKS = 'echo "+$X" >> /home/researcher/marks-$SWEEP; {}; echo "-$X" >> /home/researcher/marks-$SWEEP'


@pytest.fixture(
    params=[pytest.param(engine, marks=pytest.mark.xdist_group(engine)) for engine in ("slurm", "htcondor")]
)
def cluster(request: pytest.FixtureRequest, armada: Armada, fleet: Fleet) -> Cluster:
    return add_cluster(armada, fleet, request.param)


def sweep_of(cluster: Cluster, script: str, *words: str, name: str) -> str:
    shell_job(cluster.armada, MARKS.format(script), name=name, env={"SWEEP": name, "X": "0"})
    cluster.shell(f"rm -f /home/researcher/marks-{name}")
    return str(cluster.armada.json("sweep", "exp.yaml", "--host", cluster.host, *words)["sweep"])


def marks(cluster: Cluster, name: str) -> list[str]:
    return cluster.shell(f"cat /home/researcher/marks-{name} 2>/dev/null || true").split()


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
    running: set[str] = set()
    most = 0
    for mark in told:
        (running.add if mark.startswith("+") else running.discard)(mark[1:])
        most = max(most, len(running))
    return most


def lose_node(cluster: Cluster, sweep: str, name: str, cell: int) -> list[int]:
    """Have the node of a cell fail; the cells that ran there."""
    record = f"{ROOT}/runs/{sweep}-{cell:03}/submissions/1/job.json"
    job = json.loads(cluster.shell(f"cat {record}"))["job_id"]
    lost = [cell]
    if cluster.engine == "slurm":
        node = cluster.shell(f"squeue --noheader --jobs={job} --format=%N").strip()
        there = cluster.shell(f"squeue --noheader --nodelist={node} --states=RUNNING --format=%K").split()
        lost = sorted({int(index) + 1 for index in there})
        cluster.root_shell(f"scontrol update NodeName={node} State=DOWN Reason=broken")
    else:
        cluster.shell(f"condor_vacate_job -fast {job}")
    cluster.shell(f"printf '%s\\n' {' '.join(f'={each}' for each in lost)} >> /home/researcher/marks-{name}")
    return lost


def hurry(cluster: Cluster, sweep: str) -> None:
    """Bring the node back, and spare its jobs the two minutes that Slurm makes them wait; HTCondor makes nobody wait."""
    if cluster.engine == "slurm":
        cluster.root_shell("scontrol update NodeName=ALL State=RESUME 2>/dev/null || true")
        said = cluster.shell("squeue --noheader --array --states=PENDING --format='%i %r %j'")
        waiting = [line.split()[0] for line in said.splitlines() if "BeginTime" in line and f".{sweep}." in line]
        for job in waiting:
            cluster.shell(f"scontrol update JobId={job} StartTime=now+2seconds || true")


@pytest.mark.takes_long("a batch system starts four rounds of jobs, and one of them again")
def test_twelve_cells_are_one_array_that_keeps_its_limit_and_those_of_a_node_that_fails_go_on(cluster: Cluster) -> None:
    name = f"twelve-{cluster.engine}"
    values = ",".join(map(str, range(1, 13)))
    script = "if [ $X = 2 ] && [ $ARMADA_ATTEMPT = 1 ]; then sleep 600; fi; sleep 1"
    sweep = sweep_of(cluster, script, "--grid", f"env.X={values}", "--parallel", "3", name=name)
    assert len(arrays(cluster, sweep)) == 1
    eventually(lambda: "+2" in marks(cluster, name))
    lost = lose_node(cluster, sweep, name, 2)
    assert 2 in lost

    def ended() -> list[dict[str, Any]] | None:
        hurry(cluster, sweep)
        found = cells(cluster, sweep)
        return found if all(cell["state"] in ("succeeded", "failed", "cancelled") for cell in found) else None

    found = eventually(ended, within_s=240, longest_pause_s=SELDOM_S) or []
    assert {cell["state"] for cell in found} == {"succeeded"}, found
    told = marks(cluster, name)
    assert sorted(set(told)) == sorted(f"{sign}{x}" for sign in "+-" for x in range(1, 13)) + [f"={x}" for x in lost]
    assert most_at_once(told) <= 3, told
    assert len(arrays(cluster, sweep)) == 1
    assert cluster.look(f"{sweep}-002")["attempt"] == 2


@pytest.mark.takes_long("jobs start, are stopped, and fail")
def test_cells_are_stopped_shown_and_retried_one_by_one(cluster: Cluster) -> None:
    name = f"stop-{cluster.engine}"
    script = "[ $X = 1 ] && [ ! -e again ] && touch again && exit 3; [ $X = 1 ] || sleep 600"
    sweep = sweep_of(cluster, script, "--grid", "env.X=1,2,3,4", "--parallel", "2", name=name)
    eventually(lambda: "+2" in marks(cluster, name))
    eventually(lambda: cells(cluster, sweep)[0]["state"] == "failed", longest_pause_s=SELDOM_S)
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
    for number, pause_s in enumerate((0.1, 0.6)):
        name = f"cut-{cluster.engine}-{number}"
        shell_job(cluster.armada, MARKS.format("true"), name=name, env={"SWEEP": name, "X": "0"})
        cluster.shell(f"rm -f /home/researcher/marks-{name}")
        words = ["sweep", "exp.yaml", "--host", cluster.host, "--grid", "env.X=1,2,3"]
        launch = cluster.armada.start(*words)
        eventually(functools.partial(own_sweeps, cluster, name))
        with contextlib.suppress(subprocess.TimeoutExpired):
            launch.wait(timeout=pause_s)
        launch.kill()
        launch.communicate()
        if launch.returncode != 0:
            cluster.armada.json(*words)
        # Where the first command was ended after all was done, the second one is another sweep.
        own = own_sweeps(cluster, name)
        for sweep in own:
            found = await_ends(cluster, sweep)
            assert {cell["state"] for cell in found} == {"succeeded"}, found
            assert len(arrays(cluster, sweep)) == 1
        assert sorted(marks(cluster, name)) == sorted(["+1", "+2", "+3", "-1", "-2", "-3"] * len(own))


def own_sweeps(cluster: Cluster, name: str) -> set[str]:
    found = cluster.armada.json("ps", "--cached")
    return {run["sweep"] for run in found if run["name"].startswith(f"{name} ")}


def test_an_array_whose_answer_was_lost_is_found_and_its_workers_can_be_entered(cluster: Cluster) -> None:
    name = f"lost-{cluster.engine}"
    sweep = sweep_of(cluster, "sleep 600", "--grid", "env.X=1,2,3", "--parallel", "1", name=name)
    eventually(lambda: "+1" in marks(cluster, name))
    there = f"{ROOT}/sweeps/{sweep}/arrays/1"
    records = f"{ROOT}/runs/{sweep}-*/submissions/1/job.json"
    before = cluster.shell(f"cat {there}/job.json")
    # HTCondor's log of the first cell would name the array, too.
    logs = f"{ROOT}/runs/{sweep}-*/submissions/1/job.log"
    cluster.shell(f"rm {there}/job.json {there}/done.json {records}; rm -f {logs}")
    assert cluster.armada.run("sweep", "show", sweep).returncode == 0
    assert json.loads(cluster.shell(f"cat {there}/job.json"))["job_id"] == json.loads(before)["job_id"]
    assert len(cluster.shell(f"ls {records}").split()) == 3
    assert len(arrays(cluster, sweep)) == 1
    entered = cluster.armada.run("exec", f"{sweep}-001", "--", "sh", "-c", "echo on $X")
    assert (entered.returncode, entered.stdout) == (0, "on 1\n"), entered.stderr
    waiting = cluster.look(f"{sweep}-003")
    assert (waiting["state"], cluster.engine in waiting["because"]) == ("queued", True), waiting
    assert cluster.armada.run("sweep", "stop", sweep, "--grace", "1").returncode == 0
    assert [cell["state"] for cell in cells(cluster, sweep)] == ["cancelled"] * 3
    eventually(lambda: not living(cluster, sweep))


def living(cluster: Cluster, sweep: str) -> list[str]:
    """What the queue still has of a sweep, also what is to come."""
    if cluster.engine == "slurm":
        said = cluster.shell("squeue --noheader --format='%i %j'")
        return [line for line in said.splitlines() if f".{sweep}." in line]
    return cluster.shell(
        f"condor_q -factory -constraint 'ArmadaArray == \"armada.{sweep}.array1\"' -af ClusterId"
    ).split()


@pytest.mark.xdist_group("slurm")
@pytest.mark.takes_long("two jobs import torch and train; the first on a host builds its environment")
def test_the_cells_of_a_bench_are_jobs_of_one_array_and_their_rows_one_table(armada: Armada, fleet: Fleet) -> None:
    cluster = add_cluster(armada, fleet, "slurm")
    armada.write("train.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS * 8))
    armada.write("exp.yaml", json.dumps({**TRAINING, "resources": {"processes": 1}}))
    pace = ("--warmup", "2", "--seconds", "0.1", "--steps", "3")
    words = ("bench", "exp.yaml", "--host", cluster.host, "--grid", "train.micro_batch_size=2,4", "--array", *pace)
    measured = armada.run(*words, "--json", timeout_s=1200)
    assert measured.returncode == 0, measured.stderr
    told = json.loads(measured.stdout)
    assert told["state"] == "succeeded"
    assert [cell["status"] for cell in told["cells"]] == ["measured", "measured"]
    assert all(cell["tokens_per_s"] > 0 and cell["cost_per_million_tokens"] is None for cell in told["cells"])
    assert told["best"] in (1, 2)
    assert len(arrays(cluster, told["run_id"])) == 1
    places = [cluster.shell(f"cat {ROOT}/runs/{told['run_id']}-00{number}/submissions/1/job.json") for number in (1, 2)]
    assert len({json.loads(place)["job_id"].partition("_")[0] for place in places}) == 1
    assert armada.json("bench", "--show", told["run_id"])["cells"] == told["cells"]
