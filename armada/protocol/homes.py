"""`homes.*`: which homes want to hear of a run, and what each has."""

from __future__ import annotations

from typing import Annotated, Protocol

from armada.protocol.message import (
    MAY_MISS,
    Count,
    Digest,
    Fitting,
    Flag,
    HomeId,
    Line,
    Many,
    Message,
    Request,
    RunId,
    UnixTime,
    UnsaidOrNull,
    line,
)


class AskingHome(Message):
    """Which home asks, as `armada.home` knows it; a home of the first release does not say."""

    id: HomeId
    label: Line
    path: Line


class KnownHome(Protocol):
    """A home, as `armada.home` describes it."""

    @property
    def id(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def path(self) -> str: ...


def asking(home: KnownHome) -> AskingHome:
    """Say which home asks."""
    return AskingHome(id=home.id, label=home.label, path=home.path)


class EnrolledHome(Message):
    """A home that wants to hear of a run, and what it has; `settled`: all it wants of the newest submission."""

    id: HomeId
    label: Annotated[str, line(200)] = "another home"
    path: Annotated[str, line(200)] = ""
    seen_at: UnsaidOrNull[UnixTime] = None
    held: Fitting[Digest] = ()
    unwanted: Fitting[Digest] = ()
    settled: Flag = False

    @property
    def named(self) -> str:
        """What a person knows it by."""
        return f"{self.label} (home {self.id[:8]})"

    @property
    def spoken_of(self) -> frozenset[str]:
        """The checkpoints that it has, or will not fetch."""
        return frozenset(self.held) | frozenset(self.unwanted)


class Runs(Message):
    """The runs that it was done for."""

    runs: Many[RunId]


class Enroll(Request[Runs]):
    """Keep for a home what it has not fetched of these runs."""

    method = "homes.enroll"
    answer = Runs
    home: AskingHome
    run_ids: Many[RunId]


class Settled(Message):
    """The host wrote it down."""


class Settle(Request[Settled]):
    """Say that a home has all it wants of a submission."""

    method = "homes.settle"
    answer = Settled
    home: AskingHome
    run_id: RunId
    submission: Annotated[Count, MAY_MISS] = 0
    digests: Many[Digest]


class ForgetHome(Request[Runs]):
    """Keep nothing for a home any longer."""

    method = "homes.forget"
    answer = Runs
    home: AskingHome
    forget: HomeId
