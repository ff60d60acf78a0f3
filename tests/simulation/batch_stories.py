"""Stories of a cluster: what a batch system does with jobs, and what it says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada_agent.verdicts.liveness import ALIVE_S, SILENT_S

from tests.simulation.home import MOST_WITHOUT
from tests.simulation.slurm import LIES, BatchJob
from tests.simulation.stories import Teller
from tests.simulation.world import any_of

if TYPE_CHECKING:
    from armada.store.runs import Run
    from tests.simulation.cluster import BatchSupervision, SimCluster
    from tests.simulation.home import SimHome
    from tests.simulation.host import SimHost
    from tests.simulation.world import World

_LOOK_EVERY_S = 30.0
_FROZEN_LOOK_EVERY_S = 15.0
_LOOKS = 4 + int(2 * SILENT_S / _LOOK_EVERY_S)

WEIGHTS = {
    "launch": 3, "look": 5, "watch": 3, "sync": 8, "stop": 2, "resume": 2, "release": 4, "join": 1, "forget": 1,
    "tick": 10, "save": 8, "log": 2, "end": 2, "kill_supervisor": 1,
    "start_job": 9, "freeze": 2, "preempt": 2, "time_limit": 3, "node_dies": 1, "notice": 2, "forget_job": 1,
    "lie": 3, "truth": 3, "remember": 2, "lose_answer": 1, "accounting": 1,
    "power_cut": 1, "cut_link": 1, "mend_link": 1, "unmount": 1, "mount": 1, "lose_run": 1,
    "damage": 1, "delete": 1, "delete_log": 1, "snapshot_home": 1, "restore_home": 1, "copy_home": 1,
    "break_off": 2, "set_clock": 1, "set_home_clock": 1,
    "meanwhile_tick": 1, "meanwhile_save": 1, "meanwhile_end": 1, "meanwhile_sync": 1, "meanwhile_release": 1, "meanwhile_resume": 1,
    "meanwhile_kill_supervisor": 1, "meanwhile_cut_link": 1, "meanwhile_start_job": 2, "meanwhile_preempt": 1, "meanwhile_lie": 1,
}  # fmt: skip


class BatchTeller(Teller):
    """Tells stories in which the host is a cluster."""

    cluster: SimCluster

    def __init__(self, world: World, *, scripts: bool = False) -> None:
        super().__init__(world, scripts=scripts)
        self._saved_before: dict[str, int] = {}
        self._fruitless: dict[str, int] = {}

    def add_host(self) -> SimHost:
        self.cluster = self.world.add_cluster("box")
        return self.cluster

    # The batch system and its nodes.

    def do_start_job(self, one: int, _two: int) -> None:
        waiting = [job for job in self.cluster.slurm.jobs if job.state == "PENDING"]
        if job := any_of(waiting, one):
            self._saved_before[job.id] = self._saved(job)
            self._act(None, lambda: self.cluster.slurm.start(job))

    def do_preempt(self, one: int, _two: int) -> None:
        """Somebody more important needs its node: it gets its signal, and comes back later."""
        if running := self._running(one):
            running.job.goes_back = True
            running.signal(15)

    def do_time_limit(self, one: int, _two: int) -> None:
        """Slurm warns it before its time is up; it goes back only while that gets it further."""
        if not (running := self._running(one)) or running.has_signal:
            return
        job = running.job
        running.signal(10)
        self._act(None, self.world.tick)
        if job.state != "PENDING":
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
        for job in self._lost():
            if two % 2:
                self.cluster.slurm.end(job, "NODE_FAIL")
            else:
                job.goes_back = True
                self.cluster.slurm.left(job, 1)

    def do_forget_job(self, one: int, _two: int) -> None:
        """A controller that was set back no longer knows a job; one that runs goes on."""
        if job := any_of([job for job in self.cluster.slurm.jobs if job.lives and not job.forgotten], one):
            job.forgotten = True
            if job.state == "PENDING":
                job.state = "LOST"

    def do_lie(self, one: int, two: int) -> None:
        self.cluster.slurm.lie = LIES[(4 * one + two) % len(LIES)]

    def do_truth(self, _one: int, _two: int) -> None:
        self.cluster.slurm.lie = None

    def do_remember(self, _one: int, _two: int) -> None:
        self.cluster.slurm.remember()

    def do_lose_answer(self, _one: int, _two: int) -> None:
        self.cluster.slurm.loses_answers = True

    def do_accounting(self, _one: int, two: int) -> None:
        self.cluster.slurm.has_accounting = two % 2 == 0

    def do_watch(self, one: int, two: int) -> None:
        """The daemon looks every half minute."""
        for _ in range(_LOOKS):
            self.world.tick(_LOOK_EVERY_S)
            self.do_look(one, two)

    def do_freeze(self, one: int, two: int) -> None:
        """The nodes hang: nothing of theirs is written for almost as long as a scheduler's word against them is not believed."""
        self._act(None, self.world.tick)
        self.do_look(one, two)
        believed_after_s = ALIVE_S if self.cluster.slurm.lie == "over" else SILENT_S
        for _ in range(int(believed_after_s / _FROZEN_LOOK_EVERY_S) - 1):
            self.world.clock += _FROZEN_LOOK_EVERY_S
            self.do_look(one, two)
        self._act(None, self.world.tick)

    def do_kill_supervisor(self, one: int, _two: int) -> None:
        if running := self._running(one):
            running.die()

    # Helpers.

    def _running(self, number: int) -> BatchSupervision | None:
        running: BatchSupervision | None = any_of(self.cluster.batch(), number)
        return running

    def _lost(self) -> list[BatchJob]:
        """Jobs whose node is dead while the controller has them running."""
        alive = [one.job for one in self.cluster.batch()]
        return [job for job in self.cluster.slurm.jobs if job.state == "RUNNING" and job not in alive]

    def _saved(self, job: BatchJob) -> int:
        return max((saved.step for saved in self.world.all_saved if saved.run_id == job.run_id), default=0)

    def _looked(self, home: SimHome, run_id: str, run: Run) -> None:
        """An end is true as soon as it is said; that a job goes on, once a truthful scheduler has been asked for a while."""
        there = any(host.run_folder(run_id).exists() for host in self.world.hosts.values())
        if not there:
            super()._looked(home, run_id, run)
            return
        for _ in range(_LOOKS):
            if run.ended:
                self.world.check_state(home, run_id, run.state, run.reason)
                return
            slurm = self.cluster.slurm
            if slurm.lie or self._lost() or any(job.forgotten for job in slurm.jobs) or self._goes_on(run_id):
                return
            self.world.tick(_LOOK_EVERY_S)
            run = home.look(run_id)
        self.world.hold(
            run.state == "unknown", f"{home.name} goes on saying that {run_id} is {run.state}, and nothing of it lives"
        )

    def _goes_on(self, run_id: str) -> bool:
        return bool(self.world.alive(run_id)) or self.world.supervised(run_id) or self.world.waits(run_id)
