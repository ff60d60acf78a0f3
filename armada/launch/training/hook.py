"""Find hooks in the code that is sent: a missing module or function would fail on the host minutes later."""

from __future__ import annotations

import ast
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from armada.config.validation import nearest
from armada.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from armada.config.tasks.bundled import BundledTraining


def check_hooks(experiment: BundledTraining, files: Sequence[str]) -> None:
    """Check that each function that the trainer calls is in the code: hooks, and who judges.

    A module that the environment may provide is left to the payload.

    Args:
        experiment: The experiment with its `code`.
        files: The files of the code that are sent.

    Raises:
        ConfigError: A function is missing; the error has the nearest name.
    """
    if experiment.code is None:
        return
    hooks = {f"data.train[{at}].hook": source.hook for at, source in enumerate(experiment.data.train) if source.hook}
    for key, function in {**hooks, **experiment.functions}.items():
        if problem := _find_problem(function, experiment.code, files):
            place = experiment.places.get(f"{key}.function") or experiment.places.get(key)
            message = f"`{key}` is {function}: {problem[0]}"
            raise ConfigError(f"{place}: {message}" if place else message, hint=problem[1])


def _find_problem(hook: str, code: Path, files: Sequence[str]) -> tuple[str, str | None] | None:
    """Return what is missing and what to do, or None."""
    module, _, function = hook.partition(":")
    places = [f"{module.replace('.', '/')}.py", f"{module.replace('.', '/')}/__init__.py"]
    file = next((place for place in places if place in files), None)
    if file is None:
        return _find_missing(module, places, code, files)
    names = _names(code / file)
    if names is None or function in names:
        return None
    near = nearest(function, names)
    return f"{file} has no {function}", f"did you mean {module}:{near}?" if near else None


def _find_missing(module: str, places: list[str], code: Path, files: Sequence[str]) -> tuple[str, str | None] | None:
    if any((code / place).is_file() for place in places):
        return f"{places[0]} is not sent: git ignores it, or it is a link", "remove it from .gitignore"
    known = {str(PurePosixPath(file).with_suffix("")).replace("/", ".") for file in files if file.endswith(".py")}
    near = nearest(module, {name.removesuffix(".__init__") for name in known})
    top = module.partition(".")[0]
    if near is None and not any(name.partition(".")[0] == top for name in known):
        return None  # the environment may provide it
    return f"the code has no {places[0]}", f"did you mean {near}?" if near else None


def _names(file: Path) -> set[str] | None:
    """Return the names that a module defines; None if they cannot be determined by parsing."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None
    names: set[str] = set()
    for node in _statements(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        else:
            names.update(
                part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            )
    dynamic = {"*", "__getattr__"} & names or "globals" in {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    return None if dynamic else names


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield a module's statements, including those within `if`, `try`, `with` and `match`."""
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody"):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from _statements(getattr(node, field, []))
        for handler in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
            yield from _statements(handler.body)
