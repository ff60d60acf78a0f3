"""`armada init`: write a first experiment file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.printing import print_json
from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    import argparse

_FILE = Path("experiment.yaml")


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "init",
        help="Write a first experiment file",
        description="Write an experiment file for a training script, or for the data in this folder. A script is "
        "read and never run. Each line of the file has a comment. An existing file is never overwritten.",
    )
    parser.add_argument(
        "script",
        nargs="?",
        type=Path,
        metavar="SCRIPT",
        help="Training script (default: the only Python file here that can be started; otherwise the data here)",
    )
    parser.add_argument("--host", default="local", metavar="NAME", help="Host that you will launch on (default: local)")
    parser.add_argument(
        "--output", "-o", type=Path, default=_FILE, metavar="FILE", help=f"File to write (default: {_FILE})"
    )
    parser.add_argument("--json", action="store_true", help="Print a JSON object: what was written and what to fill in")
    parser.set_defaults(handler=_init)


def _init(options: argparse.Namespace) -> int:
    from armada.cli.context import choose_host
    from armada.config.hosts import load_hosts
    from armada.launch.drafts.draft import make_draft, summary, write_draft
    from armada.paths import HomePaths

    here = Path.cwd()
    host = choose_host(load_hosts(HomePaths.from_environment(), here), options.host)
    draft = make_draft(here, options.script, options.output, host)
    words = [*([options.script] if options.script else []), *(["--host", host.name] if options.host != "local" else [])]
    write_draft(draft, options.output, shlex.join(["armada", "init", *map(str, words), "-o", "another.yaml"]))
    following = f"armada launch --host {host.name} {shlex.quote(str(options.output))} --dry-run"
    if options.json:
        print_json(
            {
                "path": str(options.output.absolute()),
                "task": draft.task,
                "script": draft.script,
                "data": list(draft.data),
                "to_fill_in": list(draft.to_fill_in),
                "notes": list(draft.notes),
                "next": following,
            }
        )
        return 0
    print(f"{options.output} written: {sanitize_line(summary(draft))}")
    if draft.to_fill_in:
        print(f"  fill in   {sanitize_line(', '.join(draft.to_fill_in), 300)}")
    for note in draft.notes:
        print(f"  note      {sanitize_line(note, 300)}")
    print(f"  next      {sanitize_line(following)}")
    return 0
