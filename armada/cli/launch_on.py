"""The host of `launch --on TARGET`: one that is known at that address, or a new one, added once its key was confirmed."""

from __future__ import annotations

import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli import trust
from armada.cli.auto_host import AUTO
from armada.cli.host_add import add_new, new_host
from armada.cli.host_options import given_target
from armada.errors import ArmadaError, Conflict, OutcomeUnknown, UsageError
from armada.paths import HomePaths
from armada.rpc.session import HostSession

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from contextlib import ExitStack
    from typing import TextIO

    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.config.hosts import Host
    from armada.transport.ssh.resolve import HostSpec

_ONLY_WITH_ON = {"name_of_host": "--name-of-host", "yes": "--yes", "expect": "--expect"}


@dataclass(slots=True)
class LaunchHost:
    """Where something is launched; `is_new`: it is not in hosts.yaml, or was not before this command."""

    session: HostSession
    is_new: bool = False

    @property
    def host(self) -> Host:
        return self.session.host

    def confirm(self, context: Context, options: argparse.Namespace, stream: TextIO) -> None:
        """Have the key of a new host confirmed, and add the host; for a dry run, believe that key and keep nothing.

        Raises:
            UsageError: The person says no, or nobody is there to ask.
            HostUnreachable: It does not answer, or shows another key than is expected.
        """
        if not self.is_new:
            return
        if not options.dry_run:
            add_new(context, self.host, options, stream)
            return
        from armada.transport.ssh.host_keys import pin

        keys = trust.ask_keys(context, self.host)
        trust.show(keys, stream)
        again = f"armada hosts add {self.host.name} {shlex.quote(str(self.host.ssh))} --dry-run"
        trust.confirm(self.host, keys, options, stream, again, question="Use it for this dry run?")
        pin(self.session.home, self.host.name, keys.offered)

    def explain(self, error: ArmadaError, options: argparse.Namespace) -> None:
        """Say in the hint of a failed launch that its new host stays."""
        if self.is_new and not options.dry_run and not isinstance(error, OutcomeUnknown):
            stays = f"{self.host.name} stays in hosts.yaml; armada hosts rm {self.host.name} removes it"
            error.hint = f"{error.hint}; {stays}" if error.hint else stays


def find_launch_host(
    context: Context, options: argparse.Namespace, reporter: Reporter, closing: ExitStack
) -> LaunchHost:
    """Find the host of `--host` or `--on`. Asks it nothing, and adds nothing.

    Args:
        context: This command's.
        options: Its words.
        reporter: Told which host it is.
        closing: What is made for this command alone goes with it.

    Raises:
        UsageError: The line is no address, or options do not go together.
        NotFound: No host has the name of `--host`.
        Conflict: The name of `--name-of-host` is taken.
    """
    if options.on is None:
        extra = next((word for name, word in _ONLY_WITH_ON.items() if getattr(options, name)), None)
        if extra is not None:
            raise UsageError(f"{extra} is for a new host, and goes with --on", hint="--on 'ssh -p 50022 root@…'")
        context.say_what_counts(options.host)
        return LaunchHost(context.session(options.host))
    hosts = context.hosts()
    settings = given_target(options.on)
    known, spec = _known_at(hosts, settings)
    if known is not None:
        if options.name_of_host not in (None, known.name):
            raise Conflict(f"this address is known already, as {known.name}", hint="leave --name-of-host out")
        reporter.stage("host", f"{known.name} ({known.ssh}), which is known")
        if settings.get("identity", known.identity) != known.identity:
            reporter.stage(
                "", f"its own key file is used, not {settings['identity']}: armada hosts set {known.name} --identity"
            )
        context.say_what_counts(known.name)
        return LaunchHost(context.session(known.name))
    host = new_host(_free_name(options.name_of_host, hosts, spec, settings), settings)
    why = "" if options.name_of_host else "; --name-of-host NAME gives another name"
    reporter.stage("host", f"{host.name} ({host.ssh}), new{why}")
    home = context.home
    if options.dry_run:
        folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="armada-"))
        home = HomePaths(config=context.home.config, state=Path(folder))
        home.make()
    return LaunchHost(HostSession(host.model_copy(update={"origin": context.home.hosts_file}), home), is_new=True)


def _known_at(hosts: Mapping[str, Host], settings: Mapping[str, object]) -> tuple[Host | None, HostSpec]:
    """Find the known host at an address: written alike, or the same place for OpenSSH.

    Raises:
        ConfigError: The address cannot be used.
        UsageError: It is the name of a host in armada.
    """
    from armada.transport.ssh.resolve import resolve

    target = str(settings["ssh"])
    by_text = next((host for host in hosts.values() if host.ssh == target), None)
    if by_text is None and target in hosts:
        raise UsageError(f"{target} is the name of a host; --on takes an address", hint=f"--host {target}")
    spec = resolve(new_host("new", dict(settings)))
    if by_text is not None:
        return by_text, spec
    for host in hosts.values():
        try:
            if host.ssh is not None and resolve(host).place == spec.place:
                return host, spec
        except ArmadaError:  # another host's address is nothing to complain about here
            continue
    return None, spec


def _free_name(given: str | None, hosts: Mapping[str, Host], spec: HostSpec, settings: Mapping[str, object]) -> str:
    """The given name, or a free one made of the address.

    Raises:
        Conflict: The given one is taken.
    """
    from armada.transport.ssh.new_host_name import name_of
    from armada.transport.ssh.resolve import parse_destination

    if given is None:
        return name_of(parse_destination(str(settings["ssh"])), {*hosts, AUTO})
    if given in hosts:
        where = hosts[given].ssh or "this machine"
        raise Conflict(
            f"another host is called {given}, at {where}",
            hint=f"if it has moved: armada hosts set {given} --address {shlex.quote(spec.target)}; else another name",
        )
    return given
