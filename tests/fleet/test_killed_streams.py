"""kill -9 of what carries checkpoints, at random points: the ssh processes here, the agents there."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from armada.foundation.progress import TransferProgress
from armada.paths import HomePaths
from armada.store import checkpoints
from armada.sync.transfer.block_writer import BLOCK_BYTES
from tests.chance import dice
from tests.fleet.conftest import BadLink, Fleet
from tests.fleet.remote_run import Remote
from tests.fleet.test_sync import Watching, own_ssh

KILLS = int(os.environ.get("ARMADA_FAULT_KILLS", "15"))

Kill = Callable[[], bool]


def bring_until_killed_often(run: Remote, kill: Kill, chance: random.Random) -> int:
    """Save and bring checkpoints, most of them through kills, until there were enough; each must be right in the end.

    Returns:
        How many checkpoints came.
    """
    killed = step = 0
    while killed < KILLS:
        step += 1
        run.save(step, {"model": 9_000_000, "shard": 5_000_000, "small": 100})

        came = vain = 0

        def now_and_then(seen: TransferProgress) -> None:
            nonlocal killed, came, vain
            # Of two streams, so much more is a whole block more: it gets on, however slow the machine. Between two of them
            # come no more than two kills, because a link on which nothing comes is one that is down.
            if seen.done_bytes >= came + 2 * BLOCK_BYTES:
                came, vain = seen.done_bytes, 0
            if vain < 2 and chance.random() < 0.4 and kill():
                vain += 1
                killed += 1

        (place,) = run.sync(progress=Watching(now_and_then), insist=True).published
        assert run.is_right(place)
        assert run.leftovers() == []
    home = [c for c in checkpoints.of_run(run.database, run.run_id) if c.home_path is not None]
    assert len(home) == step
    assert own_ssh() == []
    return killed


@pytest.mark.fault(
    "kill -9 of the agents on the host during transfers",
    "every checkpoint home and verified once; no mismatch, no leaked temporary",
)
@pytest.mark.timeout(1800)
@pytest.mark.takes_long("a new connection after every kill")
def test_agents_killed_at_random_points_harm_no_transfer(
    home: HomePaths, fleet: Fleet, ssh_config: Path, there: str, record_property: Callable[[str, object], None]
) -> None:
    chance = dice(17)
    with fleet.borrow("a100-2") as machine, contextlib.closing(Remote(home, fleet, "a100-2", there)) as run:
        run.create(bwlimit="30M", streams=2)

        def kill() -> bool:
            """One of the agents there, or all: the one that answers questions, and one per stream."""
            listed = fleet.run(machine.name, "pgrep -f '[s]ys.stdin.buffer.readline' || true").split()
            victims = listed if chance.random() < 0.3 else chance.sample(listed, min(1, len(listed)))
            return bool(victims) and bool(
                fleet.run(machine.name, f"kill -9 {' '.join(victims)} 2>/dev/null && echo killed || true")
            )

        killed = bring_until_killed_often(run, kill, chance)
        assert fleet.run(machine.name, f"find {there} -name '*.part' | wc -l").strip() == "0"
    record_property("times", killed)


@pytest.mark.fault(
    "kill -9 of ssh during transfers",
    "every checkpoint home and verified once; no mismatch, no leaked temporary",
)
@pytest.mark.timeout(1800)
@pytest.mark.takes_long("a new connection after every kill")
def test_ssh_processes_killed_at_random_points_harm_no_transfer(
    home: HomePaths, fleet: Fleet, ssh_config: Path, there: str, record_property: Callable[[str, object], None]
) -> None:
    chance = dice(19)
    with contextlib.closing(Remote(home, fleet, "a100-1", there)) as run:
        run.create(bwlimit="30M", streams=2)

        def kill() -> bool:
            victims = own_ssh()
            if victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(victims), signal.SIGKILL)
                    return True
            return False

        killed = bring_until_killed_often(run, kill, chance)
    record_property("times", killed)


@pytest.mark.fault(
    "link reset again and again, each time 6 MB have passed",
    "the checkpoint comes home in pieces, verified",
)
@pytest.mark.takes_long("a new connection for every piece")
@pytest.mark.parametrize("transfer", ["stream", "rsync"])
def test_a_link_that_never_lives_long_carries_a_checkpoint_in_pieces(
    home: HomePaths, fleet: Fleet, ssh_config: Path, there: str, bad_link: Callable[..., BadLink], transfer: str
) -> None:
    link = bad_link(fleet.host("a100-1"), "--rtt-ms", "4", "--reset-after", "6000000")
    with contextlib.closing(Remote(home, fleet, "a100-1", there, link.port)) as run:
        run.create(streams=1, transfer=transfer)
        run.save(1, {"model": 40_000_000})
        (place,) = run.sync().published
        assert run.is_right(place)
        assert run.leftovers() == []
