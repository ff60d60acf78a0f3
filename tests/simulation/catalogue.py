"""The stories there are: those that broke something once, as short as they get, and random ones by their number."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation import (
    told,
    told_for_conditions,
    told_of_clusters,
    told_of_conditions,
    told_of_ends,
    told_of_htcondor,
    told_of_idle,
    told_of_slurm,
    told_of_work,
    told_rarely,
)
from tests.simulation.batch_stories import SELDOM as BATCH_SELDOM
from tests.simulation.batch_stories import WEIGHTS as BATCH_WEIGHTS
from tests.simulation.batch_stories import BatchTeller
from tests.simulation.chances import random_story
from tests.simulation.host import Scheduler
from tests.simulation.stories import Story, Teller
from tests.simulation.telling import outcome, shorten

# What the audit of the first release found, as short as it gets. Told to that release, each of them breaks what is said beside it.
FOUND = {
    "release, a byte of the newest checkpoint at home is another one": "launch save save tick end tick sync damage:0:2 release",
    "release, its log was emptied at home": "launch log end tick sync delete_log release",
    "release, its file system is not mounted": "launch save tick unmount release",
    "thinned on an old acknowledgement": "launch save tick sync delete save save save tick",
    "a copied home deletes the original's checkpoints": "launch:0:2 save tick sync copy_home save save tick sync:1",
    "a copied home takes the original's for its own": "launch save tick end tick sync copy_home delete:1 release:1",
    "a host restored from a snapshot shows a dead run": "launch snapshot_host stop resume restore_host look",
    "a stop while the root is away": "launch look unmount look stop",
    "results that vanished from the host": "launch save tick look end tick look lose_run sync",
    "all of a run is home, says a sync after a byte changed": "launch save end tick sync damage sync",
    "a sync while the root is away": "launch save stop unmount sync",
    "a sync while the root is away, of what was deleted at home": "launch save stop sync unmount delete sync",
    "a training that had ended well is run again by itself": "launch end kill_supervisor look retry",
    "release, what makes it unwanted is damaged": "launch:1:2 save save save end tick sync damage release damage:0:1 release",
    "one home prunes what another has not fetched": "launch save tick join sync:1 save tick save tick sync",
    "one home releases what another has not fetched": "launch save end tick join sync release",
    "a copied home speaks for the original": "launch save tick sync copy_home save tick save tick sync:1",
    "a home put back from a backup speaks anew": "launch join snapshot_home:1 save save tick sync:1 restore_home:1 sync:1 save tick sync",
}

# What random stories found in later code.
FOUND_BY_CHANCE = {
    "a training that had ended well, of which an older agent does not say so, is run again by itself": (
        "launch:0:3 end old_agent power_cut:1:3 look retry"
    ),
    "what will never come counts among the last that home keeps, and an older one goes": (
        "launch:1:3 save save tick sync save tick damage_there sync"
    ),
    "a home does without what it would want if the newer ones were not damaged on the host": (
        "launch+optimizer_last:0:3 save tick sync save join save damage_there tick damage_there sync:1"
    ),
    "its launch broke off, and what it had put there is hidden by a mount": (
        "break_off:1:1 meanwhile_unmount:1:0 launch:0:2 mount:1:1 release:2:3"
    ),
    "its file system goes away between two questions of a release": "launch save tick end tick meanwhile_unmount:0:1 release",
    "resumed while its last sync is under way": "launch save end:0:1 tick meanwhile_resume:0:1 sync",
    "resumed while a release asks what there is": "launch power_cut sync meanwhile_retry:0:3 release",
    "launched while a release asks what there is": "launch power_cut sync meanwhile_launch:2:1 release",
    "somebody deletes its folder, then the host is wiped while its job goes on": (
        "launch:3:3 resume:1:1 hide_run:0:2 wipe:1:3 stop:0:1"
    ),
    "launched while a release forgets secrets": "launch:3:2 stop lose_run:0:3 meanwhile_launch:2:3 release:3",
    "launched while a release forgets secrets, and its only run is hidden": (
        "launch:3:1 hide_run:3:2 tear:3:3 meanwhile_launch:1:3 release"
    ),
    "its file system goes away while a release asks what lives": "launch meanwhile_unmount:0:1 release",
    "it ends while a release asks what there is": "launch kill_supervisor sync meanwhile_end:3:2 release",
    "resumed by another home, and this one has not heard of it": (
        "launch:0:1 stop:1:3 join:0:1 resume:1:1 save:0:2 join meanwhile_tick:3:3 sync:3:2"
    ),
    "changed at home before a sync that died had recorded it": "launch save save tick break_off:2:2 sync damage sync",
    "changed at home before the last sync, which died, had recorded it": "launch end tick break_off:2:0 sync damage sync",
    "what is left of a run whose folder was half deleted": "launch:1 meanwhile_stop:2:2 sync:2:3 lose_run tear:3:1 sync:1:3",
    "a recovery is cut off before its home is registered": (
        "launch:1 launch:2:2 end save:1:2 save:0:3 break_off:2 release:1:2 join:1:1 end"
    ),
    "a launch onto the root below a mount breaks off before anything is there": (
        "launch break_off:2 meanwhile_unmount:0:2 sync launch mount release"
    ),
    "a sync dies before it records what it published, and its host loses the folder": (
        "launch:2:2 save:2:1 tick:0:3 break_off:1:3 sync:3:1 stop:1:2 lose_run sync"
    ),
    "a sync is killed between a checkpoint's last rename and its record": "launch save tick break_at:14 sync release",
    "a sync is killed there, and the next one proves what it left": "launch save tick break_at:14 sync sync release=lives",
    "somebody renames its folder, whose file system goes away while a release asks what there is": (
        "launch:2:1 save stop:0:3 rename_run:1:3 meanwhile_unmount:2:2 release:1:2"
    ),
    "a power cut brings back scraps of a deleted run below another root": (
        "launch:0:1 tear:3:3 sync:1 unmount:1:3 look mount:3 lose_run tear:3:3"
    ),
}

# What a reading of the code found.
FOUND_BY_READING = {
    "the newest optimizer state at home is damaged, and the older one goes": (
        "launch+optimizer_last save tick sync save tick break_at:18 sync damage_optimizer:0:1 stop lose_run sync"
    ),
    "a checkpoint comes without its optimizer state, for a newer one that never comes": (
        "launch+optimizer_last save tick snapshot_host save tick break_at:8 sync restore_host look sync stop tick look "
        "sync sync release"
    ),
    "the secrets of a run that is to be restarted go with a release that says no": (
        "launch save tick power_cut look=failed/host_rebooted release retry tick look=running"
    ),
}

# What breaks only where one condition of the core is removed; nothing of it was ever broken.
TOLD_FOR_A_CONDITION = {
    "what was home and is nowhere now is not said to have never come": (
        "launch save end tick sync tick sync delete lose_run sync"
    ),
    "a host restored twice from a snapshot is believed after its second start, too": (
        "launch snapshot_host tick look stop tick look resume tick look restore_host wait sync restore_host look"
    ),
    "a training whose host was restarted after its final checkpoint is not run again": "launch tick end power_cut look retry",
    "what a person asked for by name stays at home": "launch:1:2 save tick sync ask_for save save save tick sync",
    "a home asks for the deletion of what it has not fetched": "launch save save tick demand_deletion",
    "a home asks for the deletion of the newest, which it has": "launch save save tick sync demand_deletion",
    "a home asks for the next submission while a job lives that outlived its supervisor": (
        "launch tick kill_supervisor demand_submission"
    ),
    "what a folder held that somebody removed is said": "launch save tick look end tick look lose_run",
}

# The same with scripts, whose checkpoints are found on the disk.
FOUND_WITH_SCRIPTS = {
    "its folder is deleted, it saves again, and a person stops it while another look is under way": (
        "launch:3 hide_run:3 save:0:3 tick:0:2 break_off:1:1 resume:2:2 meanwhile_stop look:2:3"
    ),
    "it ended well, and its supervisor died before it wrote that": "launch:1 end:2 break_off:0:2 tick release=ending+logs",
    "a script that had ended well is run again by itself": "launch:1 save tick kill_supervisor save end look retry",
    "its host was restarted after a script had ended well": "launch:1 save tick kill_supervisor save end power_cut look retry",
    "a script clears away what its supervisor had not found yet": "launch:1 save save kill_supervisor power_cut resume",
    "its supervisor is killed between taking a checkpoint and noting that": "launch:1 break_off:1:2 save save tick end:2:1 resume",
    "a power cut takes what its host knew of a home": "launch:0:2 save save tick join launch:3 meanwhile_save:1:1 sync:2:1 tear:2:3",
    "its supervisor is killed before it notes a checkpoint, which is then hashed without it": (
        "launch:1 save break_off:1 tick save finish sync tear:3 resume"
    ),
    "all of a script is home, says a sync, and another home's stop takes what it had left": (
        "launch:3 save copy_home:2:1 end:0:3 kill_supervisor:0:3 meanwhile_stop:1:3 copy_home:2:3 sync:3:2"
    ),
    "its clock is set back, a script ends well without its supervisor, and its host is restarted": (
        "launch:3:2 save break_off:1:1 set_clock:1:3 tick:0:3 meanwhile_power_cut:2 end look:3:2 retry"
    ),
    "a script ends well, and its supervisor is killed before it notices": "launch:1 save tick end kill_supervisor look retry",
    "a sync of a second home is killed before its record, while the first one syncs": (
        "launch break_off stop meanwhile_tick:0:2 save tick sync join meanwhile_sync log break_off:2:3 sync:1 release:1"
    ),
    "all of a script is home, concludes a sync, while a stop beside it takes what it had left": (
        "launch:1:1 set_clock:3:1 save:1 set_clock:1:2 meanwhile_power_cut:3:3 sync:3:3 meanwhile_stop:2:3 sync:2:1"
    ),
    "all of a script is home, said a sync, and a stop takes what it had left": (
        "launch:1:1 set_clock:3:1 save:1 set_clock:1:2 meanwhile_power_cut:3:3 sync:3:3 sync:2:1 stop:2:3"
    ),
    "a power cut tears a script's checkpoint in the outbox that was not hashed yet": (
        "launch:1 save break_off:1:1 save tick tear:4:3 look retry"
    ),
    "a power cut tears a script's checkpoint in its work folder, too": (
        "launch:1 save break_off:1:1 save tick tear:2:3 look retry"
    ),
    "home deletes what came of a folder that its job made anew, and nothing syncs it again": (
        "launch:1:2 hide_run:0:1 save:0:0 meanwhile_stop:0:0 sync:3:1 delete:2:3"
    ),
    "a script goes on from an older checkpoint than it left": "launch:1 save tick save kill_supervisor save log power_cut resume",
    "a disk that was put back shows an earlier submission": (
        "launch:1:1 snapshot_host restore_host:0:2 sync:0:2 retry:1 restore_host:0:1 meanwhile_power_cut:2:3 "
        "stop:2:1=OutcomeUnknown look:3:1"
    ),
}

# The same on clusters, of the release that asked each scheduler once and believed it.
FOUND_ON_CLUSTERS = {
    "an empty answer while it runs": "launch start_job lie:0:1 watch",
    "half an answer while two run": "launch launch start_job start_job lie:0:2 watch:0:1 watch",
    "an exit code of 0 beside an error": "launch start_job lie:0:3 watch",
    "another user's answer": "launch start_job lie:1:0 watch",
    "an answer of an hour ago": "remember launch start_job lie:1:1 watch",
    "an answer in which it has ended": "launch start_job tick lie:1:2 watch",
    "a controller that was set back": "launch start_job forget_job watch",
    "a controller that was set back, and no accounting": "accounting:0:1 launch start_job forget_job watch",
    "an empty answer while it waits": "launch lie:0:1 watch",
    "another user's answer while it waits": "launch lie:1:0 watch",
    "an empty answer takes its secret": "launch start_job lie:0:1 watch preempt tick truth start_job",
    "release on an empty answer": "launch lie:0:1 watch sync release",
    "it begins anew at each time limit": "launch start_job time_limit",
}

FOUND_ON_CLUSTERS_WITH_SCRIPTS = {
    "both jobs of it save the same, and a sync breaks off when it has one of them": (
        "launch:1 start_job:0:2 give_up:0:1 start_job:2:1 save:2:2 save:2:1 tick:1 break_off:3:3 sync:2:2 release:2:2"
    ),
    "its disk is put back to before the next attempt, and a former one goes on": (
        "launch:1:1 start_job:1 snapshot_host:3:2 give_up:0:1 start_job:3:2 restore_host:3:3 tick:1:3"
    ),
    "its disk is put back to before the submission whose job goes on, and a person stops the run": (
        "launch:2 snapshot_host:2:3 unmount:1:3 start_job:0:2 mount:3:1 watch:0:1 resume:1:3 start_job:1:3 restore_host:1"
    ),
    "it goes back at each time limit, whatever it brought": "launch:1 start_job time_limit start_job time_limit",
    "its node dies while Slurm says that it has ended, and Slurm puts it back between two polls": (
        "launch start_job node_dies lie:1:2 watch notice look"
    ),
    "its supervisor is killed at once, and Slurm forgets the job before it is asked again": (
        "launch:3 start_job lie watch truth time_limit break_off start_job freeze"
    ),
    "two attempts save one step, and that counts for two": (
        "launch:3:2 start_job:3:1 give_up:3:3 save:3 start_job:2:2 meanwhile_end:2:3 save:2:2 watch:2:1 sync:3"
    ),
    "a preempted job is shown as failed, and then Slurm does not answer": (
        "launch:3:1 start_job:2 meanwhile_lie:3:2 preempt:2:3 watch:1:2"
    ),
    "a preempted job is shown as failed, and that answer is read long after Slurm gave it": (
        "launch:3:1 start_job:0:3 lie:2:1 launch+optimizer_last:1 preempt meanwhile_look:1 watch:0:1 watch:3"
    ),
    "a job goes back at its time limit, and then Slurm's answers are cut": (
        "launch:1 start_job lie:2:1 time_limit:2:2 launch:2:1 freeze:2:2"
    ),
    "stopped after Slurm's last answer, before which it was handed over": (
        "launch sync:3 start_job:2:2 save:1:1 launch:1:3 start_job:3:2 release:3:1 break_off:1:2 look:3 stop:1:3 look:1:1"
    ),
    "a job that was given up writes over a checkpoint of the next": (
        "launch sync:3 start_job:2:2 preempt:3:2 save:1:1 launch:1:3 start_job:3:2 release:3:1 break_off:1:2 look:3 "
        "give_up:1:1 stop:1:3 start_job:3:3 save:1 meanwhile_save:0:3 release:1"
    ),
}


# Of every batch system: what later stories found.
FOUND_ON_CLUSTERS_BY_CHANCE = {
    "a former attempt that was given up ends the job of the next": "launch start_job save tick give_up start_job tick",
    "a former attempt that was given up ends well while the next runs": "launch start_job give_up start_job end tick look",
    "release, its folder was removed while its job waits": "launch start_job preempt tick lose_run release",
    "stopped while it waits after it was resumed": "launch start_job time_limit resume stop",
    "release, it was resumed and the answer of its scheduler was lost": "launch start_job end:0:1 tick sync lose_answer resume release",
    "stopped, its folder was removed while its job waits": "launch look lose_run stop",
    "stopped after it was resumed, and a job that was given up waits": "launch start_job end:0:3 give_up tick resume stop",
    "a job that was given up begins again beside the one of the next submission": (
        "launch start_job end:0:3 give_up tick resume start_job:1 start_job tick look"
    ),
    "its supervisor dies between its exit and its state, and the answer to its submission was lost": (
        "launch:2 start_job:1:1 time_limit:1:2 lose_answer:2 break_off:2:3 launch:2 resume start_job time_limit:2"
    ),
    "stopped while its root is away and the answer to its submission was lost": (
        "lose_answer:2:3 launch:0:2 start_job:1 unmount:1:1 stop:0:1"
    ),
}

TOLD_FOR_A_CONDITION_OF_SLURM = {
    "a person hands a job file to Slurm once more": "launch submit_by_hand start_job start_job tick look",
}

FOUND_WITH_SLURM = {
    "requeued after it failed silently, and its login node was restarted": (
        "launch:2:1 start_job:2:0 kill_supervisor:3:2 look:3:3 power_cut:1:3 requeue_job:0:3 look:1:2"
    ),
    "stopped, requeued, and its disk put back to before the stop": (
        "launch:1:0 snapshot_host:1:1 stop:1:0 requeue_job:1:1 restore_host:1:3 watch:1:0"
    ),
    "its node fails, and Slurm forgets the job between two looks": "launch:2:3 start_job node_dies:3:2",
    "a preempted job is shown as failed until its node is cleared": "launch start_job preempt tick watch",
    "its supervisor is killed as it is preempted, and its job lives on where the next attempt starts": (
        "one_machine launch start_job save tick preempt orphan_job watch start_job living=1 look=running"
    ),
    "stopped as soon as Slurm answers again, which no longer lists it": "launch lie watch start_job take",
    "a resumed job is preempted before its first attempt, and shown as failed until its node is cleared": (
        "launch:3:1 start_job meanwhile_resume:3:2 early_signal:1:1 stop:0:3 look:0:3 meanwhile_start_job:1:2 freeze:0:1"
    ),
    "it was said to have ended, then it waits, then it is not listed": (
        "launch:1:2 start_job:3:3 lie:1:2 node_dies:2 watch meanwhile_lie:3:3 notice:2:2 watch:2:3"
    ),
    "it was said to have ended, and is not listed when it waits": (
        "launch:1:2 start_job:3:3 lie:1:2 node_dies:2 watch meanwhile_lie:3:3 join:2:1 notice:2:2 watch:2:3"
    ),
}

FOUND_WITH_HTCONDOR = {
    "its node is believed dead, and its supervisor is killed between its exit and its state": (
        "launch start_job save give_up break_at:11 end tick look=succeeded start_job living=0 look=succeeded sync=final"
    ),
    "its node is believed dead, and its supervisor is killed between its job's exit and its own": (
        "launch start_job save give_up break_at:8 end tick start_job living=0 look=succeeded sync=final"
    ),
    "the same, and it had failed": (
        "launch:2 start_job:1 save:2:1 give_up break_off:1:1 end:2:3 freeze start_job living=0 look=failed/exit_1"
    ),
    "stopped after its supervisor was killed before its job began, and resumed": (
        "launch join break_off:1:1 look start_job watch stop resume look:1"
    ),
    "its next attempt is killed before it begins, and the former goes on on a node that is believed dead": (
        "launch:1:2 meanwhile_start_job:1:3 break_off:2:1 start_job:1:1 give_up:3:2 save:1:2 freeze:2"
    ),
    "its log is deleted, and its job dies": "launch start_job kill_supervisor lie:1:0 truth watch",
    "its clock is set back, and a job that its schedd forgot dies": "launch start_job forget_job set_clock:1 kill_supervisor",
    "its clock is set back between its last signs of life, and a job that its schedd forgot dies": (
        "launch start_job forget_job set_clock:1 tick kill_supervisor"
    ),
    "its log is restored to before it was started, and its supervisor wrote that it runs": (
        "launch remember start_job tick kill_supervisor lie:1:1 truth watch=failed/ended_silently"
    ),
    "its log is restored to before it was started, and it ended before it wrote anything": (
        "launch unmount remember start_job lie:1:1 mount truth look"
    ),
    "its log is overwritten, and longer than what was read of it": "launch look lie:1:1 start_job kill_supervisor truth watch",
    "stopped before it was in a queue, and its disk put back to before the stop": (
        "lie:2:1 launch snapshot_host:3:1 lie:1:2 stop restore_host:1 watch=cancelled/killed_by_user sync=final truth "
        "release=may_begin stop=cancelled/killed_by_user sync=final release=yes"
    ),
    "its files are dated 40 days ahead, and a job that its schedd forgot goes back": (
        "launch set_clock:3 start_job preempt forget_job tick set_clock"
    ),
}


FOUND_WITH_HTCONDOR_AND_SCRIPTS = {
    "its next attempt dies before it writes anything, and the former hangs on a node that is believed dead": (
        "launch:0:3 meanwhile_start_job:0:3 watch:0:1 break_off:1 look:1:2 give_up:3:3 start_job:3 freeze:1:2"
    ),
    "an attempt between two at their time limits brought something and was preempted": (
        "launch:3:1 start_job:1:3 time_limit:0:3 start_job:2:3 save:1:2 preempt:0:3 meanwhile_start_job:2:1 watch:3:3 time_limit:1:1"
    ),
    "stopped and resumed while a job that was given up lives": (
        "launch:0:3 start_job:0:3 give_up:2 break_off:0:3 stop:0:3 start_job:2:1 sync:2:1 meanwhile_resume:2:2 launch:0:3 watch:1:2"
    ),
}


@dataclass(frozen=True)
class Telling:
    """A story and the world it is told to: whose jobs are scripts, what starts them."""

    story: Story
    scripts: bool = False
    scheduler: Scheduler = "direct"

    @property
    def teller(self) -> Callable[..., Teller]:
        return Teller if self.scheduler == "direct" else functools.partial(BatchTeller, scheduler=self.scheduler)

    def outcome(self) -> str | None:
        """What breaks, or None."""
        return outcome(self.story, scripts=self.scripts, teller=self.teller)

    def shorten(self) -> Story:
        """As short as it gets while anything breaks."""
        return shorten(self.story, bool, scripts=self.scripts, teller=self.teller)


def found_once() -> dict[str, Telling]:
    """By what they broke."""
    groups: list[tuple[dict[str, str], bool, Scheduler]] = [
        (told.TOLD | told_of_idle.TOLD_OF_IDLE, False, "direct"),
        (told_of_work.TOLD_OF_WORK, False, "direct"),
        (told_of_work.TOLD_OF_WORK_OF_SCRIPTS, True, "direct"),
        (told_of_work.TOLD_OF_WORK_ON_CLUSTERS, False, "slurm"),
        (told_of_work.TOLD_OF_WORK_ON_CLUSTERS, False, "htcondor"),
        (told.TOLD_WITH_SCRIPTS, True, "direct"),
        (told_of_clusters.TOLD_OF_CLUSTERS | told_of_slurm.TOLD_OF_SLURM, False, "slurm"),
        (told_of_clusters.TOLD_OF_CLUSTERS_WITH_SCRIPTS | told_of_slurm.TOLD_OF_SLURM_WITH_SCRIPTS, True, "slurm"),
        (told_of_clusters.TOLD_OF_CLUSTERS | told_of_htcondor.TOLD_OF_HTCONDOR, False, "htcondor"),
        (
            told_of_clusters.TOLD_OF_CLUSTERS_WITH_SCRIPTS | told_of_htcondor.TOLD_OF_HTCONDOR_WITH_SCRIPTS,
            True,
            "htcondor",
        ),
        (told_for_conditions.TOLD_FOR_CONDITIONS, False, "direct"),
        (told_for_conditions.TOLD_FOR_CONDITIONS_WITH_SCRIPTS, True, "direct"),
        (told_for_conditions.TOLD_FOR_CONDITIONS_OF_SLURM, False, "slurm"),
        (told_for_conditions.TOLD_FOR_CONDITIONS_OF_HTCONDOR, False, "htcondor"),
        (told_of_conditions.TOLD_OF_CONDITIONS, False, "direct"),
        (told_of_conditions.TOLD_OF_CONDITIONS_OF_SLURM, False, "slurm"),
        (told_of_conditions.TOLD_OF_CONDITIONS_OF_HTCONDOR, False, "htcondor"),
        (told_of_ends.TOLD_OF_ENDS, False, "direct"),
        (told_of_ends.TOLD_OF_ENDS_WITH_SCRIPTS, True, "direct"),
        (told_of_ends.TOLD_OF_ENDS_ON_CLUSTERS | told_of_ends.TOLD_OF_ENDS_OF_SLURM, False, "slurm"),
        (told_of_ends.TOLD_OF_ENDS_ON_CLUSTERS, False, "htcondor"),
        (told_rarely.TOLD_RARELY, False, "direct"),
        (told_rarely.TOLD_RARELY_WITH_SCRIPTS, True, "direct"),
        (told_rarely.TOLD_RARELY_OF_SLURM, False, "slurm"),
        (told_rarely.TOLD_RARELY_OF_SLURM_WITH_SCRIPTS, True, "slurm"),
        (told_rarely.TOLD_RARELY_OF_HTCONDOR, False, "htcondor"),
        (FOUND | FOUND_BY_CHANCE | FOUND_BY_READING | TOLD_FOR_A_CONDITION, False, "direct"),
        (FOUND_WITH_SCRIPTS, True, "direct"),
        (FOUND_ON_CLUSTERS, False, "slurm"),
        (FOUND_ON_CLUSTERS_WITH_SCRIPTS, True, "slurm"),
        (FOUND_ON_CLUSTERS_BY_CHANCE, False, "slurm"),
        (FOUND_WITH_SLURM | TOLD_FOR_A_CONDITION_OF_SLURM, False, "slurm"),
        (FOUND_WITH_HTCONDOR, False, "htcondor"),
        (FOUND_WITH_HTCONDOR_AND_SCRIPTS, True, "htcondor"),
    ]
    return {
        f"{words} ({scheduler}{', scripts' if scripts else ''})": Telling(read(story), scripts, scheduler)
        for found, scripts, scheduler in groups
        for words, story in found.items()
    }


def by_chance(seed: int, *, scripts: bool, scheduler: Scheduler, few: bool = False) -> Telling:
    if scheduler == "direct":
        return Telling(random_story(seed, few=few), scripts, scheduler)
    return Telling(random_story(seed, of=BATCH_WEIGHTS, seldom=BATCH_SELDOM, few=few), scripts, scheduler)


def numbered(seed: int, number: int) -> Telling:
    """One of endlessly many: every second has scripts, half are of a cluster, of either kind in turn, and half are of few things."""
    chosen = random.Random(f"{seed}:{number}").randrange(1 << 40)
    of_clusters: Scheduler = "htcondor" if number // 4 % 2 else "slurm"
    scheduler: Scheduler = of_clusters if number % 4 >= 2 else "direct"
    return by_chance(chosen, scripts=number % 2 == 1, scheduler=scheduler, few=number // 8 % 2 == 1)


def read(words: str) -> Story:
    """Events from words such as `sync`, `damage:0:1`, or `look:0:1=succeeded`, which says what armada has to answer."""
    events = []
    for word in words.split():
        told, equals, expected = word.partition("=")
        what, *numbers = told.split(":")
        one, two = (*(int(number) for number in numbers), 0, 0)[:2]
        events.append((what + equals + expected, one, two))
    return events
