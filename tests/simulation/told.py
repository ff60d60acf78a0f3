"""Stories of calm days and of single troubles that also say what armada has to answer, as their worlds truly are.

`look=failed/time_limit` is a run's state and the reason of it, `release=only_there+~dirty` the kinds of lines of a release
(`tests/simulation/answers.py`), `home=1,2` which steps are at home. A word of an answer that changes breaks its story.
"""

from __future__ import annotations

TOLD = {
    "a training from its launch to its release": (
        "launch look=running save tick sync=open home=1 host=1 save save save tick sync=open home=1,2,3,4 host=4 "
        "end tick look=succeeded release=logs+only_there sync=final release=yes read=0 release=yes read=0 host=5 "
        "home=1,2,3,4,5 log_at_home=same secrets=gone over=yes sum_up=own+own"
    ),
    "a training that fails": (
        "launch save tick end:0:1 tick look=failed/exit_1 from=1 sync=final release=yes resume=again begun=2 "
        "resumed_from=None look=running over=no secrets=there"
    ),
    "a training that is stopped": (
        "launch save tick stop=cancelled/killed_by_user look=cancelled/killed_by_user retry=no resume=again "
        "look=running living=1 stop=cancelled/killed_by_user begun=2 sync=final release=yes"
    ),
    "a training whose host is restarted": (
        "launch save tick power_cut look=failed/host_rebooted retry=again look=running begun=2 power_cut tick "
        "look=failed/host_rebooted retry=again look=running begun=3 power_cut look=failed/host_rebooted retry=no "
        "look=failed/host_rebooted"
    ),
    "a training whose supervisor is killed": (
        "launch save tick kill_supervisor look=running/supervisor_lost retry=no end:0:1 "
        "look=failed/supervisor_lost retry=again look=running begun=2"
    ),
    "a training whose supervisor is killed, and which ends well": (
        "launch save tick kill_supervisor look=running/supervisor_lost end look=failed/supervisor_lost retry=no "
        "look=failed/supervisor_lost"
    ),
    "its job ends without its supervisor, and its host is restarted": (
        "launch save tick kill_supervisor end:0:1 look=failed/supervisor_lost power_cut look=failed/host_rebooted "
        "retry=again begun=2"
    ),
    "a training of an older agent, whose supervisor is killed": (
        "launch save tick old_agent kill_supervisor end:0:1 look=failed/supervisor_lost retry=no begun=1"
    ),
    "a training of an older agent, whose host is restarted": (
        "launch save tick old_agent power_cut look=failed/host_rebooted retry=no begun=1"
    ),
    "a stop while the root is away": (
        "launch save tick look=running unmount look=unknown/root_away stop=OutcomeUnknown mount look=running "
        "stop=cancelled/killed_by_user"
    ),
    "a stop, and its root is away since": (
        "launch look=running unmount stop=OutcomeUnknown look=unknown/root_away mount look=running living=1"
    ),
    "its folder is removed while it runs": (
        "launch save tick look=running sync=open kill_supervisor end lose_run look=unknown/not_on_host "
        "stop=cancelled/killed_by_user release=yes sync=final"
    ),
    "its folder is removed after its end": (
        "launch save tick sync=open end tick look=succeeded sync=final lose_run look=succeeded stop=NotFound "
        "release=yes home=1,2 sync=final"
    ),
    "its folder is removed before it came home": (
        "launch save tick look=running end tick lose_run look=unknown/not_on_host release=yes sync=open"
    ),
    "wiped by this home": (
        "launch save tick end tick sync=final release=yes wipe=done look=succeeded release=yes launch sync=final "
        "resume=Conflict stop=NotFound"
    ),
    "wiped by another home": (
        "launch save tick join sync:1=open end tick sync=final sync:1=final wipe:1=done look=succeeded "
        "look:1=succeeded release=yes release:1=yes"
    ),
    "a wipe is killed before it judged what it set aside": (
        "launch save end tick sync=final break_at:6 wipe=HostUnreachable host=none look=succeeded host=2 release=yes "
        "wipe=done host=none look=succeeded release=yes"
    ),
    "another home launches when its host is about to be wiped": (
        "launch save end tick sync=final release=yes join meanwhile_launch:1:0 wipe=Conflict look:1:1=running host=2"
    ),
    "an older agent names no root": (
        "old_agent:7 launch save tick look=running sync=open lose_run look=running stop=cancelled/killed_by_user "
        "end tick lose_run look=cancelled/killed_by_user stop=NotFound release=yes"
    ),
    "an older agent names no root, and its run is lost": (
        "old_agent:7 launch save tick kill_supervisor end look=failed/supervisor_lost lose_run "
        "look=failed/supervisor_lost stop=NotFound release=yes"
    ),
    "an older agent tells no time": (
        "old_agent:1 launch save tick look=running snapshot_host stop=cancelled/killed_by_user "
        "look=cancelled/killed_by_user restore_host look=cancelled/killed_by_user pause:20 "
        "look=cancelled/killed_by_user"
    ),
    "its host is put back while it runs": (
        "launch tick look=running snapshot_host save tick save tick look=running restore_host "
        "look=failed/host_rebooted pause:20 look=failed/host_rebooted pause:20 look=failed/host_rebooted "
        "retry=again"
    ),
    "an older answer of the same boot": (
        "launch tick look=running stop=cancelled/killed_by_user look=cancelled/killed_by_user resume=again look=running"
    ),
    "time limit": (
        "launch+limit save tick look=running wait wait tick look=running wait tick look=failed/time_limit "
        "sync=final resume=again begun=2"
    ),
    "budget": (
        "launch+budget save tick look=running wait wait wait tick look=failed/budget resume=again wait wait tick "
        "look=running wait tick look=failed/budget begun=2"
    ),
    "stays running for its time": "launch+limit wait tick look=running",
    "the last one stays at home": (
        "launch+last_1+remote_9 save:0:1 save:0:2 save:0:3 tick sync=open home=2,3 host=1,2,3 save:0:3 save:0:3 "
        "tick sync=open home=2,5 host=1,2,3,4,5 release=lives+~unwanted read=0"
    ),
    "what is asked for by name, and what is not": (
        "launch+last_1+remote_1 save save tick sync=open home=2 host=1,2 ask_for save tick sync=open home=2,3 "
        "host=1,3 save tick sync=open home=2,4 host=1,3,4"
    ),
    "every second stays at home": (
        "launch+every_2+remote_1 save save save save save tick sync=open home=2,4,5 host=1,3,5 end tick sync=final "
        "home=2,4,6 host=1,3,5,6 release=~unwanted"
    ),
    "nine stay on the host": (
        "launch+remote_9 save save save tick sync=open home=1,2,3 host=1,2,3 end tick sync=final home=1,2,3,4 "
        "host=1,2,3,4"
    ),
    "nothing was saved": (
        "launch tick sync=open home=none host=none end:0:1 tick sync=final home=none host=none release=yes"
    ),
    "a lower step after a resume": (
        "launch+last_1+remote_1 save save tick sync=open home=2 host=1,2 stop=cancelled/killed_by_user "
        "resume=again save tick sync=open home=1,2 host=1,1,2"
    ),
    "a copy at home is damaged": (
        "launch save tick end tick sync=final read=0 release=yes damage release=yes read=0 release=yes sync=open "
        "read=1 release=yes home=2"
    ),
    "a copy at home is damaged while the run lives": (
        "launch+remote_9 save save tick sync=open read=0 damage sync=open read=0 home=2 sync=open read=0"
    ),
    "a copy at home is deleted": (
        "launch+remote_9 save save tick sync=open delete sync=open home=1,2 read=0 end tick delete "
        "release=logs+only_there sync=final release=yes home=1,2,3"
    ),
    "a copy at home is deleted, and the host's too": (
        "launch+remote_1 save save save tick sync=open host=3 delete sync=open home=2,3 end tick sync=final "
        "home=2,3,4 release=yes"
    ),
    "a copy at home is touched": "launch+remote_9 save tick sync=open read=0 touch sync=open read=0 sync=open read=0",
    "a home put back from a backup": (
        "launch+remote_9 save tick snapshot_home sync=open save tick sync=open restore_home sync=open home=1,2 end "
        "tick sync=final release=owed"
    ),
    "a home put back to before a checkpoint's damage was found": (
        "launch+remote_9 save tick sync=open damage snapshot_home sync=open restore_home sync=open home=none "
        "release=damaged+lives+owed"
    ),
    "two homes": (
        "launch save tick join sync:1=open release:1=lives+owed sync=open end tick release=logs+only_there+owed "
        "release:1=logs+only_there+owed sync=final release=owed sync:1=final release=yes release:1=yes home:1=1,2"
    ),
    "two homes, and one is forgotten": (
        "launch save end tick join sync=final release=owed forget release=yes sync=final release=yes"
    ),
    "another home has not seen the end": (
        "launch save tick join sync:1=open end tick sync=final release=owed sync:1=final release=yes"
    ),
    "another home has checkpoints still to fetch": (
        "launch+remote_9 save tick join sync:1=open save tick sync=open release=lives+owed end tick sync=final "
        "release=owed sync:1=final release=yes"
    ),
    "a stranger's run": (
        "launch save end tick join:1 snapshot_home:1 release:1=logs+only_there+owed sync:1=final release:1=owed"
    ),
    "a home that does not know a run": (
        "snapshot_home launch restore_home look release=lives+owed+stranger end tick "
        "release=only_there+owed+stranger join look sync release=only_there+owed+stranger"
    ),
    "a checkpoint that is announced only": (
        "launch save release=hashing+lives+logs sync=open release=hashing+lives tick sync=open release=lives"
    ),
    "its supervisor died before it took a checkpoint": (
        "launch save tick kill_supervisor save end look=failed/supervisor_lost sync=open release=hashing finish "
        "sync=open release=yes release=yes"
    ),
    "its supervisor died, and a checkpoint is announced while its job lives": (
        "launch save tick kill_supervisor save release=hashing+lives+logs+only_there look=running/supervisor_lost"
    ),
    "notes that no pattern names": "launch end tick write sync=final release=unnamed",
    "results that a pattern names": "launch+results end tick write:1 sync=final release=yes release=yes",
    "a long log": "launch+short_log end tick write:3 sync=final release=middle log_at_home=other",
    "a log that was deleted at home": (
        "launch save end tick sync=final delete_log release=logs sync=final release=yes log_at_home=same"
    ),
    "its state cannot be read after its end": (
        "launch tick look=running end tick look=succeeded sync=final break_state look=succeeded release=logs"
    ),
    "launched while another is released": (
        "launch end tick sync=final meanwhile_launch release=lives+logs release=lives+logs"
    ),
    "a disk with room": "launch+floor save save save tick host=1,2,3 tick host=1,2,3 fill_disk:9 tick host=1,2,3",
    "a disk without room, and everything is at home": (
        "launch+floor+remote_9 save:0:1 save:0:2 save:0:3 save tick sync=open fill_disk:3 tick host=2,3,4 "
        "fill_disk:2 tick host=2,4 fill_disk:1 tick host=2,4"
    ),
    "a disk without room, some of which is at home": (
        "launch+floor+remote_9 save save tick sync=open save save save fill_disk:4 tick host=2,3,4,5 fill_disk:3 "
        "tick host=3,4,5 sync=open home=1,2,3,4,5"
    ),
    "a disk without room, and no floor": "launch save save save fill_disk tick host=1,2,3",
    "a home asks for the next submission before the last one ended": (
        "launch tick demand_submission look=running begun=1"
    ),
    "two homes resume the same run": (
        "launch save tick join end:0:1 tick look=failed/exit_1 look:1=failed/exit_1 resume=again resume:1=Conflict "
        "living=1 begun=2"
    ),
    "a home asks for a submission that was long ago": (
        "launch save tick join snapshot_home stop=cancelled/killed_by_user resume=again "
        "stop=cancelled/killed_by_user resume=again restore_home look=running resume=Conflict living=1 begun=3"
    ),
    "resumed while its supervisor is killed and its job lives": (
        "launch tick kill_supervisor look=running/supervisor_lost resume=Conflict end:0:1 "
        "look=failed/supervisor_lost resume=again look=running begun=2"
    ),
    "launched, and its link is cut": (
        "launch cut_link look=HostUnreachable sync=HostUnreachable release=HostUnreachable stop=HostUnreachable "
        "mend_link look=running"
    ),
    "killed before it could claim": "break_off:0:1 launch look release=yes sync stop look",
    "killed later during its launch": (
        "break_at:16 launch look=submitted release=logs+may_begin stop=cancelled/killed_by_user "
        "look=cancelled/killed_by_user begun=0"
    ),
    "stop of one that has ended": (
        "launch end tick look=succeeded stop=succeeded look=succeeded sync=final stop=succeeded"
    ),
    "resume of one that succeeded": "launch end tick look=succeeded resume=Conflict",
    "many steps of waiting": "launch tick look=running wait look=running tick look=running",
    "a resumed run that nothing started": (
        "launch stop=cancelled/killed_by_user break_off:1:2 resume=again look=running/supervisor_lost "
        "release=lives+logs begun=2 look=running/supervisor_lost"
    ),
    "a result whose name is not valid at home": "launch+results end tick write:2 sync=final release=unnameable",
    "code with changes": "launch+dirty end tick sync=final release=~dirty",
    "a disk without room, and nothing is at home": (
        "launch+floor save save save save fill_disk:2 tick host=1,4 tick host=1,4"
    ),
    "a disk without any room": "launch+floor fill_disk save save save save tick host=1,4",
    "a disk without room, and losses that are no numbers": (
        "launch+floor save:0:4 save:0:5 save save fill_disk:1 tick host=1,4"
    ),
    "a disk without room, and the best by the job's own word": (
        "launch+floor save:0:6 save save save fill_disk:1 tick host=1,4"
    ),
    "a disk without room, and the second is the best by the job's own word": (
        "launch+floor save save save:0:8 save save fill_disk:1 tick host=1,2,3,5"
    ),
    "a disk without room, and a best step that is no number": (
        "launch+floor save save save:0:8 save:0:7 save save fill_disk:1 tick host=1,2,3,6"
    ),
    "a disk without room, and the best by its loss": (
        "launch+floor save save:0:1 save:0:2 save:0:1 save save fill_disk:1 tick host=1,3,6"
    ),
    "a disk without room, and another home lacks all": (
        "launch+floor+remote_9 save save save save tick join sync=open fill_disk:3 tick host=1,3,4 fill_disk:2 "
        "tick host=1,4 sync:1=open fill_disk:1 tick host=4"
    ),
    "gaps of a disk without room": "launch+floor save save save save save save save fill_disk:4 tick host=1,3,5,7",
    "a disk without room where only the middle is left": (
        "launch+floor save save save tick fill_disk:1 tick host=1,3 tick host=1,3 sync=open tick host=3"
    ),
    "a home asks for the next submission of one that ended": (
        "launch end:0:1 tick demand_submission look=failed/secrets_missing begun=1 living=0"
    ),
    "the best stays on either side": (
        "launch+last_1+remote_1 save:0:1 save:0:2 save:0:3 save tick look=running sync=open home=2,4 host=1,2,3,4 "
        "save:0:1 save:0:3 tick look=running sync=open home=2,6 host=1,2,3,4,5,6"
    ),
    "everything stays at home, one on the host": (
        "launch+remote_1 save save:0:2 save tick look=running sync=open home=1,2,3 host=2,3 save:0:3 tick "
        "look=running sync=open home=1,2,3,4 host=2,4"
    ),
    "killed during its launch": (
        "break_off:1:1 launch look=unknown/not_on_host release=yes stop=cancelled/killed_by_user "
        "look=cancelled/killed_by_user release=yes"
    ),
    "its state cannot be read": (
        "launch tick look=running break_state look=running release=lives+logs stop=cancelled/killed_by_user "
        "look=cancelled/killed_by_user"
    ),
    "a disk without room, where a loss is a word": (
        "launch+floor save save:0:4 save:0:1 save:0:5 save save fill_disk:1 tick host=1,3,6"
    ),
    "its job ends without its supervisor, and a retry follows a restart that nobody looked at": (
        "launch save tick kill_supervisor end:0:1 look=failed/supervisor_lost power_cut retry=again begun=2"
    ),
    "its file server is put back": (
        "launch tick look=running snapshot_host end:0:1 tick look=failed/exit_1 resume=again look=running "
        "kill_supervisor end:0:1 put_back look=failed/supervisor_lost retry=again"
    ),
    "its file server is put back after its end was seen": (
        "launch tick look=running snapshot_host stop=cancelled/killed_by_user put_back look=cancelled/killed_by_user"
    ),
    "wiped by this home before its end was seen": (
        "launch save tick look=running kill_supervisor end wipe=done look=unknown/not_on_host release=yes "
        "stop=cancelled/killed_by_user"
    ),
    "an interrupted launch, of which nothing is there": (
        "break_off:1:1 launch look=unknown/not_on_host stop=cancelled/killed_by_user look=cancelled/killed_by_user "
        "release=yes sync=final"
    ),
    "a home in a mirror of a stopped run": (
        "launch save tick stop=cancelled/killed_by_user sync=final delete sync=final home=1 release=yes"
    ),
    "kept at home by nothing that is left": (
        "launch+last_1+remote_1 save tick sync=open save tick sync=open home=2 host=1,2 delete sync=open home=2 "
        "host=1,2"
    ),
    "thinned at home, and later damaged": (
        "launch+last_1+remote_9 save save tick sync=open home=2 damage end tick sync=final home=3 "
        "release=~unwanted read=1"
    ),
    "not read twice": (
        "launch+remote_9 save save tick sync=open touch end tick sync=final read=2 release=yes read=0 release=yes "
        "read=0 touch release=yes read=3"
    ),
    "damage is read again until it is healed": (
        "launch+remote_9 save save tick sync=open end tick sync=final read=0 damage release=damaged read=1 "
        "release=damaged read=2 sync=final read=2 release=yes read=0 release=yes read=0"
    ),
    "a manifest at home is broken": (
        "launch+remote_9 save tick end tick sync=final break_manifest release=damaged read=0 sync=final "
        "release=yes read=0 home=1,2"
    ),
    "a big log, and its first lines": (
        "launch+short_log write:3 tick end tick sync=final release=middle log_at_home=other"
    ),
    "too many results": "launch+results write:4 end tick sync=final release=too_many",
    "another home holds it": (
        "launch+remote_1 save tick join sync:1=open save tick sync=open host=2 sync:1=open sync=open host=2 home:1=1,2"
    ),
    "nothing to thin while it was not acknowledged": (
        "launch+remote_1 save tick cut_link sync=HostUnreachable mend_link sync=open host=1 save tick look=running "
        "host=1,2 sync=open host=2"
    ),
    "a run that another home resumed": (
        "launch save tick join stop=cancelled/killed_by_user look:1=cancelled/killed_by_user resume:1=again "
        "look=running save tick sync=open release=lives+owed end tick look=succeeded sync=final release=owed"
    ),
    "released while its root is away": (
        "launch save end tick sync=final unmount look=succeeded release=yes look=succeeded mount look=succeeded "
        "release=yes"
    ),
    "released while its root is away before all is home": (
        "launch save tick unmount look=unknown/root_away release=runs_on mount release=lives+logs+only_there"
    ),
    "its job goes on without its folder": (
        "launch tick look=running kill_supervisor hide_run look=running/folder_removed release=runs_on "
        "stop=cancelled/killed_by_user look=cancelled/killed_by_user"
    ),
    "its root is back while a stop asks": (
        "launch tick look=running unmount meanwhile_mount:0:1 stop=OutcomeUnknown look=running living=1"
    ),
    "its job goes on without its folder, and is stopped": (
        "launch tick look=running kill_supervisor hide_run look=running/folder_removed living=1 "
        "stop=cancelled/killed_by_user living=0 look=cancelled/killed_by_user"
    ),
    "wiped by another home before its end was seen": (
        "launch save tick look=running join kill_supervisor end sync:1=open sync=open sync:1=open wipe:1=Conflict "
        "look=failed/supervisor_lost look:1=failed/supervisor_lost stop=cancelled/killed_by_user "
        "release=logs+only_there+owed"
    ),
    "its host is put back, as an earlier release has it": (
        "launch tick look=running snapshot_host end:0:1 tick look=failed/exit_1 old_store restore_host "
        "look=failed/exit_1 pause:20 look=failed/exit_1"
    ),
    "a home asks for the first submission of one that was resumed": (
        "launch end:0:1 tick look=failed/exit_1 resume=again end:0:1 tick look=failed/exit_1 demand_former "
        "look=failed/exit_1 begun=2 living=0"
    ),
    "a home asks for the next submission before its end is written": (
        "launch tick end:0:1 demand_submission living=0 begun=1 tick look=failed/exit_1"
    ),
    "a home asks for the next submission of what nothing started": (
        "break_at:16 launch look=submitted demand_submission begun=0 look=submitted"
    ),
    "its folder is removed, and it ended before": (
        "launch tick end:0:1 tick look=failed/exit_1 unmount look=failed/exit_1 stop=NotFound mount look=failed/exit_1"
    ),
    "it ended, and its folder is removed before a stop": (
        "launch tick look=running end:0:1 tick sync=final look=failed/exit_1 meanwhile_lose_run stop=NotFound "
        "look=failed/exit_1"
    ),
    "damage that somebody repairs": (
        "launch+remote_9 save save tick end tick sync=final read=0 damage release=damaged read=1 repair "
        "release=yes read=2 release=yes read=0"
    ),
    "damage at home while the run lives, and it is repaired": (
        "launch+remote_9 save save tick sync=open damage release=damaged+lives sync=open read=1 repair sync=open "
        "release=lives read=2"
    ),
    "its supervisor is of a later release": (
        "launch tick look=running newer_state look=unknown/newer_armada stop=cancelled/killed_by_user "
        "look=cancelled/killed_by_user"
    ),
    "an older agent does not say what remains": (
        "old_agent:3 launch tick look=running end tick look=succeeded lose_run look=succeeded stop=NotFound release=yes"
    ),
    "an older agent does not say what remains of a lost run": (
        "old_agent:3 launch tick look=running kill_supervisor end lose_run look=unknown/not_on_host "
        "stop=OutcomeUnknown release=untold old_agent:1 stop=cancelled/killed_by_user release=yes"
    ),
    "an older agent does not say that a run lives whose folder was removed": (
        "old_agent:3 launch tick look=running hide_run stop=OutcomeUnknown release=untold "
        "old_agent:1 release=runs_on stop=OutcomeUnknown"
    ),
    "killed before its submission was claimed": (
        "break_at:13 launch look=preparing release=logs stop=cancelled/killed_by_user look=cancelled/killed_by_user"
    ),
    "killed a step later": (
        "break_at:20 launch look=running/supervisor_lost release=lives+logs stop=cancelled/killed_by_user "
        "look=cancelled/killed_by_user begun=1"
    ),
    "killed two steps later": (
        "break_at:24 launch look release=lives+logs stop=cancelled/killed_by_user look=cancelled/killed_by_user begun=1"
    ),
    "the best by the job's own word stays": (
        "launch+floor save save save:0:8 save:0:8 save:0:8 tick fill_disk:1 tick host=1,2,5"
    ),
    "the best by a word that one checkpoint says stays": (
        "launch+floor save save save:0:8 save save tick fill_disk:1 tick host=1,2,3,5"
    ),
    "the job's own word is no number": (
        "launch+floor save save:0:8 save:0:7 save save tick fill_disk:4 tick host=1,2,4,5"
    ),
    "the best loss stays, and the job's word of another": (
        "launch+floor save:0:3 save:0:1 save:0:2 save:0:8 save:0:8 tick fill_disk:1 tick host=1,2,3,5"
    ),
    "no loss at all": "launch+floor save save save tick fill_disk:2 tick host=1,3",
    "a loss that is a word stays nowhere": "launch+floor save save:0:4 save:0:1 save tick fill_disk:1 tick host=1,3,4",
    "a disk without room, half of which every home holds": (
        "launch+floor+remote_9 save save save tick sync=open save save save tick fill_disk:5 tick host=2,3,4,5,6 "
        "fill_disk:3 tick host=4,5,6 fill_disk:1 tick host=4,6"
    ),
    "the oldest is acknowledged by one home only": (
        "launch+floor+remote_9 save save save tick join sync=open sync:1=open save tick fill_disk:3 tick "
        "host=2,3,4 fill_disk:2 tick host=3,4"
    ),
    "launched twice, and one is stopped": (
        "launch launch tick stop=cancelled/killed_by_user look=cancelled/killed_by_user look:0:1=running "
        "release=lives+logs sync=final release=lives+logs"
    ),
    "the newest is not at home yet": (
        "launch+last_1+remote_9 save tick sync=open save tick break_off:3:3 sync=open home=2 host=1,2 sync=open "
        "home=2 host=1,2"
    ),
}

TOLD_WITH_SCRIPTS = {
    "a script whose host is restarted": (
        "launch:1 save tick power_cut look=failed/host_rebooted from=1 retry=again begun=2 resumed_from=1"
    ),
    "a script that ends badly without its supervisor, and its host is restarted later": (
        "launch:1 save tick kill_supervisor end:0:1 look=failed/supervisor_lost power_cut "
        "look=failed/host_rebooted retry=no begun=1"
    ),
    "a script of an older agent, whose supervisor is killed": (
        "launch:1 save tick old_agent kill_supervisor end look=failed/supervisor_lost retry=no begun=1"
    ),
    "a script from its launch to its release": (
        "launch:1 save tick sync=open home=1 host=1 save save save tick sync=open home=1,2,3,4 host=2,4 end tick "
        "look=succeeded sync=final release=yes read=0 host=2,4 home=1,2,3,4 over=yes"
    ),
    "a script dies while it writes its last checkpoint anew in place": (
        "launch:1 save tick overwrite power_cut look=failed/host_rebooted retry=again begun=2 resumed_from=None"
    ),
    "a script deletes a part of its oldest checkpoint": (
        "launch:1 save save tick trim tick power_cut look=failed/host_rebooted retry=again resumed_from=2 host=1,2"
    ),
    "a script that cannot resume": (
        "launch+no_resume:1 save tick end:0:1 tick look=failed/exit_1 from=None sync=final resume=again "
        "resumed_from=None begun=2"
    ),
    "a script's supervisor died before it took a checkpoint": (
        "launch:1 save tick kill_supervisor save end look=failed/supervisor_lost sync=open release=hashing+unnamed "
        "finish sync=open release=yes"
    ),
    "a checkpoint that leads out of the work folder": "launch:1 save write:5 tick end tick sync=final release=outside",
    "a script ends without its supervisor, and a retry follows a restart that nobody looked at": (
        "launch:1 save tick kill_supervisor end:0:1 look=failed/supervisor_lost power_cut retry=no begun=1"
    ),
    "a script saves the same checkpoint again, and the first one is damaged there": (
        "launch+remote_9:1 save tick damage_there save_again tick host=1 end tick sync=final home=1 release=yes"
    ),
    "a script's best, by its step": "launch+remote_1:1 save tick save tick look=running sync=open home=1,2 host=2",
}
