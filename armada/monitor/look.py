"""One look at one run: its part of a host's answer, and what that answer says of the host as a whole."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.protocol.message import Misfit
from armada.protocol.observation import Moment, Observation, Observations, Observe, ObservedRun, Wipe
from armada.verdicts.presence import There, presence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from armada.errors import NothingThere
    from armada.store.runs import Run

TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Folder:
    """Whether a host shows the folder of a run, and below which root.

    Attributes:
        exists: The folder is there.
        root: The name of the host's root; None where it could not say.
        wiped: Former names of that root.
    """

    exists: bool
    root: str | None = None
    wiped: tuple[Wipe, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """What a host showed of a run: its part of the answer, its folder, and when that was by a clock that nobody sets."""

    run: Observation
    folder: Folder
    moment: Moment | None = None


def question(wanted: Iterable[Run]) -> Observe:
    """Ask for runs, and for what their files hold beyond what is known."""
    return Observe(
        runs=tuple(
            ObservedRun(run_id=run.run_id, metrics_offset=run.metrics_offset, events_offset=run.events_offset)
            for run in wanted
        )
    )


def looks(answer: Observations) -> dict[str, Look | Misfit]:
    """The parts of an answer, by run id; what does not fit and does not say whose it is, is left out."""
    found: dict[str, Look | Misfit] = {}
    for each in answer.runs:
        if isinstance(each, Misfit):
            found |= {each.run_id: each} if each.run_id is not None else {}
        else:
            found[each.run_id] = Look(each, Folder(each.exists, answer.root, answer.wiped), answer.moment)
    return found


def nothing_there(asked: Observe, error: NothingThere) -> Observations:
    """Answer for a host that has nothing of armada's, as its agent would if one were put there."""
    seen = [{"run_id": run.run_id, "exists": False} for run in asked.runs]
    return Observations.model_validate({"root": error.root.get("id"), "wiped": error.root.get("wiped"), "runs": seen})


def where(run: Run, folder: Folder) -> There:
    """Where the run's folder is, by one look of its host's."""
    wiped = [wipe.root for wipe in folder.wiped]
    wiped += [run.wiped_root] if run.wiped_root is not None else []
    return presence(exists=folder.exists, seen_root=folder.root, known_root=run.root_id, wiped=wiped)


def wiped_by(run: Run, folder: Folder) -> str | None:
    """Who wiped the root that a run was put into, and when, by one look of its host's; None where nobody said so."""
    for wipe in folder.wiped:
        if wipe.root == run.root_id:
            when = time.strftime(" on %Y-%m-%d at %H:%M", time.localtime(wipe.time)) if wipe.time is not None else ""
            return f"its host was wiped by {wipe.by or 'another home'}{when}"
    return "its host was wiped by this home" if run.wiped_root is not None and run.wiped_root == run.root_id else None
