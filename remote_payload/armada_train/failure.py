"""End a training with a known failure: a reason that home knows, a sentence, an exit code."""

from __future__ import annotations

import json
import os
import sys
import traceback
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from armada_train.records import find_object
from armada_train.runfolder import replace_json

REFUSED = 2  # nothing was trained, and a retry would fail again
BROKEN = 1
INTERRUPTED = 85  # HTCondor's checkpoint_exit_code and Slurm's wrappers restart the job only for this code
GENERIC = "exception"
PREEMPTED = "preempted"
_LINES = 60
_LONGEST_LINE = 400
_LOST_OTHERS = ("gloo", "NCCL", "ncclRemoteError", "remote worker", "losed by peer", "Connection reset by peer")
_REFUSALS = frozenset({"bad_spec", "data_error", "env_error", "world_mismatch", "resume_mismatch"})


class PayloadFailure(Exception):
    """A failure whose cause is known.

    Args:
        reason: One of `bad_spec`, `data_error`, `env_error`, `world_mismatch`, `resume_mismatch`, `nan_loss`, `oom`,
            `host_oom`, `disk_full`, `preempted`, `merge_mismatch`, `signal_<NAME>`.
        message: One sentence for the user.
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


def write_failure(
    folder: Path, reason: str, message: str, *, rank: int | None = None, lines: Sequence[str] = ()
) -> None:
    """Write failure.json into the attempt's folder; of several ranks, the first one that knows the cause is kept.

    When one rank dies, the others fail in their next collective. Their error must not hide the cause, whichever was
    noticed first. The same applies to the launcher's SIGTERM: `preempted` has lower priority too. Each rank's failure
    is kept in failure-<rank>.json. If the disk is too full to write either file, that is ignored.

    Args:
        folder: The attempt's folder.
        reason: Why it failed.
        message: One sentence for the user.
        rank: Which of several ranks writes; None if there is only one.
        lines: The last lines of its traceback.
    """
    content: dict[str, object] = {"reason": reason, "message": message}
    if rank is not None:
        content["rank"] = rank
    if lines:
        content["lines"] = list(lines)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if rank is not None:
            replace_json(folder / f"failure-{rank}.json", content)
        _keep_cause(folder, content)
    except OSError as error:
        print(f"armada_train: {reason} cannot be recorded: {error}", file=sys.stderr, flush=True)


def recorded(folder: Path, work: Callable[[], int]) -> int:
    """Do the work of a program with one process, and record in the attempt's folder why it failed.

    Returns:
        The exit code: that of the work, or of its failure.
    """
    try:
        return work()
    except PayloadFailure as failure:
        print(f"armada_train: {failure.reason}: {failure.message}", file=sys.stderr, flush=True)
        write_failure(folder, failure.reason, failure.message)
        return failure.exit_code
    except Exception as error:
        write_failure(folder, GENERIC, f"{type(error).__name__}: {error}", lines=describe(error))
        raise


def describe(error: BaseException) -> list[str]:
    """Return the last lines of an exception's traceback, including those of its causes."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return [line[:_LONGEST_LINE] for line in text.splitlines() if line.strip()][-_LINES:]


def read_failure(folder: Path) -> str | None:
    """Return why the attempt failed, if one of its ranks recorded it."""
    reason = find_object(folder / "failure.json").get("reason")
    return None if reason is None else str(reason)


def _keep_cause(folder: Path, content: dict[str, object]) -> None:
    target = folder / "failure.json"
    part = folder / f".failure-{uuid.uuid4().hex}"
    part.write_text(json.dumps(content) + "\n", encoding="utf-8")
    try:
        os.link(part, target)
    except FileExistsError:
        if _weight(content) > _weight(find_object(target)):
            part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _weight(content: dict[str, object]) -> int:
    """Rank the knowledge of the cause: 3 names it, 2 is generic or preempted, 1 only lost the other ranks, 0 is nothing."""
    reason = content.get("reason")
    if reason is None:
        return 0
    if reason == GENERIC:
        return 1 if any(word in str(content.get("message")) for word in _LOST_OTHERS) else 2
    return 2 if reason == PREEMPTED else 3
