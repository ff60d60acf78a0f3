"""What can go wrong, as a person has to react to it.

    ArmadaError                 1    a bug of ours, when nothing below fits
    ├── UnexpectedAnswer             what a host's agent said does not fit the protocol
    ├── UsageError              2    the command line is wrong
    ├── ConfigError             2    a file is wrong; carries where (file:line)
    │   ├── StoreDamaged             the store cannot be read; `armada recover` makes it anew
    │   └── StoreGone                the store was deleted, or its disk is away
    ├── PreflightRefused        3    the launch would fail, or lie, later
    │   └── SchedulerRefused         the host's batch system would not have it
    ├── HostUnreachable         4    also a ConnectionError
    │   ├── LinkLost                 it answered, then the connection went away
    │   ├── SessionClosed            this armada hung up: it is ending
    │   ├── HostKeyChanged           the key is not the pinned one, or none is pinned
    │   └── AuthenticationFailed
    │       └── LoginNeeded          a person has to log in: armada may only use the connection they open
    ├── ProvisionFailed         5    environment, code, data or model could not be put there
    │   └── RsyncUnusable            files go, and come, another way
    ├── RunFailed               6    the run ended badly
    ├── NotFound                7    no such host, run, checkpoint; also a LookupError
    │   └── NothingThere             the host has nothing of armada's
    ├── Conflict                8    it exists already, or somebody else is doing it
    ├── OutcomeUnknown          9    it may or may not have happened
    └── Interrupted           130    a person pressed Ctrl-C

Each carries a sentence for a person, a `hint` saying what to do now, and the `host` it is about. The numbers are exit
codes; `EXIT_CODES` says what each means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

EXIT_CODES: dict[int, str] = {
    0: "done",
    1: "a bug in armada, or this machine's disk is full or read-only",
    2: "bad usage or a bad file",
    3: "refused by preflight: the launch would fail, or silently do something else",
    4: "host unreachable, or its key is not the pinned one",
    5: "provisioning failed",
    6: "the run failed",
    7: "no such thing",
    8: "conflict: it exists already, or another command is using it",
    9: "outcome unknown: it may or may not have happened; run the same command again to find out",
    10: "done, but what it printed could not be written (a full disk)",
    130: "interrupted (runs continue)",
}


class ArmadaError(Exception):
    """Any failure armada explains to a person.

    Args:
        message: One sentence saying what is wrong.
        hint: What to do now, as a command where there is one.
        host: The name of the host it is about.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None, host: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.host = host

    def __str__(self) -> str:
        return f"{self.host}: {self.message}" if self.host else self.message


class UnexpectedAnswer(ArmadaError):
    """What a host's agent said does not fit the protocol: a field is missing, of the wrong type or out of its bounds."""


class UsageError(ArmadaError):
    """The command line is wrong."""

    exit_code = 2


class ConfigError(ArmadaError):
    """A file a person wrote is wrong.

    Args:
        message: What is wrong and what would be right.
        path: The file.
        line: Counted from 1.
        hint: The nearest right thing.
    """

    exit_code = 2

    may_quote: ClassVar[Callable[[Path | str], bool]] = staticmethod(lambda _: True)
    """Whether a message may have in it what is written in a file; `armada mcp` hides what an assistant need not read."""

    def __init__(
        self, message: str, *, path: Path | str | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        if path is not None and line is not None and not type(self).may_quote(path):
            message, hint = (
                "this line is wrong; its text is not shown to an assistant",
                "ask the user to run the command",
            )
        super().__init__(message, hint=hint)
        self.path = path
        self.line = line

    def __str__(self) -> str:
        if self.path is None:
            return self.message
        where = f"{self.path}:{self.line}" if self.line is not None else f"{self.path}"
        return f"{where}: {self.message}"


class StoreDamaged(ConfigError):
    """Home's store is no store, or damaged. What it held of runs can be read from the hosts again.

    Args:
        why: What SQLite said.
        path: The store.
    """

    def __init__(self, why: object, *, path: Path | str) -> None:
        hint = "armada store check shows the damage; armada recover rebuilds it from the hosts and the files at home"
        super().__init__(f"this is not a usable store ({why})", path=path, hint=hint)


class StoreGone(ConfigError):
    """Home's store was there and is not any more. Nobody but a person's own command makes another one.

    Args:
        path: The store.
    """

    def __init__(self, *, path: Path | str) -> None:
        hint = "armada recover rebuilds it from the hosts and the files at home, if it was deleted"
        super().__init__("the store was deleted, or its disk is away", path=path, hint=hint)


class StoreUnwritable(ConfigError):
    """Home's store takes no write, or cannot be opened: its disk is full or broken, or the file is another user's."""


class PreflightRefused(ArmadaError):
    """The plan would fail, or silently do something else than it says."""

    exit_code = 3


class SchedulerRefused(PreflightRefused):
    """The host's batch system would not have it, or did not answer; nothing was started."""


class HostUnreachable(ArmadaError, ConnectionError):
    """A host does not answer. Says nothing about the runs on it."""

    exit_code = 4


class LinkLost(HostUnreachable):
    """The connection went away in the middle; what was asked may or may not have been done."""


class SessionClosed(HostUnreachable):
    """This armada hung up itself, because it is ending; what was asked may or may not have been done."""


class HostKeyChanged(HostUnreachable):
    """The host's key is not the pinned one, or none is pinned yet."""


class AuthenticationFailed(HostUnreachable):
    """The host refused every key offered."""


class LoginNeeded(AuthenticationFailed):
    """A person has to log in first: armada may only use the connection they open."""


class ProvisionFailed(ArmadaError):
    """Environment, code, data or model could not be put on the host."""

    exit_code = 5


class RsyncUnusable(ProvisionFailed):
    """rsync cannot carry files to a host or from it: it is missing, too old, or the host's shell disturbs it. There is another way."""


class RunFailed(ArmadaError):
    """A run ended badly."""

    exit_code = 6


class NotFound(ArmadaError, LookupError):
    """No such host, profile, run or checkpoint."""

    exit_code = 7


class NothingThere(NotFound):
    """A host has nothing of armada's below its root, and none was made, because the command only looks.

    Attributes:
        root: What the root's own record (root.json) says, unchecked; empty where there is none.
    """

    root: Mapping[str, object] = MappingProxyType({})


class Conflict(ArmadaError):
    """It exists already, or somebody else is doing it right now."""

    exit_code = 8


class OutcomeUnknown(ArmadaError):
    """It may or may not have happened; asking again is safe and finds out."""

    exit_code = 9


class Interrupted(ArmadaError):
    """Ctrl-C, or SIGINT, ended the command. Runs continue."""

    exit_code = 130
