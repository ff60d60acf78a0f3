"""What experiments ask for beside the usual: changes of a run's plan, by the names that stories give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PLANS: Mapping[str, dict[str, Any]] = {
    "no_resume": {"watch": {"resume": None}},
    "sft": {"task": "sft", "job": {"argv": ["trainer"]}},
    "one_retry": {"scheduler": {"max_retries": 1}},
    "stays_at_limit": {"scheduler": {"requeue_at_time_limit": False}},
    "limit": {"time_limit_s": 1800.0},
    "budget": {"budget": {"seconds": 1800.0, "said": "5 EUR"}},
    "floor": {"outbox": {"disk_floor_bytes": 1}},
    "last_1": {"sync": {"keep_home": {"last": 1}}},
    "last_2": {"sync": {"keep_home": {"last": 2}}},
    "every_2": {"sync": {"keep_home": {"last": 1, "every_steps": 2}}},
    "optimizer_last": {"sync": {"include_optimizer": "last"}},
    "remote_1": {"sync": {"keep_remote": 1}},
    "remote_9": {"sync": {"keep_remote": 9}},
    "results": {"sync": {"outputs": ["results/**"]}},
    "short_log": {"sync": {"log_limit": "100k"}},
    "code": {},
    "dirty": {"project": {"dirty": True}},
}
"""By the word after `launch+`."""


def changed(spec: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return a plan with changes, by their names."""
    for name in names:
        spec = _merged(spec, PLANS[name])
    return spec


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(old)
    for key, value in new.items():
        before = made.get(key)
        made[key] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return made
