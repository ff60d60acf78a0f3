"""Whether a script was still writing a checkpoint when it died: no clock that is wrong, or was set, makes half of one whole."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from armada_agent.foundation import files
from armada_agent.outbox.checkpoint_watch import CheckpointWatch
from armada_agent.paths import RunPaths
from armada_agent.records.journal import Journal

QUIET_S = 30.0


class Watched:
    """A script's run whose supervisor looks when the test says so."""

    def __init__(self, root: Path) -> None:
        self.paths = RunPaths(str(root), "quiet-1")
        for folder in (self.paths.work, self.paths.outbox, self.paths.attempt(1)):
            Path(folder).mkdir(parents=True)
        self.now = 1000.0
        settings: dict[str, Any] = {"pattern": "out/step-*", "quiet_s": QUIET_S}
        self.watch = CheckpointWatch(self.paths, settings, Journal(self.paths, 1), lambda: self.now)
        self.watch.begin()

    def save(self, step: int, age_s: float = 0.0) -> None:
        """Write a checkpoint whose files are dated so long ago. A file with two names is as old as its date."""
        file = Path(self.paths.work, f"out/step-{step}/w")
        file.parent.mkdir(parents=True)
        file.write_text("half")
        Path(self.paths.work, f"second-name-{step}").hardlink_to(file)
        os.utime(file, (time.time() - age_s, time.time() - age_s))

    def look(self, after_s: float) -> None:
        self.now += after_s
        self.watch.look()

    def die(self, after_s: float) -> list[str]:
        """Return what is taken once the job was killed."""
        self.now += after_s
        self.watch.note_end()
        self.watch.finish(is_trusted=False)
        return sorted(Path(each).name for each in self.paths.announced())


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


@pytest.mark.parametrize("skew_s", [-3600.0, 0.0, 60.0, 3600.0])
def test_a_clock_that_differs_from_the_file_systems_makes_no_half_checkpoint_whole(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, skew_s: float
) -> None:
    watched.save(8, age_s=2 * QUIET_S)
    watched.save(9)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + skew_s)
    assert watched.die(1.0) == [".new-8-1-1"]


def test_a_clock_that_is_set_forward_makes_no_half_checkpoint_whole(watched: Watched) -> None:
    watched.look(1.0)
    watched.save(9, age_s=3600.0)  # by the clock before
    watched.look(1.0)
    assert watched.die(1.0) == []


def test_dates_count_where_there_was_no_look_for_long(watched: Watched) -> None:
    watched.look(1.0)
    watched.save(7, age_s=QUIET_S + 5)
    watched.save(8, age_s=1.0)
    assert watched.die(QUIET_S + 10) == [".new-7-1-1"]


def test_a_supervisor_that_took_over_just_now_goes_by_the_dates(watched: Watched) -> None:
    watched.save(7, age_s=QUIET_S + 5)
    watched.save(8, age_s=1.0)
    watched.look(0.0)
    assert watched.die(1.0) == [".new-7-1-1"]


def test_the_time_of_the_file_system_is_the_machines_where_nothing_can_be_dated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 7.0)
    assert files.time_beside(str(tmp_path / "no-folder/lock")) == 7.0
    assert files.time_beside(str(tmp_path / "lock")) != 7.0
