"""Whether a host can be destroyed, asked of a real agent: files that a script left beside its checkpoints."""

from __future__ import annotations

import pytest

from armada.sync.release.judge import judge_host, losses
from tests.sync.conftest import Place

WEIGHTS = b"weights" * 1000


@pytest.fixture
def script(place: Place) -> Place:
    """A run that left its checkpoint where it wrote it, a copy of it as the best one, and notes; the checkpoint is home."""
    place.create(keep_home={"last": 5})
    place.save(3, {"model.bin": WEIGHTS})
    work = place.remote / "work" / "out" / "checkpoint-3"
    work.mkdir(parents=True)
    (work / "model.bin").write_bytes(WEIGHTS)
    (place.remote / "work" / "best.bin").write_bytes(WEIGHTS)
    place.sync()
    place.end()
    place.sync()
    return place


def lost(place: Place) -> list[str]:
    return [item.what for item in losses(judge_host(place.context))]


def test_files_whose_very_bytes_are_home_as_a_checkpoint_do_not_keep_a_host(script: Place) -> None:
    assert lost(script) == []


def test_files_that_only_look_like_those_at_home_keep_a_host(script: Place) -> None:
    (script.remote / "work" / "other.bin").write_bytes(b"WEIGHTS" * 1000)
    (script.remote / "work" / "notes.txt").write_bytes(b"notes")
    (said,) = lost(script)
    assert said == "2 files it wrote (7.0 kB), that no sync.outputs names: work/notes.txt, work/other.bin"


def test_a_copy_at_home_that_is_damaged_counts_for_nothing(script: Place) -> None:
    (path,) = script.published.glob("checkpoint-3/model.bin")
    path.chmod(0o644)
    path.write_bytes(b"x" * len(WEIGHTS))
    damaged, unnamed = lost(script)
    assert damaged.startswith("checkpoint-3 is damaged at home")
    assert unnamed.startswith("2 files it wrote (14.0 kB)")
