"""List the tests that the changes in this checkout affect, or run them: touched.py [--run COMMAND ...].

Changes are those since the branch left `main`, and those not committed yet. A changed test runs itself. A changed
module runs the tests under tests/unit that import it or have its name. Tests beyond the budget are listed and not run.
The last duration of each is in .durations.jsonl; for a test that was never measured, the folder's estimate counts.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUDGET_CPU_S = 40.0
"""CPU seconds of all selected tests: with ten for lint and pytest's start, a minute on two cores."""
_UNMEASURED_S = {"unit": 0.5, "tui": 10.0, "agent": 10.0}
_ELSEWHERE_S = 30.0
_BASES = ("origin/main", "main", "origin/master", "master")
_SOURCES = {
    "armada": ROOT,
    "armada_agent": ROOT / "remote_payload",
    "armada_train": ROOT / "remote_payload",
    "tests": ROOT,
}


def main(arguments: list[str]) -> int:
    """Print the selected tests, or run them."""
    changed = list_changed()
    chosen, left = choose(changed)
    for test in left:
        print(f"not run, because it would take too long: {test}", file=sys.stderr)
    if arguments[:1] != ["--run"]:
        print("\n".join(chosen))
        return 0
    if not chosen:
        print(f"no test is touched by {len(changed)} changed files")
        return 0
    print(f"{len(chosen)} test files are touched by {len(changed)} changed files", flush=True)
    code = subprocess.run([*arguments[1:], *chosen], cwd=ROOT, check=False).returncode
    return 0 if code in (os.EX_OK, _NOTHING_SELECTED) else code


_NOTHING_SELECTED = 5


def list_changed() -> list[str]:
    """List the files that differ from the start of this branch, and the untracked files."""
    names = set(_git("diff", "--name-only", "HEAD")) | set(_git("ls-files", "--others", "--exclude-standard"))
    for base in _BASES:
        if began := _git("merge-base", "HEAD", base):
            names |= set(_git("diff", "--name-only", began[0], "HEAD"))
            break
    return sorted(name for name in names if (ROOT / name).is_file())


def choose(changed: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the tests to run within the budget, the cheapest first, and those left out."""
    changed = list(changed)
    modules = {module for name in changed if (module := _module(name))}
    imports = {_module(path): list_imports(path) for path in _all_sources()}
    reached = _reach(modules, imports)
    wanted = {name for name in changed if _is_test(name)}
    for path in _all_sources():
        name = path.relative_to(ROOT).as_posix()
        if (
            _is_test(name)
            and name.startswith("tests/unit/")
            and (_module(path) in reached or _has_name_of(path, changed))
        ):
            wanted.add(name)
    costs = _costs()
    chosen: list[str] = []
    left: list[str] = []
    spent_s = 0.0
    # Changed tests come first, then the cheapest.
    for name in sorted(wanted, key=lambda name: (name not in changed, _cost(name, costs))):
        cost_s = _cost(name, costs)
        if spent_s + cost_s > BUDGET_CPU_S and (chosen or cost_s > BUDGET_CPU_S):
            left.append(name)
            continue
        spent_s += cost_s
        chosen.append(name)
    return sorted(chosen), sorted(left)


def list_imports(path: Path) -> set[str]:
    """Return armada's modules that a file imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module} | {f"{node.module}.{name.name}" for name in node.names}
    return {name for name in found if name.partition(".")[0] in _SOURCES}


def _reach(modules: set[str], imports: dict[str, set[str]]) -> set[str]:
    """Return the modules and their direct importers: one step further, nearly all tests import nearly all modules."""
    return modules | {importer for importer, imported in imports.items() if imported & modules}


def _has_name_of(test: Path, changed: Iterable[str]) -> bool:
    """Return whether a test is `tests/unit/x/test_y.py` for a changed `armada/x/y.py`; without such a file, all of `tests/unit/x` count."""
    for name in changed:
        if name.startswith("armada/") and name.endswith(".py"):
            place = Path("tests/unit", *Path(name).parts[1:])
            mirror = ROOT / place.with_name(f"test_{place.name}")
            if test == mirror or (not mirror.exists() and test.parent == mirror.parent and len(place.parts) > 3):
                return True
    return False


def _module(path: str | Path) -> str:
    """Return a file's module name, such as `armada.sync.plan`; empty if it is not a module of armada."""
    full = ROOT / path
    for top, folder in _SOURCES.items():
        if full.suffix == ".py" and full.is_relative_to(folder / top):
            return ".".join(full.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
    return ""


def _all_sources() -> list[Path]:
    return [path for top, folder in _SOURCES.items() for path in sorted((folder / top).rglob("*.py"))]


def _is_test(name: str) -> bool:
    return name.startswith("tests/") and Path(name).name.startswith("test_") and name.endswith(".py")


def _costs() -> dict[str, float]:
    """Return the last measured duration of each test file."""
    last: dict[str, float] = {}
    source = ROOT / ".durations.jsonl"
    for line in source.read_text().splitlines() if source.exists() else ():
        taken = json.loads(line)
        last[taken["test"]] = max(taken["cpu_s"], taken["wall_s"] / 2)
    by_file: dict[str, float] = {}
    for test, cost_s in last.items():
        name = test.partition("::")[0]
        by_file[name] = by_file.get(name, 0.0) + cost_s
    return by_file


def _cost(name: str, costs: dict[str, float]) -> float:
    return costs.get(name, _UNMEASURED_S.get(name.split("/")[1], _ELSEWHERE_S))


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
