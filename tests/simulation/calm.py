"""What must be possible once nothing disturbs any more: runs end, come home, and their host can be let go."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from armada.store import checkpoints
from armada.sync.release.judge import losses
from tests.simulation import folders
from tests.simulation.answers import kind_of
from tests.simulation.cluster import SimCluster
from tests.simulation.home import EXPECTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from armada.store.runs import Run
    from armada.verdicts.release import Item
    from tests.simulation.home import SimHome
    from tests.simulation.host import SimHost
    from tests.simulation.world import World

_LONG_S = 7200.0
"""After which every doubt about a scheduler's words is settled."""
_OFTEN_S = 60.0
_LOOKS = 5
_ROUNDS = 4
_LOST = ("cannot be hashed", "has not fetched")
"""What a power cut left a part of, and what a home lacks that is no more: a person has to say that these do not count."""


def be_calm(world: World) -> None:
    """Mend what can be mended, let time pass, and have the first home see to the end of everything."""
    world.be_calm()
    home = next(iter(world.homes.values()))
    for each in world.homes.values():
        folders.mount(each.paths.state / "runs")
    for host in world.hosts.values():
        host.reachable = host.finishes = True
        host.hides_checkpoints = host.hides_outputs = False
        host.misfits = frozenset()
        if world.root_was_lost:
            host.forgets = (
                frozenset()
            )  # an agent of this release, which tells a disk that was put back from a late answer
        if not host.mounted:
            host.mount()
        if isinstance(host, SimCluster):
            host.batch_system.set_lie(None)
            for job in host.lost():
                host.batch_system.lose_node(job, for_good=True)
    for run_id in _there(world, home):
        _end(world, home, run_id)
    for run_id in _there(world, home):
        _bring(world, home, run_id)
    for run_id in home.known():
        _account_for(world, home, run_id)
    if len(world.homes) == 1:
        _bring_remains(world, home)
        _let_go(world, home)


def _there(world: World, home: SimHome) -> list[str]:
    """The runs that a home knows and whose folders are where it launched them."""
    return [each for each in home.known() if home.host_of(each).has(each)]


@contextlib.contextmanager
def _acting(world: World, home: SimHome, what: str) -> Iterator[None]:
    with world.armada_acts(home):
        try:
            yield
        except EXPECTED as error:
            world.hold(False, f"{what}, and nothing is in the way: {error}")


def _end(world: World, home: SimHome, run_id: str) -> None:
    _watch(world, home, run_id)
    if world.untaken(run_id):
        return
    if home.is_put_back(run_id):  # a person asks its batch system, as a stop says
        with world.armada_acts(home), contextlib.suppress(*EXPECTED):
            home.stop(run_id)
        _watch(world, home, run_id)
        if home.is_put_back(run_id):
            return
    # Once more after a while, as `hosts release` says of a job that its scheduler did not forget before the first.
    # On a cluster whose disk was put back to before a stop, the agent only then begins to ask about the job.
    is_unsure = world.root_was_lost and any(host.scheduler != "direct" for host in world.hosts.values())
    for is_first in (True, False):
        may_fail = is_first and is_unsure
        with contextlib.suppress(*EXPECTED) if may_fail else _acting(world, home, f"{run_id} cannot be stopped"):
            home.stop(run_id)
        _watch(world, home, run_id)
    with _acting(world, home, f"{run_id} cannot be looked at"):
        run = home.look(run_id)
    world.hold(_is_over(run), f"{run_id} does not end: it is {run.state} ({run.because})")


def _watch(world: World, home: SimHome, run_id: str) -> None:
    """What the daemon does, until the run has ended or for some minutes; and once more much later.

    A Slurm that did not answer before may be asked again only then: doubt about what its first answer lacks takes minutes.
    """
    for _ in range(_LOOKS):
        if _is_over(_look(world, home, run_id, _OFTEN_S)):
            break
    run = _look(world, home, run_id, _LONG_S)
    for _ in range(_LOOKS):
        if _is_over(run) or run.state != "queued":
            break
        run = _look(world, home, run_id, _OFTEN_S)


def _look(world: World, home: SimHome, run_id: str, pause_s: float) -> Run:
    world.tick(pause_s)
    with _acting(world, home, f"{run_id} cannot be looked at"):
        return home.look(run_id)


def _is_over(run: Run) -> bool:
    return run.ended and not run.is_guess


def _bring(world: World, home: SimHome, run_id: str) -> None:
    for _ in range(_ROUNDS):
        world.tick(_LONG_S)
        with world.armada_acts(home), contextlib.suppress(*EXPECTED):
            home.sync(run_id)
        if home.is_final(run_id):
            break
    with home.store() as database:
        troubled = any(each.trouble for each in checkpoints.of_run(database, run_id))
    whole = home.is_final(run_id) or troubled or world.untaken(run_id) or home.is_put_back(run_id)
    world.hold(whole, f"{run_id} has ended, and not all of it comes home: {home.why_not(run_id)}")


def _bring_remains(world: World, home: SimHome) -> None:
    """Sync once more what is left of a run whose folder its job made anew: something of it may be gone at home since."""
    for run_id in home.known():
        if not home.host_of(run_id).has(run_id) and home.is_final(run_id):
            with world.armada_acts(home), contextlib.suppress(*EXPECTED):
                home.sync(run_id)


def _account_for(world: World, home: SimHome, run_id: str) -> None:
    """What a run had on its host whose folder was removed since: each checkpoint that home has heard of is here, or said to be lost."""
    if world.is_anywhere(run_id) or world.root_was_lost or any(run_id in host.hidden for host in world.hosts.values()):
        return
    with world.armada_acts(home), contextlib.suppress(*EXPECTED):
        home.sync(run_id)
    missing = home.missing(run_id)
    world.hold(not missing, f"the folder of {run_id} was removed, and nothing is said of step {missing}")


def _let_go(world: World, home: SimHome) -> None:
    hidden = {run_id for host in world.hosts.values() for run_id in host.hidden}
    # Of a folder that vanished after all of it was home, a release asks whether a job of it lives; and one may.
    settled = {run_id for run_id in home.known() if home.is_final(run_id) and not world.alive(run_id)} - hidden
    held: dict[SimHost, set[str]] = {}
    for host in world.hosts.values():
        with _acting(world, home, f"whether {host.name} can be let go cannot be said"):
            kept = _holding(world, home, host, settled)
            # An older copy of a disk may show what was stopped before it began as if it could still begin.
            if begins := {item.run_id for item in kept if kind_of(item) == "may_begin"}:
                for run_id in sorted(begins):
                    home.stop(run_id)
                kept = _holding(world, home, host, settled)
            world.hold(not kept, f"{host.name} is held for {[(item.run_id, item.what) for item in kept]}")
            held[host] = {item.run_id for item in losses(home.judge(host))}
    for host, by in held.items():
        for run_id in sorted((settled - by).intersection(home.known())):
            if home.host_of(run_id) is host and host.has(run_id):
                _forget(world, home, host, run_id)


def _holding(world: World, home: SimHome, host: SimHost, settled: set[str]) -> list[Item]:
    """Return why a host cannot be let go, because of runs of which all is home."""
    kept = [item for item in losses(home.judge(host, ignore_work=True)) if item.run_id in settled]
    kept = [item for item in kept if not any(each in item.what for each in _LOST)]
    kept = [item for item in kept if kind_of(item) not in host.oddities]
    # A disk of before the launch has another root: a person has to say that what is damaged at home does not count.
    return [item for item in kept if not (world.root_was_lost and home.was_damaged and kind_of(item) == "away")]


def _forget(world: World, home: SimHome, host: SimHost, run_id: str) -> None:
    """What nothing holds can be removed."""
    with _acting(world, home, f"{run_id} cannot be removed"):
        home.remove(run_id)
    world.hold(not host.has(run_id), f"{home.name} removed {run_id}, and its folder is there")
