"""What import-linter's contracts in pyproject.toml cannot say about the house: one copy each of what every room needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

import armada

ROOT = Path(armada.__file__).parent


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Each module of armada by its path below the package, parsed."""
    for path in sorted(ROOT.rglob("*.py")):
        if "bundled" not in path.relative_to(ROOT).parts:
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def calling(*names: str) -> set[str]:
    """The modules that call an attribute of one of these names, such as `fcntl.flock`."""
    return {
        path
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func) in names
    }


def test_only_one_module_locks_files() -> None:
    assert calling("fcntl.flock", "fcntl.lockf") == {"foundation/locks.py"}


def test_only_one_module_forces_files_out_to_the_disk() -> None:
    assert calling("os.fsync") == {"foundation/atomic_write.py"}


_SQL = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM|REPLACE INTO|CREATE TABLE|WITH \w+ AS|PRAGMA) ")


def test_only_the_store_speaks_sql() -> None:
    found = {
        f"{path}:{node.lineno}"
        for path, tree in modules()
        if not path.startswith("store/")
        for node in ast.walk(tree)
        if (isinstance(node, ast.Constant) and isinstance(node.value, str) and _SQL.match(node.value))
        or (isinstance(node, ast.Attribute) and node.attr in ("execute", "executemany", "executescript"))
        or (isinstance(node, ast.Attribute) and ast.unparse(node) == "sqlite3.connect")
    }
    assert found == set()


PACKAGES = ("armada", "armada_agent", "armada_train")


@pytest.fixture(scope="module")
def imports() -> dict[str, frozenset[str]]:
    """What each module imports when it runs, inside functions too; what only type checkers import is left out."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    return {name: frozenset(graph.find_modules_directly_imported_by(name)) for name in graph.modules}


def find_circle(imports: dict[str, frozenset[str]]) -> list[str]:
    """Some circle of importers, the first one again at the end; empty where there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])[::-1]
    return []


def of_rooms(imports: dict[str, frozenset[str]], depth: int) -> dict[str, frozenset[str]]:
    """The same between folders: names are cut to so many parts."""
    rooms: dict[str, set[str]] = {}
    for name, imported in imports.items():
        room = ".".join(name.split(".")[:depth])
        rooms.setdefault(room, set()).update(".".join(each.split(".")[:depth]) for each in imported)
    return {room: frozenset(imported - {room}) for room, imported in rooms.items()}


def test_no_modules_import_each_other_in_a_circle(imports: dict[str, frozenset[str]]) -> None:
    assert find_circle(imports) == []


@pytest.mark.parametrize(("package", "depth"), [("armada", 2), ("armada", 3), ("armada_agent", 2), ("armada_train", 2)])
def test_no_rooms_import_each_other_in_a_circle(imports: dict[str, frozenset[str]], package: str, depth: int) -> None:
    of_package = {name: imported for name, imported in imports.items() if name.partition(".")[0] == package}
    assert len(of_package) > 20
    assert find_circle(of_rooms(of_package, depth)) == []


def test_a_circle_is_found() -> None:
    imports = {"a.b.c": frozenset({"a.d.e"}), "a.d.f": frozenset({"a.b.g"}), "a.d.e": frozenset[str]()}
    assert find_circle(imports) == []
    assert set(find_circle(of_rooms(imports, 2))) == {"a.b", "a.d"}
