from __future__ import annotations

import io

import pytest

from armada.cli.table import fit, table, width


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


class Stream(io.StringIO):
    """A stream with an encoding, that says whether it is a terminal."""

    def __init__(self, encoding: str, *, is_terminal: bool) -> None:
        super().__init__()
        self._encoding, self._is_terminal = encoding, is_terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize(
    ("encoding", "is_terminal", "first"),
    [("utf-8", True, "\u2068שלום דור\u2069"), ("utf-8", False, "שלום דור"), ("ascii", True, "שלום דור")],
    ids=["terminal", "pipe", "ascii"],
)
def test_a_name_from_right_to_left_keeps_to_its_cell_on_a_terminal_and_is_plain_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, encoding: str, is_terminal: bool, first: str
) -> None:
    monkeypatch.setattr("sys.stdout", Stream(encoding, is_terminal=is_terminal))
    shown = ["RUN         HOST", f"{first} 3  box", "plain       box"]
    assert table(("RUN", "HOST"), [("שלום דור 3", "box"), ("plain", "box")]).splitlines() == shown


HEADER = ("RUN", "LOSS", "TOK/S", "SEEN", "LABELS")
ROWS = [("tale-abc234", "0.4316", "12,345", "2 s ago", "★ @a-long-group #tag-one #tag-two")]


@pytest.mark.parametrize(
    ("room", "header", "labels"),
    [
        (120, HEADER, "★ @a-long-group #tag-one #tag-two"),
        (60, HEADER, "★ @a-long-group #tag-…"),
        (44, ("RUN", "LOSS", "SEEN", "LABELS"), "★ @a-long-gro…"),
        (36, ("RUN", "SEEN", "LABELS"), "★ @a-long-gro…"),
    ],
)
def test_a_table_is_cut_to_the_terminal(room: int, header: tuple[str, ...], labels: str) -> None:
    kept, rows = fit(HEADER, ROWS, room, cut="LABELS", least=12, drop=("TOK/S", "LOSS"))
    assert kept == header
    assert rows[0][-1] == labels
    assert len(kept) == len(rows[0])
    assert max(map(width, table(kept, rows).splitlines())) <= room


def test_a_table_that_fits_in_no_way_keeps_its_columns_and_is_cut() -> None:
    rows = [("a-run-with-a-name-of-more-than-thirty-cells", *ROWS[0][1:])]
    kept, cut = fit(HEADER, rows, 40, cut="LABELS", least=12, drop=("TOK/S", "LOSS", "SEEN"))
    assert (kept, cut[0][:-1], cut[0][-1]) == (HEADER, rows[0][:-1], "★ @a-long-g…")
    assert fit(("RUN",), [rows[0][:1]], 40, cut="LABELS", least=12, drop=()) == (("RUN",), [rows[0][:1]])
