"""Stories of ends that a home was told, and whose records its host has lost since; told as those of `told.py`."""

from __future__ import annotations

TOLD_OF_ENDS = {
    "it succeeded, and its disk is put back to before that": (
        "launch save tick snapshot_host end tick look=succeeded sync=final restore_host look=succeeded pause:9 "
        "look=succeeded "
        "why=its_host_shows_an_older_state_of_it_than_before_its_disk_may_have_been_restored_from_a_snapshot "
        "look=succeeded retry=no begun=1 sync=final release=yes"
    ),
    "it failed, its disk is put back to before that, and it is resumed": (
        "launch save tick snapshot_host end:0:1 tick look=failed/exit_1 restore_host pause:9 look=failed/exit_1 pause:9 "
        "look=failed/exit_1 "
        "why=its_host_shows_an_older_state_of_it_than_before_its_disk_may_have_been_restored_from_a_snapshot "
        "resume=again look=running end tick look=succeeded begun=2"
    ),
    "it failed again after it was resumed, its disk is put back to before that, and it is stopped": (
        "launch end:0:1 tick look=failed/exit_1 snapshot_host resume=again look=running end:0:1 tick look=failed/exit_1 "
        "restore_host look=failed/exit_1 pause:9 look=failed/exit_1 stop=failed/exit_1 look=failed/exit_1 begun=2"
    ),
}

TOLD_OF_ENDS_WITH_SCRIPTS = {
    "a recovery breaks off, somebody removes the folder, and its job goes on": (
        "launch:3 break_off:1:2 join hide_run release:1=runs_on"
    ),
}

TOLD_OF_ENDS_ON_CLUSTERS = {
    "it succeeded, and the disk of its cluster is put back to before that": (
        "launch start_job save snapshot_host end tick look=succeeded restore_host look=succeeded pause:9 look=succeeded "
        "pause:9 look=succeeded pause:9 look=succeeded begun=1"
    ),
}

TOLD_OF_ENDS_OF_SLURM = {
    "it succeeded, its disk is put back to before that, and an administrator requeues it": (
        "launch start_job save snapshot_host end tick look=succeeded requeue_job restore_host follow "
        "look=queued start_job look=running end tick look=succeeded begun=2"
    ),
    "it was stopped, its disk is put back to before that, and an administrator requeues it": (
        "launch snapshot_host stop=cancelled/killed_by_user requeue_job restore_host follow look=queued "
        "start_job look=running end tick look=succeeded begun=1"
    ),
}
