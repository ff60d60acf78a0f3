"""`armada sync verify`: what is damaged at home is put right from wherever its bytes still are."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pytest

from armada.cli.context import Context
from armada.cli.verify import verify
from armada.store import hosts, runs
from tests.sync.conftest import Place

SHARED = b"tokenizer" * 1000


@pytest.fixture
def saved(place: Place) -> Place:
    """Three checkpoints at home that share a file; the host has the newest only."""
    place.create()
    digests = [place.save(step, {"tok": SHARED, "w": b"%d" % step * 1000}) for step in (1, 2, 3)]
    place.sync()
    for digest in digests[:2]:
        shutil.rmtree(place.remote / "outbox" / digest, ignore_errors=True)
    place.end()
    return place


def damage(place: Place, step: int, name: str) -> Path:
    path = place.published / f"checkpoint-{step}" / name
    path.chmod(0o644)
    path.write_bytes(b"?" * path.stat().st_size)
    return path


def verified(place: Place, *, read_data: bool = True) -> bool:
    options = argparse.Namespace(read_data=read_data, no_repair=False, json=False)
    return not verify(Context(), [runs.find(place.database, place.run_id)], options)


def test_one_damaged_file_that_checkpoints_share_is_repaired_in_one_pass(
    saved: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(saved, 1, "tok")  # hard links: it is damaged in all of them
    assert verified(saved)
    said = capsys.readouterr().out
    assert "lost" not in said
    assert "3 damaged, 3 repaired" in said
    assert {path.read_bytes() for path in saved.published.glob("*/tok")} == {SHARED}


def test_a_file_that_cannot_be_repaired_keeps_no_other_from_it(saved: Place) -> None:
    lost, kept = damage(saved, 3, "w"), damage(saved, 3, "tok")
    (there,) = (saved.remote / "outbox").glob("*/w")
    there.unlink()
    assert not verified(saved)
    assert kept.read_bytes() == SHARED
    assert lost.read_bytes() == b"?" * 1000


def test_what_another_checkpoint_has_is_repaired_without_the_host(
    saved: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    own = saved.published / "checkpoint-1" / "tok"
    own.unlink()
    own.write_bytes(b"?" * len(SHARED))
    shutil.rmtree(saved.home.local_root)
    assert verified(saved)
    assert own.read_bytes() == SHARED
    assert not saved.home.local_root.exists()
    assert "1 damaged, 1 repaired" in capsys.readouterr().out


def test_a_wiped_host_is_not_asked_which_would_put_the_agent_back_there(saved: Place) -> None:
    shutil.rmtree(saved.home.local_root)
    hosts.mark_released(saved.database, "local", 1.0)
    damage(saved, 2, "w")
    assert not verified(saved)
    assert not saved.home.local_root.exists()
