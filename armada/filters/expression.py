"""Compile a filter into one function over runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TypeAlias

from armada.filters.errors import FilterError
from armada.filters.filter import Filter, Test
from armada.filters.keys import CHOICES, FLAGS, WRITTEN, Key, Subject, UnknownKey, Value, Vocabulary, resolve
from armada.filters.syntax import All, Any, Comparison, Node, Not, Word, parse
from armada.filters.values import EXAMPLES, Kind, flag_of, moment_of, number_of, pattern_of

WordTest: TypeAlias = Callable[[str, Subject], bool]
_ORDER: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b or math.isclose(a, b, rel_tol=1e-9),
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b or math.isclose(a, b, rel_tol=1e-9),
    "=": lambda a, b: math.isclose(a, b, rel_tol=1e-9),
    "!=": lambda a, b: not math.isnan(a) and not math.isclose(a, b, rel_tol=1e-9),
}


def compile_filter(text: str, vocabulary: Callable[[], Vocabulary], *, word_test: WordTest | None = None) -> Filter:
    """Compile a filter.

    Args:
        text: Such as `loss<0.4 tag:arc -host:a100*`.
        vocabulary: Returns the settings and metrics of runs; called only if the filter may name one.
        word_test: Decides about bare words that are not negated; by default a literal part of the run's names.

    Raises:
        FilterError: It is not a filter, names an unknown key, or compares a key with what it cannot be.
    """
    compiler = _Compiler(text, vocabulary, word_test or literal)
    test = compiler.test(parse(text))
    return Filter(text, test, tuple(compiler.keys.values()), compiler.archive)


def literal(word: str, subject: Subject) -> bool:
    """Whether a word is a part of the run's names, or matches one of them as a pattern."""
    run = subject.run
    found = pattern_of(word, whole=False).search
    texts = (run.name, run.run_id, run.host, run.state, run.task, run.reason, run.group, *run.tags)
    return any(found(text) is not None for text in texts if text)


@dataclass(slots=True)
class _Compiler:
    text: str
    vocabulary: Callable[[], Vocabulary]
    word_test: WordTest
    keys: dict[str, Key] = field(default_factory=dict)
    archive: bool = False

    def test(self, node: Node, *, negated: bool = False) -> Test:
        match node:
            case Word():
                return self._word(node, negated=negated)
            case Comparison():
                return self._comparison(node)
            case Not():
                inner = self.test(node.inner, negated=not negated)
                return lambda subject: not inner(subject)
            case All():
                every = [self.test(part, negated=negated) for part in node.parts]
                return lambda subject: all(test(subject) for test in every)
            case Any():
                some = [self.test(part, negated=negated) for part in node.parts]
                return lambda subject: any(test(subject) for test in some)

    def _word(self, word: Word, *, negated: bool) -> Test:
        text = word.text
        if not word.quoted and text.casefold() in FLAGS:
            read = self._known(text, word.start, word.end).read
            return lambda subject: bool(read(subject))
        decide = literal if negated or word.quoted else self.word_test
        return lambda subject: decide(text, subject)

    def _known(self, name: str, start: int, end: int) -> Key:
        try:
            key = resolve(name, self.vocabulary)
        except UnknownKey as error:
            raise FilterError(error.sentence, self.text, start, end, hint=error.hint, is_unknown_key=True) from None
        self.keys[key.name] = key
        self.archive = self.archive or key.name == "archived"
        return key

    def _comparison(self, node: Comparison) -> Test:
        key = self._known(node.key, node.start, node.key_end)
        self.archive = self.archive or (key.name == "is" and "archived".startswith(node.value.casefold()))
        return self._of_kind(key.kind, key, node)

    def _of_kind(self, kind: Kind, key: Key, node: Comparison) -> Test:
        if kind in ("text", "word"):
            return self._text_test(key, node)
        if kind == "any":
            return self._any_test(key, node)
        if kind == "flag":
            return self._flag_test(key, node)
        if kind == "moment":
            return self._moment_test(key, node)
        wanted = number_of(node.value, kind)
        if wanted is None:
            raise self._wrong_value(node, kind)
        order = _ORDER["=" if node.operator == ":" else node.operator]
        read = key.read
        return lambda subject: _any_number(read(subject), lambda value: order(value, wanted))

    def _text_test(self, key: Key, node: Comparison) -> Test:
        if node.operator not in (":", "=", "!="):
            raise FilterError(
                f"`{node.key}` is text, which has no order",
                self.text,
                node.start,
                node.end,
                hint=f"{node.key}:{node.value}",
            )
        found = pattern_of(node.value, whole=node.operator != ":" or key.kind == "word").search
        if key.name in CHOICES and not any(map(found, CHOICES[key.name])):
            raise self._no_choice(node, CHOICES[key.name])
        if key.name == "tag" and "," in node.value:
            raise self._two_tags(node)
        read = key.read
        if node.operator == "!=" and key.name in WRITTEN:
            return lambda subject: not any(map(found, _texts(read(subject))))
        if node.operator == "!=":
            return lambda subject: bool(texts := _texts(read(subject))) and not any(map(found, texts))
        return lambda subject: any(map(found, _texts(read(subject))))

    def _no_choice(self, node: Comparison, choices: Sequence[str]) -> FilterError:
        near = get_close_matches(node.value.casefold(), choices, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        return FilterError(
            f"`{node.key}` is never {node.value!r}",
            self.text,
            node.value_start,
            node.end,
            hint=f"{meant}known: {', '.join(choices)}",
        )

    def _two_tags(self, node: Comparison) -> FilterError:
        each = [f"{node.key}{node.operator}{tag.strip()}" for tag in node.value.split(",") if tag.strip()]
        hint = f"{' '.join(each)}, or with `or` between them" if len(each) > 1 else None
        return FilterError("a tag has no comma", self.text, node.value_start, node.end, hint=hint)

    def _flag_test(self, key: Key, node: Comparison) -> Test:
        wanted = flag_of(node.value)
        if wanted is None or node.operator not in (":", "=", "!="):
            raise self._wrong_value(node, "flag")
        wanted = wanted if node.operator != "!=" else not wanted
        read = key.read
        return lambda subject: bool(read(subject)) is wanted

    def _moment_test(self, key: Key, node: Comparison) -> Test:
        if moment_of(node.value, 0.0) is None or node.operator not in ("<", "<=", ">", ">="):
            raise self._wrong_value(node, "moment")
        order, read, text = _ORDER[node.operator], key.read, node.value

        def test(subject: Subject) -> bool:
            wanted = moment_of(text, subject.now)
            return wanted is not None and _any_number(read(subject), lambda value: order(value, wanted))

        return test

    def _any_test(self, key: Key, node: Comparison) -> Test:
        """Compare a setting, which may be a number in one run and text in another."""
        kinds = [kind for kind in ("number", "duration", "size") if number_of(node.value, kind) is not None]
        kind = kinds[0] if kinds else "number"
        flag = flag_of(node.value)
        wanted = number_of(node.value, kind) if kinds else float(flag) if flag is not None else None
        read = key.read

        def number(value: object) -> float | None:
            """A number; also one with a unit in a text, such as `resources.time_limit: 4h`."""
            return value if isinstance(value, int | float) else number_of(str(value), kind)

        if node.operator in ("<", "<=", ">", ">="):
            if wanted is None:
                raise self._wrong_value(node, "number")
            order, limit = _ORDER[node.operator], wanted
            return lambda subject: any(
                (found := number(value)) is not None and order(found, limit) for value in _several(read(subject))
            )
        pattern = pattern_of(node.value, whole=node.operator != ":")

        def holds(value: object) -> bool:
            if wanted is not None and (found := number(value)) is not None:
                return math.isclose(found, wanted, rel_tol=1e-9)
            return isinstance(value, str) and pattern.search(value) is not None

        if node.operator == "!=":
            return lambda subject: bool(values := _several(read(subject))) and not any(map(holds, values))
        return lambda subject: any(map(holds, _several(read(subject))))

    def _wrong_value(self, node: Comparison, kind: str) -> FilterError:
        if kind == "flag":
            sentence = f"`{node.key}` is yes or no"
        elif kind == "moment" and node.operator in (":", "=", "!="):
            sentence = f"`{node.key}` is a time: compare it with < or >"
        else:
            sentence = f"{node.value!r} is not a {'time' if kind == 'moment' else kind} for `{node.key}`"
        return FilterError(sentence, self.text, node.value_start, node.end, hint=f"write {EXAMPLES[kind]}")


def _several(value: Value) -> tuple[object, ...]:
    return () if value is None else value if isinstance(value, tuple) else (value,)


def _texts(value: Value) -> list[str]:
    return [str(each) for each in _several(value) if each is not None and each != ""]


def _any_number(value: Value, holds: Callable[[float], bool]) -> bool:
    """Whether a number, or one of several, passes. What is missing, is text or is NaN never does."""
    if isinstance(value, int | float):
        return holds(value)  # a NaN is less, more and equal to nothing
    return any(isinstance(each, int | float) and holds(each) for each in _several(value))
