"""The findings of the doctor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from armada.doctor.measure import Measured

Outcome = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        subject: A word or two, the same in every report, so that scripts can match it.
        outcome: `fail`: launches there fail or cannot be trusted; `warn`: worth knowing.
        message: A sentence for the user.
        remedy: A command, or what to change in which file.
    """

    subject: str
    outcome: Outcome
    message: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All findings about home or one host.

    Attributes:
        exit_code: The command's exit code for this report alone, by the table in errors.py.
        noise: What start-up files print before the agent's first line, sanitized.
        banner: sshd's version and the banner before the login, sanitized.
    """

    name: str
    findings: tuple[Finding, ...]
    exit_code: int = 0
    noise: str = ""
    banner: str = ""
    measured: Measured | None = None
    ssh: str | None = field(default=None)


def ok(subject: str, message: object) -> Finding:
    return Finding(subject, "ok", sanitize_line(message))


def warn(subject: str, message: object, remedy: str | None = None) -> Finding:
    return Finding(subject, "warn", sanitize_line(message), remedy)


def fail(subject: str, message: object, remedy: str | None = None) -> Finding:
    return Finding(subject, "fail", sanitize_line(message, 1000), remedy)
