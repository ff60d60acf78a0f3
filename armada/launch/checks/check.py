"""The result of a check. Each check has a stable number, which users can look up and scripts can match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from armada.errors import PreflightRefused


@dataclass(frozen=True, slots=True)
class Answer:
    """What one check found; `message` is a sentence for the user, `hint` says what to do about it."""

    outcome: Literal["ok", "warn", "fail"]
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Check(Answer):
    """An answer with the number of its check."""

    code: str = ""


def ok(message: str) -> Answer:
    """Return an answer without objection."""
    return Answer("ok", message)


def warn(message: str, hint: str) -> Answer:
    """Return a warning: the run may fail; the launch continues."""
    return Answer("warn", message, hint)


def fail(message: str, hint: str) -> Answer:
    """Return a failure: the run would fail; nothing is started."""
    return Answer("fail", message, hint)


@dataclass(frozen=True, slots=True)
class SchedulerAnswer:
    """A batch system's answer about a job file before it is submitted."""

    refusal: str | None = None
    """Why the job could never run."""
    wait: str | None = None
    """Why the job could not start now."""
    starts_in_s: float | None = None


def refuse_failures(checks: tuple[Check, ...], host: str) -> None:
    """Stop the launch if a check failed.

    Raises:
        PreflightRefused: The error names every failed check and has the first one's hint.
    """
    failed = [check for check in checks if check.outcome == "fail"]
    if failed:
        sentences = "; ".join(f"{check.code} {check.message}" for check in failed)
        raise PreflightRefused(sentences, hint=failed[0].hint, host=host)
