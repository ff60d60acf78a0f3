"""Change one condition of armada's decisions at a time and see which tests notice: mutants.py [--stories N] [--jobs N] [--list] [WORD …].

Each mutant lives in a copy of the tree, in a temporary folder. The stories of tests/simulation that reach its line are told first: all
that were found once, then N random ones. Then its module's unit tests run. The first failure ends it. A WORD chooses mutants by a part
of their name, such as `proof.py` or `state.py:120`. Exit code 1: a mutant lives that is not in `EQUIVALENT`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.catalogue import Telling

ROOT = Path(__file__).resolve().parents[2]
_LONGEST_S = 600
_SEED = 77


@dataclass(frozen=True)
class Module:
    """A module that decides: its functions (empty: all), and what they are tested by."""

    path: str
    tests: tuple[str, ...]
    functions: frozenset[str] = frozenset()


_AGENT = "remote_payload/armada_agent"
_VERDICTS = ("tests/unit/verdicts",)
_STATE = ("tests/unit/verdicts/test_state.py", "tests/unit/monitor/test_observe.py")
_LIES = ("tests/agent/test_agent_lies_htcondor.py", "tests/agent/test_agent_htcondor.py")
_THIN = (
    "tests/unit/verdicts/test_thinning.py",
    "tests/agent/test_agent_outbox.py",
    "-k",
    "full_disk or best or thin or room",
)

MODULES = (
    Module("armada/verdicts/again.py", _VERDICTS),
    Module("armada/verdicts/guesses.py", (*_VERDICTS, *_STATE)),
    Module("armada/verdicts/order.py", _VERDICTS),
    Module("armada/verdicts/presence.py", _VERDICTS),
    Module("armada/verdicts/settling.py", _VERDICTS),
    Module("armada/verdicts/stopping.py", _VERDICTS),
    Module(f"{_AGENT}/verdicts/doubt.py", _VERDICTS),
    Module(f"{_AGENT}/verdicts/following.py", _VERDICTS),
    Module(f"{_AGENT}/verdicts/letting_go.py", _VERDICTS),
    Module(f"{_AGENT}/verdicts/liveness.py", _VERDICTS),
    Module(
        f"{_AGENT}/verdicts/requeue.py",
        _VERDICTS,
        frozenset({"gained", "can_resume", "decide", "count_fruitless"}),
    ),
    Module(
        f"{_AGENT}/engines/htcondor.py", _LIES, frozenset({"look", "_find_missing", "_ask_second", "cancel", "read"})
    ),
    Module(
        f"{_AGENT}/supervisor/batch.py",
        ("tests/agent/test_agent_time_limit.py",),
        frozenset(
            {"_stop_request", "_stopped_ending", "_judge", "_retried", "_conclude", "_decide", "_put_back", "supervise"}
        ),
    ),
    Module("armada/sync/checkpoints/proof.py", ("tests/unit/sync/test_proof.py",)),
    Module("armada/verdicts/retention.py", ("tests/unit/verdicts/test_retention.py",)),
    Module("armada/verdicts/state.py", _STATE, frozenset({"_decide", "_by_scheduler"})),
    Module(f"{_AGENT}/verdicts/thinning.py", _THIN),
    Module(f"{_AGENT}/outbox/thinning.py", _THIN, frozenset({"thin"})),
    Module(
        "armada/sync/release/judge.py",
        ("tests/unit/sync/test_release.py", "tests/unit/sync/test_release_verdict.py"),
        frozenset({"_not_there", "_is_settled", "_judge_some", "_seen", "_checkpoints", "_keeps_whole", "_other"}),
    ),
    Module("armada/verdicts/release.py", ("tests/unit/sync/test_release_verdict.py",)),
)

EQUIVALENT = {
    "proof.py prove: read → True": "of no file nothing is recorded",
    "retention.py decide_host: best := _best(_ordered(candidates), 1) → (best := _best(_ordered(candidates), 1)) and False": (
        "the best of all, where the host has it, is the best of what the host has, and that stays anyway"
    ),
    "htcondor.py read: offset < 0 → (offset) <= (0)": "nothing is kept of a log of which nothing was read",
    "htcondor.py read: status.st_size < offset → (status.st_size) <= (offset)": "the same log read anew says the same",
    "htcondor.py read: end < 5 → (end) <= (5)": "an event without a line is none",
    "judge.py _not_there: not missing → False": "the host is asked about no run, and nothing is added",
}
"""By `file function: change`: why no test can notice it."""

_OTHERWISE: dict[type[ast.cmpop], str] = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}


@dataclass(frozen=True)
class Mutant:
    """One change: the bytes from `begin` to `end` of a file become `new`."""

    module: Module
    function: str
    lines: range
    begin: int
    end: int
    old: str
    new: str

    @property
    def name(self) -> str:
        return f"{self.module.path}:{self.lines.start}"

    @property
    def change(self) -> str:
        return f"{' '.join(self.old.split())} → {self.new}"

    @property
    def key(self) -> str:
        return f"{Path(self.module.path).name} {self.function}: {self.change}"


class Breeder(ast.NodeVisitor):
    """Finds the conditions of one module, and one or two changes of each."""

    def __init__(self, module: Module, source: bytes) -> None:
        self.module = module
        self.source = source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.functions: list[str] = []
        self.returns_bool = False
        self.found: dict[tuple[int, int, str], Mutant] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before, self.returns_bool = self.returns_bool, isinstance(node.returns, ast.Name) and node.returns.id == "bool"
        self.functions.append(node.name)
        self.generic_visit(node)
        self.functions.pop()
        self.returns_bool = before

    def visit_If(self, node: ast.If) -> None:
        leaves = isinstance(node.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
        self._condition(node.test, ("False",) if leaves and not node.orelse else ("True", "False"))
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node.test, ("not",))
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._condition(test, ("True",))
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and self.returns_bool and not isinstance(node.value, ast.Constant | ast.IfExp):
            self._condition(node.value, ("not",))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        # `given or ""` is no condition.
        if any(isinstance(value, ast.Compare) or _is_not(value) for value in node.values):
            self._drop(node)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if not self._changed(node):
            self._condition(node, ("not",))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if _is_not(node) and not self._changed(node):
            self._condition(node, ("not",))
        self.generic_visit(node)

    def _condition(self, test: ast.expr, changes: Sequence[str]) -> None:
        if isinstance(test, ast.BoolOp):
            self._drop(test)
            return
        for change in changes:
            self._add(test, change)
        self._swap(test)

    def _drop(self, node: ast.BoolOp) -> None:
        """Each operand alone becomes what leaves the decision to the others."""
        for value in node.values:
            if isinstance(value, ast.BoolOp):
                self._drop(value)
            else:
                self._add(value, "True" if isinstance(node.op, ast.And) else "False")
                self._swap(value)

    def _swap(self, node: ast.expr) -> None:
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and (other := _OTHERWISE.get(type(node.ops[0]))):
            self._add(node, f"({self._text(node.left)}) {other} ({self._text(node.comparators[0])})")

    def _changed(self, node: ast.expr) -> bool:
        begin, end = self._span(node)
        return any((begin, end) == (b, e) for b, e, _ in self.found)

    def _add(self, node: ast.expr, new: str) -> None:
        if new == "not":
            new = f"not ({self._text(node)})"
        elif any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node)):
            # The name is needed further on.
            new = f"({self._text(node)}) {'or' if new == 'True' else 'and'} {new}"
        if self.functions and (not self.module.functions or self.module.functions & set(self.functions)):
            begin, end = self._span(node)
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            mutant = Mutant(self.module, self.functions[-1], lines, begin, end, self._text(node), new)
            self.found.setdefault((begin, end, new), mutant)

    def _span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        begin, end = self._span(node)
        return self.source[begin:end].decode()


def _is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def breed(words: Sequence[str] = ()) -> list[Mutant]:
    """All mutants, in the order of the source, or those whose name has one of the words."""
    mutants: list[Mutant] = []
    for module in MODULES:
        source = (ROOT / module.path).read_bytes()
        breeder = Breeder(module, source)
        breeder.visit(ast.parse(source))
        mutants += sorted(breeder.found.values(), key=lambda each: (each.begin, each.end, each.new))
    return [each for each in mutants if not words or any(word in each.name for word in words)]


# Within a copy: a process that has imported everything once, and a fork of it for each mutant.


def tell_stories(stories: Sequence[int]) -> str | None:
    """What the first of the stories that breaks says; the random ones are numbered after those that were found."""
    for number in stories:
        try:
            words = _story(number).outcome()
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
        if words:
            return f"story {number}: {words}"
    return None


def _story(number: int) -> Telling:
    from tests.simulation.catalogue import found_once, numbered

    found = list(found_once().values())
    return found[number] if number < len(found) else numbered(_SEED, number - len(found))


def map_stories(count: int) -> dict[str, Any]:
    """Which story reaches which lines of the modules; a story that breaks without any change ends it."""
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
    """Who notices, and how; empty where nobody does."""
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
    """Give the functions of a module that is imported the code of another source: who imported them by name has them, too."""
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
    assert changed, f"{path}: nothing of it is another one"


def _serve() -> int:
    """Fork for every order that comes in a line, and answer with its result in a line."""
    import hypothesis  # noqa: F401  # imported once, for all
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
            signal.alarm(_LONGEST_S)
            silence = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silence, stream)
            order = json.loads(line)
            if "path" in order:
                change(order["path"], (Path.cwd() / order["path"]).read_bytes())
            result = map_stories(order["map"]) if "map" in order else try_out(order["stories"], order["tests"])
            answer.write_text(json.dumps(result), encoding="utf-8")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        ended = {"by": "its end", "how": f"the process ended with {os.waitstatus_to_exitcode(status)}"}
        print(answer.read_text(encoding="utf-8") if answer.exists() else json.dumps(ended), flush=True)
    return 0


# Outside.


class Copy:
    """A copy of the tree, in which one mutant lives at a time, and the process that tries it out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for name in listed.stdout.split("\0"):
            if name and (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(folder / "remote_payload")])}
        env.pop("ARMADA_SEED", None)
        command = [sys.executable, "tests/tools/mutants.py", "--serve"]
        self.process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ask({"stories": [], "tests": []})  # it has imported everything before anything is changed

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline()))

    def try_out(self, mutant: Mutant, stories: Sequence[int]) -> dict[str, Any]:
        path = self.folder / mutant.module.path
        source = path.read_bytes()
        path.write_bytes(source[: mutant.begin] + f"({mutant.new})".encode() + source[mutant.end :])
        try:
            return self.ask({"path": mutant.module.path, "stories": list(stories), "tests": mutant.module.tests})
        finally:
            path.write_bytes(source)

    def close(self) -> None:
        self.process.communicate()


def _choose(mutant: Mutant, mapped: dict[str, Any]) -> list[int]:
    lines = {f"{mutant.module.path}:{number}" for number in mutant.lines}
    return [number for number, reached in enumerate(mapped["reached"]) if lines & set(reached)]


def run(mutants: Sequence[Mutant], stories: int, jobs: int, say: Callable[[str], None]) -> int:
    """Try all mutants out, and say how each ended and what they are together."""
    with tempfile.TemporaryDirectory(prefix="armada-mutants-") as folder:
        copies: queue.Queue[Copy] = queue.Queue()
        first = Copy(Path(folder) / "copy-0")
        mapped = first.ask({"map": stories})
        if "reached" not in mapped:
            say(f"the stories break, or do not run, without any change: {mapped}")
            return 1
        for tests in sorted({mutant.module.tests for mutant in mutants}):
            if told := first.ask({"stories": [], "tests": tests}):
                say(f"{' '.join(tests)}: fails without any change: {told}")
                return 1
        every = [first, *(Copy(Path(folder) / f"copy-{number}") for number in range(1, jobs))]
        for each in every:
            copies.put(each)

        def one(mutant: Mutant) -> tuple[Mutant, str]:
            reaching = _choose(mutant, mapped)
            copy = copies.get()
            try:
                result = copy.try_out(mutant, reaching)
            finally:
                copies.put(copy)
            by = result.get("by", "nobody")
            reach = f"{len(reaching)} stories reach it"
            say(f"| {mutant.name} | `{mutant.change}` | {reach} | {by} | {result.get('how', '')[:160]} |")
            return mutant, by

        say("| mutant | change | stories | noticed by | how |\n|---|---|---|---|---|")
        with ThreadPoolExecutor(jobs) as pool:
            results = list(pool.map(one, [mutant for mutant in mutants if mutant.key not in EQUIVALENT]))
        for each in every:
            each.close()
    _sum_up(mutants, results, say)
    return any(by == "nobody" for _, by in results)


def _sum_up(mutants: Sequence[Mutant], results: Sequence[tuple[Mutant, str]], say: Callable[[str], None]) -> None:
    say(
        "\n| module | mutants | simulation | unit tests, after it | otherwise | nobody |\n|---|---:|---:|---:|---:|---:|"
    )
    groups = {module.path: [by for mutant, by in results if mutant.module is module] for module in MODULES}
    groups["all"] = [by for _, by in results]
    for name, ends in groups.items():
        if ends:
            counts = Counter(ends)
            named = [counts.pop(by, 0) for by in ("simulation", "unit tests", "nobody")]
            share = f"{100 * named[0] / len(ends):.0f} %"
            say(f"| {name} | {len(ends)} | {named[0]} ({share}) | {named[1]} | {counts.total()} | {named[2]} |")
    for mutant in mutants:
        if reason := EQUIVALENT.get(mutant.key):
            say(f"equivalent, not tried: {mutant.name} `{mutant.change}`: {reason}")


def main(arguments: Sequence[str]) -> int:
    """Try out the mutants that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="a part of the names of those wanted; all by default")
    parser.add_argument("--stories", type=int, default=40, help="how many random stories, beside those found once (40)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once (one for each core)")
    parser.add_argument("--list", action="store_true", help="name the mutants and end")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve:
        return _serve()
    mutants = breed(given.words)
    if given.list:
        for mutant in mutants:
            print(f"{mutant.name} {mutant.key}" + (" (equivalent)" if mutant.key in EQUIVALENT else ""))
        return 0
    return run(mutants, given.stories, given.jobs, lambda line: print(line, flush=True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
