"""What counts of a plan that a host had when `armada recover` found it."""

from __future__ import annotations

from typing import Any

import pytest

from armada.protocol.recorded import recorded_spec
from armada.verdicts.adoption import Launched, adopted_plan

OWN = {"every": "10m", "keep_home": {"last": 5, "best": 1}, "include_optimizer": True}
HOSTS: dict[str, Any] = {
    "job": {"argv": ["true"], "secrets": ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY"]},
    "sync": {"every": "1m", "keep_home": {"last": 1, "best": 0}, "include_optimizer": "last"},
}


@pytest.mark.parametrize(
    ("launched", "unconfirmed"),
    [
        (Launched(("HF_TOKEN", "AWS_SECRET_ACCESS_KEY"), OWN), ()),
        (Launched(("HF_TOKEN",), OWN), ("AWS_SECRET_ACCESS_KEY",)),
        (Launched((), None), ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY")),
        (Launched(), ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY")),
    ],
)
def test_a_secret_counts_if_home_recorded_it_at_the_launch(launched: Launched, unconfirmed: tuple[str, ...]) -> None:
    plan = recorded_spec(adopted_plan(HOSTS, launched, has_checkpoints=False))
    assert plan.unconfirmed_secrets == unconfirmed
    assert plan.secrets == ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY")


@pytest.mark.parametrize(
    ("launched", "has_checkpoints", "sync"),
    [
        (Launched((), OWN), True, {"every": "1m", "keep_home": OWN["keep_home"], "include_optimizer": True}),
        (Launched((), OWN), False, {"every": "1m", "keep_home": OWN["keep_home"], "include_optimizer": True}),
        (Launched((), {}), True, {"every": "1m"}),
        (Launched(), True, {"every": "1m"}),
        (Launched(), False, HOSTS["sync"]),
    ],
)
def test_rules_that_delete_at_home_are_homes_own(launched: Launched, has_checkpoints: bool, sync: object) -> None:
    assert adopted_plan(HOSTS, launched, has_checkpoints=has_checkpoints)["sync"] == sync


def test_a_host_cannot_say_what_counts_of_its_plan() -> None:
    plan = adopted_plan({**HOSTS, "adopted": {"unconfirmed_secrets": []}}, Launched(), has_checkpoints=True)
    assert recorded_spec(plan).unconfirmed_secrets == ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY")


@pytest.mark.parametrize("secrets", [None, "HF_TOKEN", {}, [7, None]])
def test_a_plan_without_secrets_stays_as_it_is(secrets: object) -> None:
    spec = {"job": {"argv": [], "secrets": secrets}}
    assert adopted_plan(spec, Launched(), has_checkpoints=True) == spec
