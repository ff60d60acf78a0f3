"""Decide whether a host has been idle for long enough to run its stop command, and whether that may be believed.

| what home saw                                                | the host is                    |
|--------------------------------------------------------------|--------------------------------|
| a run that has not ended, or an operation of this home there | not idle                       |
| somebody's processes on its GPUs                             | not idle                       |
| no answer, or no look for some minutes                       | unknown: the time starts again |
| none of these, look after look, for `stop_when_idle`         | idle                           |

| the stop command                                 | what is said, and what follows                      |
|--------------------------------------------------|-----------------------------------------------------|
| `release` says no                                | refused: the reason; asked again later              |
| failed, or did not end                           | failed: the exit code; tried again later            |
| exited with 0, and the host still answers        | failed: it still answers; tried again later         |
| exited with 0, and the host does not answer more | gone; not run again before it was seen and idle anew |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from armada.foundation.backoff import Backoff

GAP_S = 300.0
"""Without a look for so long, nothing is known of the time between."""

BELIEVED_S = 300.0
"""How long a host may still answer after its stop command, in seconds."""

AGAIN = Backoff(60.0, 3600.0)
"""Between two tries."""

_MOST_AWAY = 200

State = Literal["", "refused", "failed", "asked", "gone"]


@dataclass(frozen=True, slots=True)
class Idleness:
    """For how long a host has been seen idle, look after look.

    Attributes:
        since: The first look of this row; None if the newest look did not find it idle.
        seen_at: The newest look.
    """

    since: float | None = None
    seen_at: float | None = None

    def seen(self, now: float, busy: str | None) -> Idleness:
        """Return it after a look that the host answered; `busy` says what is going on there."""
        if busy is not None:
            return Idleness(None, now)
        unbroken = self.since is not None and self.seen_at is not None and 0 <= now - self.seen_at <= GAP_S
        return Idleness(self.since if unbroken else now, now)


@dataclass(frozen=True, slots=True)
class Stopping:
    """What became of a host's stop command.

    Attributes:
        state: Of the newest try; empty if there was none in this idleness.
        since: Since when the host was idle.
        tries: How many failed or were refused.
        next_try_at: Not before then.
        asked_at: When the command exited with 0.
        said: What happened, as a sentence.
        away: When the host was stopped and came back, for what it costs.
    """

    state: State = ""
    since: float | None = None
    tries: int = 0
    next_try_at: float = 0.0
    asked_at: float | None = None
    said: str = ""
    away: tuple[tuple[float, float], ...] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def failed(self, state: State, said: str, since: float | None, now: float) -> Stopping:
        """Return it after a try that brought nothing."""
        tries = self.tries + 1
        return Stopping(state, since, tries, now + AGAIN.pause_s(tries), None, said, self.away)

    def begun_anew(self) -> Stopping:
        """Return it for the next idleness."""
        return Stopping(away=self.away)

    def came_back(self, now: float) -> Stopping:
        """Return it after the host, which had been stopped, answers again."""
        away = ((self.asked_at, now),) if self.asked_at is not None and self.asked_at < now else ()
        return Stopping(away=(*self.away, *away)[-_MOST_AWAY:])


def stopping_of(told: Mapping[str, object] | None) -> Stopping:
    """Read what the store has; what is not of this shape counts as nothing."""
    if told is None:
        return Stopping()
    known = {each.name: told[each.name] for each in fields(Stopping) if each.name in told}
    away = known.get("away")
    spans = tuple((each[0], each[1]) for each in away if len(each) == 2) if isinstance(away, list) else ()
    return Stopping(**{**known, "away": spans})  # type: ignore[arg-type]  # of our own store


def stopped_spans(stopping: Stopping, now: float) -> tuple[tuple[float, float], ...]:
    """Return when a host was stopped, until now if it still is."""
    if stopping.state != "gone" or stopping.asked_at is None:
        return stopping.away
    return (*stopping.away, (stopping.asked_at, max(now, stopping.asked_at)))


def why_wait(idle: Idleness, stopping: Stopping, limit_s: float, now: float) -> str | None:
    """Return why the stop command is not run now; None if it is to be run, once `release` says yes.

    Args:
        idle: What was seen.
        stopping: What became of earlier tries.
        limit_s: `stop_when_idle`.
        now: Unix time.
    """
    if idle.since is None:
        return "it is not idle"
    if stopping.state in ("asked", "gone"):
        return "its stop command was run already"
    if now - idle.since < limit_s:
        return "it is not idle for long enough"
    # A clock that was set back must not put the next try off for ever.
    if now < stopping.next_try_at <= now + AGAIN.longest_s:
        return "the next try is later"
    return None
