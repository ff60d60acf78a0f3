"""`armada __complete KIND`: print the words that a shell can offer, one per line, each with a description after a tab.

A shell asks at every press of Tab, so nothing is imported here but SQLite and the names of files, and the models for `--set`
alone; and nothing is ever complained about: a store that cannot be read offers nothing.
"""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from armada.paths import HomePaths

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_ENTRY = re.compile(r"( +)([\"']?)([A-Za-z0-9][A-Za-z0-9_.-]{0,62})\2 *:(?:\s|$)")


def offer(kind: str, word: str = "") -> None:
    """Print the candidates of a kind: `runs` (newest first), `active` (those not ended), `hosts`, `profiles`.

    `settings` are an experiment's keys, each with its `=`; behind that of `word`, the values that it can have. `commands` and
    `form` are each one JSON object, for the dashboard.
    """
    from armada.paths import HomePaths

    if kind == "commands":
        from armada.cli.command_tree import print_tree

        print_tree()
        return
    if kind == "form":
        from armada.cli.form import print_form

        print_form(word)
        return
    if kind == "settings":
        from armada.config.candidates import settings

        for found in settings(word):
            sys.stdout.write(f"{found}\n")
        return
    makers = {"runs": _runs, "active": _active, "hosts": _hosts, "profiles": _profiles}
    home = HomePaths.from_environment()
    if kind in makers:
        for name, about in makers[kind](home):
            sys.stdout.write(f"{name}\t{about}\n")


def _runs(home: HomePaths, *, active: bool = False) -> Iterator[tuple[str, str]]:
    from armada.paths import RUN_ID
    from armada.store.queries.candidates import read_candidates

    for run_id, state, host in read_candidates(home.store, active=active):
        if RUN_ID.fullmatch(str(run_id)):
            yield str(run_id), f"{_word(state)} on {_word(host)}"


def _active(home: HomePaths) -> Iterator[tuple[str, str]]:
    return _runs(home, active=True)


def _hosts(home: HomePaths) -> Iterator[tuple[str, str]]:
    found = {"local": "this machine"}
    for file, about in ((home.hosts_file, "hosts.yaml"), (Path("armada.yaml"), "armada.yaml")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            found |= dict.fromkeys(_entries(file.read_text("utf-8")), about)
    yield from found.items()


def _profiles(home: HomePaths) -> Iterator[tuple[str, str]]:
    from armada.paths import bundled

    found: dict[str, str] = {}
    for folder, about in ((bundled("profiles"), "bundled"), (home.profiles, "yours")):
        found |= {file.stem: about for file in folder.glob("*.yaml") if _HOST.fullmatch(file.stem)}
    yield from sorted(found.items())


def _entries(text: str) -> list[str]:
    """The keys below `hosts:`, by the lines of the file: reading YAML takes longer than a person waits for a Tab."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("hosts:"):
            break
    else:
        return []
    if "{" in line.partition("#")[0]:
        return _parsed(text)
    found: list[str] = []
    indent: str | None = None
    for line in lines:
        if line.strip() and not line.startswith((" ", "#")):
            break
        if (match := _ENTRY.match(line)) and (indent is None or match[1] == indent):
            indent = match[1]
            found.append(match[3])
    return found


def _parsed(text: str) -> list[str]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        hosts = YAML(typ="safe", pure=True).load(text)["hosts"]
    except (YAMLError, TypeError, KeyError, ValueError):
        return []
    return (
        [name for name in hosts if isinstance(name, str) and _HOST.fullmatch(name)] if isinstance(hosts, dict) else []
    )


def _word(text: object) -> str:
    return re.sub(r"[^A-Za-z0-9_.?-]", "", str(text))[:63]
