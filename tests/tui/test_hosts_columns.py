"""Hosts in narrow and wide terminals: which columns there are, and what of a card is cut."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from armada.store import hosts
from tests.tui.conftest import World, drive, shows
from tests.tui.test_hosts_screen import cpu_key, gpu

NAMES = {"a100-2": "A100-SXM4-80GB", "desk": "GeForce RTX 4090"}


def of_names(world: World) -> None:
    """A host with eight GPUs of each name, which runs something that is not at home."""
    world.hosts(**{name: {"ssh": "root@192.0.2.1", "price_per_hour": 12.4, "profile": "cpu"} for name in NAMES})
    environments = {cpu_key(world.home): "ready"}
    for name, kind in NAMES.items():
        gpus = [{**gpu(place), "name": f"NVIDIA {kind}"} for place in range(8)]
        facts = {"gpus": gpus, "machine": "x86_64", "environments": environments, "disk": {"free_bytes": 412e9}}
        hosts.record_facts(world.database, name, facts)
        world.run(f"demo-{name}aa", host=name)
        world.checkpoint(f"demo-{name}aa", 1, home=False)


@pytest.mark.parametrize(
    ("width", "shown", "absent"),
    [
        (80, ("8×A100-SXM4-80GB", "SAFE?", "▲ not safe", "$12.40/h"), ("DISK FREE", "LAST SEEN", "ENVIRONMENT")),
        (100, ("8×A100-SXM4-80GB", "SAFE?", "DISK FREE", "LAST SEEN"), ("ENVIRONMENT",)),
        (120, ("8×A100-SXM4-80GB", "8×GeForce RTX 4090", "SAFE?", "ready", "412 GB", "LAST SEEN"), ()),
        (160, ("8×A100-SXM4-80GB", "8×GeForce RTX 4090", "ready cpu-", "412 GB", "LAST SEEN"), ()),
    ],
)
def test_columns_share_the_width_by_what_is_needed_most(
    world: World, width: int, shown: tuple[str, ...], absent: tuple[str, ...]
) -> None:
    of_names(world)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        seen = await shows(pilot, "▲ not safe", *shown)
        assert not [word for word in absent if word in seen]

    drive(world.board(), use, (width, 36))


def test_a_narrow_card_has_more_lines_instead_of_cut_ones(world: World) -> None:
    of_names(world)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "▲ not safe")
        await pilot.press("home", "enter")
        seen = await shows(
            pilot, "not safe to destroy: 1 checkpoint only there, 1 active   ", " run · r asks the host "
        )
        card = [line for line in seen.splitlines() if "└ " in line]
        assert not [line for line in card if "…" in line]
        await pilot.resize_terminal(120, 36)
        await shows(pilot, "1 checkpoint only there, 1 active run · r asks the host")

    drive(world.board(), use, (80, 24))
