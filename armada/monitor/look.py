"""One observation of one run: its part of a host's answer, and what that answer says about the host."""

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
        root: The name of the host's root; None if it has none that can be read.
        wiped: Former names of that root.
    """

    exists: bool
    root: str | None = None
    wiped: tuple[Wipe, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """A host's evidence about a run: its part of the answer, its folder, and the time by a monotonic clock."""

    run: Observation
    folder: Folder
    moment: Moment | None = None


def question(wanted: Iterable[Run]) -> Observe:
    """Build the request for runs, including new lines of their files."""
    return Observe(
        runs=tuple(
            ObservedRun(run_id=run.run_id, metrics_offset=run.metrics_offset, events_offset=run.events_offset)
            for run in wanted
        )
    )


def looks(answer: Observations) -> dict[str, Look | Misfit]:
    """Return the parts of an answer by run id. An invalid part without a run id is left out."""
    found: dict[str, Look | Misfit] = {}
    for each in answer.runs:
        if isinstance(each, Misfit):
            found |= {each.run_id: each} if each.run_id is not None else {}
        else:
            found[each.run_id] = Look(each, Folder(each.exists, answer.root, answer.wiped), answer.moment)
    return found


def nothing_there(asked: Observe, error: NothingThere) -> Observations:
    """Build the answer for a host without armada's files, as its agent would give it."""
    seen = [{"run_id": run.run_id, "exists": False} for run in asked.runs]
    return Observations.model_validate({"root": error.root.get("id"), "wiped": error.root.get("wiped"), "runs": seen})


def where(run: Run, folder: Folder) -> There:
    """Decide where the run's folder is, from one observation of its host."""
    wiped = [wipe.root for wipe in folder.wiped]
    wiped += [run.wiped_root] if run.wiped_root is not None else []
    return presence(exists=folder.exists, seen_root=folder.root, known_root=run.root_id, wiped=wiped)


def wiped_by(run: Run, folder: Folder) -> str | None:
    """Return who wiped the root that a run was submitted to, and when; None if the host has no record of that."""
    for wipe in folder.wiped:
        if wipe.root == run.root_id:
            when = time.strftime(" on %Y-%m-%d at %H:%M", time.localtime(wipe.time)) if wipe.time is not None else ""
            return f"its host was wiped by {wipe.by or 'another home'}{when}"
    return "its host was wiped by this home" if run.wiped_root is not None and run.wiped_root == run.root_id else None
