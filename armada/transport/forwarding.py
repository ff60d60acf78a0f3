"""Forward a host's ports to this machine until the user stops it, by OpenSSH with the same keys and connections as usual."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import Conflict, HostUnreachable, LinkLost, UsageError
from armada.transport.ssh.config_file import shared_socket, write_ssh_config
from armada.transport.ssh.resolve import resolve
from armada.transport.ssh.shared_connection import SharedConnection

if TYPE_CHECKING:
    from pathlib import Path

    from armada.paths import HomePaths
    from armada.transport.interface import HostLike
    from armada.transport.ssh.resolve import HostSpec

_CHECK_EVERY_S = 5.0
_MOST_PORT = 65535
# The configuration file clears forwardings, so that none from the user's own file apply. Options on the command line
# win.
_ALLOW = ["-o", "ClearAllForwardings=no", "-o", "ExitOnForwardFailure=yes"]
# ssh runs this once it has logged in and listens on the local ports.
_TELL = ["-o", "PermitLocalCommand=yes", "-o", "LocalCommand=echo begun"]
_BEGUN = b"begun\n"


@dataclass(frozen=True, slots=True)
class Port:
    """A port of the host, or of a machine that the host reaches, and the local port that leads to it.

    Attributes:
        machine: The machine with the port, as the host names it.
    """

    remote: int
    local: int
    machine: str = "localhost"

    @property
    def option(self) -> str:
        return f"127.0.0.1:{self.local}:{self.machine}:{self.remote}"


def parse_ports(text: str) -> Port:
    """Parse `PORT` or `PORT:LOCAL`.

    Raises:
        UsageError: The text is neither.
    """
    found = re.fullmatch(r"([0-9]{1,5})(?::([0-9]{1,5}))?", text)
    numbers = [int(number) for number in found.groups() if number] if found else []
    if not numbers or not all(0 < number <= _MOST_PORT for number in numbers):
        raise UsageError(f"{text!r} is not a port", hint="write PORT or PORT:LOCAL, such as 6006 or 6006:8006")
    return Port(numbers[0], numbers[-1])


def forward(
    host: HostLike, home: HomePaths, ports: Sequence[Port], begins: Callable[[Port], None], *, deadline_s: float = 30.0
) -> int:
    """Forward ports until Ctrl-C.

    Args:
        host: The host.
        home: The folders with the pinned keys.
        ports: The ports.
        begins: Called for each port, once the host has answered and the port leads there.
        deadline_s: How long opening a shared connection may take, in seconds.

    Returns:
        0 after Ctrl-C.

    Raises:
        Conflict: A local port is in use.
        LinkLost: The connection was lost.
        HostUnreachable: Or a subclass: the host cannot be reached.
    """

    def announce() -> None:
        for port in ports:
            begins(port)

    for port in ports:
        _require_free(port)
    spec = resolve(host)
    config = write_ssh_config(spec, home)
    options = [word for port in ports for word in ("-L", port.option)]
    try:
        if spec.shared:
            _through_shared(spec, home, config, options, deadline_s, announce)
        else:
            _by_own(spec, config, options, announce)
    except KeyboardInterrupt:
        return 0
    raise LinkLost("the connection was lost", hint="run the same command again", host=host.name)


def _by_own(spec: HostSpec, config: Path, options: list[str], announce: Callable[[], None]) -> None:
    """Keep a connection open for the ports alone; return when it ends.

    Raises:
        HostUnreachable: It was never made.
    """
    arguments = ["ssh", "-F", config.name, "-N", "-T", *_ALLOW, *_TELL, *options, spec.alias]
    try:
        with subprocess.Popen(
            arguments, cwd=config.parent, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        ) as process:
            begun = process.stdout is not None and process.stdout.readline() == _BEGUN
            if begun:
                announce()
            process.wait()
    except FileNotFoundError as error:
        raise HostUnreachable(f"cannot start ssh: {error.strerror}", host=spec.name) from error
    if not begun:
        raise HostUnreachable(
            "no connection was made, so no port was forwarded; what ssh said is above",
            hint=f"armada hosts check {spec.name}",
            host=spec.name,
        )


def _through_shared(
    spec: HostSpec,
    home: HomePaths,
    config: Path,
    options: list[str],
    deadline_s: float,
    announce: Callable[[], None],
) -> None:
    """Add the ports to the shared connection until it ends or the user stops, then remove them."""
    connection = SharedConnection(spec, home)
    connection.ensure(deadline_s)
    tell = ["ssh", "-F", config.name, *_ALLOW, "-S", shared_socket(spec, home).name]
    begun = subprocess.run(
        [*tell, "-O", "forward", *options, spec.alias], cwd=config.parent, capture_output=True, text=True, check=False
    )
    if begun.returncode:
        raise HostUnreachable(f"the ports cannot be forwarded: {begun.stderr.strip()[-300:]}", host=spec.name)
    announce()
    try:
        while connection.pid() is not None:
            time.sleep(_CHECK_EVERY_S)
    finally:
        with contextlib.suppress(OSError):
            subprocess.run(
                [*tell, "-O", "cancel", *options, spec.alias], cwd=config.parent, capture_output=True, check=False
            )


def _require_free(port: Port) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port.local))
        except OSError as error:
            raise Conflict(
                f"port {port.local} of this machine cannot be used: {error.strerror}",
                hint=f"choose another: {port.remote}:{min(port.local + 1, _MOST_PORT)}",
            ) from error
