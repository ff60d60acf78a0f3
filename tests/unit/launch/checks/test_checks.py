"""The list of checks: each number once, and explained where numbers are given."""

from __future__ import annotations

import re

import pytest

from armada.errors import PreflightRefused
from armada.launch.checks import registry
from armada.launch.checks.check import Check, refuse_failures


def test_every_number_is_explained_where_it_is_given() -> None:
    explained = re.findall(r"^\| (ARM\d{3}) \|", registry.__doc__ or "", re.MULTILINE)
    assert explained == sorted(registry.CHECKS)
    assert explained == list(registry.CHECKS)


def test_a_launch_that_would_fail_names_every_reason_by_its_number() -> None:
    checks = (
        Check("ok", "clocks agree", None, "ARM007"),
        Check("fail", "no disk", "free some", "ARM005"),
        Check("warn", "old", "look", "ARM010"),
        Check("fail", "no GPU", "another host", "ARM001"),
    )
    with pytest.raises(PreflightRefused) as refused:
        refuse_failures(checks, "desk")
    assert refused.value.message == "ARM005 no disk; ARM001 no GPU"
    assert refused.value.hint == "free some"
