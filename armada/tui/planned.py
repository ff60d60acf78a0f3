"""What `armada plan --json` says of each host, for Launch: checked and sanitized."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.costs.price import money
from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.units import amount, memory_amount, span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from armada.tui.operations import Answer

LONGEST = 1000


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its code, `ok`, `warn` or `fail`, what it says, and what to do."""

    code: str
    outcome: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class HostPlan:
    """The plan for one host. Texts are sanitized; those that are empty are not known.

    Attributes:
        name: The host.
        outcome: `possible`, or why not, in a word or two.
        can_launch: Whether no check failed.
        wait_s: How long the run would wait; None if nobody knows.
        error: Why there is no plan, with what to do.
        step: What a training's step is, or what runs.
    """

    name: str
    outcome: str
    can_launch: bool
    error: str = ""
    hint: str = ""
    gpus: str = ""
    step: str = ""
    memory: str = ""
    time: str = ""
    cost: str = ""
    queue: str = ""
    wait_s: float | None = None
    disk: str = ""
    send: str = ""
    said: str = ""
    command: str = ""
    checks: tuple[Check, ...] = ()

    @property
    def failed(self) -> list[Check]:
        return [check for check in self.checks if check.outcome == "fail"]

    @property
    def warned(self) -> list[Check]:
        return [check for check in self.checks if check.outcome == "warn"]

    @property
    def passed(self) -> list[Check]:
        return [check for check in self.checks if check.outcome not in ("fail", "warn")]


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans for all hosts that were asked, and which of them ends first; `error` if there is none, a line for each."""

    hosts: tuple[HostPlan, ...] = ()
    fastest: str | None = None
    error: str = ""

    def of(self, name: str) -> HostPlan | None:
        """Return the plan for a host."""
        return next((host for host in self.hosts if host.name == name), None)


def parse(answer: Answer) -> Plans:
    """Return what `armada plan --json` has answered; anything else is an error."""
    try:
        told = json.loads(answer.out)
        listed = told["hosts"]
        fastest = told.get("fastest")
        hosts = tuple(_host(each) for each in listed if isinstance(each, dict))
        return Plans(hosts, fastest if isinstance(fastest, str) else None)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Plans(error=sanitize_text(answer.refusal, 5000))


def _host(told: Mapping[str, Any]) -> HostPlan:
    error = _mapping(told.get("error"))
    checks = tuple(
        Check(
            _text(each.get("code"), 20),
            _text(each.get("outcome"), 10),
            _text(each.get("message")),
            _text(each.get("hint")),
        )
        for each in told.get("checks") or ()
        if isinstance(each, dict)
    )
    failed = any(check.outcome == "fail" for check in checks)
    outcome = _text(told.get("outcome"), 40)
    if failed or (error and outcome != "unreachable"):
        outcome = "refused"
    elif not error:
        outcome = "possible"
    can_launch = not error and not failed
    name = _text(told.get("name"), 100)
    estimate = _mapping(told.get("estimate"))
    return HostPlan(
        name=name,
        outcome=outcome,
        can_launch=can_launch,
        error=_text(error.get("message"), 4000),
        hint=_text(error.get("hint")),
        gpus=_gpus(told),
        step=_step(told, name),
        memory=_memory(_mapping(told.get("memory"))),
        time=_middle(estimate.get("seconds"), span),
        cost=_cost(estimate),
        queue=_text(estimate.get("wait"), 200),
        wait_s=_number(estimate.get("wait_s")),
        disk=_disk(estimate),
        send=_amount(told.get("send_bytes")),
        said=_text(estimate.get("said"), 300),
        command=_text(shlex.join(map(str, told.get("command") or ())), LONGEST),
        checks=checks,
    )


def _gpus(told: Mapping[str, Any]) -> str:
    count = _number(told.get("gpus"))
    if not count:
        return "" if count is None else "none"
    return f"{int(count)} × {_text(told.get('gpu') or 'GPU', 60).removeprefix('NVIDIA ')}"


def _step(told: Mapping[str, Any], name: str) -> str:
    if not told.get("command"):
        return ""
    batch = _mapping(told.get("batch"))
    if batch:
        parts = [_text(batch.get(key), 12) for key in ("global", "micro", "accumulation", "processes")]
        count = int(_number(batch.get("processes")) or 0)
        ranks = "1 process" if count == 1 else f"{count:,} processes"
        return f"{parts[0]} samples a step = micro {parts[1]} × accumulate {parts[2]} × {ranks}"
    return f"one command on {name}"


def _memory(memory: Mapping[str, Any]) -> str:
    whole, low, high = (_amount(memory.get(key), memory_amount) for key in ("total_bytes", "low_bytes", "high_bytes"))
    return f"{whole} ({low} to {high})" if whole and low and high else whole


def _cost(estimate: Mapping[str, Any]) -> str:
    currency = _text(estimate.get("currency"), 8)
    rate = _number(estimate.get("price_per_hour"))
    if rate is None or not currency:
        return "no price"
    return _middle(estimate.get("cost"), lambda value: money(value, currency)) or f"{money(rate, currency)}/h"


def _disk(estimate: Mapping[str, Any]) -> str:
    needed, free = _amount(estimate.get("disk_needed_bytes")), _amount(estimate.get("disk_free_bytes"))
    return f"needs {needed} of {free} free" if needed and free else f"{free} free" if free else ""


def _middle(told: object, words: Any) -> str:
    """The middle of a range, and its ends where they differ."""
    found = _mapping(told)
    low, middle, high = (_number(found.get(key)) for key in ("low", "middle", "high"))
    if low is None or middle is None or high is None:
        return ""
    return f"{words(middle)} ({words(low)} to {words(high)})" if low < high else str(words(middle))


def _amount(value: object, written: Callable[[float], str] = amount) -> str:
    number = _number(value)
    return written(int(number)) if number is not None and number >= 0 else ""


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 and math.isfinite(value) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object, most: int = LONGEST) -> str:
    return "" if value is None else sanitize_line(str(value), most)
