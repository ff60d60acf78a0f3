"""The keys of filters and columns: facts of a run, settings of its experiment, and its metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from armada.costs.report import cost_at_end
from armada.store.queries.uses import Past, ran_until, spans_of
from armada.verdicts.states import STATES

if TYPE_CHECKING:
    from armada.costs.amounts import Amounts
    from armada.costs.tariff import Tariff
    from armada.filters.trouble import Trouble
    from armada.filters.values import Kind
    from armada.store.runs import Run

Scalar: TypeAlias = str | int | float
Value: TypeAlias = Scalar | tuple[Scalar, ...] | None
"""What a key holds for one run: None if it is not known, a tuple if there may be several."""


class Subject(NamedTuple):
    """A run, with what a filter or a column may ask about it.

    Attributes:
        run: As the store has it.
        now: Unix time.
        tariff: What its host costs; None if that is not known.
        trouble: Why it needs the user; None if it does not.
        facts: Settings and metrics by `Key.name`, as far as they were asked for.
        past: Its earlier attempts, for what it cost.
        at_home: How many of its checkpoints are at home; None where the run was read with them.
    """

    run: Run
    now: float
    tariff: Tariff | None = None
    trouble: Trouble | None = None
    facts: Mapping[str, Value] = MappingProxyType({})
    past: Past = Past()
    at_home: int | None = None

    @property
    def lasted_s(self) -> float | None:
        """Seconds that it has been on its host; None before that."""
        run = self.run
        return None if run.started_at is None else max(0.0, ran_until(run, self.now) - run.started_at)

    @property
    def costs(self) -> Amounts | None:
        """What it cost, by currency; None if that is not known, or it has not begun."""
        run = self.run
        if self.tariff is None or run.started_at is None:
            return None
        return self.tariff.cost_of_run(len(run.gpus), spans_of(run, self.past, self.now))

    @property
    def cost(self) -> float | None:
        """The same where it is in one currency."""
        return _single(self.costs)

    @property
    def forecast(self) -> Amounts | None:
        """What it will have cost at its last step, by currency; None if that is not known, or it has ended."""
        spent = self.costs if not self.run.ended else None
        return None if spent is None else cost_at_end(spent, self.rate, self.run.eta_s)

    @property
    def rate(self) -> tuple[float, str] | None:
        """What it costs an hour, and the currency."""
        return self.tariff.run_rate(len(self.run.gpus), self.now) if self.tariff is not None else None


def _single(found: Amounts | None) -> float | None:
    return found.single[0] if found is not None and found.single is not None else None


Source = Literal["run", "setting", "metric"]


class Fact(NamedTuple):
    """The part of a key that the store reads; unlike a key it can be compared with another."""

    name: str
    source: Source
    series: str
    of_series: str


class Key(NamedTuple):
    """Something that a run has.

    Attributes:
        name: As resolved: `state`, `train.learning_rate`, `min(eval_loss)`.
        kind: How its values are compared and shown.
        read: Reads the value.
        source: Where it comes from.
        series: Of a metric, its name.
        of_series: Of a metric, which of its values.
    """

    name: str
    kind: Kind
    read: Callable[[Subject], Value]
    source: Source = "run"
    series: str = ""
    of_series: str = "last"

    @property
    def fact(self) -> Fact:
        return Fact(self.name, self.source, self.series, self.of_series)


def _since(moment: float | None, now: float) -> float | None:
    return None if moment is None else max(0.0, now - moment)


_CONDITIONS: dict[str, Callable[[Subject], bool]] = {
    "trouble": lambda s: s.trouble is not None,
    "ended": lambda s: s.run.ended,
    "active": lambda s: not s.run.ended,
    "starred": lambda s: s.run.starred_at is not None,
    "archived": lambda s: s.run.is_archived,
    "unreachable": lambda s: s.run.unreachable_since is not None and not s.run.ended,
}


def _states(subject: Subject) -> tuple[str, ...]:
    return tuple(name for name, holds in _CONDITIONS.items() if holds(subject))


_RUN: dict[str, tuple[Kind, Callable[[Subject], Value]]] = {
    "id": ("text", lambda s: s.run.run_id),
    "name": ("text", lambda s: s.run.name),
    "host": ("text", lambda s: s.run.host),
    "state": ("text", lambda s: s.run.state),
    "reason": ("text", lambda s: s.run.reason),
    "message": ("text", lambda s: s.run.message),
    "task": ("text", lambda s: s.run.task),
    "experiment": ("text", lambda s: s.run.experiment),
    "phase": ("text", lambda s: s.run.phase),
    "note": ("text", lambda s: s.run.note),
    "group": ("word", lambda s: s.run.group),
    "follows": ("text", lambda s: s.run.follows),
    "tag": ("word", lambda s: s.run.tags),
    "is": ("text", _states),
    "starred": ("flag", lambda s: s.run.starred_at is not None),
    "archived": ("flag", lambda s: s.run.is_archived),
    "ended": ("flag", lambda s: s.run.ended),
    "active": ("flag", lambda s: not s.run.ended),
    "trouble": ("flag", lambda s: s.trouble is not None),
    "loss": ("number", lambda s: s.run.loss),
    "step": ("number", lambda s: s.run.step),
    "steps": ("number", lambda s: s.run.total_steps),
    "progress": ("number", lambda s: s.run.step / s.run.total_steps if s.run.step and s.run.total_steps else None),
    "speed": ("number", lambda s: s.run.tokens_per_s),
    "gpus": ("number", lambda s: len(s.run.gpus) if s.run.started_at is not None else None),
    "attempt": ("number", lambda s: s.run.attempt),
    "exit_code": ("number", lambda s: s.run.exit_code),
    "checkpoints": ("number", lambda s: s.run.checkpoints_home if s.at_home is None else s.at_home),
    "cost": ("number", lambda s: s.cost),
    "forecast": ("number", lambda s: _single(s.forecast)),
    "price": ("number", lambda s: s.rate[0] if s.rate is not None else None),
    "age": ("duration", lambda s: _since(s.run.created_at, s.now)),
    "lasted": ("duration", lambda s: s.lasted_s),
    "eta": ("duration", lambda s: s.run.eta_s),
    "seen": ("duration", lambda s: _since(s.run.observed_at, s.now)),
    "log": ("size", lambda s: s.run.log_size_bytes),
    "created": ("moment", lambda s: s.run.created_at),
    "started": ("moment", lambda s: s.run.started_at),
    "finished": ("moment", lambda s: s.run.ended_at),
}
RUN_KEYS = {name: Key(name, kind, read) for name, (kind, read) in _RUN.items()}
"""The facts of a run, by name."""

FLAGS = frozenset(name for name, key in RUN_KEYS.items() if key.kind == "flag")
"""Keys that are also conditions of their own: `starred`."""

CHOICES = {"is": tuple(_CONDITIONS), "state": STATES}
"""Keys that can have these values alone."""

WRITTEN = frozenset({"tag", "group", "note"})
"""Keys that the user alone sets: a run that has none is known to have none."""

PRICED = frozenset({"cost", "forecast", "price"})
TIMED = frozenset({"age", "lasted", "eta", "seen", "cost", "forecast"})
"""Keys whose values change while the store does not."""

ALIASES = {
    "run": "id", "run_id": "id", "tags": "tag", "notes": "note", "best": "min(eval_loss)",
    "tok/s": "speed", "tokens_per_s": "speed", "total_steps": "steps", "duration": "lasted", "runtime": "lasted", "home": "checkpoints",
}  # fmt: skip

SETTING_ALIASES = {"lr": "train.learning_rate"}
"""The same for settings, unless a setting has the name itself."""

_SERIES = r"(?i:(min|max|last)\(([^()]+)\))"
_COMMON = frozenset({"eval_loss", "grad_norm", "epoch"})
"""Metrics that are known before the first run has them."""


class UnknownKey(Exception):
    """No run has such a key, or it may mean several; `hint` says what is there."""

    def __init__(self, sentence: str, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint


class Vocabulary(NamedTuple):
    """The settings and metrics that runs have.

    Attributes:
        settings: Dotted keys of experiments, without the places in lists: `data.train.path`.
        metrics: Names of curves.
        declared: Returns the keys that an experiment may have, if nothing else is known of a key: slow.
    """

    settings: frozenset[str] = frozenset()
    metrics: frozenset[str] = frozenset()
    declared: Callable[[], Iterable[str]] = tuple


NO_WORDS = Vocabulary()


def resolve(word: str, vocabulary: Callable[[], Vocabulary]) -> Key:
    """Find what a key means: a fact of the run, a setting, the last part of one setting, or a metric.

    Args:
        word: As written.
        vocabulary: Returns what runs have; called only if no fact of a run has this name.

    Raises:
        UnknownKey: It means nothing, or several things.
    """
    word = ALIASES.get(word.casefold(), word)
    if (known := RUN_KEYS.get(word.casefold())) is not None:
        return known
    words = vocabulary()
    if (found := re.fullmatch(_SERIES, word)) is not None:
        name = found[2]
        if name not in words.metrics | _COMMON | {"loss"}:
            raise UnknownKey(f"no run has a metric called `{name}`", _near(name, words.metrics | _COMMON))
        return _metric(name, found[1].casefold())
    if (setting := _setting(word, words.settings)) is not None:
        return setting
    if word in words.metrics | _COMMON:
        return _metric(word, "last")
    if word in SETTING_ALIASES:
        return _setting_key(SETTING_ALIASES[word])
    if (setting := _setting(word, frozenset(words.declared()))) is not None:
        return setting
    parts = {key.rpartition(".")[2] for key in words.settings}
    raise UnknownKey(
        f"no run has a key called `{word}`",
        _near(word, {*RUN_KEYS, *ALIASES, *SETTING_ALIASES, *words.settings, *words.metrics, *parts}),
    )


def _setting(word: str, settings: frozenset[str]) -> Key | None:
    """Find a setting by its key or by the last part of its key.

    Raises:
        UnknownKey: Several settings end so.
    """
    if word in settings:
        return _setting_key(word)
    ends = sorted(key for key in settings if key.endswith(f".{word}"))
    if len(ends) > 1:
        raise UnknownKey(f"`{word}` may be {', '.join(ends[:-1])} or {ends[-1]}", "write the whole key")
    return _setting_key(ends[0]) if ends else None


def _setting_key(name: str) -> Key:
    return Key(name, "any", lambda subject: subject.facts.get(name), "setting")


def _metric(series: str, of_series: str) -> Key:
    fact = fact_name(series, of_series)
    name = series if of_series == "last" else fact
    return Key(name, "number", lambda subject: subject.facts.get(fact), "metric", series, of_series)


def fact_name(series: str, of_series: str) -> str:
    """The name under which `Subject.facts` holds a metric; no setting has such a name."""
    return f"{of_series}({series})"


def _near(word: str, known: Iterable[str]) -> str | None:
    near = get_close_matches(word, sorted(known), 3, 0.6)
    return f"did you mean {' or '.join(near)}?" if near else "armada help filters lists the keys"
