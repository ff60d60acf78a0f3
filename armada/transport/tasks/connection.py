"""The `fabric.Connection` that a task gets: already open, by armada's own keys, pinned host keys and jump hosts.

Fabric's methods work as usual on all three ways to a host: Fabric's own SSH, OpenSSH's shared connection, this machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fabric
import paramiko
from fabric.runners import Remote
from invoke.runners import Local
from invoke.watchers import FailingResponder

from armada.errors import ArmadaError, HostUnreachable, LinkLost, ProvisionFailed
from armada.transport.fabric_transport import Link
from armada.transport.interface import HostLike
from armada.transport.ssh.config_file import write_ssh_config
from armada.transport.ssh.handshake import CHANNEL_TIMEOUT_S, close_chain, connect_chain
from armada.transport.ssh.host_keys import pinned_keys
from armada.transport.ssh.resolve import resolve
from armada.transport.ssh.shared_connection import SharedConnection

if TYPE_CHECKING:
    from armada.paths import HomePaths

_SSH_FAILED = 255


class SudoRefused(ArmadaError):
    """sudo asked for a password that it did not get."""


class _Runner:
    """Takes large outputs: Invoke reads 1,000 bytes at a time and joins all that came before at each of them.

    Once sudo has its password, the command's input ends.
    """

    read_chunk_size = 1 << 16
    watchers: list[Any]
    streams: dict[str, Any]
    using_pty: bool
    _has_ended_input = False

    def respond(self, buffer_: list[str]) -> None:
        if self.watchers:
            super().respond(buffer_)  # type: ignore[misc]  # of the class that this one is mixed into

    def write_proc_stdin(self, data: str) -> None:
        if self._has_ended_input:
            return
        super().write_proc_stdin(data)  # type: ignore[misc]  # as above
        is_password = len(self.watchers) == 1 and isinstance(self.watchers[0], FailingResponder)
        if is_password and not self.streams["in"] and not self.using_pty:
            self._has_ended_input = True
            self.close_proc_stdin()  # type: ignore[attr-defined]  # as above


class _SshRunner(_Runner, Remote):  # type: ignore[misc]  # Fabric ships no types
    """Runs a command over the open SSH connection, and tells its loss from the command's end."""

    def returncode(self) -> int:
        status = int(self.channel.recv_exit_status())
        if status == -1 and not self.context.is_connected:
            raise self.context.lost()
        return status

    def send_interrupt(self, interrupt: KeyboardInterrupt) -> None:
        self.channel.close()  # Fabric's threads wait for the command's end otherwise
        raise interrupt


class _OpensshRunner(_Runner, Local):
    """Runs a command by the user's ssh, over the host's shared connection."""

    def start(self, command: str, shell: str, env: dict[str, Any]) -> None:
        del shell, env
        self.using_pty = False
        self.process = _start_ssh(self.context, ["-T"], command)

    def returncode(self) -> int | None:
        status = super().returncode()
        if status == _SSH_FAILED and not self.context.is_connected:
            raise self.context.lost()
        return status


class _HereRunner(_Runner, Local):
    """Runs a command on this machine: the host `local`."""


class _SftpSocket(socket.socket):
    """One end of a pair of sockets, as Paramiko's SFTP client takes it."""

    def get_name(self) -> str:
        return "sftp"


class TaskConnection(fabric.Connection):  # type: ignore[misc]  # as above
    """A connection that is open when a task gets it, and is not opened again.

    Args:
        host: The host's configuration.
        address: Host name, user and port, for tasks that ask.
        runner: The class that runs commands.
        password: For sudo; None where nobody was asked for one.
    """

    def __init__(
        self, host: HostLike, address: tuple[str, str | None, int], runner: type[Any], password: str | None
    ) -> None:
        config = fabric.Config(
            ssh_config=paramiko.SSHConfig(),
            lazy=True,
            overrides={
                "load_ssh_configs": False,
                "runners": {"remote": runner},
                "sudo": {"password": password},
                "run": {"shell": "/bin/sh"},
            },
        )
        name, user, port = address
        super().__init__(name, user=user, port=port, config=config, gateway=False, forward_agent=False)
        self.attach(armada_host=host, is_root=False, armada_needs_none=set())

    def attach(self, **attributes: object) -> None:
        """Set attributes. A plain assignment would be to Fabric's configuration."""
        self._set(**attributes)

    @property
    def is_connected(self) -> bool:
        return True

    def open(self) -> None:
        """Do nothing while the connection is open.

        Raises:
            LinkLost: It is not any more.
        """
        if not self.is_connected:
            raise self.lost()

    def lost(self) -> LinkLost:
        return LinkLost("the connection was lost", host=self.armada_host.name)

    def _remote_runner(self) -> Any:
        runner = self.config.runners.remote
        return runner(context=self, inline_env=True) if issubclass(runner, Remote) else runner(self)

    def sudo(self, command: str, **kwargs: Any) -> Any:
        """Run a command as root, or as `user`: without sudo where the login is root, and never waiting for a password."""
        user, password = kwargs.get("user"), kwargs.get("password", self.config.sudo.password)
        if self.is_root and user in (None, "root"):
            kwargs.pop("user", None)
            kwargs.pop("password", None)
            return self.run(command, **kwargs)
        if password is not None and not self._needs_none(user):
            # Fabric types the password when sudo asks; the end of our own input must not come before that.
            return super().sudo(command, **{"in_stream": False, **kwargs})
        flags = f"-H -u {kwargs.pop('user')} " if user is not None else ""
        flags += f"--preserve-env={','.join(kwargs['env'])} " if kwargs.get("env") else ""
        kwargs.pop("password", None)
        line = f"env LC_ALL=C sudo -n {flags}{command}"
        if kwargs.get("asynchronous") or kwargs.get("disown"):
            return self.run(line, **kwargs)
        warn = kwargs.pop("warn", self.config.run.warn)
        done = self.run(line, warn=True, **kwargs)
        if done is None or done.ok:
            return done
        if re.search(r"^sudo: .*(password|terminal|tty)", f"{done.stdout}\n{done.stderr}", re.MULTILINE):
            raise SudoRefused("sudo needs a password there")
        if warn:
            return done
        from invoke.exceptions import UnexpectedExit

        raise UnexpectedExit(done)

    def _needs_none(self, user: str | None) -> bool:
        """Return whether sudo asks this login for no password (NOPASSWD): whoever waits for it then never types it."""
        if user not in self.armada_needs_none:
            who = f"-u {shlex.quote(user)} " if user is not None else ""
            # -k: a password that was typed before is not taken for none.
            done = self.run(f"env LC_ALL=C sudo -k -n {who}true", hide=True, warn=True)
            if done is None or not done.ok:
                return False  # asked again the next time: a task may change what sudo allows
            self.armada_needs_none.add(user)
        return True


class _SshConnection(TaskConnection):
    """Fabric's own SSH, through the chain of connections that armada opened."""

    @property
    def is_connected(self) -> bool:
        return bool(self.transport is not None and self.transport.is_active())

    def create_session(self) -> Any:
        self.open()
        return self.transport.open_session(timeout=CHANNEL_TIMEOUT_S)


class _OpensshConnection(TaskConnection):
    """OpenSSH's shared connection."""

    @property
    def is_connected(self) -> bool:
        return self.armada_shared.pid() is not None

    def sftp(self) -> Any:
        """Start the host's SFTP server over the shared connection."""
        if self._sftp is None:
            ours, theirs = socket.socketpair()
            with theirs:
                self.attach(_sftp_ssh=_start_ssh(self, ["-s"], "sftp", stream=theirs.fileno()))
            client: Any = paramiko.SFTPClient  # its types know of channels alone
            self.attach(_sftp=client(_SftpSocket(fileno=ours.detach())))
        return self._sftp

    def close(self) -> None:
        if self._sftp is not None:
            self._sftp.close()
            self._sftp_ssh.wait()
        self.attach(_sftp=None)


class _HereConnection(TaskConnection):
    """The host `local`."""

    def sftp(self) -> Any:
        raise ProvisionFailed("`put` and `get` need SSH; this task's host is this machine", hint="copy by shutil.copy")


@contextlib.contextmanager
def open_connection(
    host: HostLike, home: HomePaths, *, password: str | None = None, deadline_s: float = 30.0
) -> Iterator[TaskConnection]:
    """Connect to a host for its tasks.

    Args:
        host: The host's configuration.
        home: The folders with the pinned keys and the generated SSH configurations.
        password: For sudo.
        deadline_s: How long connecting may take, in seconds.

    Raises:
        HostUnreachable: Or a subclass, as in `armada.transport.connect`.
        ConfigError: Its SSH configuration cannot be used.
    """
    if host.local:
        yield _HereConnection(host, ("localhost", None, 22), _HereRunner, password)
        return
    spec = resolve(host)
    address = (spec.hostname, spec.user, spec.port)
    if spec.shared:
        shared = SharedConnection(spec, home)
        shared.ensure(deadline_s)
        by_ssh = _OpensshConnection(host, address, _OpensshRunner, password)
        by_ssh.attach(armada_shared=shared, armada_config=write_ssh_config(spec, home), armada_alias=spec.alias)
        with contextlib.closing(by_ssh):
            yield by_ssh
        return
    chain = connect_chain(spec, pinned_keys(home), deadline_s=deadline_s)
    connection = _SshConnection(host, address, _SshRunner, password)
    connection.attach(client=chain[-1].client, transport=chain[-1].transport)
    link = Link(chain[-1].transport, host.name)
    try:
        yield connection
    finally:
        link.close()
        close_chain(chain)


def _start_ssh(
    connection: Any, options: Sequence[str], command: str, *, stream: int | None = None
) -> subprocess.Popen[bytes]:
    """Start the user's ssh with a command of a task.

    Raises:
        HostUnreachable: This machine has no ssh.
    """
    config: Path = connection.armada_config
    arguments = ["ssh", "-F", config.name, *options, connection.armada_alias, command]
    pipe = subprocess.PIPE if stream is None else stream
    try:
        return subprocess.Popen(
            arguments,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.PIPE if stream is None else subprocess.DEVNULL,
            cwd=config.parent,  # ssh passes a -F with a space in it unquoted to the ssh of its jump hosts
            env=os.environ,
        )
    except OSError as error:
        raise HostUnreachable(f"cannot start ssh: {error.strerror}", host=connection.armada_host.name) from error
