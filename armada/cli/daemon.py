"""`armada daemon run | start | stop | status | logs | install`."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from typing import TYPE_CHECKING

from armada import __version__
from armada.cli.printing import print_json, print_line
from armada.errors import UsageError
from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.foundation.standard_streams import takes_no_more
from armada.units import clock, span

if TYPE_CHECKING:
    from armada.daemon.status import HostStatus, Judgement
    from armada.paths import HomePaths


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "daemon",
        help="Control the daemon, which watches hosts and syncs",
        description="Control the daemon. It watches hosts and brings checkpoints home on each run's "
        "schedule. `armada launch` starts it automatically.",
    )
    verbs = parser.add_subparsers(title="commands", metavar="VERB", dest="verb", required=True)

    run = verbs.add_parser("run", help="Run in the foreground", description="Run the daemon in the foreground.")
    run.add_argument("--auto", action="store_true", help="Exit after 5 minutes with nothing to watch or sync")
    run.add_argument("--detached", action="store_true", help=argparse.SUPPRESS)
    run.add_argument("--quiet", action="store_true", help=argparse.SUPPRESS)
    run.set_defaults(handler=_run)

    start = verbs.add_parser("start", help="Start in the background", description="Start the daemon in the background.")
    start.add_argument("--auto", action="store_true", help="Let it exit after 5 minutes with nothing to watch or sync")
    start.add_argument("--json", action="store_true", help="Print a JSON object")
    start.set_defaults(handler=_start)

    stop = verbs.add_parser(
        "stop",
        help="Stop the daemon",
        description="Stop the daemon. Runs continue. Partly fetched files are kept, and the next sync continues them.",
    )
    stop.add_argument("--json", action="store_true", help="Print a JSON object")
    stop.set_defaults(handler=_stop)

    status = verbs.add_parser(
        "status",
        help="Show the state of the daemon and its hosts",
        description="Show the state of the daemon and its hosts. Exits with 0 if the daemon works, else with 7.",
    )
    status.add_argument("--json", action="store_true", help="Print a JSON object")
    status.set_defaults(handler=_status)

    logs = verbs.add_parser("logs", help="Show the log", description="Show the log of the daemon.")
    logs.add_argument("-f", "--follow", action="store_true", help="Follow the log until Ctrl-C")
    logs.add_argument(
        "--tail", type=_lines, default=50, metavar="N", help="Start this many lines before the end (default: 50)"
    )
    logs.add_argument("--json", action="store_true", help="Print one JSON object per line")
    logs.set_defaults(handler=_logs)

    install = verbs.add_parser(
        "install",
        help="Install as a login service",
        description="Write a systemd user service (on macOS a launch agent), and print the commands that enable it.",
    )
    install.add_argument("--json", action="store_true", help="Print a JSON object")
    install.set_defaults(handler=_install)


def start_for_launch(home: HomePaths) -> bool:
    """Start a daemon automatically, unless one runs or `ARMADA_NO_DAEMON` forbids it. Return whether one was started."""
    from armada.daemon.control import start

    return os.environ.get("ARMADA_NO_DAEMON", "") in ("", "0") and start(home, auto=True)


def _home(*, reads: bool = False) -> HomePaths:
    """Return the home's folders; made, unless the command only reads or ends something.

    Raises:
        ConfigError: The home cannot be written.
    """
    from armada.paths import HomePaths
    from armada.store.read_only import is_read_only, unwritable

    home = HomePaths.from_environment()
    if not reads:
        if is_read_only(home.store):
            raise unwritable(home)
        home.make()
    return home


def _lines(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines")
    return min(int(text), 100_000)


def _run(options: argparse.Namespace) -> int:
    if options.detached:
        from armada.daemon.control import detach

        detach()
    from armada.daemon.control import take_over
    from armada.daemon.journal import open_journal
    from armada.daemon.service import serve

    home = _home()
    open_journal(home, aloud=not options.detached and not options.quiet)
    if not options.auto:
        take_over(home)
    renewed = serve(home, auto=options.auto)
    # Threads may wait for dead connections for half a minute; what they do is safe to break off at any instruction.
    sys.stdout.flush()
    sys.stderr.flush()
    if renewed:
        # An upgrade keeps the interpreter's place. If the program there is still this one, it refuses the store and ends.
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  # no shell, and our own words
    os._exit(0)


def _start(options: argparse.Namespace) -> int:
    from armada.daemon import instance
    from armada.daemon.control import start

    home = _home()
    started = start(home, auto=options.auto)
    held = instance.holder(home)
    if options.json:
        print_json({"started": started, "pid": held.pid if held else None})
        return 0
    who = f" (process {held.pid})" if held else ""
    print(f"the daemon is running{who}" if started else f"the daemon is already running{who}")
    return 0


def _stop(options: argparse.Namespace) -> int:
    from armada.daemon.control import stop

    pid = stop(_home(reads=True))
    if options.json:
        print_json({"stopped": True, "pid": pid})
    else:
        print(f"the daemon (process {pid}) has stopped; runs continue")
    return 0


def _status(options: argparse.Namespace) -> int:
    from armada.daemon.status import judge_twice

    home = _home(reads=True)
    judged = judge_twice(home)
    status, now = judged.status, judged.now()
    code = 0 if judged.condition == "fresh" else 7
    if options.json:
        told = dataclasses.asdict(status) if status else {}
        print_json({"condition": judged.condition, "age_s": judged.age_s, **told})
        return code
    print(_sentence(judged) if judged.condition != "never" else _never(home))
    if status is not None and judged.condition in ("fresh", "stale"):
        if status.version != __version__:
            print(
                f"  ⚠ it runs armada {sanitize_line(status.version, 40)}, and this is armada {__version__}: restart it"
            )
        for trouble in status.configuration:
            print(f"  ⚠ {sanitize_line(trouble, 1000)}")
        for name, host in sorted(status.hosts.items()):
            print(f"  {name}: {_host(host, now)}")
        for each in status.syncing:
            print(f"  syncing {', '.join(each.runs)} from {each.host} for {span(now - each.since)}")
    if code:
        print("  → armada daemon start")
    return code


def _sentence(judged: Judgement) -> str:
    from armada.daemon.status import FRESH_S

    status = judged.status
    if status is None:
        return "stale: it holds its lock but reports nothing"
    if judged.age_s is None:
        tick = "the time of its last tick is unknown: the clock was changed"
    else:
        tick = f"its last tick was {span(judged.age_s)} ago"
    if judged.condition == "ended":
        when = f" {span(judged.age_s)} ago" if judged.age_s is not None else ""
        return f"not running: process {status.pid} ended{when}: {sanitize_line(status.ended, 600)}"
    if judged.condition == "dead":
        return f"dead: process {status.pid} is gone; {tick}"
    if judged.condition == "stale":
        tick = tick if judged.is_certain else f"it did not tick within {FRESH_S:.0f} s"
        return f"stale: process {status.pid} is alive, but {tick}; it is safe to run kill -9 {status.pid} and start it again"
    own = ", started by another command; exits when nothing is left to do" if status.auto else ""
    return f"running: process {status.pid} for {span(judged.now() - status.started_at)}, {tick}{own}"


def _never(home: HomePaths) -> str:
    """Say that there is no daemon, and no record of one; the log, which is created before it starts, tells of one that died."""
    from armada.daemon.journal import log_file
    from armada.store.room import say_full

    try:
        begun = log_file(home).stat().st_mtime
    except OSError:
        return "no daemon has been started from this home"
    full = say_full(home.store)
    when = clock(begun, time.time())
    return f"not running: a daemon was started at {when} and ended without a record{f'; {full}' if full else ''}"


def _host(host: HostStatus, now: float) -> str:
    seen = f"seen {span(now - host.last_ok)} ago" if host.last_ok is not None else "not seen yet"
    if host.state == "unreachable":
        again = f"; next check in {span(host.next_look - now)}" if host.next_look else ""
        return f"does not answer ({sanitize_line(host.error, 200)}), {seen}{again}"
    return seen


def _logs(options: argparse.Namespace) -> int:
    from armada.daemon.journal import log_file, tail

    home = _home(reads=True)
    if not log_file(home).exists():
        raise UsageError("no daemon has been started from this home", hint="armada daemon start")
    _print(tail(home, options.tail), as_json=options.json)
    offset = log_file(home).stat().st_size
    while options.follow and not takes_no_more():
        time.sleep(0.5)
        size = log_file(home).stat().st_size
        if size < offset:
            offset = 0  # it was rotated
        with log_file(home).open("rb") as stream:
            stream.seek(offset)
            news = stream.read()
        offset += len(news)
        _print(news.decode("utf-8", "replace"), as_json=options.json)
    return 0


def _print(text: str, *, as_json: bool) -> None:
    if not as_json:
        sys.stdout.write(sanitize_text(text, 1 << 24))
        sys.stdout.flush()
    elif text:
        print_line({"text": text})


def _install(options: argparse.Namespace) -> int:
    from armada.daemon.installation import install

    place, commands = install(_home())
    if options.json:
        print_json({"path": str(place), "commands": list(commands)})
        return 0
    print(f"{place} written; now:")
    for command in commands:
        print(f"  {command}")
    return 0
