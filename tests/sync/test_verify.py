"""`armada sync verify`: what is damaged at home is put right from wherever its bytes still are."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pytest

from armada.cli.context import Context
from armada.cli.verify import verify
from armada.store import checkpoints, files_home, hosts, runs
from armada.sync.checkpoints.proof import prove
from armada.sync.checkpoints.repair import repair_from_home
from armada.sync.checkpoints.verify import look_over
from armada.verdicts.proof import Proof
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


def doubted_file_and_missing_one(place: Place) -> tuple[Path, Path]:
    """Checkpoint 3 at home: the wrong bytes of `w` were found, and `tok` was deleted since."""
    wrong = damage(place, 3, "w")
    (checkpoint,) = [each for each in checkpoints.of_run(place.database, place.run_id) if each.step == 3]
    assert prove(place.database, checkpoint) is Proof.DAMAGED
    missing = place.published / "checkpoint-3" / "tok"
    missing.unlink()
    return wrong, missing


def trouble_of(place: Place, step: int) -> str | None:
    (found,) = [each for each in checkpoints.of_run(place.database, place.run_id) if each.step == step]
    return found.trouble


def test_a_repair_of_one_file_reads_the_others_of_a_checkpoint_in_doubt(
    saved: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, missing = doubted_file_and_missing_one(saved)
    assert verified(saved, read_data=False)
    assert (wrong.read_bytes(), missing.read_bytes(), trouble_of(saved, 3)) == (b"3" * 1000, SHARED, None)
    assert "(every byte verified)" in capsys.readouterr().out


def test_a_repair_of_one_file_does_not_end_the_doubt_of_another_that_is_wrong(saved: Place) -> None:
    wrong, missing = doubted_file_and_missing_one(saved)
    (there,) = (saved.remote / "outbox").glob("*/w")
    there.unlink()
    assert not verified(saved, read_data=False)
    assert (wrong.read_bytes(), missing.read_bytes()) == (b"?" * 1000, SHARED)
    assert trouble_of(saved, 3) is not None


def test_damage_that_was_found_before_is_looked_for_without_reading_everything(saved: Place) -> None:
    wrong = damage(saved, 3, "w")
    checkpoints.mark_trouble(saved.database, saved.run_id, digest_of(saved, 3), "damaged at home: w")
    assert verified(saved, read_data=False)
    assert (wrong.read_bytes(), trouble_of(saved, 3)) == (b"3" * 1000, None)


def test_a_doubt_that_came_up_after_the_finding_is_not_ended_by_its_repair(saved: Place) -> None:
    (saved.published / "checkpoint-3" / "tok").unlink()
    findings = look_over(saved.database, saved.run_id, read_data=True, told=lambda _: None)
    wrong = damage(saved, 3, "w")
    checkpoints.mark_trouble(saved.database, saved.run_id, digest_of(saved, 3), "damaged at home: w")
    (left,) = [repair_from_home(saved.database, saved.home, each) for each in findings if not each.good]
    assert ([each.path for each in left.damaged], wrong.read_bytes()) == (["w"], b"?" * 1000)
    assert trouble_of(saved, 3) == "damaged at home: w"


def test_a_repair_of_one_file_does_not_say_that_the_others_were_read(
    saved: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (saved.published / "checkpoint-3").iterdir():
        files_home.forget(saved.database, file)
    checkpoints.mark_trouble(saved.database, saved.run_id, digest_of(saved, 3), None)
    wrong = damage(saved, 3, "w")
    (saved.published / "checkpoint-3" / "tok").unlink()
    assert verified(saved, read_data=False)
    assert wrong.read_bytes() == b"?" * 1000
    assert "every byte" not in capsys.readouterr().out.replace("--read-data reads every byte", "")


def test_a_checkpoint_that_nobody_read_is_not_called_read_because_one_file_of_it_was_repaired(saved: Place) -> None:
    wrong = damage(saved, 3, "w")
    (there,) = (saved.remote / "outbox").glob("*/w")
    there.unlink()
    (saved.published / "checkpoint-3" / "tok").unlink()
    checkpoints.mark_trouble(saved.database, saved.run_id, digest_of(saved, 3), checkpoints.UNREAD)
    assert not verified(saved, read_data=False)
    assert wrong.read_bytes() == b"?" * 1000
    assert trouble_of(saved, 3) is not None


def digest_of(place: Place, step: int) -> str:
    (found,) = [each for each in checkpoints.of_run(place.database, place.run_id) if each.step == step]
    return found.digest
