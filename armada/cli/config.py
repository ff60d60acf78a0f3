"""`armada config show | schema`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.options import add_experiment
from armada.cli.printing import print_json
from armada.errors import ArmadaError, UsageError
from armada.foundation.sanitize import sanitize_line

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
