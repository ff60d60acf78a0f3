"""Decide which checkpoints stay, at home and on the host, with the reason for each. Nothing is deleted here.

Whatever the settings: the newest and the best stay, and a host keeps everything that is not verified at home.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.config.sync import Kept

_RESUME_ONLY = re.compile(
    r"(.*/)?(optimizer(_\d+)?(\.pt|\.bin|\.safetensors|/.*)|scheduler\.pt|scaler\.pt|rng_state(_\d+)?\.pth"
    r"|global_step\d+/.*optim_states.*|.*_optim_states\.pt)"
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint's facts for the decision.

    Attributes:
        loss: What was measured of it, lower is better: its evaluation loss, or another metric; None if nothing was.
        attempt: The run's attempt that wrote it first; 0 where nobody said it.
        measured: The same in words, such as `evaluation loss 0.41`.
        lacking: Home has it without its optimizer state, which the settings want there.
    """

    digest: str
    step: int
    created_at: float
    loss: float | None = None
    at_home: bool = False
    on_host: bool = False
    acknowledged: bool = False
    pinned: bool = False
    attempt: int = 0
    measured: str = ""
    lacking: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    candidate: Candidate
    keep: bool
    reason: str


def decide_home(candidates: Sequence[Candidate], kept: Kept) -> list[Decision]:
    """Decide which checkpoints home should have: wanted ones that are missing are fetched, unwanted ones here are deleted.

    The rules count what is here by itself, too: one that has yet to come, and may never, takes no other's place.
    """
    ordered = _ordered(candidates)
    here = [c for c in ordered if c.at_home]
    reasons = _untouchable(ordered) | _untouchable(here)
    if kept.last is None:
        for candidate in ordered:
            reasons.setdefault(candidate.digest, "keep_home.last is null: everything stays")
    else:
        for candidate in ordered:
            if candidate.pinned:
                reasons.setdefault(candidate.digest, "asked for by name")
        for candidate in _last(ordered, kept.last):
            reasons.setdefault(candidate.digest, f"one of the last {kept.last}")
        for candidate in _best(ordered, kept.best):
            reasons.setdefault(candidate.digest, f"one of the best {kept.best}")
        for candidate in _last(here, kept.last):
            reasons.setdefault(candidate.digest, f"one of the last {kept.last} at home: a newer one has yet to come")
        for candidate in _best(here, kept.best):
            reasons.setdefault(candidate.digest, f"one of the best {kept.best} at home: a better one has yet to come")
        if kept.every_steps:
            for candidate in ordered:
                if candidate.step % kept.every_steps == 0:
                    reasons.setdefault(candidate.digest, f"every {kept.every_steps} steps")
    return [Decision(c, c.digest in reasons, reasons.get(c.digest, "no rule of keep_home names it")) for c in ordered]


def decide_host(candidates: Sequence[Candidate], keep_remote: int) -> list[Decision]:
    """Decide which checkpoints stay on the host; `at_home` must mean verified, and checked just now."""
    ordered = [candidate for candidate in _ordered(candidates) if candidate.on_host]
    reasons: dict[str, str] = {}
    for candidate in ordered:
        if not candidate.at_home:
            reasons[candidate.digest] = "not verified at home"
        elif candidate.lacking:
            reasons[candidate.digest] = "its optimizer state is not at home"
        elif not candidate.acknowledged:
            reasons[candidate.digest] = "not acknowledged yet"
    for digest, reason in _untouchable(ordered).items():
        reasons.setdefault(digest, reason)
    if best := _best(_ordered(candidates), 1):
        reasons.setdefault(best[0].digest, "the best")
    for candidate in _last(ordered, keep_remote):
        reasons.setdefault(candidate.digest, f"one of the last {keep_remote} (keep_remote)")
    return [Decision(c, c.digest in reasons, reasons.get(c.digest, "verified at home")) for c in ordered]


def decide_optimizers(candidates: Sequence[Candidate]) -> list[Decision]:
    """Decide which checkpoints keep their optimizer states where only the newest's are wanted.

    Args:
        candidates: Those that have theirs, or whose states can still come. `pinned`: someone asked for it by name.
    """
    ordered = _ordered(candidates)
    reasons = {c.digest: "asked for by name" for c in ordered if c.pinned} | _newest(ordered)
    return [Decision(c, c.digest in reasons, reasons.get(c.digest, "a newer one has its own")) for c in ordered]


def is_resume_only(path: str) -> bool:
    """Whether a checkpoint's file is needed only to resume training: optimizer, scheduler, random states."""
    return _RESUME_ONLY.fullmatch(path) is not None


def _ordered(candidates: Sequence[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda candidate: (candidate.step, candidate.created_at, candidate.digest))


def _newest(ordered: Sequence[Candidate]) -> dict[str, str]:
    reasons: dict[str, str] = {}
    if ordered:
        reasons[ordered[-1].digest] = "the newest: what a resume needs"
        # After a resume, a checkpoint with a lower step can be the younger one, and training resumes from that.
        reasons.setdefault(max(ordered, key=lambda c: c.created_at).digest, "the newest by time")
        # A host's clock may have been set back before it resumed the run: then neither of these is what it wrote last.
        for order in (lambda c: (c.attempt, c.step), lambda c: (c.attempt, c.created_at)):
            reasons.setdefault(max(ordered, key=order).digest, "the newest of the last attempt")
    return reasons


def _untouchable(ordered: Sequence[Candidate]) -> dict[str, str]:
    reasons = _newest(ordered)
    for candidate in _best(ordered, 1):
        reasons.setdefault(
            candidate.digest, f"the best: {candidate.measured or f'evaluation loss {candidate.loss:.4g}'}"
        )
    return reasons


def _last(ordered: Sequence[Candidate], count: int) -> list[Candidate]:
    """Return the checkpoints of the last steps. Two attempts may have saved the same step; it counts once, and both stay."""
    steps = sorted({candidate.step for candidate in ordered})[-count:]
    return [candidate for candidate in ordered if candidate.step in steps]


def _best(ordered: Sequence[Candidate], count: int) -> list[Candidate]:
    measured = [candidate for candidate in ordered if candidate.loss is not None]
    return sorted(measured, key=lambda candidate: candidate.loss or 0.0)[:count]
