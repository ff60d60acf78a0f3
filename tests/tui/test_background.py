"""The terminal is asked for its background, where nobody chose a theme and the answer comes in time."""

from __future__ import annotations

import os
import select
import termios
import threading
from collections.abc import Iterator

import pytest

from armada.tui import background, theme
from tests.waiting import WITHIN_S

LAST = b"\x1b[?62;22c"


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A terminal's two ends: its own, and the one of the program."""
    ends = os.openpty()
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_said", None)


def answer(own: int, words: bytes) -> threading.Thread:
    """Answer as a terminal does, once it was asked for both."""

    def run() -> None:
        asked = b""
        while not asked.endswith(b"\x1b[c"):
            asked += os.read(own, 100)
        os.write(own, words)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("words", "light"),
    [
        (b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\" + LAST, True),
        (b"\x1b]11;rgb:1515/1616/1e1e\x07" + LAST, False),
        (b"jk\x1b]11;rgba:ff/fd/e0/ff\x07" + LAST, True),
        (b"\x1b]11;rgb:f/f/f\x07" + LAST, True),
        (LAST, None),
        (b"\x1b]11;rgb:ffff/ff\x07" + LAST, None),
        (b"x" * 4000 + LAST, None),
    ],
)
def test_the_answer_says_whether_the_background_is_light(
    terminal: tuple[int, int], words: bytes, light: bool | None
) -> None:
    own, end = terminal
    before = termios.tcgetattr(end)
    thread = answer(own, words)
    with background.asked(end, end, within_s=WITHIN_S):
        assert background.is_light() is None
    thread.join()
    assert background.is_light() is light
    assert termios.tcgetattr(end) == before
    assert not select.select([end], [], [], 0)[0], "nothing of it is left, which would look like keys"
    chosen = theme.choose({}, None, is_light=background.is_light())
    assert chosen == ("armada-light" if light else "armada-dark")


def test_a_terminal_that_answers_nothing_holds_up_nobody(terminal: tuple[int, int]) -> None:
    own, end = terminal
    before = termios.tcgetattr(end)
    with background.asked(end, end, within_s=0.01):
        os.write(own, b"\x1b]11;rgb:ff")  # half an answer
    assert background.is_light() is None
    assert termios.tcgetattr(end) == before
    assert not select.select([end], [], [], 0)[0]


def test_an_import_that_fails_leaves_the_terminal_as_it_was(terminal: tuple[int, int]) -> None:
    end = terminal[1]
    before = termios.tcgetattr(end)
    with pytest.raises(ImportError), background.asked(end, end):
        raise ImportError
    assert termios.tcgetattr(end) == before


@pytest.mark.parametrize(
    ("env", "kept", "asks"),
    [
        ({"TERM": "xterm-256color"}, None, True),
        ({"TERM": "xterm-256color"}, "nord", False),
        ({"TERM": "xterm-256color", "ARMADA_THEME": "nord"}, None, False),
        ({"TERM": "xterm-256color", "COLORFGBG": "0;15"}, None, False),
        ({"TERM": "xterm-256color", "SSH_TTY": "/dev/pts/1"}, None, True),
        ({"TERM": "dumb"}, None, False),
        ({}, None, False),
    ],
)
def test_it_is_asked_only_where_the_theme_depends_on_it(env: dict[str, str], kept: str | None, asks: bool) -> None:
    assert background.is_worth_asking(env, kept) is asks


@pytest.mark.parametrize("name", ["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"])
def test_over_ssh_an_answer_is_waited_for_longer(name: str) -> None:
    assert background.patience_s({"TERM": "xterm", name: "x"}) > background.patience_s({"TERM": "xterm"})


def test_a_choice_counts_more_than_what_the_terminal_says() -> None:
    assert theme.choose({"ARMADA_THEME": "nord"}, None, is_light=True) == "nord"
    assert theme.choose({}, "gruvbox", is_light=True) == "gruvbox"
