"""How a training ends badly on purpose: a reason that home knows, a sentence, an exit code."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

REFUSED = 2  # nothing was trained, and trying again would change nothing
BROKEN = 1
INTERRUPTED = 85  # only this: HTCondor's checkpoint_exit_code and Slurm's wrappers start the job again by it
GENERIC = "exception"
PREEMPTED = "preempted"
_REFUSALS = frozenset({"bad_spec", "data_error", "env_error", "world_mismatch", "resume_mismatch"})


class PayloadFailure(Exception):
    """A failure whose cause is known.

    Args:
        reason: One of `bad_spec`, `data_error`, `env_error`, `world_mismatch`, `resume_mismatch`, `nan_loss`, `oom`,
            `preempted`, `merge_mismatch`.
        message: One sentence for a person.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message

    @property
    def exit_code(self) -> int:
        return exit_code(self.reason)


def exit_code(reason: str) -> int:
    if reason == PREEMPTED:
        return INTERRUPTED
    return REFUSED if reason in _REFUSALS else BROKEN


def write_failure(folder: Path, reason: str, message: str) -> None:
    """Leave failure.json in the attempt's folder; of several ranks the first to know the cause is kept.

    When one rank dies, the others fail in their next collective: their `exception` must not hide the cause, wherever
    it was noticed first. Nor may the SIGTERM that the launcher then sends them: `preempted` gives way too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "failure.json"
    part = folder / f".failure-{uuid.uuid4().hex}"
    part.write_text(json.dumps({"reason": reason, "message": message}) + "\n", encoding="utf-8")
    try:
        os.link(part, target)
    except FileExistsError:
        if _weight(reason) > _weight(read_failure(folder)):
            part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def read_failure(folder: Path) -> str | None:
    """Read why the attempt failed, if one of its ranks could say."""
    target = folder / "failure.json"
    return str(json.loads(target.read_text(encoding="utf-8"))["reason"]) if target.exists() else None


def _weight(reason: str | None) -> int:
    return {None: 0, GENERIC: 1, PREEMPTED: 1}.get(reason, 2)
