"""Tests for what a terminal can send: it never ends the dashboard."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from textual import events
from textual.drivers import linux_driver, web_driver
from textual.message import Message

from armada.tui.terminal_input import Parser, forgive
from armada.tui.web.session import PipeDriver

HOSTILE = (
    "\x1b[97:98;5;999999999999u",
    "\x1b[1114112;5u",
    "\x1b[27;5;99999999~",
    "\x1b[97;;1114113u",
    "\x1b[99999999999999999999;5u",
    "\x1b[<99999999999999999999;1;1M",
    "\x1b[<0;-5;-5M",
    "\x1b[M\x01\x01\x01",
    "\x1b[48;0;0;0;0t\x1b[<0;3;3M",
)


def keys(text: str) -> list[str]:
    return [event.key for event in fed(Parser(), text) if isinstance(event, events.Key)]


def fed(parser: Parser, text: str) -> list[Message]:
    return list(parser.feed(text))


@pytest.mark.parametrize("sequence", HOSTILE)
def test_keys_after_what_is_none_arrive(sequence: str) -> None:
    assert keys(f"{sequence}q")[-1] == "q"


def test_random_sequences_stop_nothing() -> None:
    chance = random.Random(5)
    parser = Parser()
    for _ in range(3000):
        inner = "".join(chance.choices("0123456789;:<>?-", k=chance.randrange(0, 24)))
        fed(parser, f"\x1b[{inner}{chance.choice('uABCDEFHPQRStmMcny~$')}")
    found = fed(parser, " \x1b[201~ q")
    assert [event.key for event in found if isinstance(event, events.Key)][-1] == "q"


@pytest.mark.parametrize(
    ("sequence", "key"),
    [("\x1b[97;5u", "ctrl+a"), ("\x1b[97:65;5u", "ctrl+a"), ("\x1b[97;5:1u", "ctrl+a"), ("\x1b[1;5A", "ctrl+up")],
)
def test_keys_of_kittys_protocol_are_what_they_are_without_their_alternates(sequence: str, key: str) -> None:
    assert keys(sequence) == [key]


def test_a_released_key_is_not_pressed_again() -> None:
    assert keys("\x1b[97;5:3u") == []


def test_bytes_that_are_no_text_are_shown_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = linux_driver
    for name in ("getincrementaldecoder", "XTermParser"):
        monkeypatch.setattr(module, name, getattr(module, name))  # is put back after the test
    forgive(linux_driver.LinuxDriver)
    decoder = module.getincrementaldecoder("utf-8")()
    assert decoder.decode(b"x\xe9t\xff" + "é".encode()[:1]) == "x\ufffdt\ufffd"
    assert decoder.decode("é".encode()[1:]) == "é"
    assert module.XTermParser is Parser


@pytest.fixture
def decode(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], str]:
    module: Any = linux_driver
    for name in ("getincrementaldecoder", "XTermParser"):
        monkeypatch.setattr(module, name, getattr(module, name))  # is put back after the test
    forgive(linux_driver.LinuxDriver)
    decoder = module.getincrementaldecoder("utf-8")()
    return lambda data: str(decoder.decode(data))


COLOUR, KIND = b"\x1b]11;rgb:1515/1616/1e1e\x1b\\", b"\x1b[?62;22c"


@pytest.mark.parametrize("at", range(3, len(COLOUR + KIND)))
def test_a_late_answer_of_the_terminal_is_not_typed(decode: Callable[[bytes], str], at: int) -> None:
    came = COLOUR + KIND
    pieces = [b"a" + came[:at], came[at:] + b"b"]
    if at in (len(COLOUR) + 1, len(COLOUR) + 2):
        pytest.skip("so short a beginning may be a key of its own")
    assert "".join(map(decode, pieces)) == "ab"


def test_keys_that_begin_as_an_answer_does_come_at_once(decode: Callable[[bytes], str]) -> None:
    for each in ("\x1b", "\x1b]", "\x1b[A", "\x1b[?2026;2$y", "\x1b]1x", "\x1b]11;rgb:1515 and what a person pastes"):
        assert decode(each.encode()) == each
    assert decode(b"\x1b]11;rgb:" + b"f" * 60) == "\x1b]11;rgb:" + "f" * 60
    assert decode(b"\x1b]11;rgb:15") + decode(b" x") == "\x1b]11;rgb:15 x"


def test_a_browser_s_dashboard_reads_as_forgivingly(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = web_driver
    for name in ("getincrementaldecoder", "XTermParser"):
        monkeypatch.setattr(module, name, getattr(module, name))  # is put back after the test
    forgive(PipeDriver)
    assert module.XTermParser is Parser
