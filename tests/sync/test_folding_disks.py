"""A home on a disk that takes names for one that differ in case, as those of macOS, exFAT and Windows shares do."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from armada.store import checkpoints, run_sync
from armada.sync.checkpoints import published
from armada.sync.checkpoints.proof import prove
from armada.verdicts.proof import Proof
from tests.sync.conftest import Place

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a descriptor's name is read from Linux's /proc")
TWO_OF_A_SIZE = {"Vocab.txt": b"one", "vocab.txt": b"two"}
TWO_SIZES = {"Vocab.txt": b"one", "vocab.txt": b"three"}
TWO_FORMS = {"\u00e9.txt": b"one", "e\u0301.txt": b"two"}


class FoldingDisk:
    """Finds what is below a folder under any case of its name, and lists it under the name that it was created with."""

    def __init__(self, top: Path, patch: pytest.MonkeyPatch) -> None:
        self._top = str(top)
        self._list = os.listdir
        for name in ("open", "stat", "lstat", "unlink", "chmod", "mkdir"):
            patch.setattr(os, name, self._folding(getattr(os, name)))
        for name in ("rename", "replace"):
            patch.setattr(os, name, self._folding_both(getattr(os, name)))
        patch.setattr(io, "open", self._folding(io.open))

    def _folding(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *words: Any, **more: Any) -> Any:
            return real(self._find(path), *words, **more)

        return call

    def _folding_both(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(source: Any, target: Any, **more: Any) -> Any:
            if (folder := more.get("dst_dir_fd")) is not None:
                inside = Path(f"/proc/self/fd/{folder}").readlink()
                return real(self._find(source), Path(self._find(inside / target)).name, **more)
            return real(self._find(source), self._find(target), **more)

        return call

    def _find(self, path: Any) -> Any:
        if isinstance(path, int) or not str(path).startswith(f"{self._top}/"):
            return path
        place = self._top
        for name in os.path.relpath(path, self._top).split("/"):
            try:
                there = self._list(place)
            except OSError:
                there = []
            same = [each for each in there if each.casefold() == name.casefold()]
            place = os.path.join(place, name if name in there or not same else same[0])  # noqa: PTH118  # of strings
        return place


def fold(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    FoldingDisk(place.home.run(place.run_id), monkeypatch)


@pytest.mark.parametrize("files", [TWO_OF_A_SIZE, TWO_SIZES, {"a/x": b"1", "A/y": b"2"}])
def test_two_files_of_one_name_do_not_count_as_home(
    place: Place, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]
) -> None:
    place.create()
    place.save(1, {**files, "w": b"weights"})
    place.save(2, {"w": b"weights"})
    fold(place, monkeypatch)
    outcome = place.sync()
    assert place.home_steps() == [2]
    assert [trouble.step for trouble in outcome.troubles] == [1]


def test_the_reason_names_a_file_and_what_to_do(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create()
    place.save(1, TWO_SIZES)
    fold(place, monkeypatch)
    (trouble,) = place.sync().troubles
    assert "ocab.txt and another name in it for one" in trouble.error.message
    assert trouble.error.hint is not None
    assert "keep what the host has" in trouble.error.hint


def test_a_script_s_manifest_is_not_taken_for_armadas(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create()
    place.save(1, {"manifest.json": b"its own", "w": b"weights"})
    fold(place, monkeypatch)
    (trouble,) = place.sync().troubles
    assert "takes MANIFEST.json and another name" in trouble.error.message
    assert place.home_steps() == []


@pytest.mark.parametrize("files", [TWO_OF_A_SIZE, TWO_SIZES, TWO_FORMS, {"manifest.json": b"its own"}])
def test_a_disk_that_keeps_names_apart_takes_them_all(place: Place, files: dict[str, bytes]) -> None:
    place.create()
    place.save(1, files)
    assert not place.sync().troubles
    (checkpoint,) = checkpoints.of_run(place.database, place.run_id)
    assert prove(place.database, checkpoint) is Proof.PROVEN


def test_two_names_for_the_same_bytes_come_home(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create()
    place.save(1, {"Vocab.txt": b"one", "vocab.txt": b"one"})
    fold(place, monkeypatch)
    assert not place.sync().troubles
    (checkpoint,) = checkpoints.of_run(place.database, place.run_id)
    assert prove(place.database, checkpoint) is Proof.PROVEN


def test_what_an_earlier_armada_recorded_as_home_is_not_proven(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create()
    place.save(1, TWO_OF_A_SIZE)
    fold(place, monkeypatch)
    with monkeypatch.context() as earlier:
        earlier.setattr(published, "require_apart", lambda *_: None)
        place.sync()
    (checkpoint,) = checkpoints.of_run(place.database, place.run_id)
    assert checkpoint.home_path is not None
    assert prove(place.database, checkpoint) is Proof.DAMAGED
    place.end()
    assert "cannot be whole at home" in place.sync(insist=True).troubles[0].error.message
    assert not run_sync.find(place.database, place.run_id).final_done
