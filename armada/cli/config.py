"""`armada config show | edit | schema`."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.options import add_changes, add_experiment
from armada.cli.printing import print_json
from armada.errors import ArmadaError, UsageError
from armada.foundation.sanitize import sanitize_line
from armada.foundation.user_folder import expanded

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from armada.config.profiles import Profile
    from armada.config.resolution import Section
    from armada.paths import HomePaths
    from armada.protocol.facts import GpuKind

KINDS = ("experiment", "hosts", "profile", "project")
"""Of files with a JSON Schema; `armada.config.schema.FILES` says what each is, and takes 0.2 s to load."""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "config",
        help="Show effective settings and where each comes from",
        description="Show the effective settings of an experiment and a host, or print JSON Schemas for editors.",
    )
    verbs = parser.add_subparsers(title="commands", metavar="VERB", dest="verb", required=True)

    show = verbs.add_parser(
        "show",
        help="Show effective settings",
        description="Show every setting of a host, its profile and an experiment, as a launch would use "
        "them. Asks no host.",
    )
    add_experiment(show, host="Show this host and its profile", required=False)
    show.add_argument(
        "--origin", action="store_true", help="Show where each value comes from: file and line, option or variable"
    )
    show.add_argument("--json", action="store_true", help="Print a JSON object, including where each value comes from")
    show.set_defaults(handler=_show)

    edit = verbs.add_parser(
        "edit",
        help="Put settings into an experiment file, or show the difference",
        description="Put --set into the text of an experiment file and print the difference. Comments and all other lines "
        "stay as they are. With --to, write the result to a file. The experiment file itself is changed only if --to names it, "
        "with --overwrite.",
        epilog="example: armada config edit exp.yaml --set train.learning_rate=1e-4 --to exp-lr.yaml",
    )
    what = "Experiment file (YAML), or `quickstart` for the bundled one"
    edit.add_argument("experiment", metavar="EXPERIMENT", help=what)
    add_changes(edit)
    edit.add_argument("--to", metavar="FILE", help="Write the result to this file")
    edit.add_argument("--overwrite", action="store_true", help="With --to: replace a file that exists")
    edit.add_argument("--json", action="store_true", help="Print a JSON object: the difference, and the file written")
    edit.set_defaults(handler=_edit)

    schema = verbs.add_parser(
        "schema",
        help="Print a JSON Schema for editors",
        description="Print the JSON Schema (draft 7) of a kind of file. docs/how-to/editors.md explains how to use it in an editor.",
    )
    schema.add_argument("kind", choices=KINDS, help="Kind of file")
    schema.set_defaults(handler=_schema)


def _schema(options: argparse.Namespace) -> int:
    from armada.config.schema import schema_of

    print(json.dumps(schema_of(options.kind), indent=1, ensure_ascii=False))
    return 0


def _edit(options: argparse.Namespace) -> int:
    from armada.cli.experiment import changes_of, experiment_file
    from armada.config.documents import parse_document, read_text
    from armada.config.edited_text import difference, with_overrides
    from armada.config.experiments import experiment_of

    path = expanded(experiment_file(options.experiment))
    before = read_text(path)
    after = with_overrides(before, path, changes_of(options))
    target = _target(options)
    lines = difference(before, after, path, target or path)
    if target is None and not options.json:
        _print_lines(lines)  # also if the result is wrong: then the error follows
    # Relative paths are relative to the file that they stand in.
    experiment_of(parse_document(after, target or path))
    if target is not None:
        _write(target, after, overwrite=options.overwrite)
    if options.json:
        print_json({"difference": lines, "to": str(target) if target is not None else None})
        return 0
    if target is not None:
        _print_lines(lines)
        print(f"written: {sanitize_line(target, 1000)}")
    elif not lines:
        print("no difference")
    return 0


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        print(sanitize_line(line, 2000))


def _target(options: argparse.Namespace) -> Path | None:
    """Return the file to write; None if the command only prints.

    Raises:
        UsageError: Something is there that must stay, or the name names no file.
    """
    if options.to is None:
        if options.overwrite:
            raise UsageError("--overwrite goes with --to", hint="--to FILE --overwrite")
        return None
    target = expanded(options.to)
    if not options.to.strip() or target.name in ("", ".."):
        raise UsageError(f"{options.to!r} is not the name of a file", hint="--to exp-2.yaml")
    if target.is_dir():
        raise UsageError(f"{target} is a folder", hint=f"--to {target / 'experiment.yaml'}")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}", hint=f"mkdir -p {shlex.quote(str(target.parent))}")
    if os.path.lexists(target) and not options.overwrite:
        raise UsageError(f"{target} exists", hint="name another file, or add --overwrite")
    return target


def _write(target: Path, text: str, *, overwrite: bool) -> None:
    """Write the file; one that came into being meanwhile stays, unless it may be replaced."""
    from armada.foundation.atomic_write import rewrite_atomically

    if overwrite and target.exists():
        # What a link names is replaced, so that the link stays.
        rewrite_atomically(target.resolve(), text)
        return
    try:
        with target.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{target} exists", hint="name another file, or add --overwrite") from None
    except OSError:
        target.unlink(missing_ok=True)  # half a file
        raise


def _show(options: argparse.Namespace) -> int:
    from armada.cli.experiment import experiment_file
    from armada.config.resolution import Asked, resolve
    from armada.paths import HomePaths

    if options.experiment is None and options.host is None and options.profile is None:
        raise UsageError(
            "name what to show: an experiment, --host or --profile", hint="armada config show exp.yaml --host desk"
        )
    if options.experiment is None and (options.overrides or options.gpus):
        raise UsageError("--set and --gpus change an experiment, but no experiment is given")
    home = HomePaths.from_environment()
    gpus = _seen(home, options.host) if options.host else None
    asked = Asked(
        experiment=experiment_file(options.experiment) if options.experiment else None,
        overrides=tuple(options.overrides),
        host=options.host,
        profile=options.profile,
        gpus=options.gpus,
        seen_profile=_fitting(gpus, home),
        seen_gpus=len(gpus) if gpus is not None else None,
    )
    sections = resolve(home, Path.cwd(), asked)
    if options.json:
        _print_json(sections)
    else:
        _print(sections, origins=options.origin)
    return 0


def _seen(home: HomePaths, host: str) -> Sequence[GpuKind] | None:
    """The GPUs that a host showed last; None where they are not known, which is no reason to fail here."""
    from armada.protocol.recorded import recorded_facts
    from armada.store import hosts
    from armada.store.database import Database

    if not home.store.exists():
        return None
    with Database(home.store) as database:
        record = hosts.find(database, host)
    if record is None or record.facts is None:
        return None
    hardware = recorded_facts(record.facts).hardware
    return hardware.gpus if hardware is not None else None


def _fitting(gpus: Sequence[GpuKind] | None, home: HomePaths) -> Profile | None:
    """The profile that fits GPUs; None where none can be chosen."""
    from armada.config.profile_choice import choose_profile

    try:
        return choose_profile(gpus, home).profile if gpus is not None else None
    except ArmadaError:
        return None


def _print_json(sections: list[Section]) -> None:
    from armada.config.resolution import plain

    listed = {
        section.name: {
            "about": section.about,
            "values": {v.key: {"value": plain(v.value), "origin": v.origin} for v in section.values},
        }
        for section in sections
    }
    print_json(listed)


def _print(sections: list[Section], *, origins: bool) -> None:
    from armada.config.documents import shown
    from armada.config.resolution import plain

    texts = {
        (section.name, value.key): sanitize_line(shown(plain(value.value), 200), 200)
        for section in sections
        for value in section.values
    }
    key_width = max(len(key) for _, key in texts)
    width = min(60, max(map(len, texts.values())))
    for number, section in enumerate(sections):
        print(("\n" if number else "") + sanitize_line(f"{section.name} {section.about}").strip())
        for value in section.values:
            line = f"  {sanitize_line(value.key, 100):<{key_width}}  {texts[section.name, value.key]:<{width if origins else 0}}"
            print(f"{line}  {sanitize_line(value.origin, 400)}" if origins else line)
