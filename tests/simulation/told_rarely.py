"""Rare stories, and stories of what is said in sentences, which say what armada has to answer.

`why` is the sentence beside a run's state, `because` what that is based on, `lines` what a release says: as one word each,
without folders, ids, dates and sizes. All else is as in `told.py`.
"""

from __future__ import annotations

TOLD_RARELY = {
    "its root is away before its end is at home": "launch save end tick look=succeeded unmount release=away",
    "its root is away, and a later end was not synced": (
        "launch save tick sync=open end tick look=succeeded unmount release=away"
    ),
    "its root is away, and what home does not want is there": (
        "launch+last_1+remote_9 save save end tick sync=final home=3 unmount release=yes"
    ),
    "its root is away, and a copy of what is not there is deleted at home": (
        "launch+remote_1 save save tick sync=open host=2 end tick sync=final delete host=3 home=2,3 unmount release=yes"
    ),
    "its root is away, and a copy at home is damaged": (
        "launch+remote_9 save end tick sync=final damage unmount release=away"
    ),
    "its root is away, and a copy at home is deleted": (
        "launch+remote_9 save end tick look=succeeded sync=final delete unmount release=away"
    ),
    "an older agent names no root, and its launch is interrupted": (
        "old_agent:9 break_at:5 launch release=yes look=unknown/not_on_host release=away stop=cancelled/killed_by_user"
    ),
    "an older agent names no root, and its root is away": (
        "old_agent:9 launch save tick end tick look=succeeded sync=final release=yes unmount look=succeeded release=yes"
    ),
    "its launch is interrupted before its submission was claimed": (
        "break_at:13 launch release=logs look=preparing because=its_folder_is_on_the_host_no_submission_was_claimed"
    ),
    "a disk without room, whose clock was set back: the newest stays": (
        "launch+floor save tick save tick save tick set_clock:1 save tick save tick fill_disk:3 tick host=1,3,4,5"
    ),
    "… although home has all": (
        "launch+floor+remote_9 save tick save tick save tick set_clock:1 save tick save tick sync=open fill_disk:3 tick "
        "host=3,4,5"
    ),
    "a home demands the deletion of all, and the clock was set back: the newest stays": (
        "launch+remote_9 save tick save tick set_clock:1 save tick sync=open demand_deletion host=2,3"
    ),
    "the disk of a home is not mounted: nothing is forgotten or fetched": (
        "launch save tick save tick sync=open host=2 unmount_home sync=FolderAway save tick sync=FolderAway release=lives+logs+only_there "
        "rm=Conflict end tick sync=FolderAway mount_home home=1,2 sync=final home=1,2,3,4 release=yes"
    ),
    "a link of a home leads to a disk that is not mounted: it is not taken for deleted": (
        "launch+remote_9 save end tick sync=final unmount_home:0:1 sync=FolderAway release=logs+only_there rm=FolderAway mount_home "
        "sync=final release=yes rm=removed"
    ),
    "the disk of a home goes away just before the folder of a run is made on it: none is made where it was mounted": (
        "launch:3:2 lose_home_disk:0:3 sync=? lose_home_disk:0:1 mount_home sync=FolderAway mount_home sync=open"
    ),
    "half is left of the manifest of a checkpoint that home has never heard of": (
        "launch save tick tear_manifest look=running sync=open release=lives+unread end tick sync=open rm=Conflict "
        "release=unread mend_manifests sync=final home=1,2 release=yes rm=removed"
    ),
    "half is left of the manifest of a checkpoint that has yet to come home": (
        "launch+remote_9 save tick sync=open save tick look=running tear_manifest:1 look=running release=lives+logs+unread "
        "end tick sync=open home=1,3 release=unread rm=Conflict mend_manifests sync=final home=1,2,3 release=yes"
    ),
    "half is left of the manifest of a checkpoint that is home": (
        "launch+remote_9 save tick sync=open tear_manifest end tick sync=final release=yes rm=removed"
    ),
    "a disk without room, and the best called itself so": (
        "launch+floor save save:0:8 save:0:8 save save tick fill_disk:1 tick host=1,2,5"
    ),
    "a disk without room, and what the job called the best is gone": (
        "launch+floor+remote_1 save save tick sync=open host=2 save save:0:6 save save tick fill_disk:1 tick host=3,6"
    ),
    "a disk without room, and a plan whose floor is a word": (
        "launch+floor break_plan stop=cancelled/killed_by_user resume=again save save save tick fill_disk:1 tick "
        "host=1,2,3 look=running"
    ),
    "a store of an earlier release, and its host is put back": (
        "launch tick look=running snapshot_host end:0:1 tick look=failed/exit_1 old_store restore_host "
        "look=failed/exit_1 pause:20 look=failed/exit_1 readable=yes"
    ),
    "a store of an earlier release, and its disk is put back while the machine runs on": (
        "launch tick look=running snapshot_host stop=cancelled/killed_by_user resume=again tick look=running "
        "kill_supervisor end:0:1 old_store put_back look=running stop=OutcomeUnknown resume=Conflict pause:9 "
        "look=cancelled/killed_by_user resume=again begun=3"
    ),
    "a store of an earlier release, its disk is put back, and nobody but who stops it looks": (
        "launch tick look=running snapshot_host stop=cancelled/killed_by_user resume=again tick look=running "
        "kill_supervisor end:0:1 old_store put_back stop=OutcomeUnknown pause:9 stop=cancelled/killed_by_user"
    ),
    "a copy of its host's disk runs as another machine: the run stays where its job lives": (
        "launch save tick clone_host look=running resume:0:1=Conflict retry:0:1=no release:0:1=logs+only_there "
        "wipe:0:1=done look=running living=1 begun=1 release=lives+logs+only_there"
    ),
    "a copy of its host's disk is let go once all is home, and the host was wiped": (
        "launch save end tick clone_host sync=final release:0:1=yes wipe=done look=succeeded release:0:1=yes"
    ),
    "a copy of its host's disk has older logs, which are nowhere else": (
        "launch save tick clone_host save tick sync=open stop=cancelled/killed_by_user sync=final release=yes release:0:1=logs"
    ),
    "what ended runs left is looked for while a job goes on without its supervisor: it is left alone": (
        "launch reap=none kill_supervisor reap=lives unmount reap=away mount reap=lives look=running/supervisor_lost "
        "stop=cancelled/killed_by_user reap=none"
    ),
    "what is left of a removed folder is ended": (
        "launch kill_supervisor hide_run reap=removed tick reap=none look=unknown/not_on_host"
    ),
    "what was proven without reading keeps the time of its reading": (
        "launch+remote_9 save tick sync=open pause:40 release=lives verified=1/10"
    ),
    "a copy that nobody read is read by a release": (
        "launch+remote_9 save tick sync=open pause:40 sizes_only verified=1/never! release=lives verified=1/0"
    ),
    "a copy is damaged on either side": (
        "launch+remote_9 save tick end tick sync=final damage_there damage release=damaged sync=open "
        "release=damaged sync=open release=damaged"
    ),
    "a copy is damaged on either side while its run lives": (
        "launch+remote_9 save save tick sync=open damage_there damage release=damaged+lives sync=open "
        "release=damaged+lives end tick sync=open release=damaged"
    ),
    "a store that says that a host was told to stop, and not when": (
        "launch end tick sync=final daemon=no break_stopping:1 pause:16 daemon=asked pause:16 daemon=asked "
        "pause:16 daemon=asked stop_runs=0 stopped=never"
    ),
    "for how long a host was stopped": (
        "launch save end tick sync=final daemon=no pause:16 daemon=no pause:16 daemon=no pause:16 daemon=asked "
        "stopped=never pause:1 daemon=gone stopped=0 pause:16 stopped=4 daemon=gone mend_link daemon=no stopped=4 "
        "stop_runs=1"
    ),
    "a clock that was set back while a host was stopped": (
        "launch end tick sync=final daemon=no pause:16 daemon=no pause:16 daemon=no pause:16 daemon=asked pause:1 "
        "daemon=gone set_home_clock:1 stopped=0 mend_link daemon=no stopped=never"
    ),
    "a store that says that a host was stopped, and not since when": (
        "launch end tick sync=final daemon=no break_stopping stopped=never"
    ),
    "its records cannot be read while it runs": (
        "launch tick look=running hide_checkpoints look=unknown/unreadable "
        "why=its_records_on_the_host_cannot_be_read_OSError_Errno_5_Input_output_error_runs_run_0_outbox "
        "because=its_records_on_the_host_cannot_be_read release=logs+unreadable hide_checkpoints:1 look=running"
    ),
    "its records cannot be read after its end": (
        "launch end tick look=succeeded sync=final hide_checkpoints look=succeeded release=unreadable "
        "lines=its_records_there_cannot_be_read_it_is_unknown_whether_its_job_is_alive_→_armada_show_run_0"
    ),
    "what a release says of what is only there": (
        "launch save end tick look=succeeded "
        "lines=checkpoint_1_is_only_there_→_armada_pull_run_0_checkpoint_1+checkpoint_2_is_only_there_→_armada_"
        "pull_run_0_checkpoint_2+not_home_of_its_logs_and_outputs_5_files_output.log,_telemetry.jsonl,_"
        "events.jsonl_→_armada_sync_now_run_0"
    ),
    "what a release says of what is unwanted, and then damaged": (
        "launch+last_1+remote_9 save save end tick sync=final "
        "lines=checkpoint_1_is_only_there_sync.keep_home_excludes_it_→_armada_pull_run_0_checkpoint_1+checkpoint_"
        "2_is_only_there_sync.keep_home_excludes_it_→_armada_pull_run_0_checkpoint_2 damage "
        "lines=checkpoint_1_is_only_there_→_armada_pull_run_0_checkpoint_1+checkpoint_2_is_only_there_→_armada_"
        "pull_run_0_checkpoint_2+checkpoint_3_is_damaged_at_home_the_only_intact_copy_is_there_→_armada_sync_"
        "verify_run_0_read_data"
    ),
    "what a release says of what is announced": (
        "launch save "
        "lines=its_job_is_running_→_armada_stop_run_0+1_checkpoint_announced_and_still_being_hashed_→_check_"
        "again_later+not_home_of_its_logs_and_outputs_4_files_output.log,_events.jsonl,_state.json_→_armada_sync_"
        "now_run_0 kill_supervisor end look=failed/supervisor_lost "
        "lines=2_checkpoints_announced_and_still_being_hashed_→_check_again_later+not_home_of_its_logs_and_"
        "outputs_4_files_output.log,_events.jsonl,_state.json_→_armada_sync_now_run_0 "
        "why=its_supervisor_and_its_processes_are_gone_no_exit_was_recorded "
        "because=its_supervisor_is_dead,_none_of_its_processes_lives,_attempt_1_has_no_exit"
    ),
    "what a release says of files that no pattern names": (
        "launch end tick write sync=final "
        "lines=1_file_it_wrote_,_that_no_sync.outputs_names_work_notes.txt_→_copy_what_you_need,_then_ignore_work"
    ),
    "what a release says of a long log": (
        "launch+short_log end tick write:3 sync=final "
        "lines=180_kB_in_the_middle_of_its_log_of_280_kB_are_only_there_sync.log_limit_→_armada_logs_run_0_from_"
        "0_FILE,_if_you_need_them_then_ignore_work"
    ),
    "what a release says of too many results": (
        "launch+results end tick write:4 sync=final "
        "lines=it_has_more_outputs_than_can_be_listed,_or_folders_that_let_nobody_in_→_copy_them_yourself"
    ),
    "what a release says of changed code": (
        "launch+dirty end tick sync=final "
        "lines=its_code_had_uncommitted_changes_the_snapshot_that_ran_is_only_on_the_host_→_commit_them_if_you_"
        "want_to_keep_them"
    ),
    "what a release says of another home": (
        "launch save tick join sync:1=open end tick sync=final "
        "lines=home_,_last_here_on_,_has_not_fetched_1_checkpoint_→_sync_there_or,_if_that_home_is_gone_or_"
        "agrees_armada_hosts_forget_home_box sync:1=final lines=none"
    ),
    "what a release says of a stranger's run": (
        "snapshot_home launch restore_home end tick "
        "lines=home_started_it,_and_this_home_has_no_record_of_it_→_ask_its_owner,_or_add_it_here_armada_"
        "recover+home_,_last_here_on_,_has_not_fetched_1_checkpoint_→_sync_there_or,_if_that_home_is_gone_or_"
        "agrees_armada_hosts_forget_home_box+checkpoint_1_is_only_there_→_armada_pull_run_0_checkpoint_1"
    ),
    "what is said while its root is away": (
        "launch save tick unmount look=unknown/root_away "
        "why=its_root_on_the_host_is_not_the_folder_that_the_run_was_put_into_a_file_system_may_not_be_mounted_"
        "there_processes_of_it_are_alive_there "
        "because=its_folder_is_not_on_the_host_2_of_its_processes_are_alive_there "
        "lines=its_folder_is_missing,_but_its_job_runs_processes_2_→_armada_stop_run_0"
    ),
    "resumed before its home is restored, and then its root goes away": (
        "launch look stop=cancelled/killed_by_user snapshot_home resume=again unmount look=unknown/root_away restore_home "
        "look=unknown/root_away because=its_folder_is_not_on_the_host_2_of_its_processes_are_alive_there "
        "resume=Conflict living=1 mount look=running stop=cancelled/killed_by_user living=0"
    ),
    "resumed after a power cut before its home is restored, and then its root goes away": (
        "launch power_cut look=failed/host_rebooted snapshot_home retry=again unmount restore_home "
        "look=unknown/root_away retry=no living=1 mount look=running begun=2"
    ),
    "ended before its home is restored, and then its root goes away": (
        "launch end tick look=succeeded snapshot_home unmount restore_home look=succeeded mount look=succeeded"
    ),
    "what is said of a killed supervisor, and of a restart": (
        "launch tick kill_supervisor look=running/supervisor_lost "
        "why=its_supervisor_died_the_job_itself_continues "
        "because=its_supervisor_is_dead_1_of_the_run_s_processes_live power_cut look=failed/host_rebooted "
        "why=the_host_was_restarted_while_the_run_was_on_it "
        "because=the_host_was_restarted_since_its_supervisor_began_no_exit_was_written"
    ),
    "what is said of a time limit": (
        "launch+limit save tick wait wait tick wait tick look=failed/time_limit "
        "why=it_reached_its_time_limit_of_30m_it_cannot_resume_raise_resources.time_limit_,_or_give_the_task_a_"
        "resume_and_a_checkpoint because=its_supervisor_wrote_the_end"
    ),
    "what is said of a stop and a resume": (
        "launch save tick stop=cancelled/killed_by_user why=nothing because=its_supervisor_wrote_the_end "
        "resume=again look=running why=nothing because=its_supervisor_lives_and_wrote_running"
    ),
}

TOLD_RARELY_WITH_SCRIPTS = {
    "its host is put back to when it ran, which a home that saw its end does not begin again, and one that did not does": (
        "launch:1:3 snapshot_host end tick look restore_host retry=no join retry:1=again"
    ),
    "an older agent does not say what remains, and its job makes a part of its folder anew": (
        "old_agent:3 launch:1 tick kill_supervisor hide_run save look=unknown/not_on_host release=vanished"
    ),
    "its home is put back to when it ended, and its folder vanishes while the job lives that was resumed": (
        "launch:2 stop:0:2 snapshot_home:2:1 meanwhile_resume:1:3 release restore_home:3:2 hide_run release=runs_on"
    ),
}

TOLD_RARELY_OF_SLURM = {
    "its node is believed dead, and the time of its next attempt is up before its job begins": (
        "launch start_job give_up early_signal start_job look=failed/time_limit living=0 begun=1"
    ),
    "its node is believed dead, and its next attempt dies before it writes anything": (
        "launch start_job give_up break_at:1 start_job freeze look=running living=1 end tick look=succeeded begun=1"
    ),
    "its launch is interrupted before its cluster heard of it": (
        "break_off:1:1 launch look=unknown/not_on_host stop=cancelled/killed_by_user"
    ),
    "preempted before its time limit": (
        "launch+sft start_job preempt tick look=queued start_job tick time_limit look=queued waits=yes watch "
        "look=queued/time_limit "
        "why=it_reached_its_time_limit_attempt_2,_no_newer_checkpoint_there_is_none_1_in_a_row,_and_the_run_"
        "fails_at_2_its_start_time_is_not_reached_a_requeued_job_waits_two_minutes"
    ),
    "its time is up before its job begins": (
        "launch early_signal:10 start_job look=failed/time_limit waits=no begun=0 "
        "why=it_reached_its_time_limit_before_its_job_was_started_raise_resources.time_limit"
    ),
    "its node is taken before its job begins": (
        "launch early_signal:15 start_job look=queued waits=yes begun=0 watch look=queued/preempted "
        "why=the_scheduler_took_its_node_away_SIGTERM_its_start_time_is_not_reached_a_requeued_job_waits_two_"
        "minutes start_job tick look=running begun=1"
    ),
    "given up, and the former fails and has a retry": (
        "launch+one_retry start_job tick give_up start_job end:0:1 tick look=running tick look=running begun=2 "
        "waits=no living=1"
    ),
    "preempted where the site ends what it preempts": (
        "launch start_job save tick take tick look=queued pause:4 look=failed/preempted pause:4 "
        "look=failed/preempted pause:4 look=failed/preempted why=nothing waits=no"
    ),
    "its plan is deleted before its job begins": "launch lose_plan start_job begun=0 waits=no",
    "stopped after its node died, and Slurm says that it failed": (
        "launch start_job tick node_dies stop=OutcomeUnknown notice:0:1 pause:5 look=running pause:8 "
        "look=running pause:5 look=cancelled/killed_by_user pause:5 look=cancelled/killed_by_user"
    ),
    "stopped after its node died, and Slurm forgot it": (
        "accounting:0:1 launch start_job tick look=running forget_job node_dies stop=OutcomeUnknown look=running "
        "pause:30 look=cancelled/killed_by_user pause:30 look=cancelled/killed_by_user pause:30 "
        "look=cancelled/killed_by_user"
    ),
    "stopped after its job failed, which has a retry": (
        "launch+one_retry start_job tick look=running end:0:1 stop=OutcomeUnknown waits=no begun=1 look=queued "
        "watch look=cancelled/killed_by_user why=removed_from_the_queue"
    ),
    "the record of a poll is dated later, and its node fails": (
        "launch start_job tick look=running node_dies notice:0:1 pause:3 look=running break_record:4 pause:3 "
        "look=running pause:8 look=running pause:5 look=failed/node_failure pause:5 look=failed/node_failure"
    ),
    "its node dies, Slurm answers with nothing, and then puts it back": (
        "launch start_job tick look=running node_dies lie:0:1 look=running pause:3 look=running pause:3 "
        "look=running notice truth pause:4 look=queued pause:1 look=queued pause:3 look=queued"
    ),
    "what is said from its queue to its preemption": (
        "launch look=queued why=other_jobs_come_first because=slurm_says_PENDING_its_supervisor_waits_with_it "
        "start_job tick look=running "
        "why=Slurm_says_PENDING_its_supervisor_wrote_running_armada_knows_in_60_s_whether_it_still_writes lie "
        "look=running "
        "why=Slurm_says_PENDING_its_supervisor_wrote_running_armada_knows_in_60_s_whether_it_still_writes truth "
        "preempt tick look=queued/preempted "
        "why=the_scheduler_took_its_node_away_SIGTERM_attempt_1_it_cannot_resume,_so_the_next_one_starts_from_"
        "the_beginning_other_jobs_come_first watch look=queued/preempted "
        "why=the_scheduler_took_its_node_away_SIGTERM_attempt_1_it_cannot_resume,_so_the_next_one_starts_from_"
        "the_beginning_its_start_time_is_not_reached_a_requeued_job_waits_two_minutes "
        "because=slurm_says_PENDING_its_supervisor_waits_with_it "
        "lines=its_job_is_running_→_armada_stop_run_0+not_home_of_its_logs_and_outputs_6_files_output.log,_"
        "telemetry.jsonl,_events.jsonl_→_armada_sync_now_run_0"
    ),
    "what is said of an end that is not believed": (
        "launch start_job tick look=running lie:1:2 look=running why=nothing "
        "because=slurm_says_RUNNING_and_its_supervisor_wrote_running pause:5 look=running "
        "why=Slurm_says_COMPLETED_its_supervisor_wrote_running_armada_knows_in_180_s_whether_it_still_writes "
        "because=Slurm_says_COMPLETED_its_supervisor_wrote_running_armada_knows_in_180_s_whether_it_still_writes_"
        "and_its_supervisor_wrote_running"
    ),
    "what is said of attempts at their time limits": (
        "launch+sft start_job save tick time_limit watch look=queued/time_limit "
        "why=it_reached_its_time_limit_attempt_1,_first_checkpoint_step_1_its_start_time_is_not_reached_a_"
        "requeued_job_waits_two_minutes start_job tick time_limit watch look=queued/time_limit "
        "why=it_reached_its_time_limit_attempt_2,_no_newer_checkpoint_the_newest_is_of_step_1_1_in_a_row,_and_"
        "the_run_fails_at_2_its_start_time_is_not_reached_a_requeued_job_waits_two_minutes start_job tick "
        "time_limit watch look=failed/time_limit "
        "why=it_reached_its_time_limit_2_attempts_in_a_row_brought_no_newer_checkpoint_the_newest_is_of_step_1_._"
        "Raise_resources.time_limit_,_or_save_checkpoints_more_often"
    ),
    "what is said of an attempt whose checkpoints cannot be seen": (
        "launch+sft start_job tick time_limit watch look=queued/time_limit "
        "why=it_reached_its_time_limit_attempt_1,_no_newer_checkpoint_there_is_none_1_in_a_row,_and_the_run_"
        "fails_at_2_its_start_time_is_not_reached_a_requeued_job_waits_two_minutes start_job tick "
        "hide_checkpoints time_limit hide_checkpoints:1 watch look=queued/time_limit "
        "why=it_reached_its_time_limit_attempt_2_its_start_time_is_not_reached_a_requeued_job_waits_two_minutes"
    ),
    "what is said of retries": (
        "launch+one_retry start_job end:0:1 tick watch look=queued/exit_1 "
        "why=attempt_1_failed_exit_1_retry_1_of_1_its_start_time_is_not_reached_a_requeued_job_waits_two_minutes "
        "start_job end:0:1 tick look=failed/exit_1 why=nothing"
    ),
    "what is said of a guess": (
        "accounting:0:1 launch start_job tick look=running forget_job node_dies watch watch look=failed/gone "
        "why=slurm_no_longer_lists_the_job,_and_no_record_shows_how_it_ended "
        "because=slurm_lists_it_neither_in_its_queue_nor_by_its_id_the_job_s_files_do_not_change_no_end_was_"
        "written "
        "lines=its_scheduler_no_longer_lists_its_job,_and_no_end_was_recorded_it_may_still_run_→_armada_stop_run_"
        "0,_once_you_know_that_it_does_not+not_home_of_its_logs_and_outputs_6_files_output.log,_telemetry.jsonl,_"
        "events.jsonl_→_armada_sync_now_run_0"
    ),
    "its resume is interrupted before its submission was claimed, and a job of it begins": (
        "launch look=queued start_job end:0:1 tick look=failed/exit_1 break_at:5 resume=OutcomeUnknown "
        "look=failed/exit_1 submit_number:0:2 start_job begun=1 release=logs"
    ),
    "a guess, its resume is interrupted before its submission was claimed, and its first job comes back": (
        "accounting:0:1 launch look=queued forget_job watch look=failed/gone break_at:4 resume=OutcomeUnknown "
        "recall_job start_job tick look=running living=1 release=lives+logs demand_submission=Conflict begun=1 "
        "look=running stop=cancelled/killed_by_user living=0"
    ),
    "a guess, its resume is interrupted before its submission was claimed, and is repeated": (
        "accounting:0:1 launch forget_job watch look=failed/gone break_at:4 resume=OutcomeUnknown look=failed/gone "
        "resume=again start_job tick look=running begun=1 living=1"
    ),
    "its plan is deleted while its job waits": (
        "launch lose_plan look=queued because=slurm_says_PENDING_its_supervisor_waits_with_it release=lives+logs "
        "stop=cancelled/killed_by_user waits=no begun=0"
    ),
    "its plan is deleted while its job runs, and its node fails": (
        "launch start_job save tick look=running lose_plan look=running node_dies notice:0:1 watch "
        "look=failed/node_failure resume=ArmadaError look=failed/node_failure sync=final home=1"
    ),
    "the answer to its submission is lost, and then its plan": (
        "lose_answer launch=OutcomeUnknown lose_plan look=submitted stop=cancelled/killed_by_user waits=no begun=0"
    ),
    "Slurm says that it failed, and its job lives on": (
        "one_machine launch start_job save tick orphan_job watch look=running/supervisor_lost "
        "because=slurm_says_FAILED_1_of_the_run_s_processes_live_on_the_machine_that_was_asked "
        "release=lives+logs+only_there secrets=there resume=Conflict stop=cancelled/killed_by_user living=0 secrets=gone"
    ),
    "told to stop, then Slurm forgets its job, which lives on": (
        "one_machine accounting:0:1 launch start_job save tick forget_job orphan_job ask_stop watch "
        "look=running/supervisor_lost because=slurm_no_longer_lists_it_1_of_the_run_s_processes_live_on_the_machine_"
        "that_was_asked living=1 release=lives+logs+only_there stop=cancelled/killed_by_user living=0"
    ),
    "it waits again, what its supervisor left lives on, and it is stopped": (
        "one_machine launch start_job save tick preempt orphan_job watch look=queued living=1 "
        "stop=cancelled/killed_by_user living=0 waits=no"
    ),
    "told to stop while Slurm is down, and its job fails before its supervisor looks": (
        "launch+one_retry start_job save tick look=running lie ask_stop end:0:1 truth tick look=failed/exit_1 "
        "waits=no begun=1 watch look=failed/exit_1 why=nothing"
    ),
}

TOLD_RARELY_OF_SLURM_WITH_SCRIPTS = {
    "its job fails while it is stopped, and it has a retry": (
        "launch+one_retry:1 start_job save tick look=running meanwhile_end:0:1 stop=cancelled/killed_by_user "
        "waits=no begun=1 look=cancelled/killed_by_user watch look=cancelled/killed_by_user why=nothing"
    ),
}

TOLD_RARELY_OF_HTCONDOR = {
    "its node is believed dead, and the time of its next attempt is up before its job begins": (
        "launch start_job give_up early_signal start_job look=failed/time_limit living=0 begun=1"
    ),
    "its node is believed dead, and its next attempt dies before it writes anything": (
        "launch start_job give_up break_at:1 start_job freeze look=running living=1 end tick look=succeeded begun=1"
    ),
    "its plan is deleted while its job waits on HTCondor": (
        "launch lose_plan look=queued because=htcondor_says_submitted_its_supervisor_waits_with_it "
        "stop=cancelled/killed_by_user waits=no begun=0"
    ),
    "HTCondor says that it ended, and its job lives on": (
        "one_machine launch start_job save tick orphan_job watch look=running/supervisor_lost "
        "release=lives+logs+only_there secrets=there stop=cancelled/killed_by_user living=0 secrets=gone"
    ),
    "preempted between time limits on HTCondor": (
        "launch+sft start_job preempt tick look=queued/preempted start_job tick time_limit look=queued/time_limit "
        "waits=yes "
        "why=it_reached_its_time_limit_attempt_2,_no_newer_checkpoint_there_is_none_1_in_a_row,_and_the_run_"
        "fails_at_2 because=htcondor_says_requeued_its_supervisor_waits_with_it"
    ),
    "its log is deleted, and its node dies": (
        "launch start_job tick look=running node_dies lie:1 pause:13 look=running "
        "why=its_event_log_is_not_there_runs_run_0_submissions_1_job.log"
    ),
    "its log is deleted before its job begins": (
        "launch look=queued lie:1 start_job tick look=running why=nothing tick look=running why=nothing"
    ),
    "what is said of a log that is gone": (
        "launch look=queued why=nothing because=htcondor_says_submitted_its_supervisor_waits_with_it start_job "
        "tick look=running why=nothing lie:1 look=running "
        "why=its_event_log_is_not_there_runs_run_0_submissions_1_job.log pause:2 tick look=running why=nothing "
        "because=htcondor_says_executing_and_its_supervisor_wrote_running"
    ),
    "what is said of a job whose files do not change": (
        "launch start_job tick look=running node_dies pause:13 look=running "
        "why=its_event_log_says_that_it_runs,_but_its_files_have_not_changed_for_minutes "
        "because=htcondor_does_not_say_its_event_log_says_that_it_runs,_but_its_files_have_not_changed_for_"
        "minutes_its_supervisor_wrote_running"
    ),
    "what is said of a preemption and of a node that fails": (
        "launch start_job save tick preempt tick look=queued/preempted "
        "why=the_scheduler_took_its_node_away_SIGTERM_attempt_1_it_cannot_resume,_so_the_next_one_starts_from_"
        "the_beginning_lost_its_worker_evicted_waits_for_another "
        "because=htcondor_says_evicted_its_supervisor_waits_with_it start_job tick node_fails tick "
        "look=queued/node_failure "
        "why=its_node_n1_failed,_according_to_Slurm_attempt_2_it_cannot_resume,_so_the_next_one_starts_from_the_"
        "beginning_lost_its_worker_evicted_waits_for_another"
    ),
    "what is said of a job that is held": (
        "launch hold look=queued/held "
        "why=held_by_a_policy_of_the_pool_The_system_macro_SYSTEM_PERIODIC_HOLD_evaluated_to_TRUE_condor_release_"
        "100.000_releases_it because=htcondor_says_hold_code_26_it_waits_until_somebody_releases_it"
    ),
    "what is said of a node that is lost for good": (
        "launch start_job tick look=running node_dies notice:0:1 pause:5 look=running "
        "why=HTCondor_says_hold_code_26_its_supervisor_wrote_running_armada_knows_in_60_s_whether_it_still_writes "
        "because=htcondor_does_not_say_HTCondor_says_hold_code_26_its_supervisor_wrote_running_armada_knows_in_"
        "60_s_whether_it_still_writes_its_supervisor_wrote_running"
    ),
    "the logs of two jobs are deleted, and their nodes die": (
        "accounting:0:1 launch launch start_job start_job tick look=running look:0:1=running node_dies node_dies "
        "forget_job forget_job:1 lie:1 look=running look:0:1=running pause:6 look=running look:0:1=running "
        "pause:7 look=failed/gone look:0:1=running"
    ),
}
