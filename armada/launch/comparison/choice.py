"""Choose one of several hosts for a run, and say why the others lost. Pure: no host, file or clock is read here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from armada.costs.price import DOLLARS, money
from armada.units import span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.launch.comparison.compare import Compared
    from armada.launch.estimates.ranges import Range

Rule = Literal["fastest", "cheapest", "by", "max-cost"]


@dataclass(frozen=True, slots=True)
class Wish:
    """What decides between hosts.

    Attributes:
        limit: For `by` the seconds from now until then, for `max-cost` the money.
        said: The limit as it was typed.
        currency: Of the limit; None: whichever the hosts have, if it is one.
    """

    rule: Rule
    limit: float = math.inf
    said: str = ""
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A host as the choice sees it.

    Attributes:
        refusal: Why it cannot run it; None if it can.
        until_end_s: From now, with the wait; None if it is not known.
        why_no_end: Why it is not known, as a sentence.
        cost: None if it is not known.
        has_price: Whether hosts.yaml has its price.
        has_gpus: Whether the run would have GPUs there.
        is_away: It did not answer.
        currency: Of the cost.
        why_no_cost: Why the cost is not known although the hours are; empty if it is for another reason.
    """

    name: str
    refusal: str | None = None
    until_end_s: Range | None = None
    why_no_end: str = ""
    cost: Range | None = None
    has_price: bool = False
    has_gpus: bool = False
    is_away: bool = False
    currency: str = DOLLARS
    why_no_cost: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen host and why; `winner` is None if no host fits, or no figures tell which. `losers` has a reason for each of the others."""

    winner: str | None
    why: str
    losers: dict[str, str]


def candidate_of(found: Compared) -> Candidate:
    """Return a compared host as the choice sees it."""
    estimate, has_price = found.estimate, bool(found.host.prices)
    refusal = "; ".join(found.refusals) if found.outcome != "possible" else None
    is_away, has_gpus = found.outcome == "unreachable", found.plan is not None and bool(found.plan.gpus)
    if estimate is None:
        why = refusal or "it was not planned"
        return Candidate(found.host.name, why, has_price=has_price, has_gpus=has_gpus, is_away=is_away)
    why = f"its hours are not known: {estimate.said}"
    if estimate.seconds is not None:
        why = f"when it starts is not known: {estimate.wait.said}"
    currency = estimate.rate[1] if estimate.rate is not None else DOLLARS
    per_gpu = has_price and estimate.rate is None and estimate.seconds is not None
    return Candidate(
        found.host.name, refusal, estimate.until_end_s, why, estimate.cost,
        has_price=has_price, has_gpus=has_gpus, currency=currency,
        why_no_cost="its price is per GPU, and the run holds none" if per_gpu else "",
    )  # fmt: skip


def choose(candidates: Sequence[Candidate], wish: Wish) -> Choice:
    """Choose the host that a wish means.

    Limits are compared with the high end of the ranges, because a limit is a promise; hosts among each other by the
    middle. With equal figures the first host wins.
    """
    losers = {each.name: each.refusal for each in candidates if each.refusal is not None}
    able = [each for each in candidates if each.refusal is None]
    objection = _OBJECTIONS[wish.rule]
    kept = []
    for each in able:
        why = objection(each, wish)
        if why is None:
            kept.append(each)
        else:
            losers[each.name] = why
    if not kept and wish.rule == "fastest" and _is_alone(able, candidates):
        del losers[able[0].name]
        return Choice(able[0].name, "the only host that can run it", _in_order(losers, candidates))
    if not kept:
        is_unknown = bool(able) and wish.rule in ("fastest", "cheapest")  # they have no limit to exceed
        why = "no host can be chosen" if is_unknown else "no host fits"
        return Choice(None, why, _in_order(losers, candidates))
    currencies = {each.currency for each in kept if each.cost is not None}
    if wish.rule in ("cheapest", "max-cost") and len(currencies) > 1:
        both = " and ".join(sorted(currencies))
        losers |= {each.name: f"its price is in {each.currency}: {both} cannot be compared" for each in kept}
        return Choice(None, f"prices are in {both}, which cannot be compared", _in_order(losers, candidates))
    by_cost = wish.rule == "cheapest" or (
        wish.rule == "by" and all(each.cost is not None for each in kept) and len(currencies) == 1
    )
    kept.sort(key=_cost_first if by_cost else _end_first)
    winner = kept[0]
    for each in kept[1:]:
        losers[each.name] = _behind(winner, each, by_cost=by_cost)
    return Choice(winner.name, _why(winner, wish, alone=len(kept) == 1), _in_order(losers, candidates))


def _in_order(losers: dict[str, str], candidates: Sequence[Candidate]) -> dict[str, str]:
    return {each.name: losers[each.name] for each in candidates if each.name in losers}


def _is_alone(able: Sequence[Candidate], candidates: Sequence[Candidate]) -> bool:
    """Whether one host alone can run it: the others have said so themselves, and none has GPUs that it lacks."""
    if len(able) != 1 or any(each.is_away for each in candidates):
        return False
    return able[0].has_gpus or not any(each.has_gpus for each in candidates)


def _cost_first(each: Candidate) -> tuple[float, float]:
    return _middle(each.cost), _middle(each.until_end_s)


def _end_first(each: Candidate) -> tuple[float, float]:
    return _middle(each.until_end_s), _middle(each.cost)


def _middle(found: Range | None) -> float:
    return math.inf if found is None else found.middle


def _object_to_end(each: Candidate, _: Wish) -> str | None:
    return each.why_no_end if each.until_end_s is None else None


def _object_to_cost(each: Candidate, _: Wish) -> str | None:
    if not each.has_price:
        return "it has no `price`"
    return (each.why_no_cost or each.why_no_end) if each.cost is None else None


def _object_to_late(each: Candidate, wish: Wish) -> str | None:
    if each.until_end_s is None or each.until_end_s.high <= wish.limit:
        return _object_to_end(each, wish)
    return f"it may take {span(each.until_end_s.high)}, and {wish.said} is in {span(wish.limit)}"


def _object_to_dear(each: Candidate, wish: Wish) -> str | None:
    if each.cost is not None and wish.currency not in (None, each.currency):
        return f"its price is in {each.currency}, and the limit in {wish.currency}"
    if each.cost is None or each.cost.high <= wish.limit:
        return _object_to_cost(each, wish)
    return f"it may cost {money(each.cost.high, each.currency)}, more than {money(wish.limit, each.currency)}"


_OBJECTIONS: dict[Rule, Callable[[Candidate, Wish], str | None]] = {
    "fastest": _object_to_end,
    "cheapest": _object_to_cost,
    "by": _object_to_late,
    "max-cost": _object_to_dear,
}


def _behind(winner: Candidate, other: Candidate, *, by_cost: bool) -> str:
    if by_cost and other.cost is not None and winner.cost is not None and other.cost.middle > winner.cost.middle:
        more, less = money(other.cost.middle, other.currency), money(winner.cost.middle, winner.currency)
        return f"it costs {more}, not {less}" if more != less else "it costs a little more"
    if other.until_end_s is None:
        return other.why_no_end
    if winner.until_end_s is not None and other.until_end_s.middle > winner.until_end_s.middle:
        later, sooner = span(other.until_end_s.middle), span(winner.until_end_s.middle)
        return f"it ends in {later}, not {sooner}" if later != sooner else "it ends a little later"
    return f"it is no better than {winner.name}"


def _why(winner: Candidate, wish: Wish, *, alone: bool) -> str:
    end = f"it ends in about {span(winner.until_end_s.middle)}" if winner.until_end_s is not None else ""
    cost = f"costs about {money(winner.cost.middle, winner.currency)}" if winner.cost is not None else ""
    figures = " and ".join(filter(None, (end, cost)))
    words = {
        "fastest": "the fastest",
        "cheapest": "the cheapest",
        "by": f"done by {wish.said}",
        "max-cost": f"within {money(wish.limit, winner.currency)}" if wish.rule == "max-cost" else "",
    }
    only = "the only one " if alone and wish.rule in ("by", "max-cost") else ""
    return f"{only}{words[wish.rule]}: {figures}"
