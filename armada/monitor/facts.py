"""What the store records of an observation besides its verdict: times, steps, GPUs, and where the host's files were read to."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from armada.store import checkpoints
from armada.verdicts.state import Newest, submission_shown
from armada.verdicts.states import ENDED, Verdict

if TYPE_CHECKING:
    from armada.monitor.look import Look
    from armada.protocol.observation import Observation
    from armada.store.database import Database
    from armada.store.runs import Run


@dataclasses.dataclass(slots=True)
class Facts:
    """What the store records of an observation besides the verdict. None leaves a column unchanged unless it is in `cleared`."""

    started_at: float | None = None
    step: int | None = None
    total_steps: int | None = None
    phase: str | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    submission: int | None = None
    gpus: str | None = None
    log_size_bytes: int | None = None
    root_id: str | None = None
    observed_at: float | None = None
    alive_at: float | None = None
    seen_boot: str | None = None
    seen_at_s: float | None = None
    metrics_offset: int | None = None
    events_offset: int | None = None
    told_at: float | None = None
    revised_at: float | None = None
    cleared: tuple[str, ...] = ("unreachable_since", "unreachable_why")
    """Columns that are set to NULL."""

    def columns(self) -> dict[str, float | str | None]:
        """Return the columns to change."""
        fields = (field.name for field in dataclasses.fields(self) if field.name != "cleared")
        said = {name: value for name in fields if (value := getattr(self, name)) is not None}
        return {**dict.fromkeys(self.cleared), **said}


def facts_of(run: Run, look: Look, newest: Newest, verdict: Verdict) -> Facts:
    """Collect what the store records of an observation besides the verdict."""
    seen, state, facts = look.run, newest.state, Facts()
    if state is not None:
        facts.started_at = state.started_at
        facts.gpus = json.dumps(state.gpus[:64]) if state.gpus is not None else None
    beat = seen.evidence.heartbeat if seen.evidence is not None else None
    if beat is not None:
        facts.step, facts.total_steps, facts.phase = beat.step, beat.total_steps, beat.phase
    # The exit is written before state.json repeats it; in between, only the exit is complete.
    ending = (newest.attempt.exit if newest.attempt is not None else None) or state
    if verdict.state not in ENDED:
        facts.cleared += ("ended_at", "exit_code")  # of an earlier submission
    elif ending is not None:
        facts.ended_at = ending.ended_at
        facts.exit_code = ending.exit_code if ending.exit_code in range(256) else None
    facts.submission = submission_shown(seen.evidence, run.submission)
    facts.log_size_bytes = seen.log_size_bytes
    facts.root_id = (look.folder.root or run.root_id) if seen.exists else None
    return facts


def alive_at(run: Run, seen: Observation, verdict: Verdict, observed_at: float) -> float | None:
    """Return until when a run is known to have been alive, by home's clock; None: not later than was known before."""
    if verdict.state == "running":
        return observed_at
    untouched_s = seen.evidence.untouched_s if seen.evidence is not None else None
    written_at = observed_at - untouched_s if untouched_s is not None else 0.0
    return written_at if written_at > (run.alive_at or run.started_at or 0.0) else None


def add_step_saved(database: Database, run: Run, seen: Observation, facts: Facts) -> None:
    """Set the step to that of this attempt's newest checkpoint, if that was saved after the last heartbeat."""
    began = facts.started_at
    if began is None:
        return
    saved = [each.step for each in seen.outbox if each.created_at >= began]
    newest = max([*saved, checkpoints.newest_step(database, run.run_id, since=began)])
    if newest > (facts.step if facts.step is not None else -1):
        facts.step = newest
