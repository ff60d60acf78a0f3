"""Stories of HTCondor, of calm days and of single troubles that also say what armada has to answer, as their worlds truly are.

`look=failed/time_limit` is a run's state and the reason of it, `release=only_there+~dirty` the kinds of lines of a release
(`tests/simulation/answers.py`), `home=1,2` which steps are at home. A word of an answer that changes breaks its story.
"""

from __future__ import annotations

TOLD_OF_HTCONDOR = {
    "its disk is put back to before the attempt that runs, whose end is recorded all the same": (
        "launch snapshot_host start_job save tick restore_host tick end:0:1 tick look=failed/exit_1 sync=final living=0"
    ),
    "a job of HTCondor from its launch to its release": (
        "launch look=queued waits=yes sync=open release=lives start_job tick look=running save tick sync=open end "
        "tick look=succeeded waits=no sync=final release=yes over=yes secrets=gone begun=1"
    ),
    "a preempted job of HTCondor": (
        "launch start_job save tick preempt tick look=queued/preempted waits=yes start_job look=running begun=2 "
        "end tick look=succeeded sync=final release=yes"
    ),
    "a job that fails, and has a retry": (
        "launch+one_retry start_job save tick end:0:1 tick look=queued/exit_1 waits=yes start_job save end:0:1 "
        "tick look=failed/exit_1 waits=no begun=2"
    ),
    "it is stopped while it waits": (
        "launch look=queued stop=cancelled/killed_by_user look=cancelled/killed_by_user waits=no begun=0 "
        "sync=final release=yes"
    ),
    "its log is deleted": (
        "launch start_job tick look=running lie:1 look=running pause:2 look=running tick look=running truth "
        "look=running end tick look=succeeded sync=final release=yes"
    ),
    "its log is deleted while it waits": (
        "launch look=queued lie:1 look=queued watch look=queued truth look=queued start_job tick look=running"
    ),
    "its log is deleted, and its job dies": (
        "launch start_job tick look=running kill_supervisor lie:1 look=running pause:4 look=running pause:4 "
        "look=running pause:4 look=failed/ended_silently pause:4 look=failed/ended_silently truth pause:4 "
        "look=failed/ended_silently release=logs"
    ),
    "its log is deleted, its job dies, and there is no history": (
        "accounting:0:1 launch start_job tick look=running kill_supervisor lie:1 look=running pause:4 look=running "
        "pause:4 look=running pause:4 look=failed/gone pause:4 look=failed/gone pause:4 look=failed/gone "
        "release=gone+logs over=no sync=open stop=cancelled/killed_by_user look=cancelled/killed_by_user"
    ),
    "its log is deleted, and its schedd is down": (
        "launch start_job tick look=running lie:1 lie look=running pause:4 look=running pause:4 look=running "
        "pause:4 look=running pause:4 look=running truth look=running"
    ),
    "its schedd forgets it, and its node dies": (
        "launch start_job tick look=running forget_job node_dies look=running pause:4 look=running pause:9 "
        "look=running pause:4 look=running pause:4 look=running pause:4 look=failed/gone release=gone+logs over=no "
        "sync=open"
    ),
    "its log says that it was evicted while it runs": (
        "launch start_job tick look=running lie:1:2 look=running tick look=running pause:3 look=running tick "
        "look=running truth look=running"
    ),
    "its log says that it was evicted, and nothing of it moves": (
        "launch start_job tick look=running lie:1:2 pause:1 look=running pause:1 look=running pause:1 look=running "
        "pause:1 look=running pause:1 look=queued/node_failure"
    ),
    "its log says that it was removed while it runs": (
        "launch start_job tick look=running lie:1:3 look=running tick look=running watch look=running truth "
        "look=running"
    ),
    "its log says that it was removed, and the line that it goes back is late": (
        "launch start_job tick look=running lie:1:3 preempt lie:0:3 tick look=queued "
        "why=HTCondor_says_removed_its_supervisor_wrote_that_it_returns_to_the_queue_armada_knows_in_60_s_whether_it_does "
        "pause:5 look=queued/preempted begun=1 truth look=queued/preempted start_job look=running begun=2"
    ),
    "its log says that it was removed, and it goes back and is removed": (
        "launch start_job tick look=running lie:1:3 preempt lie:0:3 tick remove_job look=queued pause:5 "
        "look=cancelled/removed"
    ),
    "its log says that it was removed, and it goes back and is removed, and no history is kept": (
        "launch start_job tick look=running lie:1:3 preempt lie:0:3 tick remove_job accounting:0:1 look=queued pause:5 "
        "look=failed/gone truth look=cancelled/removed"
    ),
    "it ended, and its log shows that it waits, as it was restored": (
        "launch look=queued remember remove_job lie:1:1 truth pause:239 look=queued pause:1 look=queued pause:1 "
        "look=queued pause:1 look=queued pause:1 look=cancelled/removed"
    ),
    "it went back and ended, and its log shows that it waits, as it was restored": (
        "launch start_job tick preempt tick look=queued/preempted remember remove_job lie:1:1 truth pause:239 "
        "look=queued/preempted watch look=cancelled/removed"
    ),
    "it was taken, and its log shows its submission alone, as it was restored": (
        "launch look=queued remember start_job take tick lie:1:1 truth look=queued/preempted watch "
        "look=failed/ended_silently"
    ),
    "it waits for hours": (
        "launch look=queued pause:241 look=queued pause:241 watch look=queued lie pause:241 watch look=queued truth "
        "start_job look=running begun=1"
    ),
    "its queue is empty and its log too, and it is stopped": (
        "launch lie:1:1 lie:0:1 stop freeze look=cancelled/killed_by_user truth start_job tick "
        "look=cancelled/killed_by_user living=0 begun=0"
    ),
    "who writes the end of a stopped and forgotten job is killed between two records": (
        "launch start_job forget_job preempt watch break_off:1:1 look stop watch look=cancelled/killed_by_user "
        "stop=cancelled/killed_by_user"
    ),
    "its log says that it is held while it runs": (
        "launch start_job tick look=running lie:2 look=running tick look=running watch look=running truth look=running"
    ),
    "its node dies for good": (
        "launch start_job tick look=running node_dies notice:0:1 look=running pause:4 look=queued/held pause:9 "
        "look=queued/held watch look=queued/held stop=cancelled/killed_by_user look=cancelled/killed_by_user"
    ),
    "its node dies and it goes back": (
        "launch start_job tick look=running node_dies notice look=running pause:4 look=queued/node_failure pause:9 "
        "look=queued/node_failure start_job tick look=running begun=2"
    ),
    "its events are written late": (
        "launch lie:0:2 start_job look=running tick look=running truth look=running end lie:0:2 tick "
        "look=succeeded truth look=succeeded"
    ),
    "half of its events": "launch look=queued lie:0:3 start_job look=running tick look=running truth look=running",
    "its log is put back": (
        "remember launch look=queued remember start_job tick look=running lie:1:1 look=running tick look=running "
        "truth look=running"
    ),
    "stopped while it runs": (
        "launch start_job save tick stop=cancelled/killed_by_user look=cancelled/killed_by_user waits=no "
        "sync=final release=yes living=0 begun=1"
    ),
    "the answer to its submission is lost": (
        "lose_answer launch look=submitted start_job tick look=running end:0:1 tick look=failed/exit_1 lose_answer "
        "resume=OutcomeUnknown look=submitted start_job tick look=running begun=2"
    ),
    "its clock is set": (
        "launch start_job tick look=running set_clock:1 look=running tick look=running set_clock:2 look=running "
        "tick look=running kill_supervisor look=running pause:20 look=failed/ended_silently pause:20 "
        "look=failed/ended_silently pause:20 look=failed/ended_silently"
    ),
    "its files are dated later, and it dies": (
        "launch set_clock:3 start_job tick look=running set_clock look=running kill_supervisor look=running "
        "pause:11 look=running pause:1 look=failed/ended_silently pause:9 look=failed/ended_silently "
        "pause:9 look=failed/ended_silently pause:9 look=failed/ended_silently pause:9 look=failed/ended_silently"
    ),
    "a guess, and the job is in the queue again": (
        "accounting:0:1 launch look=queued forget_job lie:1 pause:4 look=queued pause:4 look=queued pause:4 "
        "look=failed/gone pause:9 look=failed/gone watch look=failed/gone recall_job look=failed/gone over=no"
    ),
    "held by an administrator": (
        "launch look=queued hold look=queued/held pause:9 look=queued/held start_job tick look=running end tick "
        "look=succeeded"
    ),
    "its log is deleted while it is held": (
        "launch look=queued hold look=queued/held lie:1 look=queued pause:2 look=queued pause:2 look=queued/held "
        "pause:4 look=queued/held watch look=queued/held truth look=queued/held"
    ),
    "its log is deleted after it went back": (
        "launch start_job tick look=running preempt tick look=queued/preempted lie:1 look=queued pause:2 "
        "look=queued pause:2 look=queued pause:4 look=queued watch look=queued/preempted"
    ),
    "a shorter log": (
        "launch start_job tick look=running preempt tick look=queued/preempted start_job tick look=running cut_log "
        "look=running end tick look=succeeded"
    ),
    "an end that is not in its log": (
        "launch start_job tick look=running lie:0:2 kill_supervisor look=running pause:9 look=running pause:9 "
        "look=running pause:9 look=running truth look=running pause:12 look=failed/ended_silently"
    ),
    "an administrator removes what waits": (
        "launch look=queued remove_job look=cancelled/removed pause:1 look=cancelled/removed"
    ),
    "an administrator removes what went back": (
        "launch start_job tick look=running preempt tick look=queued/preempted remove_job "
        "look=cancelled/removed pause:1 look=cancelled/removed release=logs"
    ),
    "a record of its log has no place": (
        "launch look=queued start_job tick look=running break_record:0:1 look=running tick look=running"
    ),
    "a record of its log has a place before it": (
        "launch look=queued start_job tick look=running break_record:1:1 look=running tick look=running"
    ),
    "a record of its log has no status": (
        "launch look=queued start_job tick look=running break_record:2:1 look=running tick look=running"
    ),
    "a record of its log has another status": (
        "launch look=queued start_job tick look=running break_record:3:1 look=running tick look=running"
    ),
    "a record of its log has a place after it": (
        "launch look=queued start_job tick look=running break_record:4:1 look=running preempt tick "
        "look=queued/preempted"
    ),
    "a record of its log is of another file": (
        "launch look=queued start_job tick look=running break_record:5:1 look=running preempt tick "
        "look=queued/preempted"
    ),
    "a record of its log is of an older armada": (
        "launch look=queued start_job tick look=running break_record:7:1 look=running preempt tick "
        "look=queued/preempted"
    ),
    "its log is another file of the same length": (
        "launch look=queued start_job tick look=running kill_supervisor swap_log look=running pause:20 "
        "look=failed/ended_silently pause:20 look=failed/ended_silently"
    ),
    "records of its log are broken while it waits again": (
        "launch look=queued start_job preempt tick look=queued/preempted break_record:0:1 look=queued/preempted "
        "break_record:1:1 look=queued/preempted break_record:2:1 look=queued/preempted break_record:3:1 "
        "look=queued/preempted break_record:4:1 look=queued/preempted break_record:5:1 look=queued/preempted "
        "break_record:6:1 look=queued/preempted break_record:7:1 look=queued/preempted break_record:8:1 "
        "look=queued/preempted"
    ),
    "a record of its log has a place after its end": (
        "launch look=queued start_job preempt tick look=queued/preempted break_record:9:1 look=queued/preempted "
        "remove_job look=cancelled/removed"
    ),
    "its log is another, longer file": (
        "launch look=queued start_job preempt tick look=queued/preempted break_record:10:1 swap_log:1 "
        "look=queued/preempted"
    ),
    "half of the event of its eviction": (
        "launch start_job tick look=running lie:0:3 preempt tick look=running truth look=queued/preempted"
    ),
    "its events of the end come late": (
        "launch start_job tick look=running lie:0:2 preempt tick look=running truth look=queued/preempted"
    ),
    "preempted, and it fails at last": (
        "launch+one_retry start_job preempt tick look=queued/preempted waits=yes start_job end:0:1 tick "
        "look=queued/exit_1 waits=yes start_job end:0:1 tick look=failed/exit_1 waits=no begun=3"
    ),
}

TOLD_OF_HTCONDOR_WITH_SCRIPTS = {
    "a script of HTCondor at its time limit": (
        "launch:1 start_job save tick time_limit look=queued/time_limit waits=yes start_job save tick time_limit "
        "look=queued/time_limit waits=yes start_job tick time_limit look=queued/time_limit waits=yes start_job "
        "tick time_limit look=failed/time_limit waits=no begun=4"
    ),
}
