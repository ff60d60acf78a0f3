"""Stories of Slurm, of calm days and of single troubles that also say what armada has to answer, as their worlds truly are.

`look=failed/time_limit` is a run's state and the reason of it, `release=only_there+~dirty` the kinds of lines of a release
(`tests/simulation/answers.py`), `home=1,2` which steps are at home. A word of an answer that changes breaks its story.
"""

from __future__ import annotations

TOLD_OF_SLURM = {
    "what it wrote cannot be listed while its job runs": (
        "launch start_job tick look=running hide_checkpoints look=unknown/unreadable release=logs+unreadable "
        "hide_checkpoints:1 look=running release=lives+logs"
    ),
    "its disk is put back to before the attempt that runs, whose end is recorded all the same": (
        "launch snapshot_host start_job save tick restore_host tick end:0:1 tick look=failed/exit_1 sync=final living=0"
    ),
    "a batch job from its launch to its release": (
        "launch look=queued waits=yes sync=open release=lives start_job tick look=running save tick sync=open end "
        "tick look=succeeded waits=no sync=final release=yes over=yes sum_up=shared+shared secrets=gone begun=1"
    ),
    "a preempted job": (
        "launch start_job save tick preempt tick look=queued waits=yes watch look=queued/preempted start_job "
        "look=running begun=2 end tick look=succeeded sync=final release=yes"
    ),
    "a job that fails": (
        "launch start_job save tick end:0:1 tick look=failed/exit_1 waits=no resume=again look=queued start_job "
        "look=running begun=2"
    ),
    "a job that fails, and has a retry": (
        "launch+one_retry start_job save tick end:0:1 tick look=queued waits=yes start_job save end:0:1 tick "
        "look=failed/exit_1 waits=no begun=2"
    ),
    "a training that may not go back at its time limit": (
        "launch+sft+stays_at_limit start_job save tick time_limit look=failed/time_limit waits=no begun=1"
    ),
    "a job that cannot resume at its time limit": (
        "launch start_job save tick time_limit look=failed/time_limit waits=no begun=1"
    ),
    "its own clock reaches the limit": (
        "launch+limit+sft start_job save tick wait wait wait tick look=queued waits=yes begun=1"
    ),
    "its own clock reaches the limit, and it cannot resume": (
        "launch+limit start_job save tick wait wait wait tick look=failed/time_limit waits=no begun=1"
    ),
    "a batch job whose budget is spent": (
        "launch+budget start_job save tick wait wait wait tick look=failed/budget waits=no begun=1"
    ),
    "its node fails, and Slurm says so in its log": (
        "launch start_job save tick node_fails tick look=queued waits=yes watch look=queued/node_failure start_job "
        "tick look=running begun=2"
    ),
    "the job hears the scheduler before its supervisor": (
        "launch start_job save tick terminate_job tick look=queued waits=yes watch look=queued/preempted begun=1"
    ),
    "it is stopped while it runs": (
        "launch start_job save tick stop=cancelled/killed_by_user look=cancelled/killed_by_user waits=no begun=1 "
        "sync=final release=yes"
    ),
    "it is stopped while it waits": (
        "launch look=queued stop=cancelled/killed_by_user look=cancelled/killed_by_user waits=no begun=0 "
        "sync=final release=yes"
    ),
    "it is stopped, and its job forgotten": (
        "launch look=queued forget_job stop=cancelled/killed_by_user look=cancelled/killed_by_user settle=0 "
        "release=logs"
    ),
    "it is stopped, and its running job forgotten": (
        "launch start_job tick forget_job stop=cancelled/killed_by_user look=cancelled/killed_by_user sync=final "
        "release=yes"
    ),
    "a guess that is revised": (
        "launch start_job tick look=running forget_job unmount pause:30 mount look=running pause:20 look=running "
        "pause:20 look=running pause:20 look=running tick look=running"
    ),
    "its node dies, and the controller does not know yet": (
        "launch start_job tick look=running node_dies look=running watch look=running notice:0:1 look=running "
        "watch look=failed/node_failure waits=no release=logs sync=final"
    ),
    "its node dies, and it goes back": (
        "launch start_job tick look=running node_dies look=running notice look=running waits=yes watch look=queued "
        "start_job tick look=running begun=2"
    ),
    "an administrator requeues a job whose end only Slurm told": (
        "launch start_job save tick look=running node_dies notice:0:1 pause:1 look=running pause:6 look=running pause:6 "
        "look=failed/node_failure sync=final over=yes requeue_job pause:1 poll=queued"
    ),
    "… it holds no host, and a release takes its secrets": (
        "launch start_job save tick look=running node_dies notice:0:1 pause:1 look=running pause:6 look=running pause:6 "
        "look=failed/node_failure sync=final secrets=there release=yes secrets=gone"
    ),
    "… which gets its secrets, and is synced to its end": (
        "launch start_job save tick look=running node_dies notice:0:1 pause:1 look=running pause:6 look=running pause:6 "
        "look=failed/node_failure sync=final secrets=there requeue_job pause:1 poll=queued "
        "sync=open start_job tick poll=running begun=2 save tick end tick poll=succeeded sync=final poll=unwatched secrets=gone release=yes"
    ),
    "… one that was removed while it waited": (
        "launch look=queued remove_job pause:1 look=running pause:3 look=cancelled/removed sync=final requeue_job "
        "pause:1 poll=queued start_job tick poll=running begun=1"
    ),
    "… and the job ends again before anybody looks": (
        "launch start_job save tick node_dies notice:0:1 watch look=failed/node_failure sync=final home=1 requeue_job "
        "start_job tick log node_dies notice:0:1 watch poll=failed/node_failure sync=final"
    ),
    "… which Slurm forgets: it is watched for a week, and needs no secrets": (
        "launch start_job save tick node_dies notice:0:1 pause:1 look=running pause:6 look=running pause:6 "
        "look=failed/node_failure secrets=there pause:20 poll=failed/node_failure secrets=gone pause:0:6 "
        "poll=failed/node_failure pause:0:1 poll=unwatched"
    ),
    "… of a run that was stopped: it does not start again, and is not watched": (
        "launch start_job save tick node_dies stop=OutcomeUnknown notice:0:1 watch look=cancelled/killed_by_user "
        "poll=unwatched secrets=gone"
    ),
    "Slurm is down": (
        "launch start_job tick look=running lie look=running watch look=running release=lives+logs "
        "stop=cancelled/killed_by_user truth stop=cancelled/killed_by_user look=cancelled/killed_by_user"
    ),
    "an empty answer": (
        "launch start_job tick look=running lie:0:1 look=running tick look=running watch look=running truth "
        "look=running"
    ),
    "Slurm says that it has ended while its job goes on": (
        "launch start_job tick look=running lie:1:2 look=running tick look=running watch look=running truth "
        "look=running"
    ),
    "its supervisor is killed": (
        "launch start_job save tick look=running kill_supervisor look=running pause:1 look=running pause:1 "
        "look=running pause:1 look=running pause:9 look=running pause:1 look=failed/ended_silently sync=final release=yes"
    ),
    "its job ended before anything of it began": (
        "launch break_off start_job look=running pause:1 look=running pause:1 look=failed/ended_silently pause:1 "
        "look=failed/ended_silently pause:1 look=failed/ended_silently pause:4 look=failed/ended_silently"
    ),
    "a folder removed while it waits": (
        "launch look=queued lose_run look=unknown/not_on_host stop=OutcomeUnknown release=queued"
    ),
    "a folder removed while it runs": (
        "launch start_job tick look=running lose_run look=running stop=cancelled/killed_by_user release=logs"
    ),
    "a job file submitted by hand": "launch submit_by_hand start_job start_job tick look=running begun=1 living=1",
    "a job that nobody claimed": (
        "launch start_job end tick look=succeeded submit_by_hand start_job begun=1 look=succeeded"
    ),
    "given up, and both go on": (
        "launch start_job save tick look=running give_up look=running start_job look=running tick living=1 begun=2 "
        "look=running end tick look=succeeded sync=final release=yes"
    ),
    "given up, and the former ends well": (
        "launch start_job save tick give_up start_job end tick living=1 look=running end tick look=succeeded begun=2"
    ),
    "preempted before its job began": (
        "launch look=queued start_job preempt tick look=queued/preempted waits=yes stop=cancelled/killed_by_user "
        "look=cancelled/killed_by_user waits=no"
    ),
    "a training at its time limit": (
        "launch+sft start_job save tick time_limit look=queued waits=yes watch start_job save tick time_limit "
        "look=queued/time_limit waits=yes start_job tick time_limit look=queued/time_limit waits=yes start_job "
        "tick time_limit look=failed/time_limit waits=no begun=4"
    ),
    "a training at its time limit, between whose attempts one brought something": (
        "launch+sft start_job tick time_limit look=queued waits=yes start_job save tick time_limit waits=yes "
        "start_job tick time_limit look=queued waits=yes start_job tick time_limit look=failed/time_limit waits=no "
        "begun=4"
    ),
    "preempted between time limits": (
        "launch+sft start_job tick time_limit look=queued waits=yes start_job preempt tick look=queued waits=yes "
        "start_job preempt tick look=queued waits=yes start_job tick time_limit look=failed/time_limit waits=no "
        "begun=4"
    ),
    "its time is up, and it is preempted in the same moment": (
        "launch+limit+sft start_job save tick wait wait wait preempt tick look=queued waits=yes watch "
        "look=queued/time_limit"
    ),
    "its time is up before its job began": "launch+sft start_job time_limit time_limit look=queued waits=yes",
    "its waiting job is forgotten": (
        "accounting:0:1 launch look=queued forget_job look=queued watch look=failed/gone over=no release=gone+logs "
        "sync=open settle=0 pause:0:6 over=no pause:0:2 over=yes"
    ),
    "its waiting job is forgotten, and then its folder is removed": (
        "accounting:0:1 launch look=queued forget_job watch look=failed/gone lose_run look=failed/gone release=queued "
        "rm=Conflict"
    ),
    "its running job is forgotten, its node dies, and its folder is removed": (
        "accounting:0:1 launch start_job tick look=running forget_job node_dies watch look=failed/gone lose_run "
        "look=failed/gone release=queued rm=Conflict"
    ),
    "its running job is forgotten, and its node dies": (
        "launch start_job tick look=running forget_job node_dies look=running watch look=running pause:250 "
        "look=failed/gone pause:2 look=failed/gone watch look=failed/gone release=gone+logs over=no secrets=there "
        "sync=open over=no release=gone resume=again look=queued start_job tick look=running begun=2"
    ),
    "its running job is forgotten, and its node dies, and there is no accounting": (
        "accounting:0:1 launch start_job tick look=running forget_job node_dies look=running pause:2 look=running "
        "pause:2 look=running pause:2 look=running pause:2 look=running pause:2 look=running pause:2 look=running "
        "pause:2 look=failed/gone pause:2 look=failed/gone release=gone+logs over=no sync=open settle=0 "
        "stop=cancelled/killed_by_user look=cancelled/killed_by_user release=logs"
    ),
    "a guess, and its folder is away": (
        "accounting:0:1 launch start_job tick look=running forget_job node_dies watch look=failed/gone unmount "
        "look=failed/gone mount look=failed/gone release=gone+logs sync=open"
    ),
    "Slurm says that it has ended, and nothing of it moves": (
        "launch start_job tick look=running lie:1:2 look=running pause:1 look=running pause:1 look=running pause:1 "
        "look=running tick look=running pause:1 look=running truth look=running"
    ),
    "it ends without a word": (
        "launch start_job tick look=running node_dies notice:0:1 pause:1 look=running pause:1 look=running pause:1 "
        "look=running pause:8 look=running pause:1 look=running pause:1 look=failed/node_failure sync=final release=yes"
    ),
    "it ended before it began": (
        "launch look=queued break_off start_job look=queued look=queued look=queued pause:1 look=running pause:1 "
        "look=running pause:2 look=failed/ended_silently"
    ),
    "its first answer is an end": (
        "launch start_job node_dies notice:0:1 look=running pause:1 look=running pause:1 look=running pause:1 "
        "look=running pause:8 look=running pause:1 look=failed/node_failure"
    ),
    "its supervisor puts it back, and Slurm shows it as failed": (
        "launch+sft start_job save tick time_limit look=queued pause:1 look=queued pause:1 look=queued pause:1 "
        "look=queued/time_limit pause:1 look=queued/time_limit pause:1 look=queued/time_limit"
    ),
    "its folder is removed while it waits after its preemption": (
        "launch start_job preempt tick look=queued lose_run look=unknown/not_on_host stop=OutcomeUnknown release=queued"
    ),
    "stopped while Slurm is down": (
        "launch start_job tick lie stop=cancelled/killed_by_user look=cancelled/killed_by_user truth "
        "look=cancelled/killed_by_user living=0 release=logs"
    ),
    "stopped while it waits and Slurm is down": (
        "launch look=queued lie stop=OutcomeUnknown truth look=queued stop=cancelled/killed_by_user "
        "look=cancelled/killed_by_user release=logs"
    ),
    "the login node restarts": (
        "launch start_job tick look=running node_dies notice:0:1 pause:1 look=running power_cut look=running "
        "pause:1 look=running pause:9 look=running pause:2 look=failed/node_failure"
    ),
    "a home resumes what waits": (
        "launch look=queued start_job end:0:1 tick look=failed/exit_1 resume=again release=lives+logs look=queued "
        "stop=cancelled/killed_by_user release=logs sync=final release=yes"
    ),
    "half an answer of a job that is no more": (
        "accounting:0:1 launch launch start_job start_job:1 tick look:0:1=running node_dies:1 notice:0:1 "
        "forget_job:1 pause:30 lie:0:2 look:0:1=running pause:4 look:0:1=running pause:4 look:0:1=running "
        "watch:0:1 look:0:1=failed/gone pause:120 look:0:1=failed/gone pause:250 look:0:1=failed/gone watch:0:1 "
        "look:0:1=failed/gone release=gone+lives+logs"
    ),
    "the answer to its submission is lost": (
        "launch start_job end:0:1 tick look=failed/exit_1 lose_answer resume=OutcomeUnknown look=submitted "
        "resume=again look=queued start_job tick look=running begun=2 release=lives+logs end tick "
        "look=succeeded sync=final release=yes"
    ),
    "a guess while Slurm is down": (
        "accounting:0:1 launch look=queued forget_job watch look=failed/gone lie look=failed/gone pause:4 "
        "look=failed/gone over=no truth look=failed/gone"
    ),
    "a guess of an earlier release": (
        "accounting:0:1 launch look=queued forget_job watch look=failed/gone old_store over=no look=failed/gone"
    ),
    "a guess, and the job is in the queue again": (
        "accounting:0:1 launch look=queued forget_job watch look=failed/gone recall_job look=failed/gone over=no "
        "start_job tick look=running"
    ),
    "a guess, and its job begins while Slurm is down": (
        "accounting:0:1 launch look=queued forget_job watch look=failed/gone recall_job lie start_job tick "
        "look=running over=no end tick look=succeeded over=yes"
    ),
    "a guess, and it is stopped": (
        "accounting:0:1 launch look=queued forget_job watch look=failed/gone over=no stop=cancelled/killed_by_user "
        "look=cancelled/killed_by_user over=yes sync=final release=yes"
    ),
    "its root is away, and Slurm is down when it is back": (
        "launch start_job tick look=running unmount look=unknown/root_away mount lie look=running truth look=running"
    ),
    "its supervisor wrote after Slurm was asked": "launch look=queued start_job look=running",
    "Slurm's queue is asked before and after its job began": (
        "launch look=queued lie start_job look=running truth look=running"
    ),
    "a job that waits and is shown to have ended": (
        "launch look=queued lie:1:2 look=queued pause:4 look=queued truth look=queued"
    ),
    "preempted, and not yet cleared": (
        "launch start_job tick look=running preempt tick look=running pause:1 look=queued pause:1 look=queued "
        "pause:2 look=queued/preempted pause:2 look=queued/preempted release=lives+logs"
    ),
    "a home resumes one that was preempted": (
        "launch start_job tick preempt tick resume=Conflict look=queued stop=OutcomeUnknown resume=Conflict "
        "look=queued waits=no begun=1"
    ),
    "given up twice": (
        "launch start_job save tick give_up start_job tick give_up start_job tick look=running living=1 begun=3 "
        "end tick look=succeeded sync=final release=yes"
    ),
    "given up while it is stopped": (
        "launch start_job save tick give_up stop=cancelled/killed_by_user look=cancelled/killed_by_user tick "
        "living=0 look=cancelled/killed_by_user waits=no"
    ),
    "a node dies during a retry": (
        "launch+one_retry start_job end:0:1 tick start_job node_dies notice start_job tick look=running end:0:1 "
        "tick look=failed/exit_1 begun=3 waits=no"
    ),
    "its job fails while it is preempted": "launch start_job preempt end:0:1 tick look=queued waits=yes begun=1",
    "its job ends well while it is preempted": "launch start_job save preempt end tick look=succeeded waits=no begun=1",
    "it ended, and its job file is handed over once more": (
        "launch start_job end tick look=succeeded submit_again start_job tick look=succeeded begun=1"
    ),
    "resumed, and its former job file is handed over once more": (
        "launch start_job end:0:1 tick look=failed/exit_1 resume=again submit_again start_job:1 tick look=queued "
        "begun=1 start_job tick look=running begun=2"
    ),
    "held by an administrator": (
        "launch look=queued hold look=queued stop=cancelled/killed_by_user look=cancelled/killed_by_user release=logs"
    ),
    "it is stopped while it is preempted": (
        "launch start_job save preempt stop=OutcomeUnknown look=queued waits=no begun=1 pause:3 "
        "look=cancelled/killed_by_user"
    ),
    "a record of polls is broken": (
        "accounting:0:1 launch start_job tick look=running forget_job node_dies look=running pause:4 look=running "
        "break_record look=running pause:4 look=running break_record:1 look=running pause:4 look=running "
        "break_record:2 look=running pause:4 look=running break_record:3 look=running pause:4 look=running "
        "break_record:4 look=running pause:4 look=running break_record:5 look=running pause:4 look=running pause:4 "
        "look=running pause:4 look=failed/gone pause:4 look=failed/gone pause:4 look=failed/gone"
    ),
    "a record of polls is broken, without a number": (
        "accounting:0:1 launch start_job tick look=running lie:0:1 look=running pause:2 look=running break_record "
        "look=running tick look=running"
    ),
    "a record of polls is broken, with a word": (
        "accounting:0:1 launch start_job tick look=running lie:0:1 look=running pause:2 look=running "
        "break_record:2 look=running pause:1 look=running tick look=running"
    ),
    "a record of polls comes from later": (
        "accounting:0:1 launch start_job tick look=running forget_job node_dies look=running break_record:4 "
        "look=running pause:4 look=running pause:4 look=running pause:4 look=running pause:4 look=failed/gone"
    ),
    "it moved while Slurm said that it had ended, and then no more": (
        "launch start_job tick look=running lie:1:2 look=running tick look=running node_dies pause:1 look=running "
        "pause:11 look=running pause:2 look=failed/ended_silently pause:2 look=failed/ended_silently"
    ),
    "two answers are not enough": (
        "accounting:0:1 launch start_job tick look=running forget_job node_dies look=running pause:14 look=running "
        "pause:1 look=running pause:1 look=running"
    ),
    "three quick answers are not enough": (
        "accounting:0:1 launch start_job tick look=running forget_job node_dies look=running pause:2 look=running "
        "pause:2 look=running pause:2 look=running pause:9 look=failed/gone"
    ),
    "three quick answers are not enough of what waits": (
        "accounting:0:1 launch look=queued forget_job look=queued pause:1 look=queued pause:1 look=queued pause:1 "
        "look=queued pause:1 look=failed/gone"
    ),
    "preempted, and looked at once it is cleared": (
        "launch start_job tick look=running preempt tick pause:4 look=queued/preempted"
    ),
    "an administrator removes what waits": (
        "launch look=queued remove_job look=queued pause:1 look=running pause:1 look=running pause:2 "
        "look=cancelled/removed pause:3 look=cancelled/removed"
    ),
    "an administrator removes what went back": (
        "launch start_job tick look=running preempt tick look=running remove_job look=running pause:1 look=queued "
        "pause:1 look=queued pause:2 look=queued pause:3 look=cancelled/removed release=logs"
    ),
    "an end is believed after two answers": (
        "launch start_job tick look=running node_dies notice:0:1 pause:5 look=running pause:1 look=running pause:1 "
        "look=running"
    ),
    "an end is believed after two answers of two polls": (
        "launch start_job tick look=running node_dies notice:0:1 pause:5 look=running wink look=running wink "
        "look=running pause:2 look=running"
    ),
    "half an answer, and no accounting": (
        "accounting:0:1 launch launch start_job start_job:1 tick look:0:1=running node_dies:1 lie:0:2 "
        "look:0:1=running pause:4 look:0:1=running pause:4 look:0:1=running pause:4 look:0:1=running pause:4 "
        "look:0:1=running pause:20 look:0:1=running"
    ),
    "accounting still has it running": (
        "launch start_job tick look=running forget_job node_dies look=running pause:4 look=running pause:4 "
        "look=running pause:4 look=running pause:4 look=running release=lives+logs"
    ),
    "accounting has its end": (
        "launch start_job end:0:1 tick launch start_job tick look:0:1=running node_dies notice:0:1 pause:30 "
        "look:0:1=running pause:2 look:0:1=running pause:4 look:0:1=running pause:4 look:0:1=running"
    ),
    "an attempt whose progress nobody wrote down": (
        "launch+sft start_job save tick node_dies notice start_job tick time_limit look=queued waits=yes start_job "
        "tick time_limit look=failed/time_limit waits=no begun=3"
    ),
    "an older attempt without its numbers": (
        "launch+sft start_job tick time_limit waits=yes break_exit start_job tick time_limit look=queued waits=yes "
        "start_job tick time_limit look=failed/time_limit waits=no begun=3"
    ),
    "given up, and the next ends well": (
        "launch start_job save tick give_up start_job tick end tick look=succeeded waits=no begun=2"
    ),
    "given up, and the former is signalled": (
        "launch start_job save tick give_up start_job tick tick waits=no end:0:1 tick look=failed/exit_1 waits=no "
        "begun=2"
    ),
    "it cannot be put back at its time limit": (
        "launch+sft start_job save tick lie time_limit truth look=failed/time_limit waits=no"
    ),
    "its node fails while Slurm is down": "launch start_job save tick lie node_fails tick truth look=queued waits=yes",
    "preempted, and it would stay away at its time limit": (
        "launch+sft+stays_at_limit start_job save tick preempt tick look=queued waits=yes"
    ),
    "a job file that no home asked for": (
        "launch start_job end:0:1 tick look=failed/exit_1 submit_unclaimed start_job begun=1 look=failed/exit_1"
    ),
    "its folder is removed, and its job starts": (
        "launch look=queued lose_run start_job begun=0 waits=no look=unknown/not_on_host"
    ),
    "it is preempted, and another attempt fails": (
        "launch+one_retry start_job preempt tick start_job end:0:1 tick look=queued waits=yes start_job end:0:1 "
        "tick look=failed/exit_1 waits=no begun=3"
    ),
    "a preempted attempt is not a failed one": (
        "launch start_job preempt tick start_job node_dies notice start_job end:0:1 tick look=failed/exit_1 waits=no"
    ),
    "a resumed run waits": (
        "launch start_job end:0:1 tick look=failed/exit_1 sync=final resume=again look=queued release=lives lie "
        "look=queued truth look=queued"
    ),
}

TOLD_OF_SLURM_WITH_SCRIPTS = {
    "a script at its time limit": (
        "launch:1 start_job save tick time_limit look=queued waits=yes start_job save tick time_limit look=queued "
        "waits=yes start_job tick time_limit look=queued waits=yes start_job tick time_limit "
        "look=failed/time_limit waits=no begun=4"
    ),
}
