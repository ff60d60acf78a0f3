"""Runs through real Slurm and real HTCondor: handed over once, followed, stopped, put back, gone on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Armada, eventually
from tests.fleet import machines
from tests.fleet.batch_hosts import ROOT, Cluster, add_cluster
from tests.fleet.conftest import Fleet
from tests.fleet.test_launch import ROWS, TRAINING

# One at a time on each cluster: tests fill it, hold its jobs and stop its daemons.
pytestmark = [pytest.mark.timeout(1500)]
COUNT = "date +%s >> starts; echo attempt $ARMADA_ATTEMPT"


@pytest.fixture(
    params=[pytest.param(engine, marks=pytest.mark.xdist_group(engine)) for engine in ("slurm", "htcondor")]
)
def cluster(request: pytest.FixtureRequest, armada: Armada, fleet: Fleet) -> Cluster:
    return add_cluster(armada, fleet, request.param)


def shell_job(armada: Armada, script: str, **more: Any) -> None:
    armada.command("sh", "-c", script, resources={"memory": "200M"}, **more)


def test_a_command_runs_and_its_words_arrive_as_they_are(cluster: Cluster) -> None:
    words = ['it\'s "quoted"', "$(touch x)", "two\nlines", "ünï — 漢", "%d $1 `x`", ""]
    cluster.armada.command("sh", "-c", 'for word; do printf "<%s>\\n" "$word"; done; exit 3', "sh", *words)
    run_id = cluster.launch()
    run = cluster.becomes(run_id, "succeeded", "failed")
    assert (run["state"], run["reason"], run["exit_code"]) == ("failed", "exit_3", 3)
    log = cluster.armada.run("logs", run_id).stdout
    assert "".join(f"<{word}>\n" for word in words) in log
    assert len(cluster.job_ids(run_id)) == 1


def test_the_gpus_are_those_the_scheduler_gave(armada: Armada, fleet: Fleet, cluster: Cluster) -> None:
    file = armada.folder / "home" / "config" / "hosts.yaml"
    file.write_text(file.read_text().replace("    profile: cpu\n", ""))  # a command needs none to be given GPUs
    armada.command("sh", "-c", "echo has $CUDA_VISIBLE_DEVICES", resources={"gpus": 2, "cpus": 1, "memory": "200M"})
    run_id = cluster.launch()
    run = cluster.becomes(run_id, "succeeded", "failed")
    assert (run["state"], len(run["gpus"])) == ("succeeded", 2), run
    assert f"has {','.join(map(str, run['gpus']))}" in armada.run("logs", run_id).stdout


def test_a_waiting_run_says_why_and_can_be_stopped(cluster: Cluster) -> None:
    shell_job(cluster.armada, COUNT)
    blocker = cluster.occupy()
    try:
        run_id = cluster.launch()
        waiting = cluster.becomes(run_id, "queued")
        assert cluster.engine in waiting["because"]
        stopped = cluster.armada.run("stop", run_id)
        assert stopped.returncode == 0, stopped.stderr
        assert cluster.look(run_id)["state"] == "cancelled"
    finally:
        cluster.leave(blocker)
    assert cluster.starts(run_id) == 0


def test_a_stop_leaves_a_job_alone_that_only_has_the_id_of_the_runs_own(cluster: Cluster) -> None:
    """A controller that lost its state gives ids anew."""
    shell_job(cluster.armada, COUNT)
    blocker = cluster.occupy()
    another = {"slurm": blocker, "htcondor": f"{blocker}.0"}[cluster.engine]
    try:
        run_id = cluster.launch()
        cluster.becomes(run_id, "queued")
        job = f"{ROOT}/runs/{run_id}/submissions/1/job.json"
        cluster.shell(f"""sed -i 's/"job_id": *"[^"]*"/"job_id": "{another}"/' {job}""")
        assert f'"{another}"' in cluster.shell(f"cat {job}")
        stopped = cluster.armada.run("stop", run_id)
        assert stopped.returncode == 0, stopped.stderr
        assert cluster.look(run_id)["state"] == "cancelled"
        slurm, htcondor = f"squeue --noheader --jobs={another} --format=%T", f"condor_q {another} -autoformat JobStatus"
        said = cluster.shell({"slurm": slurm, "htcondor": htcondor}[cluster.engine])
        assert said.strip() == {"slurm": "RUNNING", "htcondor": "2"}[cluster.engine]
    finally:
        cluster.leave(blocker)


def test_a_stopped_run_has_its_grace(cluster: Cluster) -> None:
    shell_job(cluster.armada, "trap 'echo saving; sleep 2; echo saved; exit 0' TERM; echo ready; sleep 600 & wait $!")
    run_id = cluster.launch()
    cluster.says(run_id, "ready")
    stopped = cluster.armada.run("stop", run_id, "--grace", "20")
    assert stopped.returncode == 0, stopped.stderr
    run = cluster.look(run_id)
    assert (run["state"], run["reason"]) == ("cancelled", "killed_by_user")
    cluster.says(run_id, "saved")


def test_a_preempted_run_goes_on_as_its_next_attempt(cluster: Cluster) -> None:
    shell_job(cluster.armada, f"{COUNT}; [ $ARMADA_ATTEMPT = 2 ] && exit 0; sleep 600")
    run_id = cluster.launch()
    cluster.says(run_id, "attempt 1")
    cluster.preempt(run_id)
    again = cluster.becomes(run_id, "queued", "succeeded")
    assert again["state"] == "succeeded" or again["reason"] == "preempted"
    cluster.hurry(run_id)
    run = cluster.becomes(run_id, "succeeded", "failed")
    assert (run["state"], run["attempt"]) == ("succeeded", 2)
    assert cluster.starts(run_id) == 2
    assert len(cluster.job_ids(run_id)) == 1
    first = json.loads(cluster.shell(f"cat {ROOT}/runs/{run_id}/attempts/1/exit.json"))
    assert (first["state"], first["reason"]) == ("requeued", "preempted")


def test_a_run_that_ended_badly_goes_on_as_a_new_job(cluster: Cluster) -> None:
    cluster.armada.env["MY_TOKEN"] = "s3cr3t"
    names = "env | sed s/=.*// | grep -v ^_CONDOR_ANCESTOR | sort > names-$ARMADA_ATTEMPT"
    script = f"{COUNT}; {names}; echo ${{#MY_TOKEN}} letters; [ -e been ] && exit 0; touch been; exit 3"
    shell_job(cluster.armada, script, secrets=["MY_TOKEN"])
    run_id = cluster.launch()
    failed = cluster.becomes(run_id, "failed", "succeeded")
    assert (failed["state"], failed["submission"]) == ("failed", 1)
    first = cluster.job_id(run_id)
    resumed = cluster.armada.run("resume", run_id)
    assert resumed.returncode == 0, resumed.stderr
    run = cluster.becomes(run_id, "succeeded", "failed")
    assert (run["state"], run["submission"], run["attempt"]) == ("succeeded", 2, 2)
    assert cluster.starts(run_id) == 2
    assert cluster.armada.run("logs", run_id).stdout.count("6 letters") == 2
    first_names, second_names = (
        cluster.shell(f"cat {ROOT}/runs/{run_id}/work/names-{number}").split() for number in (1, 2)
    )
    assert first_names == second_names
    assert {"HOME", "USER", "PATH", "MY_TOKEN"} <= set(first_names)
    assert not {"SSH_CONNECTION", "XDG_SESSION_ID"} & set(first_names)
    second = json.loads(cluster.shell(f"cat {ROOT}/runs/{run_id}/submissions/2/job.json"))
    assert second["job_id"] != first


def test_a_run_that_was_stopped_while_it_waited_can_be_resumed(cluster: Cluster) -> None:
    shell_job(cluster.armada, COUNT)
    blocker = cluster.occupy()
    try:
        run_id = cluster.launch()
        cluster.becomes(run_id, "queued")
        assert cluster.armada.run("stop", run_id).returncode == 0
        assert cluster.armada.run("resume", run_id).returncode == 0
        assert cluster.becomes(run_id, "queued")["submission"] == 2
    finally:
        cluster.leave(blocker)
    assert cluster.becomes(run_id, "succeeded", "failed")["state"] == "succeeded"
    assert cluster.starts(run_id) == 1


# Slurm is made to say that the time comes near; on HTCondor the supervisor's own clock does, 30 s after a start with a limit of 1 m.
LIMITS = {"slurm": "30m", "htcondor": "1m"}


def reach_the_limit(cluster: Cluster, run_id: str, begun: str = "attempt 1") -> None:
    cluster.says(run_id, begun)
    if cluster.engine == "slurm":  # what `--signal=B:USR1@…` sends
        cluster.shell(f"scancel --batch --signal=USR1 {cluster.job_id(run_id)}")


def test_a_run_that_can_resume_puts_itself_back_at_its_time_limit(cluster: Cluster) -> None:
    saving = (
        "trap 'mkdir -p out/step-60; echo w > out/step-60/w; exit 85' TERM; echo its trap is set; sleep 600 & wait $!"
    )
    script = f"{COUNT}; [ $ARMADA_ATTEMPT = 2 ] && echo $@ && exit 0; {saving}"
    more: dict[str, Any] = {
        "checkpoint": {"pattern": "out/step-*", "quiet_s": 1},
        "resume": ["--resume", "{checkpoint}"],
    }
    cluster.armada.command("sh", "-c", script, "sh", resources={"memory": "200M"}, stop_grace_s=5, **more)
    run_id = cluster.launch("--set", f"resources.time_limit={LIMITS[cluster.engine]}")
    reach_the_limit(cluster, run_id, "its trap is set")
    again = eventually(
        lambda: (r := cluster.look(run_id))["state"] in ("succeeded", "failed") or (r["reason"] == "time_limit" and r),
        within_s=120,
    )
    assert again is True or "attempt 1, first checkpoint: step 60" in again["message"]
    cluster.hurry(run_id)
    run = cluster.becomes(run_id, "succeeded", "failed")
    assert (run["state"], run["attempt"]) == ("succeeded", 2), run
    cluster.says(run_id, "out/step-60")
    assert len(cluster.job_ids(run_id)) == 1
    first = json.loads(cluster.shell(f"cat {ROOT}/runs/{run_id}/attempts/1/exit.json"))
    assert (first["state"], first["reason"], first["step"]) == ("requeued", "time_limit", 60)


def test_a_run_that_cannot_resume_fails_at_its_time_limit_once(cluster: Cluster) -> None:
    shell_job(cluster.armada, f"{COUNT}; sleep 600", stop_grace_s=5)
    run_id = cluster.launch("--set", f"resources.time_limit={LIMITS[cluster.engine]}")
    reach_the_limit(cluster, run_id)
    run = cluster.becomes(run_id, "succeeded", "failed")
    assert (run["state"], run["reason"], run["attempt"]) == ("failed", "time_limit", 1), run
    assert "give the task a `resume`" in run["message"]
    assert cluster.starts(run_id) == 1


@pytest.mark.xdist_group("slurm")
def test_a_failed_run_is_tried_again_as_often_as_the_host_says(armada: Armada, fleet: Fleet) -> None:
    cluster = add_cluster(armada, fleet, "slurm", max_retries=1)
    shell_job(armada, f"{COUNT}; exit 3")
    run_id = cluster.launch()
    again = cluster.becomes(run_id, "queued", "failed")
    eventually(lambda: cluster.look(run_id)["attempt"] == 1)
    assert again["state"] == "queued" or again["attempt"] == 2
    cluster.says(run_id, "attempt 1")
    eventually(lambda: cluster.look(run_id)["reason"] == "exit_3")
    cluster.hurry(run_id)
    run = cluster.becomes(run_id, "succeeded", "failed")
    assert (run["state"], run["reason"], run["attempt"]) == ("failed", "exit_3", 2)
    assert cluster.starts(run_id) == 2


def test_a_run_removed_by_hand_is_cancelled(cluster: Cluster) -> None:
    shell_job(cluster.armada, "echo ready; sleep 600")
    run_id = cluster.launch()
    cluster.says(run_id, "ready")
    cluster.leave(cluster.job_id(run_id))
    run = cluster.becomes(run_id, "cancelled", "failed", "succeeded")
    assert (run["state"], run["reason"]) == ("cancelled", "removed")


def test_a_run_held_and_released_by_hand_goes_on(cluster: Cluster) -> None:
    shell_job(cluster.armada, COUNT)
    blocker = cluster.occupy()
    try:
        run_id = cluster.launch()
        job = cluster.job_id(run_id)
        cluster.shell(f"scontrol hold {job}" if cluster.engine == "slurm" else f"condor_hold {job}")
        held = eventually(lambda: (r := cluster.look(run_id))["reason"] == "held" and r)
        assert held["state"] == "queued"
        assert "release" in held["message"]
        cluster.shell(f"scontrol release {job}" if cluster.engine == "slurm" else f"condor_release {job}")
    finally:
        cluster.leave(blocker)
    assert cluster.becomes(run_id, "succeeded", "failed")["state"] == "succeeded"
    assert cluster.starts(run_id) == 1


def test_a_host_without_the_batch_system_says_so(armada: Armada, fleet: Fleet) -> None:
    up = fleet.host("workstation")
    words = [
        "hosts",
        "add",
        "desk",
        up.target,
        "--identity",
        str(machines.IDENTITY),
        "--scheduler",
        "htcondor",
        "--yes",
    ]
    assert armada.run(*words).returncode == 0
    shell_job(armada, "true")
    refused = armada.run("launch", "--host", "desk", "exp.yaml")
    assert refused.returncode == 3, refused.stderr
    assert "condor_q is not installed on this host" in refused.stderr
    assert "hosts.yaml" in refused.stderr
    assert armada.json("ps", "--cached") == []


def test_what_could_never_run_is_refused_before_it_is_submitted(cluster: Cluster) -> None:
    shell_job(cluster.armada, "true")
    said = cluster.launch("--set", "resources.cpus=99", rc=3)
    assert "ARM012" in said
    assert cluster.armada.json("ps", "--cached") == []


@pytest.mark.xdist_group("slurm")
def test_drained_nodes_are_a_warning_with_their_reason_and_the_run_waits(armada: Armada, fleet: Fleet) -> None:
    cluster = add_cluster(armada, fleet, "slurm", lines=["#SBATCH --nodelist=slurm-2"])
    shell_job(armada, COUNT)
    cluster.root_shell("scontrol update nodename=slurm-2 state=drain reason='new disks'")
    try:
        launched = armada.run("launch", "--host", cluster.host, "exp.yaml")
        assert launched.returncode == 0, launched.stderr
        assert "⚠ ARM012 slurm cannot start this now" in launched.stdout
        assert "new disks" in launched.stdout
        assert cluster.shell("squeue --noheader --format=%T --user=researcher").split() == ["PENDING"]
    finally:
        cluster.root_shell("scancel --user=researcher; scontrol update nodename=slurm-2 state=resume")


def test_a_fast_job_gone_before_the_first_look_has_ended_well(cluster: Cluster) -> None:
    shell_job(cluster.armada, "true")
    run_ids = [cluster.launch() for _ in range(3)]
    for run_id in run_ids:
        assert cluster.becomes(run_id, "succeeded", "failed")["state"] == "succeeded"


# The same on both is twice two ranks with torch more. What Slurm does to a preempted job is in the test of a preempted run above, on
# three Slurms, and in those of trainings in test_clusters.py.
@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param("slurm", marks=[pytest.mark.xdist_group("slurm"), pytest.mark.long]),
        pytest.param("htcondor", marks=pytest.mark.xdist_group("htcondor")),
    ],
    indirect=True,
)
@pytest.mark.timeout(1800)
@pytest.mark.takes_long(
    "a real training with torch, twice, and the first on a host builds and compiles its environment"
)
def test_a_preempted_training_resumes_and_its_checkpoints_come_home(cluster: Cluster) -> None:
    armada = cluster.armada
    armada.write("train.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS * 8))
    training = {**TRAINING, "train": {**TRAINING["train"], "max_steps": 150}, "checkpoint": {"every_steps": 15}}
    armada.write("exp.yaml", json.dumps({**training, "resources": {"processes": 2, "cpus": 2, "memory": "3G"}}))
    run_id = cluster.launch()
    # Asked where it lies, because that takes a hundredth of what nine more checkpoints take.
    outbox = f"{ROOT}/runs/{run_id}/outbox"
    listing = f"ls -d {outbox}/.new-* {outbox}/[0-9a-f]* 2>/dev/null; grep -s failed {outbox}/../state.json || true"
    found = eventually(lambda: cluster.shell(listing), within_s=900, longest_pause_s=0.1)
    assert "failed" not in found, armada.run("logs", run_id).stdout
    cluster.preempt(run_id)
    cluster.hurry(run_id)
    eventually(lambda: cluster.look(run_id)["attempt"] == 2, within_s=300)
    run = cluster.becomes(run_id, "succeeded", "failed", within_s=900)
    assert (run["state"], run["step"], run["attempt"]) == ("succeeded", 150, 2), run
    assert "resuming from checkpoint-" in cluster.shell(f"cat {ROOT}/runs/{run_id}/output.log")
    assert armada.run("pull", run_id).returncode == 0
    kept = {c["step"]: Path(c["home_path"]) for c in cluster.look(run_id)["checkpoints"] if c["home_path"]}
    assert 150 in kept
    assert (kept[150] / "adapter_model.safetensors").stat().st_size > 1000


def test_the_secrets_of_a_run_are_in_no_job_file(cluster: Cluster) -> None:
    canary = "canary-6b1f0c"
    cluster.armada.env["MY_SECRET"] = canary
    shell_job(cluster.armada, "echo has ${#MY_SECRET}; sleep 600", secrets=["MY_SECRET"])
    run_id = cluster.launch()
    cluster.says(run_id, f"has {len(canary)}")
    job = cluster.job_id(run_id)
    show = (
        f"scontrol show job {job}; scontrol write batch_script {job} -"
        if cluster.engine == "slurm"
        else f"condor_q -long {job}"
    )
    assert canary not in cluster.shell(show)
    held = cluster.shell(f"grep -rl {canary} {ROOT}/runs/{run_id} || true").split()
    assert [Path(path).name for path in held] == ["secrets.env"]
    assert cluster.armada.run("stop", run_id, "--grace", "0").returncode == 0
    assert cluster.shell(f"grep -rl {canary} {ROOT}/runs/{run_id} || true") == ""
