"""A process within a copy of the tree that has imported everything once, and forks itself for each mutant."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.catalogue import Telling

from tests.tools.mutant_list import MODULES

_LONGEST_S = 600
_LONGEST_MAP_S = 6000
_SEED = 77


def tell_stories(stories: Sequence[int]) -> str | None:
    """Run stories until one fails; return its message, or None. Random stories are numbered after those that were found."""
    for number in stories:
        name, told = _story(number)
        try:
            words = told.outcome()
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
        if words:
            return f"“{name}”: {words}"
    return None


def _story(number: int) -> tuple[str, Telling]:
    from tests.simulation.catalogue import found_once, numbered

    found = list(found_once().items())
    return found[number] if number < len(found) else (f"story {number}", numbered(_SEED, number - len(found)))


def map_stories(count: int) -> dict[str, Any]:
    """Return which lines of the modules each story reaches. A story that fails without any change ends the mapping."""
    from tests.simulation.catalogue import found_once

    watched = {str(Path.cwd() / module.path): module.path for module in MODULES}
    total = len(found_once()) + count
    reached: list[list[str]] = []
    for number in range(total):
        seen: set[str] = set()
        with _tracing(watched, seen):
            words = tell_stories([number])
        if words:
            return {"broken": words}
        reached.append(sorted(seen))
    return {"found": total - count, "reached": reached}


@contextlib.contextmanager
def _tracing(watched: dict[str, str], seen: set[str]) -> Iterator[None]:
    def line(frame: Any, event: str, _: object) -> Any:
        if event == "line":
            seen.add(f"{watched[frame.f_code.co_filename]}:{frame.f_lineno}")
        return line

    def call(frame: Any, _event: str, _: object) -> Any:
        return line if frame.f_code.co_filename in watched else None

    threading.settrace(call)
    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)


def try_out(stories: Sequence[int], tests: Sequence[str]) -> dict[str, str]:
    """Return which tests detect the mutant, and how; empty if none do."""
    if words := tell_stories(stories):
        return {"by": "simulation", "how": words}
    if not tests:
        return {}
    import pytest

    class First:
        failed = ""

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed and not self.failed:
                self.failed = report.nodeid

    first = First()
    code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests], plugins=[first])
    return {} if code == 0 else {"by": "unit tests", "how": first.failed or f"pytest ended with {int(code)}"}


def change(path: str, source: bytes) -> None:
    """Replace the code of an imported module's functions by that of another source. Importers of the functions get the new code, too."""
    name = path.removeprefix("remote_payload/").removesuffix(".py").replace("/", ".")
    module = importlib.import_module(name)
    functions: dict[str, types.FunctionType] = {}
    for value in vars(module).values():
        for member in (value, *vars(value).values()) if isinstance(value, type) else (value,):
            function = member.fget if isinstance(member, property) else member
            if isinstance(function, types.FunctionType) and function.__module__ == name:
                functions[function.__qualname__] = function
    changed = False
    todo = [compile(source, path, "exec")]
    while todo:
        code = todo.pop()
        todo += [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
        if (function := functions.get(code.co_qualname)) and function.__code__.co_firstlineno == code.co_firstlineno:
            changed |= function.__code__.co_code != code.co_code or function.__code__.co_consts != code.co_consts
            function.__code__ = code.replace(co_filename=function.__code__.co_filename)
    assert changed, f"{path}: the mutant changed nothing in it"


def _answer(order: dict[str, Any]) -> dict[str, Any]:
    if "names" in order:
        from tests.simulation.catalogue import found_once

        return {"names": list(found_once())}
    return map_stories(order["map"]) if "map" in order else try_out(order["stories"], order["tests"])


def serve() -> int:
    """Fork for every order, which is one line, and answer with its result in one line."""
    import hypothesis  # noqa: F401  # imported once for all forks
    import pytest  # noqa: F401

    import armada

    assert Path(armada.__file__).is_relative_to(Path.cwd()), "it runs another tree than its own"
    importlib.import_module("tests.simulation.catalogue")
    for module in MODULES:
        importlib.import_module(module.path.removeprefix("remote_payload/").removesuffix(".py").replace("/", "."))
    answer = Path.cwd() / ".answer"
    for line in sys.stdin:
        answer.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            signal.alarm(_LONGEST_MAP_S if '"map"' in line else _LONGEST_S)
            silence = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silence, stream)
            order = json.loads(line)
            if "path" in order:
                change(order["path"], (Path.cwd() / order["path"]).read_bytes())
            result = _answer(order)
            answer.write_text(json.dumps(result), encoding="utf-8")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        ended = {"by": "its end", "how": f"the process ended with {os.waitstatus_to_exitcode(status)}"}
        print(answer.read_text(encoding="utf-8") if answer.exists() else json.dumps(ended), flush=True)
    return 0
