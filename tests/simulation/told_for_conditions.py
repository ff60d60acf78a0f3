"""Stories for one condition of the core each, which say what armada has to answer: without the condition, the answer is another.

`look=failed/time_limit` is a run's state and the reason of it, `release=only_there+~dirty` the kinds of lines of a release
(`tests/simulation/answers.py`), `home=1,2` which steps are at home.
"""

from __future__ import annotations

TOLD_FOR_CONDITIONS = {
    "the newest at home stays while a newer one is still to come": (
        "launch+last_1+remote_9 save tick sync=open save tick look=running keeps=1 sync=open keeps=2"
    ),
    "a store that says that a host was stopped, and not when": (
        "launch end tick sync=final daemon=no break_stopping pause:4 daemon=no pause:16 daemon=no pause:16 daemon=no"
    ),
    "a copy that nobody read is damaged": (
        "launch+remote_9 save tick sync=open verified=1/0 pause:40 verified=1/10 sizes_only verified=1/never! damage "
        "release=damaged+lives verified=1/0! pause:40 sync=open verified=1/10!"
    ),
    "a copy that was verified is damaged later": (
        "launch+remote_9 save tick sync=open verified=1/0 pause:40 damage release=damaged+lives verified=1/10! "
        "pause:40 sync=open verified=1/20! release=damaged+lives verified=1/20!"
    ),
    "a home asks for a submission that others have passed by": (
        "launch end:0:1 tick look=failed/exit_1 demand_former:0:3 look=failed/secrets_missing "
        "demand_former:0:2=Conflict look=failed/secrets_missing"
    ),
    "a disk without room, and both homes are forgotten": (
        "launch+floor save save save save tick join forget forget:1 fill_disk:2 tick host=1,4 fill_disk:1 tick host=1,4"
    ),
    "a result changes while it is fetched, and then no more": (
        "launch+results save end tick write:1 meanwhile_write:7:4 sync=open sync=final release=yes"
    ),
    "its folder is removed while a release asks what there is": (
        "launch tick kill_supervisor meanwhile_hide_run:0:1 release=vanished look=running/folder_removed"
    ),
}

TOLD_FOR_CONDITIONS_WITH_SCRIPTS = {
    "its folder is removed, and its job makes a part of it anew": (
        "launch:1 tick kill_supervisor hide_run save release=runs_on+unnamed look=running/folder_removed"
    ),
}

TOLD_FOR_CONDITIONS_OF_SLURM = {
    "the job hears the scheduler alone, and says that it was preempted": (
        "launch start_job save tick terminate_job:0:1 tick look=queued waits=yes watch look=queued/preempted begun=1"
    ),
    "a guess, and its job begins while Slurm is down and the login node restarts": (
        "accounting:0:1 launch look=queued forget_job watch look=failed/gone recall_job lie start_job tick power_cut "
        "look=running over=no"
    ),
    "Slurm says that it has ended, its job writes once more, and its node dies": (
        "launch start_job tick look=running lie:1:2 pause:1 look=running tick look=running node_dies pause:3 "
        "look=running pause:8 look=running pause:1 look=failed/ended_silently pause:1 look=failed/ended_silently"
    ),
}

TOLD_FOR_CONDITIONS_OF_HTCONDOR = {
    "its log is another file, and the record of an older armada says nothing of its end": (
        "launch look=queued hold look=queued/held break_record:10:1 swap_log:1 look=queued"
    ),
}
