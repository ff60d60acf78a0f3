"""Stories for conditions of the core that no other story notices; each says what armada has to answer, as its world truly is.

`look=failed/time_limit` is a run's state and the reason of it, `release=only_there+~dirty` the kinds of lines of a release
(`tests/simulation/answers.py`), `home=1,2` which steps are at home, `why` and `because` a sentence as one word.
"""

from __future__ import annotations

TOLD_OF_CONDITIONS = {
    "it ends and its root goes away while a stop asks, and another program of the same home saw its end": (
        "launch save tick look=running end:0:1 tick meanwhile_look&unmount stop=failed/exit_1 look=failed/exit_1"
    ),
    "the disk of the folder of runs is not mounted, and its job goes on": (
        "launch save tick look=running unmount_runs look=unknown/root_away release=runs_on stop=OutcomeUnknown reap=none "
        "mount look=running living=1 home=none host=1"
    ),
    "the disk of the folder of runs is not mounted, and not all of the run is home": (
        "launch save end tick look=succeeded unmount_runs sync=ArmadaError release=away look=succeeded rm=Conflict mount "
        "sync=final home=1,2 release=yes"
    ),
    "the disk of the folder of runs is not mounted, and another run is launched": (
        "launch save tick unmount_runs launch look=unknown/root_away mount look=running release=lives+logs+only_there+runs_on"
    ),
    "the folder of runs is a link to a disk that is not mounted, and its job goes on": (
        "launch save tick look=running unmount_runs:1 look=unknown/unreadable reap=none stop=OSError release=OSError mount "
        "look=running living=1 host=1"
    ),
    "the folder of runs is a link to a disk that is not mounted, and not all of the run is home": (
        "launch save end tick look=succeeded unmount_runs:1 sync=ArmadaError look=succeeded rm=Conflict mount sync=final "
        "home=1,2 release=yes"
    ),
    "its state says nothing, and no supervisor has started it": (
        "break_at:16 launch look=submitted break_state:3 look=submitted "
        "because=submission_1_is_claimed_no_supervisor_has_started_it begun=0"
    ),
    "its launch is interrupted between the folder of its submission and the claim": (
        "break_at:15 launch look=preparing because=its_folder_is_on_the_host_no_submission_was_claimed release=logs"
    ),
    "its supervisor is killed before it began an attempt": (
        "break_at:18 launch look=failed/never_started because=its_supervisor_is_dead_it_had_begun_no_attempt begun=0"
    ),
    "its records say no more than that a supervisor lives": (
        "launch break_state:3 lose_attempt look=submitted because=its_supervisor_lives_and_wrote_submitted living=1"
    ),
    "a sync is killed before its host heard what is at home": (
        "launch+remote_1 save save save tick look=running break_at:50 sync home=1,2,3 lets_go=none host=1,2,3 "
        "sync=open lets_go=none host=3"
    ),
    "its launch is interrupted, its host names no root, and it is stopped": (
        "old_agent:9 break_at:5 launch release=yes look=unknown/not_on_host stop=cancelled/killed_by_user release=yes"
    ),
    "it wrote a copy of a checkpoint's file, and then notes": (
        "launch save tick end tick write:8 sync=final release=yes release_anyway=~unnamed write release=unnamed "
        "release_anyway=~unnamed"
    ),
    "its files cannot be listed": (
        "launch save end tick look=succeeded sync=final hide_outputs release=unlistable "
        "lines=its_files_there_cannot_be_listed_OSError_Errno_5_Input_output_error_runs_run_0_outbox_→_None "
        "sync=ArmadaError hide_outputs:1 release=yes"
    ),
    "what its host says of it is not understood": (
        "launch save end tick look=succeeded sync=final misfit release=vanished look=succeeded misfit:1 release=vanished "
        "look=succeeded sync=ArmadaError misfit:2 release=yes sync=final"
    ),
}

TOLD_OF_CONDITIONS_OF_SLURM = {
    "a guess, and Slurm lists its job again": (
        "accounting:0:1 launch look=queued forget_job watch look=failed/gone recall_job pause:4 look=queued over=no "
        "pause:4 look=queued"
    ),
    "Slurm answers with an error and without a row for an hour": (
        "accounting:0:1 launch start_job tick look=running forget_job node_dies lie:0:3 pause:1 look=running pause:4 "
        "look=running pause:4 look=running pause:4 look=running pause:4 look=running pause:240 look=failed/gone"
    ),
    "the scheduler's signal ends the job, and comes to its supervisor a moment later": (
        "launch start_job save tick signal_late tick look=queued waits=yes pause:4 look=queued/preempted begun=1"
    ),
    "Slurm's answers lack its job, whose processes its login node sees": (
        "one_machine launch start_job tick look=running lie:0:1 pause:1 look=running "
        "because=slurm_does_not_say_not_in_the_queue_s_last_answer_its_supervisor_wrote_running truth look=running"
    ),
    "told to stop, and a release looks before it has ended; or after Slurm forgot it": (
        "accounting:0:1 launch launch start_job start_job tick look=running look:0:1=running ask_stop settle=0 forget_job:1 "
        "node_dies:1 ask_stop:0:1 look:0:1=running pause:30 look:0:1=running pause:30 look:0:1=running pause:30 settle=1 "
        "look:0:1=cancelled/killed_by_user"
    ),
    "given up, and its former node warns it that its time is almost up": (
        "launch+sft start_job save tick give_up start_job warn_former tick look=running waits=no living=1 begun=2 end "
        "tick look=succeeded"
    ),
}

TOLD_OF_CONDITIONS_OF_HTCONDOR = {
    "a job that its schedd forgot dies, its clock is set back, and its last dates come round again": (
        "accounting:0:1 launch set_clock:2 start_job tick look=running forget_job node_dies set_clock look=running "
        "because=htcondor_says_executing_and_its_supervisor_wrote_running pause:4 look=running pause:4 look=running "
        "pause:4 look=failed/gone wait wait wait wait wait wait wait wait wait wait wait pause:38 look=failed/gone "
        "pause:4 look=failed/gone"
    ),
    "its log is deleted before anybody read of it": (
        "launch start_job tick lie:1 look=running why=its_event_log_is_not_there_runs_run_0_submissions_1_job.log tick "
        "look=running"
    ),
    "its log is deleted after its first event was read, and its job writes": (
        "launch look=queued start_job tick lie:1 look=running "
        "why=its_event_log_is_not_there_runs_run_0_submissions_1_job.log tick look=running "
        "why=HTCondor_says_submitted_,_but_its_job_wrote_0_s_ago"
    ),
    "two runs of an array, which starts one after the other, and the first is stopped": (
        "sweep look=queued look:0:1=queued "
        "why:0:1=it_waits_for_its_turn_in_its_array,_of_which_only_some_jobs_run_at_once start_job tick look=running "
        "look:0:1=queued stop=cancelled/killed_by_user look:0:1=queued why:0:1=nothing start_job tick look:0:1=running end "
        "tick look:0:1=succeeded sync:0:1=final waits=no"
    ),
    "its setup takes its time, and its events come late": (
        "launch set_up lie:0:2 start_job look=queued why=running_the_setup_of_the_experiment truth look=running set_up:1 "
        "tick look=running why=nothing living=1"
    ),
    "its log is overwritten by one longer event": "launch look=queued lie:1:1 hold look=queued/held",
}
