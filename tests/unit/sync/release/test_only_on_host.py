"""What is given up with a run whose host is not asked, as far as home knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.store import checkpoints, runs
from armada.store.checkpoints import UNREAD
from armada.sync.checkpoints.proof import doubt
from armada.sync.release.only_on_host import OnlyOnHost, find_only_on_host
from tests.answers import outbox
from tests.unit.sync.release.worlds import CHECKPOINT, DIGEST, RUN, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A run of which all is home."""
    world = World(tmp_path)
    world.insert()
    checkpoints.record_outbox(world.database, RUN, outbox([CHECKPOINT]))
    checkpoints.mark_home(world.database, RUN, DIGEST, world.paths.checkpoints(RUN) / "checkpoint-5")
    world.settle()
    return world


def found(world: World) -> OnlyOnHost:
    return find_only_on_host(world.database, runs.find(world.database, RUN), price=None, now=2.0)


def test_nothing_is_given_up_of_what_is_whole_at_home(world: World) -> None:
    assert found(world).sentences("box") == []


def test_a_copy_at_home_that_is_known_to_be_damaged_is_no_copy(world: World) -> None:
    (known,) = checkpoints.of_run(world.database, RUN)
    doubt(world.database, known, "model")
    assert found(world).sentences("box") == ["1 checkpoint (7 B) damaged at home, so perhaps whole only on box: step 5"]
    assert found(world).kinds[0] == (DIGEST,)
    checkpoints.mark_trouble(world.database, RUN, DIGEST, UNREAD)
    (said,) = found(world).sentences("box")
    assert said == "1 checkpoint (7 B) at home, but not read there, so perhaps whole only on box: step 5"
    checkpoints.record_outbox(world.database, RUN, [])  # its host has none either
    assert found(world).sentences("box") == []


def test_what_never_came_is_only_there(world: World) -> None:
    checkpoints.mark_not_home(world.database, RUN, DIGEST, None)
    assert "1 checkpoint (7 B) only on box: step 5" in found(world).sentences("box")
