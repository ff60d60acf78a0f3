"""`armada cp`: copy files between this machine and a host, or the folder of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.access import asked_of, find_place
from armada.cli.printing import print_json
from armada.errors import UsageError
from armada.foundation.progress import TransferProgress
from armada.foundation.sanitize import sanitize_line
from armada.foundation.user_folder import expanded
from armada.units import amount, counted

if TYPE_CHECKING:
    import argparse

    from armada.transport.copying_files import Copied

_HINT = "armada cp RUN:results.json .    or    armada cp notes.txt HOST:"


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "cp",
        help="Copy files from or to a host, or the folder of a run",
        description="Copy a file or folder between this machine and a host. RUN:PATH is relative to the run's work folder, "
        "HOST:PATH to your home folder there. A file that is there already is replaced; a folder is not.",
        epilog="example: armada cp RUN:out/eval.json .",
    )
    parser.add_argument("source", metavar="SOURCE", help="PATH here, or RUN:PATH, or HOST:PATH")
    parser.add_argument("destination", metavar="DESTINATION", help="PATH here, or RUN:PATH, or HOST:PATH")
    parser.add_argument("--json", action="store_true", help="Print a JSON object: what was copied, and where it is")
    parser.set_defaults(handler=_copy)


def parse_side(word: str) -> tuple[str | None, str]:
    """Split `PLACE:PATH`; the place is None for a path here. `./a:b` is always a path here."""
    place, colon, path = word.partition(":")
    return (place, path) if colon and place and "/" not in place else (None, word)


def _copy(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter

    (from_place, source), (to_place, destination) = parse_side(options.source), parse_side(options.destination)
    if (from_place is None) == (to_place is None):
        what = "both sides are" if from_place is not None else "neither side is"
        raise UsageError(f"{what} on a host: one of them must be", hint=_HINT)
    context = Context()
    host, run = find_place(context, from_place or to_place or "")
    from armada.transport.copying_files import fetch, send
    from armada.transport.terminal import find_way

    asked = asked_of(context, host, run) | {"path": (source if from_place is not None else destination) or "."}
    way = find_way(host, context.home)
    reporter = Reporter(sys.stderr)

    def on_bytes(done: int, total: int) -> None:
        reporter.transfer(
            "cp", f"{'from' if from_place is not None else 'to'} {host.name}", TransferProgress(done, total, None)
        )

    try:
        if from_place is not None:
            copied = fetch(way, asked, _folder_or_name(destination), on_bytes)
        else:
            copied = send(way, asked, expanded(source), on_bytes)
    finally:
        reporter.clear()
    _report(copied, host.name if to_place is not None else None, as_json=options.json)
    return 0


def _folder_or_name(word: str) -> Path:
    """Return a path here, whose folder must be there where it ends in a slash.

    Raises:
        UsageError: It is not.
    """
    path = expanded(word)
    if word.endswith("/") and not path.is_dir():
        raise UsageError(f"there is no folder {word} here", hint=f"mkdir -p {word}")
    return path


def _report(copied: Copied, host: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "host": host,
                "path": copied.place,
                "files": copied.files,
                "size_bytes": copied.size_bytes,
                "left": list(copied.left),
                "left_count": copied.left_count,
            }
        )
        return
    where = sanitize_line(f"{host}:{copied.place}" if host is not None else copied.place)
    print(f"{where}: {counted(copied.files, 'file')}, {amount(copied.size_bytes)}")
    if copied.left_count:
        shown = ", ".join(sanitize_line(each, 200) for each in copied.left) + (
            " …" if copied.left_count > len(copied.left) else ""
        )
        sys.stderr.write(f"armada: not copied, because they are links to folders or no files: {shown}\n")
