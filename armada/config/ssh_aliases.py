"""List the names of hosts in an ssh_config file. What they stand for, OpenSSH itself says (`armada.transport.ssh.resolve`)."""

from __future__ import annotations

import glob
import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from armada.config.documents import read_text, shown
from armada.errors import ConfigError
from armada.foundation.user_folder import expanded, expanded_or_same

_LINE = re.compile(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*?)\s*", re.DOTALL)
_DEEPEST = 16
"""Files that include files, as OpenSSH limits them."""


@dataclass(frozen=True, slots=True)
class Alias:
    """A name of a host that can be given to `ssh` as it is, and where it stands."""

    name: str
    file: Path
    line: int


@dataclass(slots=True)
class Aliases:
    """What a file and those that it includes name.

    Attributes:
        names: Names without wildcards, each where it stands first.
        files: All files that were read.
        notes: What was left out, as sentences.
    """

    names: dict[str, Alias] = field(default_factory=dict)
    files: set[Path] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def own_config() -> Path:
    """The file that `ssh` reads for this person, or the one that ARMADA_SSH_CONFIG names."""
    return Path(os.environ.get("ARMADA_SSH_CONFIG") or "~/.ssh/config").expanduser()


def list_aliases(file: Path) -> Aliases:
    """Read the names in a file and in the files that it includes.

    Raises:
        ConfigError: The file cannot be read. One that it includes becomes a note instead.
    """
    found = Aliases()
    _read(expanded(file), found, depth=0)
    return found


def _read(file: Path, found: Aliases, *, depth: int) -> None:
    text = read_text(file)
    found.files.add(file.resolve())
    for number, line in enumerate(text.splitlines(), start=1):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        keyword = match[1].lower()
        if keyword not in ("host", "match", "include"):
            continue
        try:
            words = shlex.split(match[2], comments=True)
        except ValueError:
            found.notes.append(f"{file}:{number}: the quotes do not close; this line is left out")
            continue
        if keyword == "host":
            _take(words, Alias("", file, number), found)
        elif keyword == "include":
            for word in words:
                _include(word, file, number, found, depth=depth)
        elif not any(note.startswith("Match") for note in found.notes) and words[:1] != ["all"]:
            found.notes.append("Match blocks name no hosts to list; ssh applies them to every name here")


def _take(patterns: list[str], place: Alias, found: Aliases) -> None:
    for name in patterns:
        if not any(mark in name for mark in "*?!") and name not in found.names:
            found.names[name] = Alias(name, place.file, place.line)


def _include(pattern: str, file: Path, number: int, found: Aliases, *, depth: int) -> None:
    if depth >= _DEEPEST:
        found.notes.append(
            f"{file}:{number}: more than {_DEEPEST} files include each other; {shown(pattern)} is left out"
        )
        return
    path = expanded_or_same(pattern)
    # As OpenSSH has it: relative to ~/.ssh, and in the system's own file to /etc/ssh.
    base = Path("/etc/ssh") if file.is_relative_to("/etc/ssh") else Path.home() / ".ssh"
    for each in sorted(glob.glob(str(base / path))):  # noqa: PTH207  # absolute patterns, which Path.glob refuses
        included = Path(each)
        if included.resolve() in found.files or included.is_dir():
            continue
        try:
            _read(included, found, depth=depth + 1)
        except ConfigError as error:
            found.notes.append(f"{error}; left out")
