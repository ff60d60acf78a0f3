"""`armada hosts provision`: run a host's tasks and build its environment before the first launch needs them."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.options import add_profile
from armada.cli.printing import print_json
from armada.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.cli.context import Context
    from armada.config.hosts import Host
    from armada.config.profiles import Profile
    from armada.config.provision_tasks import TaskCall
    from armada.provision.service import TaskOptions
    from armada.provision.tasks import TaskOutcome

_EXAMPLE = "armada hosts provision a100-1 system-packages=rsync,tmux"


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    provision = verbs.add_parser(
        "provision",
        help="Run a host's tasks and build its Python environment now",
        description="Run the tasks of the host's `provision:` that it has not seen yet, then build the Python "
        "environment of its profile, unless it exists. A launch does the same. With TASK, run only the named tasks.",
    )
    provision.add_argument("name", nargs="?", help="Name of the host, as in hosts.yaml")
    provision.add_argument(
        "tasks",
        nargs="*",
        metavar="TASK",
        help="FILE.py:TASK, or a task that armada brings; arguments as TASK=ONE,TWO",
    )
    add_profile(provision)
    provision.add_argument(
        "--from",
        metavar="HOST",
        dest="source",
        help="Have HOST build the environment and send it: for a host that reaches no package index",
    )
    provision.add_argument(
        "--list", action="store_true", dest="lists", help="List the tasks that armada brings, and the host's own"
    )
    provision.add_argument("--again", action="store_true", help="Run tasks again that have run there already")
    provision.add_argument(
        "--dry-run",
        action="store_true",
        help="Load the files of tasks, connect, and print which tasks would run; run and build nothing",
    )
    provision.add_argument(
        "--ask-sudo-password", action="store_true", help="Ask for the password that sudo needs on the host"
    )
    provision.add_argument("--json", action="store_true", help="Print a JSON object")
    provision.set_defaults(handler=_provision)


def _provision(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.config.provision_tasks import typed_call
    from armada.provision.service import named_profile

    if options.lists:
        if options.tasks:
            raise UsageError(
                "--list takes no TASK: it lists them all", hint=f"armada hosts provision {options.name} --list"
            )
        return _list(options)
    if options.name is None:
        raise UsageError("which host?", hint=f"{_EXAMPLE}, or --list")
    if options.tasks and options.profile:
        raise UsageError("--profile chooses the environment, but with TASK none is built", hint="leave one of them out")
    if options.tasks and options.source:
        raise UsageError(
            "--from says where the environment comes from, but with TASK none is built", hint="leave one out"
        )
    # Wrong words are said before a password is asked for, and before the host is asked.
    context = Context()
    host = context.host(options.name)
    calls = [typed_call(word, Path.cwd()) for word in options.tasks]
    if calls or options.dry_run:
        return _run_tasks(context, options, host, calls or host.provision)
    return _all(context, options, host, named_profile(host, options.profile, context.home))


def _all(context: Context, options: argparse.Namespace, host: Host, profile: Profile | None) -> int:
    from armada.cli.progress import Reporter
    from armada.provision.sent_environment import source_session
    from armada.provision.service import provision_host

    with source_session(context.home, Path.cwd(), host, options.source) or contextlib.nullcontext() as source:
        made = provision_host(
            context.database,
            context.home,
            host,
            profile,
            context.session,
            argv=sys.argv,
            project=Path.cwd(),
            progress=Reporter(sys.stderr if options.json else sys.stdout),
            options=_task_options(options),
            source=source,
        )
    if options.json:
        answer = {"host": host.name, "profile": made.profile, "environment": made.environment}
        outcome = "built" if made.built else "ready"
        print_json({**answer, "outcome": outcome, "seconds": made.seconds, "tasks": _as_json(made.tasks)})
    return 0


def _run_tasks(context: Context, options: argparse.Namespace, host: Host, calls: Sequence[TaskCall]) -> int:
    from armada.cli.progress import Reporter
    from armada.provision.service import provision_tasks

    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    if not calls:
        reporter.stage("task", f"{host.name} has no `provision:` in {host.origin or 'hosts.yaml'}")
    done = provision_tasks(
        context.database,
        context.home,
        host,
        calls,
        _task_options(options),
        argv=sys.argv,
        project=Path.cwd(),
        progress=reporter,
    )
    if options.json:
        print_json({"host": host.name, "tasks": _as_json(done)})
    return 0


def _list(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.table import table
    from armada.config.provision_tasks import BUNDLED

    own = Context(reads=True).host(options.name).provision if options.name is not None else ()
    found = [
        {"task": call.title, "about": str(call.file) if call.file else BUNDLED[call.task], "configured": True}
        for call in own
    ]
    named = {call.task for call in own if call.file is None}
    found += [
        {"task": name, "about": about, "configured": False} for name, about in BUNDLED.items() if name not in named
    ]
    if options.json:
        print_json({"host": options.name, "tasks": found})
        return 0
    rows = [
        (str(each["task"]), "provision:" if each["configured"] else "bundled", str(each["about"])) for each in found
    ]
    print(table(("TASK", "FROM", "WHAT"), rows))
    return 0


def _task_options(options: argparse.Namespace) -> TaskOptions:
    """Ask for the password if that is wanted.

    Raises:
        UsageError: There is nobody to ask, or no answer.
    """
    from armada.provision.service import TaskOptions

    password = None
    if options.ask_sudo_password:
        import getpass

        if not sys.stdin.isatty():
            raise UsageError("--ask-sudo-password asks at a terminal, and there is none")
        try:
            password = getpass.getpass(f"sudo password on {options.name}: ")
        except EOFError:
            raise UsageError("no password was given", hint="type it, or leave --ask-sudo-password out") from None
    return TaskOptions(named=bool(options.tasks), again=options.again, dry_run=options.dry_run, password=password)


def _as_json(done: Sequence[TaskOutcome]) -> list[dict[str, object]]:
    return [{"task": each.title, "outcome": each.outcome, "seconds": each.seconds} for each in done]
