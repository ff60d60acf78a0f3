"""Say why a run needs the user: the dashboard, filters and columns say the same."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Literal, NamedTuple

from armada.foundation.sanitize import sanitize_line
from armada.units import clock, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.store.run_sync import RunSync
    from armada.store.runs import Run

RECENT_S = 86_400.0
"""How long a failure, or a loss that is no number, needs the user, in seconds; after that it is history."""

SHORT_WHY = 60
"""Characters of why a host does not answer, where more has to be said."""

Kind = Literal["unreachable", "failed", "unclear", "no_number", "sync", "damaged", "several"]
"""What is wrong: a host that does not answer, a failure, a state that nobody knows or a run that may hang, a loss that
is no number, syncs that fail, copies at home that are not as they came; several: more than one run of a group."""


_WORST: tuple[Kind, ...] = ("failed", "damaged", "no_number", "unclear", "sync", "unreachable", "several")
"""Which of several is said: what is known to be lost before what may be."""
_EXIT = re.compile(r"exit_(\d{1,3})")


class Trouble(NamedTuple):
    """Why a run needs the user."""

    kind: Kind
    words: str
    """What is wrong, in one line without markup or control characters."""
    remedy: str = ""
    """The command that helps, and what it does; empty where there is a key for it."""

    @property
    def said(self) -> str:
        """What is wrong and what helps."""
        return f"{self.words}; {self.remedy}" if self.remedy else self.words


def of_several(found: Sequence[Trouble], what: str) -> Trouble | None:
    """Return why some of several runs need the user; None if none does.

    Args:
        found: Why each that needs them does.
        what: What they are called, in the plural.
    """
    if len(found) < 2:  # one is said as it is
        return found[0] if found else None
    worst = min(found, key=lambda each: _WORST.index(each.kind))  # the first of them
    return Trouble("several", f"{len(found)} {what} need you; one: {worst.said}")


class Copies(NamedTuple):
    """What is wrong with the copies of a run at home."""

    failing: str | None = None
    """Why its syncs fail; None if they do not."""
    damaged: int = 0
    """How many checkpoints are damaged here and are mended by no sync that is planned."""


def copies(sync: RunSync | None, damaged: int) -> Copies:
    """Return what is wrong with the copies of a run at home.

    The last sync after a run's end fetches damaged ones again, so they need nobody before it.

    Args:
        sync: What is known of its syncs.
        damaged: How many of its checkpoints are damaged at home.
    """
    if sync is None:
        return Copies(None, damaged)
    failing = sync.reason or "no reason recorded" if sync.failing_since is not None else None
    return Copies(failing, damaged if sync.final_done or sync.next_due_at is None else 0)


def trouble(run: Run, here: Copies, *, urgent: bool) -> Trouble | None:
    """Return why this run needs the user; None if it does not.

    Args:
        run: The run.
        here: What is wrong with its copies at home.
        urgent: Whether it ended so lately that a failure needs the user, see `RECENT_S`.
    """
    because = sanitize_line(run.message, 300) if run.message else None
    reason = sanitize_line(run.reason, 60) if run.reason else None
    if reason and (code := _EXIT.fullmatch(reason)) is not None:
        reason = f"its process ended with exit code {code[1]}"
    said = ": ".join(part for part in (reason, because) if part)
    if not run.ended and run.unreachable_since is not None:
        return _unreachable(run.unreachable_since, run.unreachable_why, _in_doubt(run, reason, said))
    if run.state == "failed" and urgent and not run.is_archived:  # who archives a failure has seen it
        return _split("failed", said or "no reason recorded")
    if (found := _in_doubt(run, reason, said)) is not None:
        return found
    if here.failing is not None:
        return _split("sync", f"sync fails: {sanitize_line(here.failing, 300)}")
    if here.damaged and run.ended and not run.is_archived:
        remedy = f"`armada sync verify {run.run_id} --read-data` fetches again what the host still has"
        return Trouble("damaged", f"{counted(here.damaged, 'checkpoint')} damaged at home", remedy)
    if run.state == "succeeded" and run.loss_not_finite is not None and urgent and not run.is_archived:
        return Trouble("no_number", f"it succeeded, but its loss is {run.loss_not_finite}")
    return None


def _in_doubt(run: Run, reason: str | None, said: str) -> Trouble | None:
    """Return why a run that has not ended needs the user, as its host told it last."""
    if run.state == "unknown" or (run.state == "running" and reason):
        return _split("unclear", said or "its state is unknown")
    if run.state == "running" and run.loss_not_finite is not None:
        return Trouble("no_number", f"its loss is {run.loss_not_finite}")
    return None


def _unreachable(since: float, why: str | None, before: Trouble | None) -> Trouble:
    """Say that a host does not answer, and what was wrong with the run before that: the latter would be lost otherwise."""
    began = clock(since, time.time())
    if before is None:
        return Trouble("unreachable", f"unreachable since {began}: {sanitize_line(why or 'no answer', 200)}")
    reason = sanitize_line(why or "no answer", SHORT_WHY)
    return Trouble("unreachable", f"unreachable since {began}: {reason}; before that, {before.words}", before.remedy)


def _split(kind: Kind, said: str) -> Trouble:
    """Take the command that helps out of what was recorded of a run, as `budget: it is spent; `armada resume RUN` …`."""
    words, found, rest = said.partition("; `armada ")
    return Trouble(kind, words, f"`armada {rest}" if found else "")
