"""What the audit found about batch systems: a lie of the scheduler that was believed, and a run that never ended."""

from __future__ import annotations

import shlex
import uuid

from tests.fleet.batch_hosts import ROOT, Cluster, add_cluster
from tests.fleet.test_batch import COUNT, shell_job
from tests.fleet.test_odd_hosts import with_setup
from tests.tools.audit_findings.stage import ENDS, Ending, Finding, Stage
from tests.waiting import eventually

LOOKS = 16
"""How often a run is looked at while squeue lies: for more than the minute that the first release waited."""
STARTS = 4
"""After so many starts a run that cannot resume is said to start for ever."""


def _state(cluster: Cluster, run_id: str) -> str:
    run = cluster.look(run_id)
    return f"{run['state']} ({run['reason']})" if run["reason"] else str(run["state"])


def empty_queue(stage: Stage) -> Ending:
    """`squeue` answers with nothing, and 0, for more than a minute, while the run goes on."""
    cluster = add_cluster(stage.armada, stage.fleet, "slurm")
    lies = f"/home/researcher/lies-{uuid.uuid4().hex}"
    lie = '#!/bin/sh\n[ -e "$(dirname "$0")/on" ] || exec /usr/bin/squeue "$@"\n'
    cluster.shell(f"mkdir {lies} && printf '%s' {shlex.quote(lie)} > {lies}/squeue && chmod 755 {lies}/squeue")
    with_setup(stage.armada, cluster.host, [f"export PATH={lies}:$PATH"])
    stage.armada.env["MY_SECRET"] = "canary-5d02"
    job = "echo ready; while [ ! -e go ]; do sleep 0.2; done; exit 5"
    shell_job(stage.armada, job, name="s1-queue", secrets=["MY_SECRET"])
    run_id = cluster.launch()
    folder = f"{ROOT}/runs/{run_id}"
    try:
        cluster.says(run_id, "ready")
        cluster.becomes(run_id, "running")
        cluster.shell(f"touch {lies}/on")
        began = float(cluster.shell("date +%s"))
        states: list[str] = []

        def lasted() -> bool:
            states.append(_state(cluster, run_id))
            return float(cluster.shell("date +%s")) - began > 90 or states[-1].startswith(ENDS)

        eventually(lasted, "a lie that lasts", longest_pause_s=5.0)
        heart = cluster.shell(f"[ -e {folder}/work/go ] || squeue --noheader --format='%T %j' | grep {run_id} || true")
        secret = cluster.shell(f"[ -e {folder}/secrets.env ] && echo there || true").strip()
        cluster.shell(f"rm {lies}/on")
        states.append(after := _state(cluster, run_id))
        cluster.shell(f"touch {folder}/work/go")
        eventually(lambda: run_id not in cluster.shell("squeue --noheader --format='%j' --states=R,CG"), "its end")
        ended = _state(cluster, run_id)
    finally:
        cluster.shell(f"touch {folder}/work/go; rm -rf {lies}")
    lived = "RUNNING" in heart
    truth = f"its job {'ran' if lived else 'had ended'}; its secrets {'were there' if secret else 'were deleted'}; it then ended with 5"
    said = f"`show`: {', then '.join(dict.fromkeys(states))}; at the end {ended}"
    return Ending(said, truth, lived and (not secret or after.startswith(ENDS) or ended != "failed (exit_5)"))


def time_limit(stage: Stage) -> Ending:
    """A run that cannot resume comes to its time limit, again and again. Slurm's warning is sent by hand."""
    cluster = add_cluster(stage.armada, stage.fleet, "slurm")
    shell_job(stage.armada, f"{COUNT}; sleep 600", name="s1-limit", stop_grace_s=5)
    run_id = cluster.launch("--set", "resources.time_limit=30m")
    states: list[str] = []
    try:
        for number in range(1, STARTS + 1):
            cluster.says(run_id, f"attempt {number}")
            cluster.shell(f"scancel --batch --signal=USR1 {cluster.job_id(run_id)}")
            run = eventually(
                lambda: (now := cluster.look(run_id))["state"] != "running" and now, "the end of the attempt"
            )
            states.append(f"{run['state']} ({run['reason']})")
            if run["state"] in ENDS:
                break
            cluster.hurry(run_id)
    finally:
        stage.armada.run("stop", run_id, "--grace", "0")
        cluster.shell(f"scancel {' '.join(cluster.job_ids(run_id))} || true")
    starts = cluster.starts(run_id)
    truth = f"it was started {starts} time{'s' * (starts > 1)} from the beginning"
    return Ending(f"`show`: {', then '.join(states)}", truth, starts > 1)


FINDINGS: dict[str, Finding] = {"empty queue": empty_queue, "time limit": time_limit}
