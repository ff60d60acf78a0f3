"""`armada hosts connect | disconnect`: open or close the shared connection of `transport: openssh`."""

from __future__ import annotations

import argparse

from armada.cli.options import add_host_name
from armada.cli.printing import print_json
from armada.errors import UsageError


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    connect = verbs.add_parser(
        "connect",
        help="Log in at this terminal and keep the connection open",
        description="Open the one connection that armada uses for this host (`transport: openssh`). ssh asks "
        "at this terminal for passphrases and one-time codes. armada does not ask again until "
        "the connection ends.",
    )
    add_host_name(connect)
    connect.add_argument("--json", action="store_true", help="Print a JSON object")
    connect.set_defaults(handler=_connect)

    disconnect = verbs.add_parser(
        "disconnect",
        help="Close that connection",
        description="Close the connection that `transport: openssh` keeps open. Runs continue.",
    )
    add_host_name(disconnect)
    disconnect.add_argument("--json", action="store_true", help="Print a JSON object")
    disconnect.set_defaults(handler=_disconnect)


def _connect(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.transport.ssh.config_file import KEPT_OPEN_S
    from armada.transport.ssh.resolve import resolve
    from armada.transport.ssh.shared_connection import SharedConnection

    context = Context()
    host = context.host(options.name)
    if host.local:
        raise UsageError(f"{host.name} is this machine; there is nothing to connect")
    if host.transport != "openssh":
        raise UsageError(
            f"{host.name} has no connection to keep open",
            hint=f"`transport: openssh` for {host.name} in {host.origin or context.home.hosts_file}",
        )
    SharedConnection(resolve(host), context.home).ask_and_open()
    if options.json:
        print_json({"name": host.name, "connected": True, "changed": True})
        return 0
    until = "until it is ended" if host.reuse_only else f"until {KEPT_OPEN_S // 60} minutes after its last use"
    print(f"{host.name}: connected, {until}; armada hosts disconnect {host.name} ends it")
    return 0


def _disconnect(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.transport.ssh.shared_connection import end_connections

    context = Context()
    host = context.host(options.name)
    ended = end_connections(host.name, context.home)  # also what is left of a `transport: openssh` that was taken out
    if options.json:
        print_json({"name": host.name, "connected": False, "changed": bool(ended)})
        return 0
    print(f"{host.name}: {'disconnected; runs continue' if ended else 'no connection was open'}")
    return 0
