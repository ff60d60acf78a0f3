"""`armada hosts homes | forget-home`, and the confirmation before one home changes another home's run."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, TypedDict

from armada.cli.options import add_host_name
from armada.cli.printing import print_json
from armada.errors import Conflict, NotFound, UsageError
from armada.units import counted, span

if TYPE_CHECKING:
    from armada.cli.context import Context
    from armada.home import Home
    from armada.protocol.homes import EnrolledHome
    from armada.rpc.session import HostSession
    from armada.store.runs import Run

_AT_ONCE = 200
FLAG = "--other-home"


class _Run(TypedDict):
    run_id: str
    not_fetched: int
    settled: bool


class _Home(TypedDict):
    """A home, as `armada hosts homes --json` prints it."""

    id: str
    label: str
    path: str
    seen_at: float | None
    this_one: bool
    runs: list[_Run]


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    homes = verbs.add_parser(
        "homes",
        help="List the homes that use a host",
        description="List the homes that registered for runs on a host, and what each has not fetched yet. "
        "The host keeps those results for them.",
    )
    add_host_name(homes)
    homes.add_argument("--json", action="store_true", help="Print a JSON list of objects")
    homes.set_defaults(handler=_homes)

    forget = verbs.add_parser(
        "forget-home",
        help="Stop keeping results for a home",
        description="Declare that a home is gone, or needs nothing more from a host. Another home may then "
        "delete the results that it has not fetched. If that home syncs again, it registers "
        "again.",
    )
    add_host_name(forget)
    forget.add_argument(
        "home", metavar="HOME", help="Id of the home, or its first characters, as `armada hosts homes` shows it"
    )
    forget.add_argument("--json", action="store_true", help="Print a JSON object")
    forget.set_defaults(handler=_forget)


def _by_home(session: HostSession) -> dict[str, list[tuple[EnrolledHome, str, int]]]:
    """The homes of all runs on a host: for each run its record, the run, and how many checkpoints it has not fetched."""
    from armada.protocol.message import Misfit
    from armada.protocol.sync import ListOutboxes, RunToList
    from armada.sync.release.judge import runs_there

    run_ids = runs_there(session)
    found: dict[str, list[tuple[EnrolledHome, str, int]]] = {}
    for start in range(0, len(run_ids), _AT_ONCE):
        asked = ListOutboxes(runs=tuple(RunToList(run_id=run_id) for run_id in run_ids[start : start + _AT_ONCE]))
        for entry in session.call(asked, timeout_s=300.0).runs:
            if isinstance(entry, Misfit):
                continue
            there = {checkpoint.digest for checkpoint in entry.outbox}
            for home in entry.homes:
                found.setdefault(home.id, []).append((home, entry.run_id, len(there - home.spoken_of)))
    return found


def _homes(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.table import table
    from armada.home import own

    context = Context()
    with context.session(options.name, patience_s=20) as session:
        found = _by_home(session)
    here = own(context.home).id
    rows: list[tuple[str, ...]] = []
    listed: list[_Home] = []
    for home_id, records in found.items():
        newest = max((record for record, _, _ in records), key=lambda record: record.seen_at or 0.0)
        missing = sum(count for *_, count in records)
        seen = f"{span(time.time() - newest.seen_at)} ago" if newest.seen_at is not None else "—"
        whose = f"{newest.label} (this one)" if home_id == here else newest.label
        rows.append((home_id[:8], whose, newest.path, str(len(records)), counted(missing, "checkpoint"), seen))
        listed.append(
            {
                "id": home_id,
                "label": newest.label,
                "path": newest.path,
                "seen_at": newest.seen_at,
                "this_one": home_id == here,
                "runs": [
                    {"run_id": run_id, "not_fetched": count, "settled": one.settled} for one, run_id, count in records
                ],
            }
        )
    if options.json:
        print_json(listed)
    elif rows:
        print(table(("HOME", "WHOSE", "PATH", "RUNS", "NOT FETCHED", "SEEN"), rows))
    else:
        print(f"No home has registered for a run on {options.name}.")
    return 0


def _forget(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.home import own
    from armada.protocol.homes import AskingHome, ForgetHome

    if not options.home.strip():
        raise UsageError("the home's id is empty", hint=f"armada hosts homes {options.name}")
    context = Context()
    here = own(context.home)
    with context.session(options.name, patience_s=20) as session:
        found = _by_home(session)
        chosen = [home_id for home_id in found if home_id.startswith(options.home)]
        if not chosen:
            raise NotFound(
                f"no home with an id that begins with {options.home!r} has registered for a run on {options.name}",
                hint=f"armada hosts homes {options.name}",
            )
        if len(chosen) > 1:
            raise UsageError(
                f"{options.home!r} matches several homes: {', '.join(home[:12] for home in chosen)}",
                hint="type more characters",
            )
        if chosen[0] == here.id:
            raise UsageError("that is this home", hint=f"armada hosts homes {options.name} shows the others")
        answer = session.call(ForgetHome(home=AskingHome(**here.as_json()), forget=chosen[0]))
    records = found[chosen[0]]
    missing = sum(count for *_, count in records)
    count = len(answer.runs)
    if options.json:
        print_json({"host": options.name, "forgotten": chosen[0], "runs": count, "not_fetched": missing})
        return 0
    print(
        f"{records[0][0].named}: {options.name} keeps nothing more for it ({counted(count, 'run')}, "
        f"{counted(missing, 'checkpoint')} that it has not fetched); if it syncs again, it registers again"
    )
    return 0


def owner(context: Context, run: Run) -> Home | None:
    """Return the other home that launched a run. None for this home's runs, and for runs of the first release, which do not record it."""
    from armada.home import launched_by, own
    from armada.store import runs

    if context.is_read_only:
        return None  # which home this is may not be known: a copy gets its own id only where it can be written
    launcher = launched_by(runs.spec(context.database, run.run_id))
    return None if launcher is None or launcher.id == own(context.home).id else launcher


def add_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        FLAG, action="store_true", help="Continue even if another home launched the run or still needs its results"
    )


def ask_owner(context: Context, run: Run, options: argparse.Namespace, verb: str) -> None:
    """Ask for confirmation before a command changes another home's run.

    Args:
        context: The command's.
        run: Which.
        options: With the flag of `add_flag`.
        verb: What is about to be done, such as `stop`.

    Raises:
        Conflict: Another home launched it, and nobody said that this is meant.
    """
    launcher = None if options.other_home else owner(context, run)
    if launcher is None:
        return
    words = f"{run.run_id} was launched by {launcher.named}, not by this home"
    if sys.stdin.isatty() and sys.stderr.isatty():
        sys.stderr.write(f"{words}. {verb.capitalize()} it? [y/N] ")
        if input().strip().lower() in ("y", "yes"):
            return
        raise Conflict(f"{words}; nothing was done")
    raise Conflict(words, hint=f"if you mean it: armada {verb} {run.run_id} {FLAG}")
