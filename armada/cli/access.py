"""`armada ssh`, `exec`, `forward`, `code`: a person's own programs on a host, through the keys and connections that armada uses."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from armada.cli.printing import print_json
from armada.errors import Conflict, NotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.cli.context import Context
    from armada.config.hosts import Host
    from armada.rpc.session import HostSession
    from armada.store.runs import Run
    from armada.transport.forwarding import Port


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    shell = commands.add_parser(
        "ssh",
        help="Open a shell on a host, or in the folder of a run",
        description="Open a shell on a host. For a run, the shell starts in the run's work folder and has the environment "
        "of the run's job, except its secrets. While the run is running, the shell sees the run's GPUs. The shell is not "
        "part of the run: it continues when the run ends. On a cluster, it is on the worker of the run's job, and ends "
        "with the job.",
    )
    _add_place(shell)
    _add_login_node(shell)
    shell.set_defaults(handler=_ssh)
    execute = commands.add_parser(
        "exec",
        help="Run a command in the folder of a run, or on a host",
        description="Run a command on the host of a run, in the run's work folder and with the environment of its job, except "
        "its secrets. Exits with the exit code of the command; 127 if the host does not have it. No shell reads the words. "
        "On a cluster, the command runs on the worker of the run's job while that runs.",
        epilog="example: armada exec RUN -- python -c 'import torch; print(torch.__version__)'",
    )
    execute.add_argument(
        "-t", "--tty", action="store_true", help="Give the command a terminal, as editors and pagers need"
    )
    _add_login_node(execute)
    _add_place(execute)
    execute.add_argument(
        "words", metavar="COMMAND", nargs=argparse.REMAINDER, help="The command and its arguments, after --"
    )
    execute.set_defaults(handler=_exec)
    forward = commands.add_parser(
        "forward",
        help="Make a port of a host reachable here",
        description="Make a port of the host reachable on this machine, for TensorBoard or Jupyter, until you press Ctrl-C. "
        "For a run on a cluster, it is a port of the run's worker, through the login node: the program there must listen "
        "on the worker's address (0.0.0.0), not only on localhost.",
        epilog="example: armada forward RUN 6006, then open http://localhost:6006",
    )
    _add_login_node(forward)
    _add_place(forward)
    forward.add_argument(
        "ports", metavar="PORT[:LOCAL]", nargs="+", help="Port on the host, and the port here if it is another one"
    )
    forward.set_defaults(handler=_forward)
    code = commands.add_parser(
        "code",
        help="Print the command that opens a host in VS Code",
        description="Print the lines for your SSH configuration, once, and the command that opens the folder in VS Code by "
        "Remote-SSH, through the host keys that armada has pinned.",
    )
    _add_place(code)
    code.add_argument("--json", action="store_true", help="Print a JSON object")
    code.set_defaults(handler=_code)


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("place", metavar="RUN", help="Run id or its first characters, or the name of a host")


def _add_login_node(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--login-node", action="store_true", help="On a cluster, use the login node instead of the run's worker"
    )


def find_place(context: Context, word: str) -> tuple[Host, Run | None]:
    """The host that a person named, or the run and its host.

    Raises:
        NotFound: Neither a host nor a run is called so.
        UsageError: Several runs are.
    """
    from armada.cli.context import choose_host

    hosts = context.hosts()
    if word in hosts:
        return hosts[word], None
    try:
        run = context.run(word)
    except NotFound as error:
        raise NotFound(
            f"no host and no run is called {word!r}", hint=f"hosts: {', '.join(hosts)}; runs: armada ps"
        ) from error
    return choose_host(context.hosts_of_runs(run), run.host), run


def _open(context: Context, host: Host, run: Run | None) -> HostSession:
    return context.session_about(run) if run is not None else context.session(host.name)


def _ssh(options: argparse.Namespace) -> int:
    from armada.cli.context import Context

    context = Context()
    host, run = find_place(context, options.place)
    if not sys.stdin.isatty():
        raise UsageError("a shell needs a terminal", hint=f"armada exec {options.place} -- COMMAND needs none")
    if run is None:
        return _attach(context, host, None, terminal=True)
    sys.stderr.write(f"work folder of {run.run_id} on {host.name}; exit leaves it, and the run goes on\n")
    asked = _asked(context, host, run, [], worker=not options.login_node, terminal=True)
    return _attach(context, host, asked, terminal=True)


def _exec(options: argparse.Namespace) -> int:
    from armada.cli.context import Context

    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if not words:
        raise UsageError("exec needs a command", hint=f"armada exec {options.place} -- nvidia-smi")
    if options.tty and not sys.stdin.isatty():
        raise UsageError("--tty needs a terminal here, too", hint="leave it out where input comes from a pipe")
    context = Context()
    host, run = find_place(context, options.place)
    asked = _asked(context, host, run, words, worker=not options.login_node, terminal=options.tty)
    return _attach(context, host, asked, terminal=options.tty)


def asked_of(context: Context, host: Host, run: Run | None) -> dict[str, object]:
    """Return what a program of the agent's needs to know to act for a person; the agent is on the host afterwards."""
    from armada.rpc.agent_archive import build

    with _open(context, host, run) as session:
        root = session.paths.root
    return {
        "agent": str(root / "agent" / f"{build()[1]}.pyz"),
        "root": str(root),
        "run_id": run.run_id if run is not None else None,
        "setup": list(host.setup),
    }


def _asked(
    context: Context, host: Host, run: Run | None, words: list[str], *, worker: bool, terminal: bool
) -> dict[str, object]:
    """Return what the agent's `runs.shell` is told. With `worker`, a cluster's run is entered on the worker of its job."""
    asked = asked_of(context, host, run) | {"argv": words, "waits": not terminal and not host.local}
    if worker and run is not None and host.batch is not None:
        asked["worker"] = {"setup": [*host.setup, *host.batch.setup], "terminal": terminal}
    return asked


def _attach(context: Context, host: Host, asked: dict[str, object] | None, *, terminal: bool) -> int:
    from armada.transport.terminal import attach, find_way

    return attach(find_way(host, context.home), asked, terminal=terminal)


def _forward(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from armada.cli.context import Context
    from armada.transport.forwarding import forward, parse_ports

    ports = [parse_ports(text) for text in options.ports]
    for place, port in enumerate(ports):
        if port.local in [other.local for other in ports[:place]]:
            what = f"port {port.local} of this machine is given twice"
            raise UsageError(what, hint=f"PORT:LOCAL chooses another one: {port.remote}:{port.local % 65535 + 1}")
    context = Context()
    host, run = find_place(context, options.place)
    machine = host.name
    if run is not None and host.batch is not None and not options.login_node:
        machine = _worker(context, run, options.ports)
        ports = [replace(port, machine=machine) for port in ports]
    if host.local:
        where = ports[0].machine
        whose = "this machine" if where == "localhost" else f"worker {where}"
        raise UsageError(f"the ports of {whose} are reachable already", hint=f"http://{where}:{ports[0].remote}")

    def say(port: Port) -> None:
        sys.stderr.write(f"localhost:{port.local} is port {port.remote} of {machine} until you press Ctrl-C\n")

    return forward(host, context.home, ports, say)


def _worker(context: Context, run: Run, ports: Sequence[str]) -> str:
    """Find the worker of a run on a cluster.

    Raises:
        Conflict: It has none now.
    """
    from armada.monitor.worker import find_worker

    try:
        with context.session_about(run) as session:
            return find_worker(session, run)
    except Conflict as error:
        words = shlex.join(["armada", "forward", "--login-node", run.run_id, *ports])
        error.hint = f"for the login node's ports: {words}"
        raise


def _code(options: argparse.Namespace) -> int:
    from armada.cli.context import Context

    context = Context()
    host, run = find_place(context, options.place)
    with _open(context, host, run) as session:
        folder = str(session.paths.run(run.run_id) / "work") if run is not None else str(session.paths.root)
    include, alias = None, None
    if not host.local:
        from armada.transport.ssh.config_file import write_editor_config

        config, alias = write_editor_config(host, context.home)
        include = str(config.parent / "*.editor.conf")
    command = ["code", *([] if alias is None else ["--remote", f"ssh-remote+{alias}"]), folder]
    if options.json:
        print_json({"host": host.name, "folder": folder, "include": include, "alias": alias, "command": command})
        return 0
    if include is not None:
        print(f'# once, as the first line of ~/.ssh/config:\nInclude "{include}"\n')
    print(shlex.join(command))
    return 0
