"""The words for runs in homes' stores: which of them are new, whatever wrote them."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

from armada.store import runs
from armada.store.checkpoints import WAS_HOME
from tests.simulation import folders
from tests.simulation.world import GUESSED

if TYPE_CHECKING:
    from armada.store.runs import Run
    from tests.simulation.home import SimHome
    from tests.simulation.world import World

_WORDS = "SELECT run_id, state, reason, submission, attempt, seq, observed_at FROM runs"


class Words:
    """What each home's store says of each run, as it was read last."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._read: dict[str, dict[str, tuple[Any, ...]]] = {}

    def new(self) -> list[tuple[SimHome, Run]]:
        """Return each run as its home has it whose row is another one since this was asked last."""
        found = []
        for home in self._world.homes.values():
            before = self._read.get(home.name, {})
            with home.store() as database:
                words = {row[0]: tuple(row) for row in database.connection.execute(_WORDS)}
                changed = [run_id for run_id, word in words.items() if before.get(run_id) != word]
                found += [(home, runs.find(database, run_id)) for run_id in changed]
            self._read[home.name] = words
        return found


def is_denied(world: World, run: Run) -> bool:
    """Whether an end was never true: a job of the very submission that is said to have ended lives.

    Not where a disk was put back to before that submission: then another one has its number.
    """
    of_submission = any(job.submission == run.submission for job in world.alive(run.run_id))
    return run.ended and of_submission and not world.root_was_lost


def hold_true(world: World, home: SimHome, run: Run) -> None:
    """What a home says of a run must be so, as far as anything can be seen of it."""
    run_id = run.run_id
    if any(host.run_folder(run_id).exists() for host in world.hosts.values()):
        world.check_state(home, run_id, run.state, run.reason)
        return
    lives = bool(world.alive(run_id)) or world.supervised(run_id)
    world.hold(run.ended or run.state == "unknown" or lives, f"{run_id} cannot be seen, and is {run.state}")
    # What another home began since, and nothing shows any more, this one cannot know; nor what it began itself before
    # it was restored, where only a worker could show it.
    forgot = home.was_restored and any(host.scheduler != "direct" for host in world.hosts.values())
    if not run.ended or forgot or len(world.homes) > 1:
        return
    if all(host.mounted for host in world.hosts.values()):
        world.check_state(home, run_id, run.state, run.reason)
    else:
        words = f"{run_id} is {run.state} ({run.reason}), says {home.name}, and its job runs on a disk that is away"
        world.hold(not lives or run.reason in GUESSED, words)


def hold_to_disk(world: World, home: SimHome) -> None:
    """Where the disk of a home was or is away: nothing on it is said to be deleted, and nothing is put where it was mounted."""
    if not home.disk_went:
        return
    below = folders.below_mount(str(home.paths.state))
    world.hold(not below, f"{home.name} put files where its disk is not mounted: {sorted(below)[:3]}")
    for run_id in home.known():
        here = world.at_home(home, run_id)
        there = {saved.step for saved in world.all_saved if saved.run_id == run_id and saved.model in here}
        wrong = [step for step, why in home.reasons(run_id).items() if why == WAS_HOME and step in there]
        world.hold(not wrong, f"{home.name} says that {wrong} of {run_id} were deleted, and they are on its disk")


def knows_disk(home: SimHome) -> bool:
    """Whether a home has recorded the mark of the folder of its runs: before that, it cannot tell its disk from another.

    Asked beside whoever has the store just now, who may be in another thread.
    """
    with contextlib.closing(sqlite3.connect(home.paths.store)) as connection:
        return connection.execute("SELECT 1 FROM home_folders WHERE path = 'runs'").fetchone() is not None
