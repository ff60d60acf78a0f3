"""Stories that both batch systems have to answer alike, told as those of `told_of_htcondor.py`."""

from __future__ import annotations

TOLD_OF_CLUSTERS = {
    "its resume is refused after its home saw the claim": (
        "launch start_job end:0:1 tick look=failed/exit_1 sync=final refuse resume=SchedulerRefused "
        "look=failed/exit_1 sync=final release=yes resume=again look=queued start_job tick end tick look=succeeded"
    ),
    "its resume is refused after another home saw the claim": (
        "launch start_job save end:0:1 tick look=failed/exit_1 sync=final join look:1=failed/exit_1 refuse:1 "
        "resume=SchedulerRefused look:1=failed/exit_1 sync:1=final stop:1=failed/exit_1 resume:1=again look:0=queued "
        "look:1=queued"
    ),
    "its disk is put back to before it was resumed, and its job waits": (
        "launch start_job end:0:1 tick look=failed/exit_1 sync=final snapshot_host resume=again look=queued "
        "restore_host look=queued release=queued pause:20 look=unknown/put_back release=queued stop=OutcomeUnknown "
        "start_job begun=1 look=unknown/put_back"
    ),
    "its disk is put back to before it was resumed, and its job runs": (
        "launch start_job end:0:1 tick look=failed/exit_1 sync=final snapshot_host resume=again look=queued start_job "
        "restore_host release=queued tick look=queued pause:20 look=unknown/put_back release=logs+queued end tick "
        "look=unknown/put_back sync=open living=0"
    ),
}

TOLD_OF_CLUSTERS_WITH_SCRIPTS = {
    "somebody removes its folder, and its job saves again": (
        "launch:1:2 start_job:3:3 look=running hide_run:1:3 save:0:2 tick:3:3 look=unknown/put_back sync:3:2=open "
        "release=queued"
    ),
    "somebody removes its folder, its job saves again, and a person removes the run": (
        "launch:3 start_job hide_run save tick sync=open rm=Conflict"
    ),
}
