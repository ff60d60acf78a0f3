"""Slurm of 2021 and of 2025: the same questions, the same answers. These forget an ended job after two seconds."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Armada, eventually
from tests.fleet.batch_hosts import ROOT, Cluster, add_cluster
from tests.fleet.conftest import Fleet
from tests.fleet.test_batch import COUNT, shell_job

pytestmark = [pytest.mark.timeout(1500)]


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in ("slurm-20", "slurm-24")])
def cluster(request: pytest.FixtureRequest, armada: Armada, fleet: Fleet) -> Cluster:
    return add_cluster(armada, fleet, "slurm", on=request.param)


def forgotten(cluster: Cluster, run_id: str) -> None:
    """Wait until slurmctld no longer knows the run's job."""
    eventually(lambda: not cluster.job_ids(run_id), within_s=120)


def test_a_run_goes_through(cluster: Cluster) -> None:
    shell_job(cluster.armada, f"{COUNT}; exit 4")
    run_id = cluster.launch()
    run = cluster.becomes(run_id, "failed", "succeeded")
    assert (run["state"], run["exit_code"]) == ("failed", 4)
    assert cluster.starts(run_id) == 1


def test_a_preempted_run_goes_on(cluster: Cluster) -> None:
    shell_job(cluster.armada, f"{COUNT}; [ $ARMADA_ATTEMPT = 2 ] && exit 0; sleep 600")
    run_id = cluster.launch()
    cluster.says(run_id, "attempt 1")
    cluster.preempt(run_id)
    cluster.hurry(run_id)
    run = cluster.becomes(run_id, "succeeded", "failed")
    assert (run["state"], run["attempt"]) == ("succeeded", 2), (run["reason"], run["message"], run["because"])


def test_what_could_never_run_is_refused(cluster: Cluster) -> None:
    shell_job(cluster.armada, "true")
    assert "ARM012" in cluster.launch("--set", "resources.cpus=99", rc=3)


@pytest.mark.takes_long("a batch system starts two rounds of jobs")
def test_a_sweep_is_an_array_of_which_one_cell_can_be_stopped(cluster: Cluster) -> None:
    shell_job(cluster.armada, "echo ready; [ $X != 2 ] || sleep 600", env={"X": "0"})
    words = ["sweep", "exp.yaml", "--host", cluster.host, "--grid", "env.X=1,2,3", "--parallel", "2"]
    sweep = cluster.armada.json(*words)["sweep"]
    cluster.says(f"{sweep}-002", "ready")
    assert cluster.armada.run("stop", f"{sweep}-002", "--grace", "5").returncode == 0
    states = {
        cell: cluster.becomes(f"{sweep}-00{cell}", "succeeded", "failed", "cancelled")["state"] for cell in (1, 2, 3)
    }
    assert states == {1: "succeeded", 2: "cancelled", 3: "succeeded"}


@pytest.mark.takes_long("Slurm must forget the job, and its silence is believed only after it persisted")
def test_a_job_that_ended_unseen_without_a_word_is_told_by_accounting_or_said_to_be_gone(cluster: Cluster) -> None:
    shell_job(cluster.armada, "echo ready; sleep 600")
    run_id = cluster.launch()
    cluster.says(run_id, "ready")
    # The job may have written before its supervisor noted that it runs.
    eventually(lambda: json.loads(cluster.shell(f"cat {ROOT}/runs/{run_id}/state.json"))["state"] == "running")
    begun = json.loads(cluster.shell(f"cat {ROOT}/runs/{run_id}/attempts/1/run.json"))
    # Its session, too: this Slurm follows process groups, and would leave the job alive where the agent sees it.
    cluster.root_shell(f"kill -9 {begun['supervisor']['pid']}; kill -9 -{begun['process']['pid']}")
    forgotten(cluster, run_id)
    assert cluster.look(run_id)["state"] == "running"  # an answer without the job is not believed at once
    run = cluster.becomes(
        run_id, "failed", "cancelled", "succeeded", within_s=500
    )  # three minutes of silence are part of it
    expected = {"slurm-20": "gone", "slurm-24": "ended_silently"}[cluster.host]
    assert (run["state"], run["reason"]) == ("failed", expected), run
