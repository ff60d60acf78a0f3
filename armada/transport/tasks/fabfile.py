"""Load a file of Fabric tasks, find a task in it, and name the content of both."""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import json
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from invoke.tasks import Call, Task

from armada.errors import ConfigError

_HINT = "from fabric import task, then @task above `def NAME(c):`"


def load(path: Path) -> ModuleType:
    """Run a file of tasks as a module; modules beside it can be imported.

    Raises:
        ConfigError: It cannot be read, or raises an error.
    """
    folder = str(path.parent)
    _forget_neighbours(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = (
        path.stem if path.stem not in sys.modules else f"{path.stem} of tasks"
    )  # a json.py is not to replace Python's
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise ConfigError("there is no such file of tasks", path=path, hint="FILE.py:TASK, with a file that exists")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        file = error.filename or path
        raise ConfigError(f"this is not valid Python: {error.msg}", path=file, line=error.lineno) from None
    except (Exception, SystemExit) as error:
        hint = None
        if isinstance(error, ModuleNotFoundError):
            hint = f"armada's own Python runs it: {sys.executable} -m pip install {error.name}"
        words = f"importing it failed: {type(error).__name__}: {error}"
        raise ConfigError(words, path=path, line=line_in(error, path), hint=hint) from None
    return module


def find(module: ModuleType, path: Path, name: str) -> Task[Any]:
    """Find a task by its name or an alias; `-` and `_` are the same.

    Raises:
        ConfigError: The file has no task of that name.
    """
    found: dict[str, Task[Any]] = {}
    for attribute, value in vars(module).items():
        if isinstance(value, Task):
            for each in (attribute, value.name, *value.aliases):
                found.setdefault(_plain(str(each)), value)
    if _plain(name) in found:
        return found[_plain(name)]
    if hasattr(module, name):
        raise ConfigError(f"{name} is not a task", path=path, hint=_HINT)
    near = difflib.get_close_matches(_plain(name), found, 1)
    known = sorted({str(task.name) for task in found.values()})
    hint = f"did you mean {found[near[0]].name}?" if near else f"its tasks: {', '.join(known)}" if known else _HINT
    raise ConfigError(f"it has no task called {name!r}", path=path, hint=hint)


def content_key(path: Path, task: str, arguments: Sequence[Any]) -> str:
    """Return a hash of a file's bytes, of the modules in its folder that it imported, of the task's name and arguments.

    Raises:
        ConfigError: The file went away.
    """
    digest = hashlib.sha256(b"armada-task-1")
    try:
        for each in (path, *sorted(set(_neighbours(path.parent)) - {path})):
            data = each.read_bytes()
            digest.update(f"\0{each.relative_to(path.parent)}\0{len(data)}\0".encode())
            digest.update(data)
    except OSError as error:
        raise ConfigError(f"it cannot be read: {error.strerror}", path=path) from error
    digest.update(json.dumps([_plain(task), list(arguments)]).encode())
    return digest.hexdigest()[:40]


def call(task: Task[Any], connection: Any, arguments: Sequence[Any]) -> None:
    """Call a task, after those of its `pre` and before those of its `post`."""
    for each in task.pre:
        _call(each, connection)
    task(connection, *arguments)
    for each in task.post:
        _call(each, connection)


def _call(each: Any, connection: Any) -> None:
    if isinstance(each, Call):
        each.task(connection, *each.args, **each.kwargs)
    else:
        call(each, connection, ())


def line_in(error: BaseException, path: Path) -> int | None:
    """Return the last line of a file that an error passed through, if it did."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else None


def _neighbours(folder: Path) -> Iterator[Path]:
    for _, file in _modules_below(folder):
        yield file


def _forget_neighbours(folder: Path) -> None:
    for name, _ in list(_modules_below(folder)):
        del sys.modules[name]


def _modules_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Return the imported modules of a folder: the user's own, not those of an environment in it, nor armada's."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name.partition(".")[0] in ("armada", "__main__"):
            continue
        path = Path(file)
        if path.is_relative_to(folder) and "site-packages" not in path.parts and not path.is_relative_to(sys.prefix):
            yield name, path


def _plain(name: str) -> str:
    return name.replace("_", "-")
