"""Decide what counts of a plan that `armada recover` found: a host had it, and whoever is root there may have changed it.

| of such a plan                      | home's own record of the launch   | it counts                                    |
|-------------------------------------|-----------------------------------|----------------------------------------------|
| a variable of home's environment    | names it                          | yes                                          |
| (`secrets`)                         | does not name it, or is missing   | once a person names it, for that submission  |
| `keep_home`, `include_optimizer`    | says them                         | as the record says them                      |
|                                     | is missing; home has checkpoints  | no: all checkpoints stay at home, and whole  |
|                                     | is missing; home has none         | yes: nothing of home's is deleted by them    |

Variables that do not count are named in the plan as the store has it, under `adopted` (`protocol/recorded.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

_MARK = "adopted"
_DELETING = ("keep_home", "include_optimizer")
"""The settings of `sync` by which checkpoints, or parts of them, are deleted at home."""


class Launched(NamedTuple):
    """What home's own record of a launch says: names of secrets, and the settings of `sync`. None: it does not say."""

    secrets: tuple[str, ...] | None = None
    sync: Mapping[str, object] | None = None


def adopted_plan(spec: Mapping[str, Any], launched: Launched, *, has_checkpoints: bool) -> dict[str, Any]:
    """Return a plan that a host had as the store may have it.

    Args:
        spec: The plan; its `job`, and its `sync` unless it is missing, are objects.
        launched: What home recorded when it launched the run.
        has_checkpoints: Home has checkpoints of the run already.
    """
    plan = {key: value for key, value in spec.items() if key != _MARK}
    named = plan["job"].get("secrets")
    secrets = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    unconfirmed = [name for name in secrets if name not in (launched.secrets or ())]
    if unconfirmed:
        plan[_MARK] = {"unconfirmed_secrets": unconfirmed}
    if launched.sync is None and not has_checkpoints:
        return plan
    told = {key: value for key, value in (plan.get("sync") or {}).items() if key not in _DELETING}
    own = {key: launched.sync[key] for key in _DELETING if key in launched.sync} if launched.sync is not None else {}
    if plan.get("sync") is not None or own:
        plan["sync"] = told | own
    return plan
