"""Wrap paragraphs of Markdown that have a line beyond 120 characters: `python -m tests.tools.reflow [FILE ...]`.

Only paragraphs and list items with such a line change. Code, tables, headings, comments and text between the markers of
a generated part stay unchanged. An inline code span or the target of a link is never broken, so a line that contains
nothing else may be longer.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
WIDTH = 120
_ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])(\s+)")
_FENCE = re.compile(r"^\s*(```+|~~~+)")
_MARKER = re.compile(r"^<!-- (\w+): (begin|end) -->$")
_ATOM = re.compile(r"(?:`+[^`]+`+|\]\([^)]*\)|[^\s`\]]|\]|`)+")
_STARTS_A_BLOCK = re.compile(r"^(?:[-+*]$|#{1,6}$|[>|<=:~]|\d+[.)]$|```)")
"""Words that would start a list, a heading, a table or the like at the start of a line."""
_NOT_PROSE = ("|", "#", "<", ">", "![")


def pages() -> list[Path]:
    """Return every Markdown page that people write or read."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def reflow(text: str) -> str:
    """Wrap long lines. A text without long lines is returned unchanged."""
    return "\n".join(
        line for block, is_prose in _blocks(text.split("\n")) for line in (_folded(block) if is_prose else block)
    )


def _blocks(lines: list[str]) -> Iterator[tuple[list[str], bool]]:
    """Split a text into paragraphs and list items, which are prose, and other lines."""
    block: list[str] = []
    fence: str | None = None
    is_made = False
    for line in lines:
        opening, marker = _FENCE.match(line), _MARKER.match(line)
        alone = bool(fence or opening or marker or is_made or not line.strip() or line.lstrip().startswith(_NOT_PROSE))
        if fence and line.strip() == fence:
            fence = None
        elif opening and not fence:
            fence = opening[1]
        if marker:
            is_made = marker[2] == "begin"
        if block and (alone or _ITEM.match(line)):
            yield block, True
            block = []
        if alone:
            yield [line], False
        else:
            block.append(line)
    if block:
        yield block, True


def _folded(block: list[str]) -> list[str]:
    if max(map(len, block)) <= WIDTH or any(
        line.endswith(("  ", "\\")) for line in block[:-1]
    ):  # or intentional breaks
        return block
    first = block[0]
    item = _ITEM.match(first)
    head = item[0] if item else first[: len(first) - len(first.lstrip())]
    lines, line = [], head
    for word in _words(" ".join([first[len(head) :], *(line.strip() for line in block[1:])])):
        if line == head or not line.strip():
            line += word
        elif len(line) + 1 + len(word) <= WIDTH:
            line += f" {word}"
        else:
            lines.append(line)
            line = " " * len(head) + word
    return [*lines, line]


def _words(text: str) -> list[str]:
    """Split a text into parts that must not be broken: words, code spans, targets of links, and a word with a following block marker."""
    words: list[str] = []
    for word in _ATOM.findall(text):
        if words and _STARTS_A_BLOCK.match(word):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


def main(arguments: list[str]) -> int:
    """Wrap the named files, or all pages."""
    for page in [Path(name) for name in arguments] or pages():
        text = page.read_text("utf-8")
        if (folded := reflow(text)) != text:
            page.write_text(folded, "utf-8")
            print(f"folded {page}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
