"""Histories of a small world, from seeds and by hand: nothing is lost, and no word contradicts what is so."""

from __future__ import annotations

import os

import pytest

from tests.chance import ARMADA_SEED, dice
from tests.simulation.stories import Story, outcome, random_story, shorten

HISTORIES = int(os.environ.get("ARMADA_HISTORIES", "240"))
PIECES = 8

# What the audit of the first release found, as short as it gets. Told to that release, each of them breaks what is said beside it.
FOUND = {
    "release, a byte of the newest checkpoint at home is another one": "launch save save tick end tick sync damage:0:2 release",
    "release, its log was emptied at home": "launch log end tick sync delete_log release",
    "release, its file system is not mounted": "launch save tick unmount release",
    "thinned on an old acknowledgement": "launch save tick sync delete save save save tick",
    "a copied home deletes the original's checkpoints": "launch:0:2 save tick sync copy_home save save tick sync:1",
    "a copied home takes the original's for its own": "launch save tick end tick sync copy_home delete:1 release:1",
    "a host restored from a snapshot shows a dead run": "launch snapshot_host stop resume restore_host look",
    "a stop while the root is away": "launch look unmount look stop",
    "results that vanished from the host": "launch save tick look end tick look lose_run sync",
    "all of a run is home, says a sync after a byte changed": "launch save end tick sync damage sync",
    "a sync while the root is away": "launch save stop unmount sync",
    "a sync while the root is away, of what was deleted at home": "launch save stop sync unmount delete sync",
    "a training that had ended well is run again by itself": "launch end kill_supervisor look retry",
    "release, what makes it unwanted is damaged": "launch:1:2 save save save end tick sync damage release damage:0:1 release",
    "one home prunes what another has not fetched": "launch save tick join sync:1 save tick save tick sync",
    "one home releases what another has not fetched": "launch save end tick join sync release",
    "a copied home speaks for the original": "launch save tick sync copy_home save tick save tick sync:1",
    "a home put back from a backup speaks anew": "launch join snapshot_home:1 save save tick sync:1 restore_home:1 sync:1 save tick sync",
}

# The same with scripts, whose checkpoints are found on the disk.
FOUND_WITH_SCRIPTS = {
    "a script that had ended well is run again by itself": "launch:1 save tick kill_supervisor save end look retry",
    "its host was restarted after a script had ended well": "launch:1 save tick kill_supervisor save end power_cut look retry",
    "a script clears away what its supervisor had not found yet": "launch:1 save save kill_supervisor power_cut resume",
    "a script goes on from an older checkpoint than it left": "launch:1 save tick save kill_supervisor save log power_cut resume",
}


def read(words: str) -> Story:
    """Events from words such as `sync`, or `damage:0:1`."""
    events = []
    for word in words.split():
        what, *numbers = word.split(":")
        one, two = (*(int(number) for number in numbers), 0, 0)[:2]
        events.append((what, one, two))
    return events


@pytest.mark.parametrize("words", FOUND.values(), ids=FOUND)
def test_what_was_found_once_does_not_happen_again(words: str) -> None:
    assert outcome(read(words)) is None


@pytest.mark.parametrize("words", FOUND_WITH_SCRIPTS.values(), ids=FOUND_WITH_SCRIPTS)
def test_what_was_found_once_with_scripts_does_not_happen_again(words: str) -> None:
    assert outcome(read(words), scripts=True) is None


@pytest.mark.parametrize("piece", range(PIECES))
def test_no_history_breaks_an_invariant(piece: int) -> None:
    """A story that breaks one is told as short as it gets."""
    chance = dice(1000 + piece)
    for _ in range(HISTORIES // PIECES):
        seed = chance.randrange(1 << 40)
        story, scripts = random_story(seed), piece % 2 == 1
        if words := outcome(story, scripts=scripts):
            dice_used = f" under ARMADA_SEED={ARMADA_SEED}" if ARMADA_SEED else ""
            short = shorten(story, bool, scripts=scripts)
            pytest.fail(f"{words}\nseed {seed}{dice_used}, scripts: {scripts}\n{short}")
