"""Stories of what jobs write besides checkpoints, and of runs that are removed."""

from __future__ import annotations

TOLD_OF_WORK = {
    "a run of which all is home is removed": (
        "launch+results log save note tick end tick sync=final rm=removed release=yes home=1,2"
    ),
    "a run is not removed before it ended, nor before all of it is home": (
        "launch+results save note tick rm=Conflict end tick rm=Conflict sync=final rm=removed"
    ),
    "a run is not removed while its checkpoint at home is damaged": (
        "launch save tick end tick sync=final damage:0:1 rm=Conflict release=damaged"
    ),
    "a run is not removed while its checkpoint at home is missing": (
        "launch save tick end tick sync=final delete:0:1 rm=Conflict sync=final rm=removed home=1,2"
    ),
    "a run is not removed while notes of it lie on its host alone": (
        "launch+results note:0:1 end tick sync=final release=unnamed rm=Conflict"
    ),
    "… nor while they lie where a link leads": "launch+results note:0:3 end tick sync=final release=unnamed rm=Conflict",
    "what was sent with a run keeps it on no host": (
        "launch+results+code note end tick sync=final release=yes rm=removed"
    ),
    "… nor do its copies on a disk that was put back": (
        "launch+code snapshot_host tick restore_host look=failed/host_rebooted sync=final release=yes"
    ),
    "somebody renames its folder, and gives it its name back": (
        "launch save end tick rename_run look=unknown/not_on_host release=no_run sync=open rename_run look=succeeded "
        "sync=final home=1,2 release=yes"
    ),
    "what a run changed of it does": "launch+code unpack:0:3 end tick sync=final release=unnamed rm=Conflict",
    "what a run unpacked beside it does": "launch+code unpack end tick sync=final release=unnamed rm=Conflict",
    "… nor where they are of long ago": "launch unpack end tick sync=final release=unnamed rm=Conflict",
    "a run is not removed while its result at home is damaged or missing": (
        "launch+results note end tick sync=final damage_output rm=Conflict sync=final delete_output rm=Conflict "
        "sync=final rm=removed"
    ),
    "a job unpacks its result anew, with the size and the time that it had": (
        "launch+results unpack:0:1 tick sync=open unpack:0:1 end tick release=logs+only_there rm=Conflict sync=final "
        "release=yes rm=removed"
    ),
    "another home removes a run that this one has not fetched": (
        "launch save tick end tick join sync:1=final rm:1=Conflict sync=final rm:1=removed look=succeeded release=yes"
    ),
    "its folder is removed, and its job lives": "launch tick look=running hide_run rm=Conflict living=1",
    "its folder was removed after its end": "launch end tick sync=final lose_run rm=removed",
    "another home found it, its root went away before that home saw it there, and it is not removed": (
        "launch meanwhile_unmount:0:2 join rm:1=Conflict living=1 mount look:1=running"
    ),
    "its root is away, and it is not removed": "launch end tick sync=final unmount rm=Conflict mount rm=removed",
    "its host's disk is put back, and what home has of its log stays": (
        "launch log snapshot_host log log tick sync=open restore_host look=failed/host_rebooted sync=final "
        "log_at_home=same release=yes"
    ),
    "its host's disk is put back, and what home has of its results stays": (
        "launch+results note tick snapshot_host note tick sync=open restore_host look=failed/host_rebooted sync=final"
    ),
    "a power cut tears a result on its host that is home": "launch+results note sync=open tear tick sync=final",
    "its root is away, and notes of it lie there": (
        "launch note:0:1 end tick sync=final unmount release=away lines=its_root_on_the_host_is_not_the_folder_that_"
        "the_run_was_put_into_a_file_system_may_not_be_mounted_there_what_comes_home_of_it_is_home,_but_1_other_file_"
        "may_be_there_only_→_mount_it,_then_run_the_command_again_or_ignore_work release_anyway=~away mount "
        "release=unnamed"
    ),
    "its root is away, and nothing of it lies there alone": "launch+results note end tick sync=final unmount release=yes",
}

TOLD_OF_WORK_OF_SCRIPTS = {
    "what a script puts beside its work folder keeps its host": (
        "launch:1 note:0:5 end tick sync=final release=unnamed rm=Conflict"
    ),
    "… also in a folder that armada's trainings have there": (
        "launch:1 note:0:6 end tick sync=final release=unnamed rm=Conflict"
    ),
}

TOLD_OF_WORK_ON_CLUSTERS = {
    "its folder is removed before anybody looked, and its job runs": (
        "launch start_job hide_run rm=Conflict release=queued look=unknown/not_on_host rm=Conflict living=1"
    ),
    "its folder is removed while it waits": "launch look=queued lose_run rm=Conflict release=queued",
}
