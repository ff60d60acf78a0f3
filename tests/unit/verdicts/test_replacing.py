"""When an output at home gives way to what came from its host."""

from __future__ import annotations

import itertools

import pytest

from armada.verdicts.replacing import Copies, may_replace

ALL = [Copies(*flags) for flags in itertools.product([True, False], repeat=6)]


@pytest.mark.parametrize("seen", [each for each in ALL if each.continues])
def test_what_begins_with_the_one_at_home_replaces_it(seen: Copies) -> None:
    assert may_replace(seen)


@pytest.mark.parametrize("seen", [each for each in ALL if not each.continues])
def test_another_one_replaces_only_what_its_run_wrote_anew(seen: Copies) -> None:
    anew = Copies(
        only_grows=False,
        continues=False,
        is_as_it_came=True,
        is_newer=True,
        is_beginning=False,
        was_put_back=False,
    )
    assert may_replace(seen) == (seen == anew)
