"""kill -9 of the process that brings checkpoints home, at random points: nothing lost, nothing half, nothing left over."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from armada.store import checkpoints
from armada.sync.transfer.staging import incoming
from tests import moments
from tests.chance import dice
from tests.sync.conftest import Place, both_ways, leftovers, random_bytes

KILLS = moments.times(4)


def published_right(place: Place) -> int:
    """How many checkpoints are published; each must be right to the last byte whenever it can be seen."""
    count = 0
    for folder in place.published.glob("checkpoint-*"):
        manifest = json.loads((folder / "MANIFEST.json").read_text())
        for file in manifest["files"]:
            data = (folder / file["path"]).read_bytes()
            assert (len(data), hashlib.sha256(data).hexdigest()) == (file["size"], file["sha256"]), folder
        count += 1
    return count


def has_come(staging: Path, size_bytes: float) -> bool:
    try:
        found = [*staging.rglob("*"), *incoming(staging).rglob("*")]
        return bool(found) and sum(path.stat().st_blocks * 512 for path in found) >= size_bytes
    except FileNotFoundError:  # renamed while we looked
        return True


@both_ways
@pytest.mark.fault(
    "kill -9 of the syncing process, its ssh with it",
    "every checkpoint home and verified once; no mismatch, no leaked temporary",
)
@pytest.mark.timeout(900)
@pytest.mark.takes_long("a process is started for every kill")
def test_a_sync_killed_at_random_points_loses_nothing_and_publishes_nothing_half(
    place: Place, record_property: Callable[[str, object], None]
) -> None:
    place.create(bwlimit="15M", outputs=["*.csv"])
    chance = dice(7)
    shared = random_bytes(1_000_000)
    command = [sys.executable, "-m", "armada", "sync", "now", place.run_id]
    killed = step = 0
    digests = set()
    # On a busy machine a sync may come to its end before it is seen to have got that far; one at least must not.
    while step < KILLS or (not killed and step < 4 * KILLS):
        step += 1
        files = {"model": random_bytes(9_000_000), "base": shared, **{f"s{n}": b"%d" % step * n for n in range(5)}}
        digest = place.save(step, files)
        digests.add(digest)
        (place.remote / "work" / "table.csv").write_bytes(random_bytes(200_000))
        steps: list[moments.Moment] = [
            place.home.staging(place.run_id, digest).exists,
            functools.partial(has_come, place.home.staging(place.run_id, digest), chance.uniform(0.0, 9_000_000)),
            (place.published / f"checkpoint-{step}").exists,
        ]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
        killed += moments.end_after(process, steps[step % len(steps)], process.kill, chance)
        process.wait()
        published_right(place)
    assert killed
    record_property("times", killed)
    outcome = place.sync(insist=True)
    assert outcome.troubles == ()
    assert published_right(place) == step
    assert {c.digest for c in checkpoints.of_run(place.database, place.run_id) if c.home_path is not None} == digests
    assert leftovers(place) == []
    assert sorted(p.name for p in place.outputs.iterdir() if p.name.startswith(".")) == [".index.json"]
    assert (place.outputs / "work/table.csv").read_bytes() == (place.remote / "work/table.csv").read_bytes()
    assert {path.name for path in (place.remote / "outbox").iterdir() if path.name.endswith(".ack")} <= {
        f"{digest}.ack" for digest in digests
    }


@both_ways
@pytest.mark.fault(
    "home's disk full, before and in the middle of a transfer",
    "sync pauses with its reason, training goes on; it continues by itself once there is room",
)
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_disk_that_fills_at_home_pauses_the_transfer_and_it_goes_on_by_itself(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create()
    digest = place.save(1, {"model": random_bytes(30_000_000)})
    place.published.mkdir(parents=True)
    small = ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(place.published)]
    subprocess.run(small, check=True)
    try:
        foreseen = place.sync()
        assert [trouble.cause for trouble in foreseen.troubles] == ["disk_home"]
        assert list(place.home.staging(place.run_id, digest).glob("*")) == []  # nothing was fetched in vain
        monkeypatch.setattr("armada.sync.transfer.staging.RESERVE_BYTES", -(10**12))  # as if the space went meanwhile
        met = place.sync(insist=True)
        assert [trouble.cause for trouble in met.troubles] == ["disk_home"]
        assert place.home_steps() == []
        (row,) = place.database.connection.execute("SELECT state, reason, next_try_at FROM transfers").fetchall()
        assert row["state"] == "paused"
        assert row["next_try_at"] <= time.time() + 61
        subprocess.run(["mount", "-o", "remount,size=200m", str(place.published)], check=True)
        later = place.sync(now=lambda: time.time() + 120)
        assert [folder.name for folder in later.published] == ["checkpoint-1"]
        assert published_right(place) == 1
        assert leftovers(place) == []
    finally:
        subprocess.run(["umount", "-l", str(place.published)], check=True)


@pytest.mark.fault(
    "kill -9 between the rename and the record",
    "found published, recorded, nothing fetched again",
)
def test_a_checkpoint_published_by_a_process_that_died_before_it_said_so_is_recorded(place: Place) -> None:
    place.create()
    digest = place.save(1, {"model": b"1"})
    place.sync()
    place.database.connection.execute(
        "UPDATE checkpoints SET home_path = NULL, verified_at = NULL, acknowledged_at = NULL"
    )
    place.database.connection.execute("DELETE FROM files_home")
    (place.remote / "outbox" / f"{digest}.ack").unlink()
    before = (place.published / "checkpoint-1" / "model").stat().st_ino
    (folder,) = place.sync().published
    assert (folder / "model").stat().st_ino == before
    assert (place.remote / "outbox" / f"{digest}.ack").exists()


@pytest.mark.fault(
    "home's store lost",
    "published checkpoints are recognised by their manifests",
)
def test_a_home_without_its_store_is_found_again(place: Place, tmp_path: Path) -> None:
    """A lost store costs no transfer: what lies under its name with its manifest, and has the bytes of that, is taken for what it is."""
    place.create()
    place.save(1, {"model": b"1"})
    place.sync()
    place.database.connection.execute("DELETE FROM checkpoints")
    (folder,) = place.sync().published
    assert folder.name == "checkpoint-1"
    assert len(list(place.published.glob("checkpoint-*"))) == 1
