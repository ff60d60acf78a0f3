"""When a checkpoint counts as home: by what was read of it, and what happened to it since."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from armada.store import checkpoints, runs
from armada.store.checkpoints import Checkpoint
from armada.store.database import Database
from armada.sync.checkpoints.proof import DOUBT, doubt, is_doubted, prove
from armada.verdicts.proof import Proof
from tests.answers import outbox

RUN = "q-aaaaaa"
FILES = {"model.bin": b"weights", "empty.txt": b""}


class Home:
    """A store, and one checkpoint that came home: its bytes are right, and nothing has read them yet."""

    def __init__(self, folder: Path) -> None:
        self.database = Database(folder / "store.db")
        runs.insert(self.database, run_id=RUN, name="q", host="box", task="sft", experiment=None, spec={})
        listed = [
            {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in FILES.items()
        ]
        manifest = json.dumps({"format": 1, "run_id": RUN, "step": 5, "files": listed})
        self.digest = hashlib.sha256(manifest.encode()).hexdigest()
        self.place = folder / "runs" / RUN / "checkpoints" / "checkpoint-5"
        self.place.mkdir(parents=True)
        (self.place / "MANIFEST.json").write_text(manifest)
        for name, data in FILES.items():
            (self.place / name).write_bytes(data)
        entry = {"digest": self.digest, "step": 5, "size_bytes": 7, "file_count": 2, "created_at": 1.0}
        checkpoints.record_outbox(self.database, RUN, outbox([entry]))
        checkpoints.mark_home(self.database, RUN, self.digest, self.place)

    @property
    def checkpoint(self) -> Checkpoint:
        return checkpoints.of_run(self.database, RUN)[0]

    def prove(self) -> tuple[Proof, list[str]]:
        """What it is, and what had to be read for that."""
        read: list[str] = []
        return prove(self.database, self.checkpoint, read.append), read


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_bytes_are_read_once_and_again_only_when_somebody_touched_them(home: Home) -> None:
    assert home.prove() == (Proof.PROVEN, ["model.bin"])
    assert home.prove() == (Proof.PROVEN, [])
    os.utime(home.place / "model.bin", ns=(1, 1))
    assert home.prove() == (Proof.PROVEN, ["model.bin"])
    assert home.prove() == (Proof.PROVEN, [])


def test_another_byte_is_a_damage_whatever_the_size_and_the_times_say(home: Home) -> None:
    home.prove()
    model = home.place / "model.bin"
    before = model.stat()
    model.write_bytes(b"weightz")
    os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert home.prove()[0] is Proof.DAMAGED
    assert is_doubted(home.checkpoint)
    assert home.checkpoint.trouble == f"{DOUBT}: model.bin has changed since it came home"


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_there_is_a_damage(home: Home, name: str) -> None:
    home.prove()
    (home.place / name).unlink()
    assert home.prove()[0] is Proof.DAMAGED


def test_an_empty_file_that_grew_is_a_damage(home: Home) -> None:
    home.prove()
    (home.place / "empty.txt").write_bytes(b"x")
    assert home.prove()[0] is Proof.DAMAGED


def test_a_manifest_that_is_another_one_is_a_damage(home: Home) -> None:
    home.prove()
    (home.place / "MANIFEST.json").write_text("{}")
    assert home.prove()[0] is Proof.DAMAGED


def test_a_doubt_ends_only_when_every_byte_was_read_and_is_right(home: Home) -> None:
    home.prove()
    checkpoints.mark_trouble(home.database, RUN, home.digest, f"{DOUBT}: somebody said so")
    assert home.prove() == (Proof.PROVEN, list(FILES))
    assert home.checkpoint.trouble is None


def test_other_troubles_of_a_checkpoint_are_no_doubt_and_stay(home: Home) -> None:
    home.prove()
    checkpoints.mark_trouble(home.database, RUN, home.digest, "not enough room on the disk")
    assert home.prove() == (Proof.PROVEN, [])
    assert home.checkpoint.trouble == "not enough room on the disk"


def test_without_its_folder_it_is_missing(home: Home) -> None:
    shutil.rmtree(home.place)
    assert home.prove()[0] is Proof.MISSING
    checkpoints.mark_not_home(home.database, RUN, home.digest, None)
    assert home.prove()[0] is Proof.MISSING


def test_what_is_doubted_was_never_read(home: Home) -> None:
    """Other checkpoints that share the file are proven by what is recorded of it."""
    home.prove()
    doubt(home.database, home.checkpoint, "model.bin")
    assert is_doubted(home.checkpoint)
    checkpoints.mark_home(home.database, RUN, home.digest, home.place)  # the doubt is over, without a look
    assert home.prove() == (Proof.PROVEN, ["model.bin"])


def test_a_checkpoint_that_is_not_at_home_can_be_doubted(home: Home) -> None:
    checkpoints.mark_not_home(home.database, RUN, home.digest, None)
    doubt(home.database, home.checkpoint, "model.bin")
    assert is_doubted(home.checkpoint)
