"""Stories of a cluster: what a batch system does with jobs, and what it says of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from armada_agent.verdicts.liveness import DOUBT_S, SILENT_S

from armada.verdicts.order import LAG_S
from tests.simulation.home import MOST_WITHOUT, SimHome
from tests.simulation.stories import Teller
from tests.simulation.words import hold_true
from tests.simulation.world import any_of

if TYPE_CHECKING:
    from armada.store.runs import Run
    from tests.simulation.batch_system import BatchJob
    from tests.simulation.cluster import BatchSupervision, SimCluster
    from tests.simulation.host import Scheduler, SimHost
    from tests.simulation.world import World

_LOOK_EVERY_S = 30.0
_FROZEN_LOOK_EVERY_S = 15.0
_LOOKS = 4 + int(2 * SILENT_S / _LOOK_EVERY_S)
"""The shortest time between two questions to a queue, as every simulated plan says."""
_LOOKS_SINCE_BOOT = 2 + int(LAG_S / _LOOK_EVERY_S)
"""How often a machine that was started anew shows less before it is believed; it has to see, too, that a job does not write."""
_LONGEST_PAUSE_S = 300.0  # of the agent, before it asks a Slurm again that had not answered
_MOST_LOOKS = 2 + int((_LONGEST_PAUSE_S + SILENT_S) / _LOOK_EVERY_S)

WEIGHTS = {
    "launch": 3, "launch+optimizer_last": 1, "damage_optimizer": 1,
    "launch+results": 1, "launch+results+code": 1, "note": 3, "unpack": 1, "rm": 2, "delete_output": 1, "damage_output": 1,
    "meanwhile_note": 1, "meanwhile_rm": 1,
    "look": 5, "watch": 3, "sync": 8, "stop": 2, "resume": 2, "release": 4, "join": 1, "forget": 1,
    "tick": 10, "save": 8, "log": 2, "end": 2, "kill_supervisor": 1,
    "start_job": 9, "freeze": 2, "preempt": 2, "take": 1, "early_signal": 1, "time_limit": 3,
    "node_dies": 1, "notice": 2, "give_up": 1, "forget_job": 1, "requeue_job": 1,
    "lie": 3, "truth": 3, "remember": 2, "lose_answer": 1, "accounting": 1,
    "power_cut": 1, "cut_link": 1, "mend_link": 1, "unmount": 1, "mount": 1, "lose_run": 1,
    "damage": 1, "delete": 1, "delete_log": 1, "snapshot_home": 1, "restore_home": 1, "copy_home": 1,
    "break_off": 2, "set_clock": 1, "set_home_clock": 1,
    "meanwhile_tick": 1, "meanwhile_save": 1, "meanwhile_end": 1, "meanwhile_sync": 1, "meanwhile_release": 1, "meanwhile_resume": 1,
    "meanwhile_stop": 1, "meanwhile_look": 1, "meanwhile_launch": 1,
    "meanwhile_kill_supervisor": 1, "meanwhile_cut_link": 1, "meanwhile_start_job": 2, "meanwhile_preempt": 1, "meanwhile_lie": 1,
}  # fmt: skip

SELDOM = {
    "fill_disk": 2, "clear_disk": 1, "snapshot_host": 1, "restore_host": 1, "tear": 1, "retry": 2, "hide_run": 1, "damage_there": 2,
    "unmount_home": 1, "mount_home": 2, "lose_home_disk": 2, "meanwhile_unmount_home": 1,
    "touch": 1, "break_manifest": 1, "old_store": 1, "move_home": 2, "second_host": 2, "rename_run": 2,
}  # fmt: skip
"""What happens besides in one story of four."""


class BatchTeller(Teller):
    """Tells stories in which the host is a cluster."""

    cluster: SimCluster

    def __init__(self, world: World, *, scripts: bool = False, scheduler: Scheduler = "slurm") -> None:
        self._scheduler = scheduler
        super().__init__(world, scripts=scripts)
        self._saved_before: dict[str, int] = {}
        self._fruitless: dict[str, int] = {}

    def add_host(self) -> SimHost:
        self.cluster = self.world.add_cluster("box", self._scheduler)
        return self.cluster

    def do_sweep(self, one: int, _two: int) -> None:
        """A home launches two runs as an array of its cluster's, which starts one after the other."""
        home, run_ids = self._home(one), ["run-0", "run-1"]
        self.world.run_ids += run_ids
        self._act(home, lambda: home.launch_sweep(self.cluster, run_ids, at_once=1))

    # The batch system and its nodes.

    def do_start_job(self, one: int, _two: int) -> None:
        waiting = [job for job in self._jobs if job.waits]
        if job := any_of(waiting, one):
            if self._saved(job) > self._saved_before.get(job.id, 0):
                self._fruitless[job.id] = 0  # an attempt that ended otherwise brought something
            self._saved_before[job.id] = self._saved(job)
            self._act(None, lambda: self.cluster.batch_system.start(job))

    def do_submit_by_hand(self, one: int, _two: int) -> None:
        """Somebody hands a run's job file to the batch system once more."""
        if job := any_of([job for job in self._jobs if job.lives], one):
            self.cluster.batch_system.submit(f"{100 + len(self._jobs)}", job.name)

    def do_submit_again(self, one: int, _two: int) -> None:
        """The same with a job that the batch system has ended."""
        if job := any_of([job for job in self._jobs if not job.lives], one):
            self.cluster.batch_system.submit(job.id, job.name)

    def do_cut_log(self, _one: int, _two: int) -> None:
        """Something cuts the ends of the event logs off."""
        for job in self._jobs:
            log = self.cluster.run_folder(job.run_id) / "submissions" / str(job.number) / "job.log"
            os.truncate(log, log.stat().st_size // 2)

    def do_wink(self, _one: int, _two: int) -> None:
        """A few seconds pass: less than a poll's interval."""
        self.world.clock += 5.0

    def do_break_exit(self, _one: int, _two: int) -> None:
        """An older armada wrote the ends of attempts, without their steps."""
        for job in self._jobs:
            for path in sorted(self.cluster.run_folder(job.run_id).glob("attempts/*/exit.json")):
                told = json.loads(path.read_bytes())
                path.write_text(json.dumps({key: told[key] for key in told if key not in ("step", "step_before")}))

        self._fruitless.clear()  # what they brought counts neither way

    def do_swap_log(self, one: int, _two: int) -> None:
        """Somebody puts another file where each event log is: with the same events, or with its first one and then none."""
        for job in self._jobs:
            log = self.cluster.run_folder(job.run_id) / "submissions" / str(job.number) / "job.log"
            text = log.read_text()
            other = log.with_name("other.log")  # beside it for a moment, so that it has a number of its own
            other.write_text(text.partition("...\n")[0] + "...\n" + "\n" * len(text) if one else text)
            other.rename(log)

    def do_submit_unclaimed(self, _one: int, _two: int) -> None:
        """Somebody hands over a job file of a submission that no home asked for."""
        if self._jobs:
            run_id = self._jobs[0].run_id
            self.cluster.batch_system.submit(f"{100 + len(self._jobs)}", f"armada.{run_id}.7")

    def do_submit_number(self, one: int, two: int) -> None:
        """Somebody hands over the job file of a submission of a run by its number."""
        self.cluster.batch_system.submit(f"{100 + len(self._jobs)}", f"armada.{self.world.run_ids[one]}.{two}")

    def do_preempt(self, one: int, _two: int) -> None:
        """Somebody more important needs its node: it gets its signal, and comes back later."""
        if running := self._running(one):
            self.cluster.batch_system.preempt(running.job)

    def do_take(self, one: int, _two: int) -> None:
        """The same where the site ends preempted jobs: it does not come back."""
        if running := self._running(one):
            running.job.taken_for_good = True
            running.signal(15)

    def do_early_signal(self, one: int, _two: int) -> None:
        """The next supervisor gets a signal before it starts its job: its node is taken (15), or its time is almost up (10)."""
        self.cluster.early_signal = one if one in (10, 15) else (10, 15)[one % 2]

    def do_time_limit(self, one: int, _two: int) -> None:
        """It is warned before its time is up; it goes back only while that gets it further."""
        if not (running := self._running(one)) or running.has_signal:
            return
        job = running.job
        running.signal(10)
        self._act(None, self.world.tick)
        if (
            not job.waits or self.cluster.hides_checkpoints
        ):  # what an attempt brought that cannot be seen counts neither way
            return
        gained = self._saved(job) > self._saved_before[job.id]
        self._fruitless[job.id] = 0 if gained else self._fruitless.get(job.id, 0) + 1
        self.world.hold(running.can_resume, f"{job.run_id} went back at its time limit, and begins anew each time")
        self.world.hold(
            self._fruitless[job.id] < MOST_WITHOUT,
            f"{job.run_id} went back at its time limit although {MOST_WITHOUT} attempts brought nothing",
        )

    def do_node_dies(self, one: int, _two: int) -> None:
        if running := self._running(one):
            self.cluster.node_dies(running.job)

    def do_notice(self, _one: int, two: int) -> None:
        """The controller notices which nodes are dead: their jobs go back, or fail where the site wants that."""
        for job in self.cluster.lost():
            self.cluster.batch_system.lose_node(job, for_good=two % 2 == 1)
            job.put_back_at = self.world.clock

    def do_hold(self, one: int, _two: int) -> None:
        """An administrator holds a job that waits."""
        if job := any_of([job for job in self._jobs if job.waits], one):
            self.cluster.batch_system.hold(job)

    def do_node_fails(self, one: int, _two: int) -> None:
        """Slurm says so in the job's log, and ends it."""
        if running := self._running(one):
            log = Path(running.paths.scheduler_log)
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("a") as stream:
                stream.write(
                    f"slurmstepd: error: *** JOB {running.job.id} ON n1 CANCELLED AT 2027-01-15T08:00:00 DUE TO NODE FAILURE ***\n"
                )
            running.job.goes_back = True
            running.signal(15)

    def do_terminate_job(self, one: int, two: int) -> None:
        """The scheduler's signal reaches the job before its supervisor; or the job alone, which saves and says so."""
        if running := self._running(one):
            running.job.goes_back = True
            if two:
                told = {"reason": "preempted", "message": "SIGTERM requested a stop", "rank": 0, "lines": []}
                newest = max(Path(running.paths.folder).glob("attempts/*"), key=lambda at: int(at.name))
                (newest / "failure.json").write_text(json.dumps(told))
                running.child.die(85)
                return
            running.child.die(-15)
            running.signal(15)

    def do_signal_late(self, one: int, _two: int) -> None:
        """The scheduler's signal ends the job, and reaches its supervisor a moment after that."""
        if running := self._running(one):
            running.job.goes_back = True
            running.late_signal = 15
            running.child.die(-15)

    def do_warn_former(self, one: int, _two: int) -> None:
        """A node that is cut off warns its job, which its batch system believes dead: its time is almost up."""
        if former := any_of(self.cluster.given_up(), one):
            former.signal(10)

    def do_set_up(self, one: int, _two: int) -> None:
        """From now on the setup of jobs takes its time; or (1) that of all has ended, and they begin."""
        self.cluster.sets_up = not one
        for running in self.cluster.batch() if one else ():
            if running.child is None:
                running.begin_after_setup()

    def do_give_up(self, one: int, _two: int) -> None:
        """A job's node is cut off, and believed dead while the job goes on."""
        if running := self._running(one):
            running.given_up = True
            self.cluster.batch_system.lose_node(running.job, for_good=False)

    def do_tick(self, one: int, two: int) -> None:
        former = self.cluster.given_up()
        followed = {each.run_id for each in former}
        later = [each for each in self.cluster.batch() if each.run_id in followed and each.child.alive]
        innocent = [each for each in later if not each.has_signal]
        super().do_tick(one, two)
        ended = [each for each in innocent if not each.child.alive and not each.was_killed]
        self.world.hold(not ended, "a former attempt ended the job of the next")
        beside = [
            each.run_id
            for each in later
            for e in former
            if e.run_id == each.run_id and e.child.alive and self.cluster.shows_a_later_attempt(e)
        ]
        self.world.hold(not beside, f"a former attempt of {beside} goes on beside the next")

    def do_forget_job(self, one: int, _two: int) -> None:
        """A controller that was set back no longer knows a job; one that runs goes on."""
        if job := any_of([job for job in self._jobs if job.lives and not job.forgotten], one):
            job.forgotten = True
            if job.waits:
                job.state = "LOST"

    def do_recall_job(self, one: int, _two: int) -> None:
        """Its controller knows a job again that it had forgotten while it waited."""
        if job := any_of([job for job in self._jobs if job.forgotten and job.state == "LOST"], one):
            job.forgotten, job.state = False, "PENDING"

    def do_remove_job(self, one: int, _two: int) -> None:
        """An administrator removes a job that waits."""
        if job := any_of([job for job in self._jobs if job.waits], one):
            self.cluster.batch_system.remove(job)

    def do_requeue_job(self, one: int, _two: int) -> None:
        """An administrator puts a job that ended back into the queue."""
        if job := any_of([job for job in self._jobs if not job.lives], one):
            self.cluster.batch_system.requeue_ended(job)

    def do_poll(self, one: int, two: int) -> None:
        """The daemon looks at a run, if it still watches it."""

        def poll(home: SimHome, run_id: str) -> None:
            if home.watches(run_id):
                self._saw(home, run_id, home.look(run_id))
            else:
                self.said = "unwatched"

        self._on_run(one, two, poll)

    def do_lie(self, one: int, two: int) -> None:
        lies = self.cluster.batch_system.LIES
        self.cluster.batch_system.set_lie(lies[(4 * one + two) % len(lies)])

    def do_truth(self, _one: int, _two: int) -> None:
        self.cluster.batch_system.set_lie(None)

    def do_remember(self, _one: int, _two: int) -> None:
        self.cluster.batch_system.remember()

    def do_lose_answer(self, _one: int, _two: int) -> None:
        self.cluster.batch_system.loses_answers = True

    def do_refuse(self, one: int, two: int) -> None:
        """The next submission will be refused. While that is decided, a home sees the claim of a run."""
        self.cluster.batch_system.refuses = lambda: self.tell([("look=submitted", one, two)])

    def do_accounting(self, _one: int, two: int) -> None:
        self.cluster.batch_system.has_accounting = two % 2 == 0

    def do_watch(self, one: int, two: int) -> None:
        """The daemon looks every half minute."""
        for _ in range(_LOOKS):
            self.world.tick(_LOOK_EVERY_S)
            self.do_look(one, two)

    def do_follow(self, one: int, two: int) -> None:
        """As `armada logs -f`, which asks for what is settled, too; what it sees first is believed after a while."""

        def look(home: SimHome, run_id: str) -> None:
            home.look(run_id)

        for _ in range(_LOOKS):
            self.world.tick(_LOOK_EVERY_S)
            self._on_run(one, two, look)

    def do_freeze(self, one: int, two: int) -> None:
        """The nodes hang: nothing of theirs is written for almost as long as a scheduler's word against them is not believed."""
        self._act(None, self.world.tick)
        self.do_look(one, two)
        frozen_s = _FROZEN_LOOK_EVERY_S
        # The scheduler may begin to lie in the middle of a look.
        while frozen_s < (self.cluster.batch_system.believed_after_s() or SILENT_S):
            self.world.clock += _FROZEN_LOOK_EVERY_S
            self.do_look(one, two)
            frozen_s += _FROZEN_LOOK_EVERY_S
        self._act(None, self.world.tick)

    def do_kill_supervisor(self, one: int, _two: int) -> None:
        if running := self._running(one):
            running.die()

    def do_one_machine(self, _one: int, _two: int) -> None:
        """From now on the login node is the worker, too: an agent there sees the processes of jobs."""
        self.cluster.is_one_machine = True

    def do_orphan_job(self, one: int, _two: int) -> None:
        """A supervisor is killed, and its batch system does not find the processes of the job."""
        if running := self._running(one):
            running.die_alone()

    # Helpers.

    @property
    def _jobs(self) -> list[BatchJob]:
        return self.cluster.batch_system.jobs

    def _running(self, number: int) -> BatchSupervision | None:
        running: BatchSupervision | None = any_of(self.cluster.batch(), number)
        return running

    def _saved(self, job: BatchJob) -> int:
        return max((saved.step for saved in self.world.all_saved if saved.run_id == job.run_id), default=0)

    def _looked(self, home: SimHome, run_id: str, run: Run) -> None:
        """An end is true as soon as it is said; that a job goes on, once a truthful scheduler has been asked for a while.

        Without the pause of an agent whose Slurm did not answer, the while was too short: Slurm may forget the job in it,
        and then its files have to be silent for minutes before its id is asked for.
        """
        there = any(host.run_folder(run_id).exists() for host in self.world.hosts.values())
        if not there:
            super()._looked(home, run_id, run)
            return
        if self._is_left_so(run):
            hold_true(self.world, home, run)
            return
        while run.ended and self.cluster.misreports(run_id):
            self.world.tick(_LOOK_EVERY_S)
            run = home.look(run_id)
        for _ in range(_LOOKS_SINCE_BOOT if self.cluster.boot > 1 else 0):
            if run.ended and self.world.knowably_waits(run_id):
                self.world.tick(_LOOK_EVERY_S)
                run = home.look(run_id)
        if not run.ended and self.cluster.batch_system.hides_end(run_id):
            self.world.tick(DOUBT_S)
        for _ in range(_MOST_LOOKS):
            if run.ended:
                self.world.check_state(home, run_id, run.state, run.reason)
                return
            lies = self.cluster.batch_system.lie or any(job.forgotten for job in self._jobs)
            if lies or self.cluster.lost() or self._goes_on(run_id):
                return
            self.world.tick(_LOOK_EVERY_S)
            run = home.look(run_id)
        # A launch that broke off is gone on with by the same launch: nothing else says so of it.
        self.world.hold(
            run.state in ("unknown", "preparing"),
            f"{home.name} goes on saying that {run_id} is {run.state}, and nothing of it lives",
        )

    def _goes_on(self, run_id: str) -> bool:
        world = self.world
        return bool(world.alive(run_id)) or world.supervised(run_id) or world.waits(run_id) or world.untaken(run_id)
