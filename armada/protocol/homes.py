"""`homes.*`: which homes are registered for a run, and what each of them has."""

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
    """The home that sends a request, as `armada.home` knows it. Homes of the first release do not send it."""

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
    """Return the part of a home's description that requests carry."""
    return AskingHome(id=home.id, label=home.label, path=home.path)


class EnrolledHome(Message):
    """A home that is registered for a run, and what it has. `settled`: it has everything that it wants of the newest submission."""

    id: HomeId
    label: Annotated[str, line(200)] = "another home"
    path: Annotated[str, line(200)] = ""
    seen_at: UnsaidOrNull[UnixTime] = None
    held: Fitting[Digest] = ()
    unwanted: Fitting[Digest] = ()
    settled: Flag = False

    @property
    def named(self) -> str:
        """The home's name for display."""
        return f"{self.label} (home {self.id[:8]})"

    @property
    def spoken_of(self) -> frozenset[str]:
        """Return the checkpoints that it has, and those that it will not fetch."""
        return frozenset(self.held) | frozenset(self.unwanted)


class Runs(Message):
    """The runs to which the request was applied."""

    runs: Many[RunId]


class Enroll(Request[Runs]):
    """Register a home for these runs: the host then keeps what the home has not fetched."""

    method = "homes.enroll"
    answer = Runs
    home: AskingHome
    run_ids: Many[RunId]


class Settled(Message):
    """The host recorded it."""


class Settle(Request[Settled]):
    """Record that a home has everything that it wants of a submission."""

    method = "homes.settle"
    answer = Settled
    home: AskingHome
    run_id: RunId
    submission: Annotated[Count, MAY_MISS] = 0
    digests: Many[Digest]


class ForgetHome(Request[Runs]):
    """Forget a home: the host no longer keeps anything for it."""

    method = "homes.forget"
    answer = Runs
    home: AskingHome
    forget: HomeId
