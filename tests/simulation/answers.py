"""What armada answers, in short words that a story can expect, and whether each is so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation import folders

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.store.runs import Run
    from armada.verdicts.release import Item
    from tests.simulation.home import SimHome
    from tests.simulation.host import SimHost
    from tests.simulation.world import World

_KINDS = {
    "lives": "its job is running",
    "ending": "the host is completing its records",
    "may_begin": "it may still start",
    "gone": "no longer lists its job",
    "unreadable": "its records there cannot be read",
    "stranger": "this home has no record of it",
    "owed": "has not fetched",
    "unread": "MANIFEST.json",
    "damaged": "is damaged at home",
    "lacking": "without its optimizer state",
    "unwanted": "sync.keep_home excludes it",
    "only_there": "is only there",
    "hashing": "announced and still being hashed",
    "unhashable": "announced that cannot be hashed",
    "outside": "out of its work folder",
    "logs": "not home of its logs and outputs",
    "unnameable": "cannot be transferred",
    "unlistable": "its files there cannot be listed",
    "too_many": "more outputs than can be listed",
    "unnamed": "that no sync.outputs names",
    "middle": "in the middle of its log",
    "dirty": "uncommitted changes",
    "meanwhile": "while the host was checked",
    "vanished": "it was there a moment ago",
    "runs_on": "its folder is missing, but its job runs",
    "no_run": "lies among the runs there and is none",
    "untold": "does not say whether its job runs",
    "queued": "its scheduler may still have its job",
    "away": "a file system may not be mounted",
}
"""Kinds of lines in the answer of a release, by a part of their text; the first that fits counts."""

_ODD = frozenset(
    {"outside", "unnameable", "unlistable", "too_many", "unnamed", "middle", "dirty", "unreadable", "unread"}
)
"""Kinds that only a special event of a story causes."""


def of_run(run: Run) -> str:
    """Name a run's state and the reason of it: `failed/time_limit`."""
    return f"{run.state}/{run.reason}" if run.reason else run.state


def kind_of(item: Item) -> str:
    return next(kind for kind, part in _KINDS.items() if part in item.what)


def of_release(items: Sequence[Item]) -> str:
    """Name the kinds of all lines, once each; `~` before those that do not hold the host. `yes`: there is none."""
    kinds = sorted({("" if item.lost else "~") + kind_of(item) for item in items})
    return "+".join(kinds) or "yes"


def check_lines(world: World, home: SimHome, host: SimHost, items: Sequence[Item]) -> None:
    """Hold each line of a release's answer against the world: what is said to be lost would be."""
    checks: dict[str, Callable[[str], bool]] = {
        "lives": lambda run_id: _may_live(world, host, run_id),
        "ending": lambda run_id: not world.alive(run_id),
        "stranger": lambda run_id: run_id not in home.known(),
        "damaged": lambda run_id: _has_damaged(world, home, run_id),
        "only_there": lambda run_id: _is_alone(world, home, host, run_id),
        "unwanted": lambda run_id: _is_alone(world, home, host, run_id),
        "runs_on": lambda run_id: bool(world.alive(run_id)) or world.supervised(run_id),
        "untold": lambda _: "remains" in host.forgets or "run.observe" in host.misfits,
        # A home whose launch broke off cannot know that its run was not put below the mount.
        "away": lambda run_id: (
            not host.mounted
            or world.root_was_lost
            or run_id in host.hidden | host.asked_while_away
            or not home.root_of(run_id)
        ),
        "owed": lambda _: len(world.homes) > 1 or home.was_damaged,
    }
    for item in items:
        kind = kind_of(item)
        is_script = any(job.script for job in host.jobs if job.run_id == item.run_id)
        check = checks.get(kind)
        is_so = kind in host.oddities or is_script if kind in _ODD else check is None or check(item.run_id)
        world.hold(is_so, f"{home.name} says of {item.run_id} on {host.name} “{item.what}”, and that is not so")


def _may_live(world: World, host: SimHost, run_id: str) -> bool:
    lives = bool(world.alive(run_id)) or world.supervised(run_id) or world.untaken(run_id) or host.waits(run_id)
    return lives or host.scheduler != "direct"  # a batch system's reports are believed after a while only


def _has_damaged(world: World, home: SimHome, run_id: str) -> bool:
    good = {saved.model for saved in world.all_saved if saved.run_id == run_id}
    models = [folders.read(str(place / "model.bin")) for place in home.published(run_id)]
    return any(model not in good for model in models) or home.was_damaged


def _is_alone(world: World, home: SimHome, host: SimHost, run_id: str) -> bool:
    # What a sync that was killed had published and not recorded is not proven: it counts as lost, and it is not.
    here = home.recorded(run_id) if home.was_killed else world.at_home(home, run_id)
    is_known = run_id in home.known()
    return (
        not is_known
        or _has_twins(host, run_id)
        or bool(world.on_hosts(run_id) - here)
        or world.root_was_lost
        or home.was_damaged
        or home.disk_went
    )


def _has_twins(host: SimHost, run_id: str) -> bool:
    """Whether two attempts took the same files: home may have those of one, and knows by name that the other's did not come."""
    outbox = f"{host.run_folder(run_id)}/outbox"
    taken = [
        model for name in folders.names(outbox) if len(name) == 64 and (model := folders.model(f"{outbox}/{name}"))
    ]
    return len(set(taken)) < len(taken)


def check_kept(world: World, home: SimHome, run: Run) -> None:
    """A home that was told that a run succeeded goes on saying so, whatever becomes of the records, until it is begun anew."""
    known, now = home.done.get(run.run_id), (world.begun[run.run_id], run.submission)
    if run.state == "succeeded" and not run.is_only_told:
        home.done[run.run_id] = now
    elif known is not None and known >= now:
        lives = world.supervised(run.run_id) or world.waits(run.run_id) or world.untaken(run.run_id)
        words = f"{home.name} knew that {run.run_id} had succeeded, and says that it is {run.state} ({run.reason})"
        world.hold(lives or bool(world.alive(run.run_id)), words)
