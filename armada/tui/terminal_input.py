"""Nothing that a terminal sends ends the dashboard: bytes that are no UTF-8, keys and places that no terminal has.

Textual's driver stops at them with an error, and what was still to be read then goes to the shell, as if typed there.
"""

from __future__ import annotations

import codecs
import re
import sys
from functools import partial
from typing import TYPE_CHECKING

from textual import events
from textual._xterm_parser import XTermParser
from textual.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from _typeshed import ReadableBuffer
    from textual.driver import Driver
    from textual.message import Message

_MORE = re.compile(r"(?<=\d):[\d:]*")
"""What kitty's protocol adds to a key's code and its modifiers: other keys of the same place, and what happened to it."""
_RELEASED = re.compile(r"\x1b\[[\d:]*;\d*:3(?:;[\d:]*)?[u~ABCDEFHPQRS]")


class Parser(XTermParser):
    """Textual's parser, but what it cannot understand is no key."""

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        try:
            if ":" in sequence and sequence.startswith("\x1b["):
                if _RELEASED.fullmatch(sequence):
                    raise ValueError(sequence)
                code, *others = sequence.split(";", 2)
                sequence = ";".join([_MORE.sub("", code), *(_MORE.sub("", each) for each in others[:1]), *others[1:]])
            found = list(super()._sequence_to_key_events(sequence, alt))
        except (ValueError, ArithmeticError):
            found = [events.Key(Keys.Ignore, sequence)]
        yield from found

    def parse_mouse_code(self, code: str) -> Message | None:
        try:
            return super().parse_mouse_code(code)
        except (ValueError, ArithmeticError):
            return None


_ANSWER = re.compile(r"\x1b\]1[01];[0-9A-Za-z:/#]*(?:\x07|\x1b\\)|\x1b\[\?[0-9;]*c")
"""A terminal's answer to a question about its colours, or about what it is."""
_BEGUN = re.compile(r"\x1b\]1(?:[01](?:;[0-9A-Za-z:/#]{0,40}\x1b?)?)?\Z|\x1b\[\?[0-9;]{0,40}\Z")


class _Keys(codecs.IncrementalDecoder):
    """Decodes what comes from a terminal, without late answers to questions, which would be taken for keys.

    What is no text becomes `�`.
    """

    def __init__(self, encoding: str) -> None:
        super().__init__("replace")
        self._inner = codecs.getincrementaldecoder(encoding)("replace")
        self._held = ""

    def decode(self, input: ReadableBuffer, final: bool = False) -> str:  # noqa: A002  # the base's name
        text = _ANSWER.sub("", self._held + self._inner.decode(input, final))
        begun = None if final else _BEGUN.search(text)
        self._held = text[begun.start() :] if begun is not None else ""
        return text[: len(text) - len(self._held)]


def _decoder(encoding: str) -> Callable[[], codecs.IncrementalDecoder]:
    return partial(_Keys, encoding)


def forgive(driver: type[Driver]) -> None:
    """Let a driver of Textual read whatever comes. It looks these two up by their names when it begins to read."""
    for module in {sys.modules[each.__module__] for each in driver.__mro__}:
        for name, mine in (("getincrementaldecoder", _decoder), ("XTermParser", Parser)):
            if hasattr(module, name):
                setattr(module, name, mine)
