"""A file is read in one sitting, a function on one screen: the limits that docs/contributing/adding.md names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE_LINES = 500
FUNCTION_LINES = 80


def sources(*folders: str) -> list[Path]:
    listed = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert listed, f"no Python file below {folders}"
    return listed


def longer_functions(path: Path, limit: int) -> list[str]:
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [
        f"{path.relative_to(ROOT)}:{each.lineno} {each.name}: {lines} lines"
        for each in functions
        if (lines := (each.end_lineno or each.lineno) - each.lineno + 1) > limit
    ]


@pytest.mark.parametrize("folder", ["armada", "remote_payload", "tests", "benchmarks"])
def test_no_file_has_more_than_500_lines(folder: str) -> None:
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in sources(folder)}
    assert [f"{path.relative_to(ROOT)}: {count}" for path, count in lines.items() if count > FILE_LINES] == []


@pytest.mark.parametrize("folder", ["armada", "remote_payload"])
def test_no_function_has_more_than_80_lines(folder: str) -> None:
    assert [long for path in sources(folder) for long in longer_functions(path, FUNCTION_LINES)] == []
