"""`armada store check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.cli.printing import print_json
from armada.foundation.sanitize import sanitize_line
from armada.units import amount, counted

if TYPE_CHECKING:
    import argparse

UNREADABLE = 2
"""A file is wrong."""

AMISS = 7
"""Something that should be at home, or in the store, is not: no such thing."""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "store",
        help="Inspect the local database",
        description="Inspect the local database of runs, checkpoints and hosts (one SQLite file).",
    )
    verbs = parser.add_subparsers(title="commands", metavar="VERB", dest="verb", required=True)
    check = verbs.add_parser(
        "check",
        help="Check the database against the checkpoints at home",
        description="Check the integrity of the database and compare it with the checkpoints at home. "
        "Changes nothing. Exits with 2 if the database is damaged, with 7 if it disagrees with "
        "the files.",
    )
    check.add_argument("--json", action="store_true", help="Print a JSON object")
    check.set_defaults(handler=_check)


def _check(options: argparse.Namespace) -> int:
    from armada.paths import HomePaths
    from armada.recovery.check import SERIOUS, check
    from armada.store.database import MIGRATIONS, newer

    done = check(HomePaths.from_environment())
    store = done.store
    if options.json:
        found = [
            {"kind": f.kind, "message": f.message, "path": str(f.path) if f.path else None, "command": f.command}
            for f in done.findings
        ]
        listed = {
            "path": str(store.path),
            "condition": store.condition,
            "version": store.version,
            "known_version": len(MIGRATIONS),
            "size_bytes": store.size_bytes,
            "checkpoints": done.checkpoints,
            "findings": found,
        }
        print_json(listed)
    if store.condition == "newer":
        raise newer(store.version or 0, store.path)
    if store.obstacle is not None:
        raise store.obstacle
    if not options.json:
        version = f"version {store.version}, {amount(store.size_bytes)}"
        words = {
            "missing": "there is none yet",
            "sound": f"sound ({version})",
            "old": f"sound ({version}); the next command upgrades it to version {len(MIGRATIONS)}",
            "damaged": "damaged",
        }
        print(f"{store.path}: {words[store.condition]}")
        for each in done.findings:
            print(f"{'✗' if each.kind in SERIOUS else '·'} {sanitize_line(each.message, 400)}")
            if each.path is not None:
                print(f"    {sanitize_line(each.path, 400)}")
            if each.command is not None:
                print(f"    → {sanitize_line(each.command, 600)}")
        if store.condition == "sound":
            serious = sum(1 for each in done.findings if each.kind in SERIOUS)
            print(f"{counted(done.checkpoints, 'checkpoint')} at home compared with it; problems: {serious}")
    if store.condition == "damaged":
        return UNREADABLE
    return AMISS if any(each.kind in SERIOUS for each in done.findings) else 0
