"""Stories: lists of things that happen, told to a world. A random one comes from a seed, a failing one is made as short as it gets."""

from __future__ import annotations

import contextlib
import functools
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armada.sync.release.judge import losses
from armada.verdicts.order import LAG_S
from tests.simulation.answers import check_kept, check_lines, of_release, of_run
from tests.simulation.breaking import Killed
from tests.simulation.home import EXPECTED, SimHome
from tests.simulation.host import SimHost
from tests.simulation.plans import changed
from tests.simulation.unusual import Unusual
from tests.simulation.words import Words, hold_to_disk, hold_true, is_denied
from tests.simulation.world import Broken, World, any_of

if TYPE_CHECKING:
    from armada.store.runs import Run

Event = tuple[str, int, int]
"""What happens, and two numbers that say to whom; what cannot happen now does not."""

Story = Sequence[Event]

ANYTHING = "?"
"""An expected answer that may be any."""

MEANWHILE = "meanwhile_"
"""Before what happens: it does so while a home waits for an answer of the next act's. `&`: one after the other."""

_ACTS = frozenset(
    {"launch", "look", "sync", "stop", "resume", "retry", "release", "join", "forget", "reap", "rm", "tick"}
)
"""What armada does; all else is done by others."""

_MOST_HOMES = 3
_AT_ONCE = 2  # programs of one home
_CLOCKS = (0.0, -7200.0, 7200.0, 40 * 86_400.0)


class Teller(Unusual):
    """Tells one story to one world."""

    def __init__(self, world: World, *, scripts: bool = False) -> None:
        self.world = world
        self.scripts = scripts
        self._acting: list[SimHome | None] = []
        self._acts = self._events = self._began = 0
        self.said = ""
        """What armada answered last, in short."""
        self._is_told = False
        """Whether the story says what has to be answered: then nothing else is asked for it, and no time passes."""
        self.plan: list[str] = []
        """What the experiment to be launched asks for."""
        self._words = Words(world)
        world.add_home("home")
        self.add_host()

    def add_host(self) -> SimHost:
        return self.world.add_host("box")

    def tell(self, story: Story) -> None:
        """Let everything happen in turn.

        Raises:
            Broken: An invariant does not hold any more.
        """
        for what, one, two in story:
            self._happen(what, one, two)

    def _happen(self, what: str, one: int, two: int) -> None:
        if what.startswith(MEANWHILE):
            then = [(each, one, two) for each in what.removeprefix(MEANWHILE).split("&")]
            self.world.interrupt_with(1 + two, lambda: self.tell(then))
            return
        told, _, expected = what.partition("=")
        verb, *self.plan = told.split("+")
        self._events += 1
        acts = self._acts
        if not self._acting:
            self._began = self._events
        self.said, self._is_told = "", bool(expected)
        with self.world.work_files.by_others() if self._acting and verb not in _ACTS else contextlib.nullcontext():
            getattr(self, f"do_{verb}")(one, two)
        words = f"{told}:{one}:{two} is answered with {self.said or 'nothing'}, and it is {expected}"
        self.world.hold(expected in ("", ANYTHING, self.said), words)
        if not self._acting:
            self._hold_words(is_act=acts != self._acts)

    # Persons and armada.

    def do_launch(self, one: int, two: int) -> None:
        if len(self.world.run_ids) < 2:
            run_id = f"run-{len(self.world.run_ids)}"
            home, host, plan = self._home(one), self._host(two), tuple(self.plan)
            self.world.run_ids.append(run_id)
            sync: dict[str, Any] = {"keep_remote": 1 + two % 2}
            if two // 2 % 2:
                sync["keep_home"] = {"last": 2}
            if "dirty" in plan:
                host.oddities.add("dirty")
            if "no_resume" in plan:
                self.world.begins_anew.add(run_id)
            if "results" in plan:
                self.world.names_results.add(run_id)
            if "optimizer_last" in plan:
                self.world.with_optimizer.add(run_id)
            kept = changed({"sync": sync}, plan)["sync"].get("keep_home")
            if kept is not None:
                self.world.keeps_last[run_id] = kept["last"]

            def launch() -> None:
                was_mounted = host.mounted
                try:
                    home.launch(host, run_id, script=self.scripts and one % 2 == 1, retries=2, plan=plan, **sync)
                finally:
                    if not (was_mounted and host.mounted):
                        host.asked_while_away.add(run_id)
                self._spoke(home, host, run_id)

            self._act(home, launch)

    def do_look(self, one: int, two: int) -> None:
        """As the daemon and `armada ps`, which do not ask for what is settled; a story that says the answer has it asked for."""

        def look(home: SimHome, run_id: str) -> None:
            if self._is_told or home.watches(run_id):
                self._saw(home, run_id, home.look(run_id))

        self._on_run(one, two, look)

    def do_sync(self, one: int, two: int) -> None:
        def sync(home: SimHome, run_id: str) -> None:
            was_final = home.is_final(run_id)
            is_final = home.sync(run_id)
            self.said = "final" if is_final else "open"
            for host in self.world.hosts.values():
                self._spoke(home, host, run_id)
            # While the root is away a home can only repeat what it said before, whatever another one has begun since.
            if is_final and not (was_final and not all(host.mounted for host in self.world.hosts.values())):
                self.world.check_final(home, run_id)

        self._on_run(one, two, sync)

    def do_stop(self, one: int, two: int) -> None:
        self._on_run(one, two, lambda home, run_id: self._saw(home, run_id, home.stop(run_id)))

    def do_resume(self, one: int, two: int) -> None:
        def resume(home: SimHome, run_id: str) -> None:
            home.resume(run_id)
            self.said = "again"

        self._on_run(one, two, resume)

    def do_retry(self, one: int, two: int) -> None:
        home, host = self._home(one), self._host(two)

        def retry() -> None:
            before = {run_id: len(self.world.alive(run_id)) for run_id in self.world.run_ids}
            acts, well_done = self._acts, {*self.world.well_done, *home.succeeded()}
            self.said = "again" if home.retry(host) else "no"
            if acts != self._acts:
                return  # somebody did something meanwhile, and may have begun it
            again = [r for r in self.world.run_ids if len(self.world.alive(r)) > before[r] and r in well_done]
            self.world.hold(not again, f"{again} had succeeded and was run again by itself")

        self._act(home, retry)

    def do_release(self, one: int, two: int) -> None:
        home, host = self._home(one), self._host(two)

        def release() -> None:
            # What another home put there while the root is not mounted, nobody can see: no empty root says that one is missing.
            events = self._events
            items = home.release(host)
            self.said = of_release(items)
            if events == self._events:  # else somebody did something meanwhile
                check_lines(self.world, home, host, items)
            if not losses(items) and (host.mounted or (home.known() and len(self.world.homes) == 1)):
                self.world.check_release(home, host)

        self._act(home, release)

    def do_ask_for(self, one: int, two: int) -> None:
        for place in self._published(one, two):
            self._home(one).ask_for(place)

    def do_demand_deletion(self, one: int, two: int) -> None:
        """A home that is wrong about everything wants all of a run's checkpoints deleted on its host."""

        def demand(home: SimHome, run_id: str) -> None:
            before = {saved.step for saved in self.world.finished_on_hosts(run_id)}
            home.demand_deletion(run_id)
            after = {saved.step for saved in self.world.finished_on_hosts(run_id)}
            self.world.hold(max(before, default=0) in after or not before, f"the newest of {run_id} was deleted")

        self._on_run(one, two, demand)

    def do_demand_submission(self, one: int, two: int) -> None:
        """A home that believes that a run has ended wants its next submission."""
        self._on_run(one, two, lambda home, run_id: home.demand_submission(run_id))

    def do_join(self, one: int, two: int) -> None:
        """Somebody's other machine: a new home takes up all runs of a host."""
        if len(self.world.homes) < _MOST_HOMES:
            self.world.add_home(f"other-{len(self.world.homes)}")
            one = -1  # that one
        home, host = self._home(one), self._host(two)

        def join() -> None:
            home.join(host)
            for run_id in home.known():  # not one that is launched while it asks
                self._spoke(home, host, run_id)

        self._act(home, join)

    def do_forget(self, one: int, two: int) -> None:
        """A person says that another home needs nothing more."""
        home, other = self._home(one), self._home(one + 1 + two)
        if home is not other:
            other_id = other.id()

            def forget() -> None:
                try:
                    for host in self.world.hosts.values():
                        home.forget(host, other_id)
                finally:
                    # The person has said so, whether or not the answer of the host arrives, and what was begun before it
                    # was heard counts no more.
                    other.registered.clear()

            self._act(home, forget)

    def _spoke(self, home: SimHome, host: SimHost, run_id: str) -> None:
        if host.run_folder(run_id).exists():
            home.registered.add(run_id)

    # Jobs and supervisors.

    def do_tick(self, _one: int, _two: int) -> None:
        self._act(None, self.world.tick)

    def do_save(self, one: int, two: int) -> None:
        if job := self._job(one):
            job.save(measured=two)

    def do_log(self, one: int, _two: int) -> None:
        if job := self._job(one):
            job.log()

    def do_end(self, one: int, two: int) -> None:
        if job := self._job(one):
            job.end(two % 2)
            if two % 2 == 0:
                self.world.well_done.add(job.run_id)

    def do_kill_supervisor(self, one: int, _two: int) -> None:
        living = [each for host in self.world.hosts.values() for each in host.supervisions]
        if chosen := any_of(living, one):
            chosen.die()

    def do_finish(self, _one: int, two: int) -> None:
        """From now on, processes that finish checkpoints without a supervisor get to run."""
        self._host(two).finishes = True

    # Programs and clocks.

    def do_wait(self, _one: int, _two: int) -> None:
        """Nobody does anything for ten minutes."""
        self.world.clock += 600.0

    def do_break_off(self, one: int, two: int) -> None:
        """Whatever of armada's computes next is ended in the middle: a home, an agent or a supervisor."""
        self.world.break_off(1 + (4 * one + two) ** 2 // 4)

    def do_break_at(self, one: int, _two: int) -> None:
        """The same before exactly so many steps are done."""
        self.world.break_off(one)

    def do_set_clock(self, one: int, two: int) -> None:
        host = self._host(two)
        host.clock_offset, host.clock_was_set = _CLOCKS[one % len(_CLOCKS)], True
        host.note_new_clock()

    def do_set_home_clock(self, one: int, _two: int) -> None:
        self.world.home_clock_offset = _CLOCKS[one % len(_CLOCKS)]

    # Machines and disks.

    def do_power_cut(self, _one: int, two: int) -> None:
        host = self._host(two)
        # An end that nobody had time to write down is known to nobody, but for that of a training: its final checkpoint tells.
        unwritten = {one.run_id for one in host.supervisions} | self.world.unseen
        self.world.well_done -= {job.run_id for job in host.jobs if job.script and job.run_id in unwritten}
        host.power_cut()

    def do_tear(self, one: int, two: int) -> None:
        """A power cut that takes what was written and not forced out, by luck."""
        self.world.well_done.clear()  # with it goes every end; only the homes that had seen one know of it
        self._host(two).power_cut(random.Random(one))
        self.world.root_was_lost = True

    def do_cut_link(self, _one: int, two: int) -> None:
        self._host(two).reachable = False

    def do_mend_link(self, _one: int, two: int) -> None:
        self._host(two).reachable = True

    def do_unmount(self, _one: int, two: int) -> None:
        if (host := self._host(two)).mounted and host.root.exists():
            host.unmount()

    def do_mount(self, _one: int, two: int) -> None:
        if not (host := self._host(two)).mounted:
            host.mount()

    def do_snapshot_host(self, _one: int, two: int) -> None:
        if (host := self._host(two)).mounted and host.root.exists() and len(host.snapshots) < 2:
            host.snapshot()

    def do_restore_host(self, _one: int, two: int) -> None:
        if (host := self._host(two)).mounted and host.snapshots:
            self.world.well_done.clear()  # with its disk goes every end; only the homes that had seen one know of it
            host.restore()
            self.world.root_was_lost = True
            self.world.forget_words()

    def do_lose_run(self, one: int, two: int) -> None:
        """Somebody deletes a run's folder on its host, after everything of it has ended."""
        run_id = any_of(self.world.run_ids, one)
        if run_id and not self.world.alive(run_id) and not self.world.supervised(run_id):
            host = self._host(two)
            if not host.mounted and host.run_folder(run_id).exists():
                host.hidden.add(run_id)  # it was on the root below the mount, which nobody sees later
            shutil.rmtree(host.run_folder(run_id), ignore_errors=True)
            self.world.forget_words()

    # What happens to homes.

    def do_damage(self, one: int, two: int) -> None:
        """A byte of a published file is another one; size and times are as they were."""
        self._home(one).was_damaged = True
        for place in self._published(one, two):
            model = place / "model.bin"
            if model.exists() and (data := model.read_bytes()):  # a script's may be empty since a power cut
                model.chmod(0o600)
                model.write_bytes(bytes(each ^ 1 for each in data[:1]) + data[1:])

    def do_delete(self, one: int, two: int) -> None:
        self._home(one).was_damaged = True
        for place in self._published(one, two):
            shutil.rmtree(place)

    def do_delete_log(self, one: int, two: int) -> None:
        if run_id := any_of(self.world.run_ids, two):
            (self._home(one).paths.run(run_id) / "outputs" / "output.log").unlink(missing_ok=True)

    def do_lose_home_disk(self, one: int, two: int) -> None:
        """The disk of the runs at home goes away before one of the next steps of whatever computes."""
        after = 1 + (4 * one + two) ** 2 // 4
        self.world.interrupt_with(after, lambda: self.do_unmount_home(one, 0), at_step=True)

    def do_snapshot_home(self, one: int, _two: int) -> None:
        if len((home := self._home(one)).snapshots) < 2:
            home.snapshot()

    def do_restore_home(self, one: int, _two: int) -> None:
        if (home := self._home(one)).snapshots:
            home.restore()

    def do_move_home(self, one: int, _two: int) -> None:
        self._home(one).move()

    def do_copy_home(self, one: int, _two: int) -> None:
        if len(self.world.homes) < _MOST_HOMES:
            self.world.copy_home(self._home(one), f"copy-{len(self.world.homes)}")

    # Helpers.

    def _home(self, number: int) -> SimHome:
        return list(self.world.homes.values())[number % len(self.world.homes)]

    def _host(self, number: int) -> SimHost:
        return list(self.world.hosts.values())[number % len(self.world.hosts)]

    def _job(self, number: int) -> Any:
        return any_of([job for host in self.world.hosts.values() for job in host.jobs if job.alive], number)

    def _published(self, one: int, two: int) -> list[Path]:
        home = self._home(one)
        places = [place for run_id in self.world.run_ids for place in home.published(run_id)]
        return [any_of(places, two)] if places else []

    def _saw(self, home: SimHome, run_id: str, run: Any) -> None:
        self.said = of_run(run)
        broken = self.world.records_broken or self.world.root_was_lost  # a power cut may have taken a part of a line
        self.world.hold(broken or run.unreadable is None, f"{run_id} has records that cannot be read: {run.unreadable}")
        check_kept(self.world, home, run)
        words = run.message or ""
        self.world.hold(
            all(part.strip() for part in words.split("; ")) or not words, f"{run_id}: an empty part: {words}"
        )
        if not self._is_told:
            self._looked(home, run_id, run)
        elif run.ended and any(host.run_folder(run_id).exists() for host in self.world.hosts.values()):
            self.world.check_state(home, run_id, run.state, run.reason)

    def _looked(self, home: SimHome, run_id: str, run: Any) -> None:
        """What a look showed must be so.

        It is looked for once more: what another boot shows is believed after a while, and an answer that somebody's act
        overtook is not believed.
        """
        try:
            hold_true(self.world, home, run)
        except Broken:
            if self._is_left_so(run):
                raise
            events = -1
            while events != self._events:
                events = self._events
                self.world.clock += LAG_S + 1.0
                run = home.look(run_id)
            hold_true(self.world, home, run)

    def _hold_words(self, *, is_act: bool) -> None:
        """Every word that armada has written into a store since the last step must be so, or home looks again by itself."""
        for home, run in self._words.new():
            try:
                if is_act and run.state != "preparing":  # only the same launch goes on with one that broke off
                    hold_true(self.world, home, run)
            except Broken:
                if self._is_left_so(run):
                    raise
                if run.is_watched(self.world.now()) and not self._is_told:
                    self._act(home, functools.partial(self._looked, home, run.run_id, run))
                    self._words.new()

    def _is_left_so(self, run: Run) -> bool:
        """Whether nobody looks at a run any more by themselves, whose word is wrong; else somebody began it since that was seen."""
        is_alone = self._began == self._events
        return not run.is_watched(self.world.now()) and (is_alone or is_denied(self.world, run))

    def _on_run(self, one: int, two: int, act: Callable[[SimHome, str], None]) -> None:
        home = self._home(one)
        if run_id := any_of(home.known(), two):
            self._act(home, lambda: act(home, run_id))

    def _act(self, home: SimHome | None, act: Callable[[], None]) -> None:
        if home is not None and self._acting.count(home) >= _AT_ONCE:
            return
        self._acting.append(home)
        self._acts += 1
        try:
            # What armada says no with is another test's.
            with self.world.armada_acts(home or self._home(0)), contextlib.suppress(Killed):
                try:
                    act()
                except EXPECTED as error:
                    self.said = type(error).__name__
                except Killed:
                    if home is not None:
                        home.was_killed = True
                    raise
        finally:
            self._acting.pop()
        if home is not None:
            for run_id in home.overlooked():
                words = f"all of {run_id} is home, says {home.name}, and knows of a checkpoint that is to come"
                self.world.hold(False, words)
            hold_to_disk(self.world, home)
