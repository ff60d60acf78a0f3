"""Find the modules that a script cannot start without, and ask its environment whether it has them.

The sources are parsed and never run. Only imports count that every start executes: those at the top of a file, outside of
`try`, `if` and functions.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from armada.protocol.environment import ExamineEnvironment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from armada.config.hosts import Host
    from armada.config.profiles import Profile
    from armada.config.tasks.experiment import Experiment
    from armada.provision.code import Snapshot
    from armada.rpc.session import HostSession

PROVIDED = frozenset(("armada_log",))
"""Modules that every run has."""

_MOST_FILES = 300
_LONGEST_SOURCE = 1_000_000
_EXAMINE_S = 120.0


@dataclass(frozen=True, slots=True)
class MissingModule:
    """A module that an environment lacks, and the line that imports it: `train.py:3`."""

    name: str
    place: str


def required_modules(snapshot: Snapshot, script: str) -> dict[str, str]:
    """Return the modules that a script imports from outside the project, and where: `{"einops": "train.py:3"}`.

    Args:
        snapshot: The project.
        script: Its path below the project.
    """
    top = snapshot.content.source
    sources = {name for name in snapshot.content.files if name.endswith(".py")}
    own = {part for name in sources for part in (PurePosixPath(name).stem, *PurePosixPath(name).parts[:-1])}
    folder = PurePosixPath(script).parent
    waiting, seen = [script], {script}
    found: dict[str, str] = {}
    while waiting and len(seen) <= _MOST_FILES:
        name = waiting.pop()
        for module, line in _imports(top / name):
            first = module.partition(".")[0]
            if first not in own:
                if first not in PROVIDED:
                    found.setdefault(first, f"{name}:{line}")
                continue
            for path in _files_of(module, folder):
                if path in sources and path not in seen:
                    seen.add(path)
                    waiting.append(path)
    return found


def find_missing(session: HostSession, path: str, modules: Mapping[str, str]) -> tuple[MissingModule, ...]:
    """Ask the environment at a path on the host which modules it lacks; none of them is imported.

    Raises:
        ProvisionFailed: Its Python does not answer.
    """
    if not modules:
        return ()
    request = ExamineEnvironment(packages=(), path=path, modules=tuple(modules))
    answer = session.call(request, timeout_s=_EXAMINE_S)
    return tuple(MissingModule(name, modules[name]) for name in answer.missing if name in modules)


def brings_modules(experiment: Experiment, host: Host, profile: Profile | None) -> bool:
    """Return whether lines of shell or PYTHONPATH may give the job modules that its environment lacks."""
    variables = {**(profile.env if profile is not None else {}), **experiment.env}
    return bool(experiment.setup or host.setup) or "PYTHONPATH" in variables


def describe(missing: tuple[MissingModule, ...]) -> str:
    """Say what is missing, on one line."""
    return ", ".join(f"{each.name} ({each.place})" for each in missing)


def _files_of(module: str, folder: PurePosixPath) -> Iterator[str]:
    """Name the files that may hold a module of the project, and the packages around it."""
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        for base in {folder, PurePosixPath()}:
            place = base.joinpath(*parts[:end])
            yield f"{place}.py"
            yield f"{place}/__init__.py"


def _imports(source: Path) -> list[tuple[str, int]]:
    """List the modules that a file imports whenever it runs, each with its line; none if it is no Python source."""
    try:
        content = source.read_bytes()
        tree = ast.parse(content) if len(content) <= _LONGEST_SOURCE else None
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = []
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append((node.module, node.lineno))
    return [(name, line) for name, line in found if name.isascii() and len(name) <= 200]
