"""Clusters in trouble: links cut while runs are handed over, controllers that are down, nodes that restart."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from armada.paths import HomePaths
from tests.chance import dice
from tests.conftest import Armada, eventually
from tests.daemon.conftest import SAVER, published
from tests.fleet import machines
from tests.fleet.batch_hosts import ROOT, SELDOM_S, Cluster, add_cluster
from tests.fleet.conftest import BadLink, Fleet
from tests.fleet.test_batch import COUNT, shell_job
from tests.fleet.test_launch import UNCUT, time_of_a_launch
from tests.fleet.test_odd_hosts import with_setup

pytestmark = [pytest.mark.timeout(1500)]
CUTS = 30 if "ARMADA_FAULT_KILLS" in os.environ else 4
WORKERS = {"slurm": ["slurm", "slurm-2"], "htcondor": ["condor"]}
ENGINES = [pytest.param(engine, marks=pytest.mark.xdist_group(engine)) for engine in ("slurm", "htcondor")]


@pytest.fixture(params=ENGINES)
def cluster(request: pytest.FixtureRequest, armada: Armada, fleet: Fleet) -> Cluster:
    return add_cluster(armada, fleet, request.param)


@pytest.mark.fault(
    "link reset at a random point of a launch on a cluster",
    "one job for each launch that says it handed one over, none for the others",
)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.takes_long("a launch for every place where the link is cut, and each waits for the batch system")
def test_cut_links_hand_over_one_job_each(
    armada: Armada,
    fleet: Fleet,
    engine: str,
    bad_link: Callable[..., BadLink],
    record_property: Callable[[str, object], None],
) -> None:
    cluster = add_cluster(armada, fleet, engine)
    link = bad_link(fleet.host(cluster.host), "--rtt-ms", "4")
    hosts = armada.folder / "home" / "config" / "hosts.yaml"
    assert armada.run("hosts", "rm", cluster.host).returncode == 0
    words = ["hosts", "add", cluster.host, f"researcher@127.0.0.1:{link.port}", "--scheduler", engine, "--yes"]
    added = armada.run(*words, "--identity", str(machines.IDENTITY))
    assert added.returncode == 0, added.stderr
    hosts.write_text(hosts.read_text() + f"    {engine}: {{poll: 1s}}\n")
    chance = dice(5)
    codes = []
    took_s = time_of_a_launch(armada, cluster.host, resources={"memory": "200M"})
    for number in range(CUTS):
        shell_job(armada, f"{COUNT}; exit 3", name=f"cut-{number}")
        launch = armada.start("launch", "--host", cluster.host, "exp.yaml", "--json")
        try:
            launch.wait(timeout=chance.uniform(0.2, 1.0) * took_s)
        except subprocess.TimeoutExpired:
            link.reset()
        _, err = launch.communicate(timeout=180)
        codes.append(launch.returncode)
        assert launch.returncode in (0, 4), err
    eventually(lambda: all(run["state"] in ("failed", "succeeded") for run in armada.json("ps")), within_s=400)
    ended = [run for run in armada.json("ps", "--cached") if run["name"] != UNCUT]
    assert {run["exit_code"] for run in ended} == {3}
    assert len(ended) == codes.count(0)
    for run in ended:
        assert cluster.starts(run["run_id"]) == 1
        assert len(cluster.job_ids(run["run_id"])) == 1
    record_property("times", CUTS)
    record_property("seen", f"{engine}: {codes.count(0)} single jobs, {codes.count(4)} refused with exit 4")


def count_questions(cluster: Cluster) -> Callable[[], int]:
    """Put a program before each that asks the controller, which counts; what gives the number."""
    tools = {"slurm": ("squeue", "sbatch", "scancel", "sinfo", "sacct"), "htcondor": ("condor_q", "condor_submit")}
    folder = f"/home/researcher/counts-{uuid.uuid4().hex}"
    count = f'#!/bin/sh\necho >> {folder}/asked\nexec /usr/bin/${{0##*/}} "$@"\n'
    places = " ".join(f"{folder}/{tool}" for tool in tools[cluster.engine])
    cluster.shell(
        f"mkdir {folder}; for tool in {places}; do printf %s {shlex.quote(count)} > $tool; chmod 755 $tool; done"
    )
    with_setup(cluster.armada, cluster.host, [f"export PATH={folder}:$PATH"])
    return lambda: int(cluster.shell(f"cat {folder}/asked 2>/dev/null | wc -l"))


@pytest.mark.fault(
    "slurmctld or schedd down while a run is on",
    "the state stays and its age grows; a launch is refused or its outcome unknown; everything goes on when it is back",
)
@pytest.mark.takes_long("squeue and sbatch try for a while before they say that the controller is down")
def test_a_controller_that_is_down_harms_no_run(cluster: Cluster) -> None:
    shell_job(cluster.armada, "echo ready; while [ ! -e go ]; do sleep 0.2; done; exit 5")
    run_id = cluster.launch()
    cluster.says(run_id, "ready")
    asked = count_questions(cluster)
    down, up = {
        "slurm": ("pkill slurmctld", "slurmctld"),
        "htcondor": ("condor_off -fast -daemon schedd", "condor_on -daemon schedd"),
    }[cluster.engine]
    cluster.root_shell(down)
    try:
        eventually(lambda: not cluster.answers())
        during = cluster.look(run_id)
        assert during["state"] == "running"
        before = asked()
        why = cluster.armada.run("why", run_id)
        assert why.returncode == 3, why.stdout + why.stderr
        assert "does not answer" in why.stderr
        between = asked()
        assert between - before <= 1, "one question of all that `why` asks waits for a controller that is down"
        refused = cluster.armada.run("launch", "--host", cluster.host, "exp.yaml", "--json", timeout_s=300)
        assert refused.returncode == 3, refused.stderr
        assert "does not answer" in refused.stderr
        assert asked() - between <= 2, "one question of the launch waits, and one look at the queue is due meanwhile"
        assert len(cluster.armada.json("ps", "--cached")) <= 2
    finally:
        cluster.root_shell(up)
    cluster.is_ready()
    cluster.shell(f"touch ~/.armada/runs/{run_id}/work/go")
    # HTCondor lets a schedd that was away reconnect to its job, or starts the job anew: either way it ends as it should.
    run = cluster.becomes(run_id, "failed", "succeeded", within_s=300)
    assert (run["state"], run["exit_code"]) == ("failed", 5), run


@pytest.mark.fault(
    "kill -9 of the supervisor on a cluster",
    "running while the machine that is asked shows its job; then failed with what the batch system says, one job",
)
def test_a_supervisor_killed_on_a_worker_ends_the_run_with_the_word_of_the_batch_system(cluster: Cluster) -> None:
    cluster.armada.env["MY_SECRET"] = "canary-77aa"
    shell_job(cluster.armada, "echo ready; exec sleep 86399", secrets=["MY_SECRET"])
    run_id = cluster.launch()
    cluster.says(run_id, "ready")
    workers = ["slurm", "slurm-2"] if cluster.engine == "slurm" else [cluster.host]
    left = "pgrep -fx 'sleep 86399'"
    try:
        for worker in workers:
            cluster.fleet.run(worker, f"pkill -9 -f '[s]upervise.*{run_id}' || true")
        if cluster.engine == "slurm":  # the fleet's follows process groups, not cgroups, and so loses the job
            if cluster.fleet.run(cluster.host, f"{left} | wc -l").strip() != "0":  # the agent there sees it
                eventually(lambda: cluster.look(run_id)["reason"] == "supervisor_lost", within_s=300)
            for worker in workers:
                cluster.fleet.run(worker, f"{left} | xargs -r kill -9")
        run = cluster.becomes(
            run_id, "failed", "cancelled", "succeeded", within_s=300
        )  # three minutes of silence are part of it
        assert (run["state"], run["reason"]) == ("failed", "ended_silently")
        assert len(cluster.job_ids(run_id)) == 1
        there = cluster.shell(f"grep -rl canary-77aa {ROOT}/runs/{run_id} || true").strip()
        # Slurm still has the ended job, which an administrator may requeue.
        assert there == (f"{ROOT}/runs/{run_id}/secrets.env" if cluster.engine == "slurm" else "")
        if cluster.engine == "htcondor":
            eventually(lambda: cluster.fleet.run(cluster.host, f"{left} | wc -l").strip() == "0")
    finally:
        for worker in workers:
            cluster.fleet.run(worker, f"{left} | xargs -r kill -9")


@pytest.mark.fault(
    "an administrator cancels a job that waits, and requeues it after its end was seen",
    "cancelled, then queued, then the job runs with its secret; its end is recorded, and the secret deleted",
)
@pytest.mark.xdist_group("slurm")
@pytest.mark.takes_long("a job is cancelled, requeued and run, and Slurm is asked between")
def test_a_requeued_job_is_seen_again_after_its_end(armada: Armada, fleet: Fleet) -> None:
    cluster = add_cluster(armada, fleet, "slurm", lines=["#SBATCH --begin=now+1hour"])
    armada.env["MY_SECRET"] = "canary-77ab"
    shell_job(armada, "echo has ${#MY_SECRET}", secrets=["MY_SECRET"])
    run_id = cluster.launch()
    cluster.becomes(run_id, "queued")
    job = cluster.job_id(run_id)
    cluster.root_shell(f"scancel {job}")
    assert cluster.becomes(run_id, "cancelled")["reason"] == "removed"
    cluster.root_shell(f"scontrol requeue {job}")
    cluster.becomes(run_id, "queued")
    cluster.root_shell(f"scontrol update JobId={job} StartTime=now+2seconds")
    cluster.becomes(run_id, "succeeded")
    cluster.says(run_id, "has 11")
    assert cluster.shell(f"grep -rl canary-77ab {ROOT}/runs/{run_id} || true") == ""


@pytest.mark.fault(
    "black hole during the hand-over to a cluster",
    "exit 9; the same command finds the run, one job",
)
# Two minutes of silence. The same hand-over to an SSH host is in test_daemon.py, a cut one to a cluster above.
@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_a_hand_over_into_a_black_hole_is_found_again(
    armada: Armada, fleet: Fleet, engine: str, bad_link: Callable[..., BadLink]
) -> None:
    cluster = add_cluster(armada, fleet, engine)
    link = bad_link(fleet.host(cluster.host), "--rtt-ms", "600")
    hosts = armada.folder / "home" / "config" / "hosts.yaml"
    assert armada.run("hosts", "rm", cluster.host).returncode == 0
    words = ["hosts", "add", cluster.host, f"researcher@127.0.0.1:{link.port}", "--scheduler", engine, "--yes"]
    assert armada.run(*words, "--identity", str(machines.IDENTITY)).returncode == 0
    hosts.write_text(hosts.read_text() + f"    {engine}: {{poll: 1s}}\n")
    shell_job(armada, f"{COUNT}; exit 3")
    launch = armada.start("launch", "--host", cluster.host, "exp.yaml", "--json")
    eventually(lambda: [run["state"] for run in armada.json("ps", "--cached")] == ["preparing"])
    link.toggle()
    _, err = launch.communicate(timeout=400)
    assert launch.returncode in (4, 9), err  # 4: the link was cut before anything was handed over
    link.toggle()
    again = armada.json("launch", "--host", cluster.host, "exp.yaml")
    (run,) = eventually(lambda: [run for run in armada.json("ps") if run["state"] == "failed"], within_s=200)
    assert (run["run_id"], run["exit_code"]) == (again["run_id"], 3)
    assert cluster.starts(run["run_id"]) == 1
    assert len(cluster.job_ids(run["run_id"])) == 1


@pytest.mark.fault(
    "a Slurm node dies under a run and comes back", "the run is queued again and goes on as its next attempt"
)
@pytest.mark.xdist_group("slurm")
@pytest.mark.takes_long("slurmctld gives a silent node up after its SlurmdTimeout, and the node must come back")
def test_a_node_that_dies_gives_its_run_back(armada: Armada, fleet: Fleet) -> None:
    cluster = add_cluster(armada, fleet, "slurm", lines=["#SBATCH --nodelist=slurm-2"])
    cluster.is_ready()
    shell_job(armada, f"{COUNT}; [ $ARMADA_ATTEMPT = 2 ] && exit 0; sleep 600")
    run_id = cluster.launch()
    cluster.says(run_id, "attempt 1")
    with fleet.borrow("slurm-2") as node:
        machines.kill(node)
        lost = cluster.becomes(run_id, "queued", "failed", within_s=400)
        assert (lost["state"], lost["reason"]) == ("queued", "node_failure"), lost
    cluster.is_ready()
    cluster.hurry(run_id)
    run = cluster.becomes(run_id, "succeeded", "failed", within_s=300)
    assert (run["state"], run["attempt"]) == ("succeeded", 2), run
    assert cluster.starts(run_id) == 2


@pytest.mark.fault(
    "an empty squeue, rc 0, under a run that goes on",
    "running, with both words; its secrets stay; it ends as it would have",
)
@pytest.mark.xdist_group("slurm")
@pytest.mark.takes_long("the lie has to last for longer than an empty answer was once believed")
def test_an_empty_queue_ends_no_run_that_goes_on(armada: Armada, fleet: Fleet) -> None:
    cluster = add_cluster(armada, fleet, "slurm")
    lies = f"/home/researcher/lies-{uuid.uuid4().hex}"
    lie = '#!/bin/sh\n[ -e "$(dirname "$0")/on" ] || exec /usr/bin/squeue "$@"\n'
    cluster.shell(f"mkdir {lies} && printf '%s' {shlex.quote(lie)} > {lies}/squeue && chmod 755 {lies}/squeue")
    with_setup(armada, cluster.host, [f"export PATH={lies}:$PATH"])
    armada.env["MY_SECRET"] = "canary-31c4"
    shell_job(armada, "echo ready; while [ ! -e go ]; do sleep 0.2; done; exit 5", secrets=["MY_SECRET"])
    run_id = cluster.launch()
    cluster.says(run_id, "ready")
    cluster.becomes(run_id, "running")
    cluster.shell(f"touch {lies}/on")
    eventually(lambda: "its job wrote" in (cluster.look(run_id)["message"] or ""))
    assert cluster.look(run_id)["state"] == "running"
    watch = f"cat {ROOT}/runs/{run_id}/submissions/1/liveness.json"
    began = json.loads(cluster.shell(watch))["readers"][0]["watch"]["changed"]

    def lasted() -> bool:
        assert cluster.look(run_id)["state"] == "running"
        return bool(json.loads(cluster.shell(watch))["readers"][0]["watch"]["changed"] - began > 60)

    eventually(lasted, longest_pause_s=SELDOM_S)
    assert cluster.shell(f"test -e {ROOT}/runs/{run_id}/secrets.env && echo there").strip() == "there"
    cluster.shell(f"rm {lies}/on; touch {ROOT}/runs/{run_id}/work/go")
    run = cluster.becomes(run_id, "failed", "succeeded", within_s=240)
    assert (run["state"], run["exit_code"], run["attempt"]) == ("failed", 5, 1), run


@pytest.mark.fault(
    "HTCondor's event log of a waiting run deleted",
    "queued, by condor_q; it starts and ends as it would have",
)
@pytest.mark.xdist_group("htcondor")
@pytest.mark.takes_long("a log that is not there yet is waited for, before the queue is asked")
def test_a_run_whose_event_log_was_deleted_is_found_in_the_queue(armada: Armada, fleet: Fleet) -> None:
    cluster = add_cluster(armada, fleet, "htcondor")
    cluster.is_ready()
    others = cluster.occupy()
    try:
        shell_job(armada, "echo ready; exit 5")
        run_id = cluster.launch()
        cluster.becomes(run_id, "queued")
        cluster.shell(f"rm {ROOT}/runs/{run_id}/submissions/1/job.log")
        eventually(lambda: "idle by condor_q" in (cluster.look(run_id)["message"] or ""))
        assert cluster.look(run_id)["state"] == "queued"
    finally:
        cluster.leave(others)
    run = cluster.becomes(run_id, "failed", "succeeded", within_s=240)
    assert (run["state"], run["exit_code"], run["attempt"]) == ("failed", 5, 1), run
    assert len(cluster.job_ids(run_id)) == 1


@pytest.mark.fault(
    "HTCondor's event log of a waiting run put back to an older copy, after the run was removed from the queue",
    "queued for an hour; then the queue is asked for it: cancelled",
)
@pytest.mark.xdist_group("htcondor")
@pytest.mark.takes_long("the queue is asked several times before its silence about a job is believed")
def test_a_run_whose_event_log_was_restored_is_not_queued_for_ever(armada: Armada, fleet: Fleet) -> None:
    cluster = add_cluster(armada, fleet, "htcondor")
    cluster.is_ready()
    others = cluster.occupy()
    quiet = (
        "import json, sys; at = sys.argv[1]; told = json.load(open(at)); told['seen']['at'] -= 7200; "
        "json.dump(told, open(at, 'w'))"
    )
    try:
        shell_job(armada, "exit 5")
        removed, kept = cluster.launch(), cluster.launch()
        for run_id in (removed, kept):
            cluster.becomes(run_id, "queued")
            folder = f"{ROOT}/runs/{run_id}/submissions/1"
            if run_id == removed:
                cluster.shell(
                    f"cd {folder} && cp job.log older && condor_rm {cluster.job_ids(run_id)[0]} && "
                    "while ! grep -q '^009' job.log; do sleep 0.1; done; cat older > job.log"
                )
            cluster.shell(f"python3 -c {shlex.quote(quiet)} {folder}/watch.json")
        run = cluster.becomes(removed, "cancelled", "failed")
        assert (run["state"], run["reason"]) == ("cancelled", "removed"), run
        assert cluster.look(kept)["state"] == "queued"
    finally:
        cluster.leave(others)
    cluster.becomes(kept, "failed")


@pytest.mark.fault(
    "a whole cluster frozen and thawed",
    "last known state with `unreachable since`; after the thaw the run ends as it would have",
)
@pytest.mark.takes_long(
    "a frozen host keeps its TCP connections: it is silent for as long as a deadline before that is said"
)
def test_a_cluster_that_freezes_harms_no_run(cluster: Cluster) -> None:
    shell_job(cluster.armada, f"{COUNT}; while [ ! -e go ]; do sleep 0.2; done; exit 5")
    run_id = cluster.launch()
    cluster.says(run_id, "attempt 1")
    cluster.becomes(run_id, "running")
    nodes = [machines.MACHINES[name] for name in WORKERS[cluster.engine]]
    for node in nodes:
        machines.send(node, signal.SIGSTOP)
    try:
        assert cluster.look(run_id)["state"] == "running"
        (run,) = cluster.armada.json("ps", "--cached")
        assert run["unreachable_since"] is not None
    finally:
        for node in nodes:
            machines.send(node, signal.SIGCONT)
    cluster.is_ready()
    run = cluster.becomes(run_id, "running")
    assert run["attempt"] == 1
    cluster.shell(f"touch ~/.armada/runs/{run_id}/work/go")
    run = cluster.becomes(run_id, "failed", "succeeded", within_s=240)
    assert (run["state"], run["exit_code"], run["attempt"]) == ("failed", 5, 1), run
    assert cluster.starts(run_id) == 1


@pytest.mark.fault(
    "a cluster's disk full while a run writes its log and a checkpoint",
    "the run's end is known; what was whole comes home, the half-written checkpoint never does",
)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_disk_that_fills_under_a_run_on_a_cluster_publishes_nothing_half(
    armada: Armada, fleet: Fleet, engine: str
) -> None:
    there = f"/home/researcher/small-{uuid.uuid4().hex}"
    # A file system of the login node's own, so the job has to run there too.
    nodes: dict[str, Any] = {"exclude": ["slurm-2"]} if engine == "slurm" else {}
    cluster = add_cluster(armada, fleet, engine, **nodes)
    hosts = armada.folder / "home" / "config" / "hosts.yaml"
    hosts.write_text(hosts.read_text() + f"    root: {there}\n")
    owner = "uid=$(id -u researcher),gid=$(id -g researcher),mode=700"

    def resize(size: str) -> None:
        how = f"remount,size={size}" if cluster.root_shell(f"mountpoint -q {there} && echo there || true") else ""
        cluster.root_shell(f"mkdir -p {there}; mount -t tmpfs -o {how or f'size={size},{owner}'} tmpfs {there}")

    resize("1400m")
    try:
        waiting = "while not os.path.exists('go'): time.sleep(0.1)"
        filling = "try:\n    while True: os.write(1, b'x' * 65536)\nexcept OSError: pass"
        second = SAVER.strip().replace("range(1, count + 1)", "range(2, count + 2)")
        (armada.folder / "project").mkdir()
        (armada.folder / "project" / "job.py").write_text(f"{SAVER}\n{waiting}\n{filling}\n{second}\n")
        armada.command("python3", "job.py", "1", "3000000", "0", code="project")
        run_id = cluster.launch()
        eventually(lambda: cluster.look(run_id)["checkpoints_host"] == 1, within_s=200)
        resize("12m")
        cluster.shell(f"touch {there}/runs/{run_id}/work/go")
        eventually(lambda: " 100% " in cluster.root_shell(f"df {there} | tail -1"))
        assert cluster.look(run_id)["state"] in ("running", "failed")
        resize("1400m")
        run = cluster.becomes(run_id, "failed", "succeeded", within_s=240)
        assert (run["state"], run["reason"]) in (("failed", "exit_1"), ("failed", "disk_full")), run
        assert armada.run("pull", run_id).returncode == 0
        base = armada.folder / "home"
        assert published(HomePaths(config=base / "config", state=base / "state"), run_id) == [1]
    finally:
        cluster.root_shell(f"umount -l {there}")
