from __future__ import annotations

from armada.cli.table import table


def test_columns_are_as_wide_as_a_terminal_shows_them() -> None:
    assert table(("A", "B"), [("日本", "x"), ("e\u0301", "y")]) == "A     B\n日本  x\ne\u0301     y"


def test_nothing_in_a_cell_is_obeyed_by_a_terminal() -> None:
    evil = "a\x1b]0;owned\x07\nforged  row\r\u202eb\x9b2J"
    said = table(("TASK", "WHAT"), [(evil, "x"), ("y", "grün ✓ …")])
    assert said.splitlines() == [
        "TASK                           WHAT",
        "a�]0;owned� forged  row �b�2J  x",
        "y                              grün ✓ …",
    ]


def test_a_long_path_is_shown_whole() -> None:
    path = "/größer" * 500
    assert path in table(("PATH",), [(path,)])
