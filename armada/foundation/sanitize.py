"""Sanitize text from a host: characters that a terminal, a log or a screen would obey are replaced before it is stored or shown."""

from __future__ import annotations

import re

# C0 except tab and newline, DEL, C1, bidi controls, and lone surrogates (they cannot be encoded). Terminals obey the
# first three; the fourth deceive readers. Sources: OSC 52 clipboard writes; CVE-2021-42574.
_LINE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_WORD = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def sanitize_text(text: str, limit: int = 65_536) -> str:
    """Replace every control character except newline and tab by `�`, and truncate the text to `limit` characters."""
    return _LINE.sub("�", text[:limit].replace("\r\n", "\n").replace("\r", "\n"))


def sanitize_line(text: object, limit: int = 500) -> str:
    """Sanitize as `sanitize_text` does, and replace newlines and tabs by spaces."""
    line = str(text)[: limit + 1]
    line = _WORD.sub(lambda m: " " if m[0] in "\n\r\t" else "�", line)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def without_controls(text: str) -> str:
    """Drop what a terminal obeys and what deceives readers; a tab becomes a space."""
    return _WORD.sub("", text.replace("\t", " "))


# Colours, cursor movements, erasing: what programs print for terminals. Titles and clipboard writes (OSC) are excluded.
SEQUENCE = re.compile(r"\x1b\[([0-9:;<=>?]{0,40}[ -/]?)([@-~])")
"""Its parameters, and the letter that says what it does."""
_BEGUN = re.compile(r"\x1b(?:\[[0-9:;<=>?]{0,40})?\Z")


def last_state(line: str) -> str:
    """Return what a terminal finally shows of a line: the text after its last carriage return, without colours.

    A progress bar overwrites its line at each step, so the line's first state is not its present one.
    """
    return SEQUENCE.sub("", coloured_state(line))


def coloured_state(line: str) -> str:
    """Return the text after a line's last carriage return, with its control sequences. It is not sanitized."""
    return line.rstrip("\r").rpartition("\r")[2]


def last_states(text: str) -> str:
    """Apply `last_state` to each line of a text. The result is not sanitized."""
    return "\n".join(last_state(line) for line in text.split("\n"))


class OutputText:
    """Converts a job's output piece by piece: sanitized, and with the newest state of lines that are overwritten.

    Args:
        rewrite: Written before a newer state of the line that was written last.
        colours: Keep the job's colours; each line then ends with a reset.
    """

    def __init__(self, rewrite: str = "\r", *, colours: bool = False) -> None:
        self._rewrite = rewrite
        self._inert = _coloured_states if colours else _inert_states
        self._held = ""
        """The end of the last piece, whose meaning depends on the next one: a carriage return, or half a colour sequence."""
        self._begun = False

    def take(self, text: str) -> str:
        """Return what can be shown of the next piece."""
        first, newline, rest = (self._held + text).partition("\n")
        whole, _, last = rest.rpartition("\n") if newline else ("", "", first)
        shown = ""
        if newline:
            shown = self._line(first) + "\n" + (self._inert(whole) + "\n" if whole or "\n" in rest else "")
            self._begun = False
        end = len(last.rstrip("\r"))
        if end == len(last) and (begun := _BEGUN.search(last)) is not None:
            end = begun.start()
        last, self._held = last[:end], last[end:]
        if last:
            shown += self._line(last)
            self._begun = True
        return shown

    def _line(self, line: str) -> str:
        over = self._begun and "\r" in line.rstrip("\r")
        return (self._rewrite if over else "") + self._inert(line)


def _inert_states(text: str) -> str:
    return sanitize_text(last_states(text), len(text))


def _coloured_states(text: str) -> str:
    return "\n".join(_coloured(coloured_state(line)) for line in text.split("\n"))


def _coloured(line: str) -> str:
    """Sanitize a line, but keep its colours (SGR)."""
    parts, at = [], 0
    for sequence in SEQUENCE.finditer(line):
        parts.append(sanitize_text(line[at : sequence.start()], len(line)))
        parts += [sequence[0]] if sequence[2] == "m" and not sequence[1].strip("0123456789;:") else []
        at = sequence.end()
    reset = ["\x1b[0m"] if any(part.startswith("\x1b") for part in parts) else []
    return "".join([*parts, sanitize_text(line[at:], len(line)), *reset])
