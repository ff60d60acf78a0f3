"""The `sync:` part of an experiment: when and how a run's checkpoints come home."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, field_validator

from armada.config.settings import FilledText, Settings, problem, shaped
from armada.units import DURATION, duration_s

_RATE = re.compile(r"(\d+(?:\.\d+)?) ?([kMG])?B?(?:/s)?")
_BYTES = {None: 1, "k": 10**3, "M": 10**6, "G": 10**9}
_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")

Count = Annotated[int, Field(ge=1, lt=2**31)]


def bytes_per_s(text: str) -> float:
    """`500k`, `20M`, `1G` in bytes a second.

    Raises:
        ValueError: It is none of these.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a rate such as 20M")
    return float(match[1]) * _BYTES[match[2]]


def _is_a_rate(value: str) -> str:
    try:
        rate = bytes_per_s(value)
    except ValueError:
        raise problem(f"{value!r} is not a rate", hint="bytes a second: 500k, 20M or 1G") from None
    if rate < 10_000:
        raise problem(f"{value} is less than 10k a second, which is too slow to transfer anything")
    return value


def _is_a_log_limit(value: str) -> str:
    try:
        size = bytes_per_s(value)
    except ValueError:
        raise problem(f"{value!r} is not a size", hint="bytes: 50M, 2G, or `none`") from None
    if size < 100_000:
        raise problem(f"{value} is less than 100k, which may not contain the lines that explain a failure")
    return value


Rate = Annotated[FilledText, AfterValidator(_is_a_rate), shaped(_RATE, blanks=True)]
"""Bytes a second, as a person writes them."""


LogLimit = Annotated[FilledText, AfterValidator(_is_a_log_limit), shaped(_RATE, blanks=True)]


class Kept(Settings):
    """Which checkpoints stay at home; those that no rule names are deleted there. `last: null` keeps all of them."""

    other_names: ClassVar[dict[str, str]] = {"keep_last": "last", "newest": "last", "every": "every_steps"}

    last: Count | None = None
    """How many of the newest stay; without it all of them."""
    best: Annotated[int, Field(ge=0)] = 1
    """How many of the best by evaluation loss stay; the best one is never deleted, not even with 0."""
    every_steps: Count | None = None
    """Checkpoints whose step is a multiple of this stay, too."""


class SyncSettings(Settings):
    """How often, how much, how fast. Without any of it: every 10 minutes, everything, at full bandwidth."""

    other_names: ClassVar[dict[str, str]] = {
        "interval": "every",
        "period": "every",
        "keep": "keep_home",
        "bandwidth": "bwlimit",
        "files": "outputs",
        "optimizer": "include_optimizer",
        "log_size": "log_limit",
        "max_log": "log_limit",
        "method": "transfer",
        "transport": "transfer",
    }

    every: Annotated[FilledText, shaped(DURATION, blanks=True)] = "10m"
    """How often a run is synced; a finished checkpoint is fetched at once."""
    keep_home: Kept = Kept()
    """Which checkpoints stay at home."""
    keep_remote: Count = 2
    """How many stay on the host after they came home; the newest and those that are not home yet always do."""
    include_optimizer: bool | Literal["last"] = True
    """Whether optimizer states come home, too; `last`: only the newest checkpoint's."""
    bwlimit: Rate | None = None
    """Bytes a second that may come home from one run: `20M`."""
    window: Annotated[FilledText, shaped(_WINDOW)] | None = None
    """Local time, `22:00-07:00`; outside it only a run's last sync and `sync now` move checkpoints."""
    transfer: Literal["auto", "rsync", "stream"] = "auto"
    """How checkpoints come; `auto`: rsync where one connection fills the link and both ends have it, else the stream."""
    streams: Annotated[int, Field(ge=1, le=8)] | Literal["auto"] = "auto"
    """Connections that carry one checkpoint; `auto` decides by the round trip."""
    outputs: Annotated[tuple[FilledText, ...], Field(strict=False, max_length=100)] = ()
    """Patterns below the run's work folder: `results/**`, `*.csv`."""
    log_limit: LogLimit | Literal["none"] = "200M"
    """Bytes of a log that come home; of a longer log its beginning and its end come, and its middle stays on the host."""

    @property
    def every_s(self) -> float:
        return duration_s(self.every)

    @property
    def bytes_per_s(self) -> float | None:
        """The limit for one run, or None."""
        return None if self.bwlimit is None else bytes_per_s(self.bwlimit)

    @property
    def log_limit_bytes(self) -> int | None:
        """The most bytes of a run's log that are fetched; None for all of it."""
        return None if self.log_limit == "none" else int(bytes_per_s(self.log_limit))

    def open_at(self, local: dt.time) -> bool:
        """Whether checkpoints may be transferred at this time of day; a window may span midnight."""
        if self.window is None:
            return True
        begin, end = (dt.time.fromisoformat(part) for part in self.window.split("-"))
        return begin <= local < end if begin <= end else local >= begin or local < end

    @field_validator("every")
    @classmethod
    def _is_a_duration(cls, value: str) -> str:
        try:
            seconds = duration_s(value)
        except ValueError:
            raise problem(f"{value!r} is not a duration", hint="write 30s, 10m, 2h or 1d") from None
        if not 5 <= seconds <= 30 * 86_400:
            raise problem(f"{value} is not between 5s and 30d")
        return value

    @field_validator("window")
    @classmethod
    def _is_a_window(cls, value: str | None) -> str | None:
        if value is not None and (_WINDOW.fullmatch(value) is None or value[:5] == value[6:]):
            raise problem(f"{value!r} is not a window", hint='local times, such as "22:00-07:00"')
        return value

    @field_validator("outputs")
    @classmethod
    def _stay_below_work(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in value:
            if pattern.startswith("/") or ".." in pattern.split("/"):
                raise problem(f"{pattern!r} is not below the run's work folder", hint="results/**")
        return value


def settings_of(spec: dict[str, object]) -> SyncSettings:
    """Read the sync settings of a run's spec. A run without them, or with unreadable ones, gets the defaults."""
    from pydantic import ValidationError

    try:
        return SyncSettings.model_validate(spec.get("sync") or {})
    except ValidationError:
        return SyncSettings()
