"""Random stories: what happens in them, and how often."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.stories import Story

WEIGHTS = {
    "launch": 2, "launch+optimizer_last": 2, "launch+results": 1, "launch+results+code": 1, "note": 3, "unpack": 1, "rm": 2,
    "delete_output": 1, "damage_output": 1, "damage_optimizer": 1, "look": 5,
    "sync": 8, "stop": 1, "resume": 2, "retry": 3, "release": 4, "join": 1, "forget": 1,
    "tick": 10, "save": 8, "log": 2, "end": 2, "kill_supervisor": 1, "finish": 1,
    "power_cut": 1, "tear": 1, "cut_link": 1, "mend_link": 1, "unmount": 1, "mount": 1, "snapshot_host": 1, "restore_host": 1,
    "lose_run": 1, "damage": 1, "delete": 1, "delete_log": 1, "snapshot_home": 1, "restore_home": 1, "copy_home": 1,
    "break_off": 3, "set_clock": 1, "set_home_clock": 1,
    "meanwhile_tick": 1, "meanwhile_save": 1, "meanwhile_end": 1, "meanwhile_sync": 1, "meanwhile_release": 1, "meanwhile_resume": 1,
    "meanwhile_stop": 1, "meanwhile_retry": 1, "meanwhile_look": 1, "meanwhile_launch": 1,
    "meanwhile_note": 1, "meanwhile_rm": 1,
    "meanwhile_kill_supervisor": 1, "meanwhile_power_cut": 1, "meanwhile_unmount": 1, "meanwhile_cut_link": 1,
}  # fmt: skip


SELDOM = {
    "fill_disk": 2, "clear_disk": 1, "wipe": 1, "put_back": 1, "snapshot_host": 1, "hide_run": 1, "damage_there": 2,
    "unmount_home": 1, "mount_home": 2, "lose_home_disk": 2, "meanwhile_unmount_home": 1,
    "touch": 1, "break_manifest": 1, "old_agent": 1, "old_store": 1, "move_home": 2, "pause": 1,
    "second_host": 2, "rename_run": 2,
}  # fmt: skip
"""What happens besides in one story of four: after some of it the world knows less of what is true, and checks less."""


ALWAYS = frozenset({"launch", "look", "sync", "release", "tick", "save", "start_job", "end"})
"""What happens in every story of few things."""

_LENGTHS = (12, 20, 30)


def random_story(
    seed: int,
    length: int = 40,
    of: Mapping[str, int] = WEIGHTS,
    seldom: Mapping[str, int] = SELDOM,
    *,
    few: bool = False,
) -> Story:
    """The story of a seed, `of` things that happen as often as that: it begins with a launch.

    Args:
        seed: Another story for each.
        length: Of how many things.
        of: What happens, and how often.
        seldom: What happens besides in one story of four.
        few: Only a fifth of all that happens, each the more often, and in a shorter story: what has to meet for a
            defect does so where little else happens.
    """
    chance = random.Random(seed)
    if few:
        of, length = _few(chance, {**of, **seldom}), chance.choice(_LENGTHS)
    elif chance.random() < 0.25:
        of = {**of, **seldom}
    names, weights = list(of), list(of.values())
    told = chance.choices(names, weights, k=length)
    return [
        ("launch", chance.randrange(4), chance.randrange(4)),
        *((name, chance.randrange(4), chance.randrange(4)) for name in told),
    ]


def _few(chance: random.Random, of: Mapping[str, int]) -> dict[str, int]:
    chosen = [name for name in of if name in ALWAYS or chance.random() < 0.2]
    return {name: min(of[name], 4) if name in ALWAYS else max(of[name], 2) for name in chosen}
