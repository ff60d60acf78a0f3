"""Histories of a small world, from seeds and by hand: nothing is lost, and no word contradicts what is so."""

from __future__ import annotations

import os
import random

import pytest

from tests.chance import ARMADA_SEED, dice
from tests.simulation.catalogue import Telling, by_chance, found_once
from tests.simulation.host import Scheduler

pytestmark = pytest.mark.takes_long("a thousand stories; more are better")

HISTORIES = int(os.environ.get("ARMADA_HISTORIES", "768"))
PIECES = 16
_ON_CLUSTERS = 3  # as many fewer: one of a cluster takes longer. A thousand in all


@pytest.mark.parametrize("told", found_once().values(), ids=found_once())
def test_what_was_found_once_does_not_happen_again(told: Telling) -> None:
    assert told.outcome() is None


@pytest.mark.parametrize("piece", range(PIECES))
def test_no_history_breaks_an_invariant(piece: int) -> None:
    """A story that breaks one is told as short as it gets."""
    broken = first_broken(dice(1000 + piece), HISTORIES // PIECES, scripts=piece % 2 == 1, scheduler="direct")
    assert broken is None, broken


@pytest.mark.parametrize("piece", range(PIECES))
def test_no_history_of_a_cluster_breaks_an_invariant(piece: int) -> None:
    count = HISTORIES // PIECES // _ON_CLUSTERS
    scheduler: Scheduler = "slurm" if piece % 4 < 2 else "htcondor"
    broken = first_broken(dice(2000 + piece), count, scripts=piece % 2 == 1, scheduler=scheduler)
    assert broken is None, broken


def first_broken(chance: random.Random, count: int, *, scripts: bool, scheduler: Scheduler) -> str | None:
    """Tell random stories to new worlds: what the first of them breaks, and the story as short as it gets."""
    for number in range(count):
        seed, few = chance.randrange(1 << 40), number % 2 == 1
        telling = by_chance(seed, scripts=scripts, scheduler=scheduler, few=few)
        if words := telling.outcome():
            dice_used = f" under ARMADA_SEED={ARMADA_SEED}" if ARMADA_SEED else ""
            which = f"seed {seed}{dice_used}, scripts: {scripts}, {scheduler}, few: {few}"
            return f"{words}\n{which}\n{telling.shorten()}"
    return None
