"""What import-linter's contracts in pyproject.toml cannot say about the house: one copy each of what every room needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

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
