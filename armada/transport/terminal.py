"""Run a program of the user's on a host, at this terminal, with the same keys, jump hosts and shared connection as usual.

As for the agent, the command line consists of constants. The variable part is hexadecimal digits, which every login
shell passes unchanged.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from armada.errors import HostUnreachable
from armada.transport.bootstrap import BEGIN, START_PYTHON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from armada.paths import HomePaths
    from armada.transport.interface import HostLike

_RUN_HEX = "import sys;exec(bytes.fromhex(sys.argv[1]).decode())"
_PROGRAM = """\
import json
asked = json.loads({asked!r})
sys.path.insert(0, asked["agent"])
from armada_agent.runs.{module} import {function}
sys.exit({function}(asked))
"""
_WAITING = START_PYTHON.removesuffix("exec")
"""sh waits for the program: ssh says 255 for one that a signal ended, and sh says 128 plus the signal's number."""
SSH_FAILED = 255


class Way(Protocol):
    """How to start a program on a host so that it has this process's standard streams."""

    def arguments(self, program: str | None, options: Sequence[str] = ()) -> list[str]:
        """Return the local command that runs Python source on the host, given as hexadecimal digits; None: a login shell."""

    @property
    def folder(self) -> Path | None:
        """Return the folder in which to start the command."""


@dataclass(frozen=True, slots=True)
class LocalWay:
    """This machine itself."""

    folder: None = None

    def arguments(self, program: str | None, options: Sequence[str] = ()) -> list[str]:  # noqa: ARG002 - as another way takes
        if program is None:
            return [os.environ.get("SHELL") or "/bin/sh", "-l"]
        return [sys.executable or "python3", "-c", _RUN_HEX, program]


@dataclass(frozen=True, slots=True)
class SshWay:
    """OpenSSH, with the configuration that armada writes for each host."""

    alias: str
    config: Path

    @property
    def folder(self) -> Path:
        return self.config.parent  # ssh passes a -F with a space in it unquoted to the ssh of its jump hosts

    def arguments(self, program: str | None, options: Sequence[str] = ()) -> list[str]:
        command = (
            []
            if program is None
            else [f"sh -c 'trap : INT QUIT; {_WAITING} python3 -c \"{_RUN_HEX}\" {program}; exit $?'"]
        )
        return ["ssh", "-F", self.config.name, *options, self.alias, *command]


def find_way(host: HostLike, home: HomePaths, *, deadline_s: float = 30.0) -> Way:
    """Find how to start programs on a host. Opens its shared connection if it has one.

    Raises:
        HostUnreachable: Or a subclass, as in `armada.transport.connect`.
        ConfigError: Its SSH configuration cannot be used.
    """
    if host.local:
        return LocalWay()
    from armada.transport.ssh.config_file import write_ssh_config
    from armada.transport.ssh.resolve import resolve
    from armada.transport.ssh.shared_connection import SharedConnection

    spec = resolve(host)
    if spec.shared:
        SharedConnection(spec, home).ensure(deadline_s)
    return SshWay(spec.alias, write_ssh_config(spec, home))


def program_text(module: str, function: str, asked: Mapping[str, object]) -> str:
    """Return the program, in hexadecimal digits, that calls a function of `armada_agent.runs` and exits with its result."""
    return (BEGIN + _PROGRAM.format(asked=json.dumps(asked), module=module, function=function)).encode().hex()


def attach(way: Way, asked: Mapping[str, object] | None, *, terminal: bool) -> int:
    """Run a program on a host with this process's standard streams, and wait for its end.

    Args:
        way: How to start it.
        asked: The request for `armada_agent.runs.shell.enter`, plus `agent`, the agent's path there; None for a login
            shell.
        terminal: Whether it gets a terminal there, as a shell needs one.

    Returns:
        Its exit code; 128 plus the signal's number if a signal ended it.

    Raises:
        HostUnreachable: This machine has no ssh.
    """
    program = None if asked is None else program_text("shell", "enter", asked)
    arguments = way.arguments(program, ["-t" if terminal else "-T"])
    # With a terminal, Ctrl-C is for the remote program.
    before = signal.signal(signal.SIGINT, lambda *_: None) if terminal else None
    try:
        with subprocess.Popen(arguments, cwd=way.folder) as process:
            status = process.wait()
    except FileNotFoundError as error:
        raise HostUnreachable(f"cannot start {arguments[0]}: {error.strerror}") from error
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    if status == SSH_FAILED and isinstance(way, SshWay):
        sys.stderr.write("armada: exit code 255: the connection was lost, or the program itself ended with 255\n")
    return status if status >= 0 else 128 - status
