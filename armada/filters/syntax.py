"""Parse a filter: text to a tree whose nodes know their places in the text.

filter     = any
any        = all {"or" all}
all        = one {["and"] one}
one        = ("not" | "-" | "!") one | "(" any ")" | comparison | word
comparison = key operator value        `:` takes no blanks around it, `<` and `=` do
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from armada.filters.errors import FilterError

LONGEST = 4000
DEEPEST = 50

_KEY = re.compile(r"(?:(?i:min|max|last)\s*\(\s*[^()\s:<>=!\"]+\s*\))|[^\W\d][\w./\[\]-]*")
_FUNCTION = re.compile(r"((?:min|max|last)\()[^()\s:<>=!\"]*(\)?)", re.IGNORECASE)
_SIGN = re.compile(r"\s*(<=|>=|!=|==|<|>|=)\s*|(:)")
_PLAIN = re.compile(r"[^\s()\"]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_KEYWORDS = frozenset({"or", "and", "not"})


@dataclass(frozen=True, slots=True)
class Word:
    """A text that may stand anywhere in a run's names; `quoted` words are never flags."""

    text: str
    start: int
    end: int
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """`key operator value`; `value_start` is where the value begins in the text."""

    key: str
    operator: str
    value: str
    start: int
    key_end: int
    value_start: int
    end: int


@dataclass(frozen=True, slots=True)
class Not:
    inner: Node


@dataclass(frozen=True, slots=True)
class All:
    """True if each part is; with no part it is true of every run."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """True if one part is."""

    parts: tuple[Node, ...]


Node: TypeAlias = Word | Comparison | Not | All | Any


def parse(text: str) -> Node:
    """Parse a filter. An empty one is true of every run.

    Raises:
        FilterError: It is not a filter; the error points to the place.
    """
    if len(text) > LONGEST:
        raise FilterError(f"the filter has {len(text):,} characters; the most is {LONGEST:,}", text, LONGEST, LONGEST)
    parser = _Parser(text)
    found = parser.any(0)
    parser.skip()
    if parser.at < len(text):
        raise FilterError(
            "a `)` without its `(`", text, parser.at, parser.at + 1, hint='write text with signs in quotes: ")"'
        )
    return found


class _Parser:
    """Reads from `at`; every method leaves `at` behind what it has read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def any(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise FilterError(f"more than {DEEPEST} levels of brackets", self.text, self.at, self.at + 1)
        parts = [self.all(depth)]
        while self._keyword("or"):
            self._need_more("or")
            parts.append(self.all(depth))
        return parts[0] if len(parts) == 1 else Any(tuple(parts))

    def all(self, depth: int) -> Node:
        parts: list[Node] = []
        while True:
            self.skip()
            if self.at >= len(self.text) or self.text[self.at] == ")" or self._is_next("or"):
                break
            if self._keyword("and"):
                if not parts:
                    raise self._missing("before", "and")
                self._need_more("and")
                continue
            parts.append(self.one(depth))
        if not parts and self._is_next("or"):
            self.at += len("or")
            raise self._missing("before", "or")
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def one(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise FilterError(f"more than {DEEPEST} levels of brackets", self.text, self.at, self.at + 1)
        start = self.at
        if self._keyword("not"):
            self._need_more("not")
            self.skip()
            return Not(self.one(depth + 1))
        if self.text[start] in "-!" and start + 1 < len(self.text) and not self.text[start + 1].isspace():
            self.at += 1
            if self.text[self.at] == ")":
                raise FilterError(f"nothing follows `{self.text[start]}`", self.text, start, start + 1)
            return Not(self.one(depth + 1))
        if self.text[start] == "(":
            return self._bracketed(start, depth)
        return self._comparison() or self._word()

    def _refuse_half_comparison(self, start: int) -> None:
        """Fail if a comparison without its key or its sign begins here: as a text it would find nothing, silently."""
        if (function := _FUNCTION.match(self.text, start)) is not None:
            lacks = "is not compared with a value" if function[2] else "takes the name of one metric"
            hint = f"{function[0] if function[2] else 'min(eval_loss)'}<0.4"
            said = f"`{function[0] if function[2] else function[1]}` {lacks}"
            raise FilterError(said, self.text, start, function.end(), hint=hint)
        plain = _PLAIN.match(self.text, start)
        if plain is not None and re.search("[<>=]", plain[0]):
            raise FilterError(
                "a comparison begins with its key",
                self.text,
                start,
                plain.end(),
                hint='loss<0.4; write text with signs in quotes: "<"',
            )

    def _bracketed(self, start: int, depth: int) -> Node:
        self.at += 1
        found = self.any(depth + 1)
        self.skip()
        if self.at >= len(self.text):
            raise FilterError("a `(` without its `)`", self.text, start, start + 1)
        self.at += 1
        if found == All(()):
            raise FilterError("nothing stands in the brackets", self.text, start, self.at)
        return found

    def _comparison(self) -> Comparison | None:
        start = self.at
        key = _KEY.match(self.text, start)
        sign = _SIGN.match(self.text, key.end()) if key is not None else None
        if key is None or sign is None:
            return None
        self.at = sign.end()
        value_start, value, _ = self._text()
        if self.at == value_start:
            raise FilterError(f"a value is missing after `{key[0]}{sign[0].strip()}`", self.text, start, self.at)
        operator = sign[1] or sign[2]
        name = re.sub(r"\s", "", key[0])
        return Comparison(name, "=" if operator == "==" else operator, value, start, key.end(), value_start, self.at)

    def _word(self) -> Word:
        self._refuse_half_comparison(self.at)
        start, text, quoted = self._text()
        if self.at == start:
            raise FilterError("this cannot be understood", self.text, start, start + 1)
        if not text:
            raise FilterError("the text in quotes is empty", self.text, start, self.at)
        return Word(text, start, self.at, quoted)

    def _text(self) -> tuple[int, str, bool]:
        """Read a text, in quotes or up to the next blank or bracket."""
        start = self.at
        if start < len(self.text) and self.text[start] == '"':
            found = _QUOTED.match(self.text, start)
            if found is None:
                raise FilterError('a `"` without its second `"`', self.text, start, start + 1)
            self.at = found.end()
            return start, re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL), True
        plain = _PLAIN.match(self.text, start)
        self.at = plain.end() if plain is not None else start
        return start, plain[0] if plain is not None else "", False

    def _is_next(self, keyword: str) -> bool:
        """Whether a keyword is next: a whole word, in small letters or capitals."""
        end = self.at + len(keyword)
        if self.text[self.at : end].casefold() != keyword:
            return False
        return end == len(self.text) or self.text[end].isspace() or self.text[end] in "()"

    def _keyword(self, keyword: str) -> bool:
        self.skip()
        if not self._is_next(keyword):
            return False
        self.at += len(keyword)
        return True

    def _need_more(self, keyword: str) -> None:
        """Fail if nothing follows a keyword that was just read."""
        end = self.at
        self.skip()
        if self.at >= len(self.text) or self.text[self.at] == ")" or any(map(self._is_next, _KEYWORDS - {"not"})):
            self.at = end
            raise self._missing("follows", keyword)

    def _missing(self, where: str, keyword: str) -> FilterError:
        words = f"nothing follows `{keyword}`" if where == "follows" else f"nothing stands before `{keyword}`"
        return FilterError(
            words,
            self.text,
            self.at - len(keyword),
            self.at,
            hint=f'to find the word itself, write it in quotes: "{keyword}"',
        )
