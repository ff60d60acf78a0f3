"""A folder that is filled whole or not at all, whoever ends the process in between."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from armada.errors import UsageError
from armada.paths import HomePaths
from armada.sync.checkpoints.new_folder import check_target, new_folder


def fill_half(target: Path, number: signal.Signals) -> None:
    with new_folder(target, "a copy", 10) as part:
        (part / "half").write_text("half")
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_signal_leaves_nothing(tmp_path: Path, number: signal.Signals, is_there: bool) -> None:
    target = tmp_path / "new" / "copy"
    if is_there:
        target.mkdir(parents=True)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        fill_half(target, number)
    assert sorted(tmp_path.rglob("*")) == ([target.parent, target] if is_there else [])
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_folder_where_another_disk_is_mounted_is_filled_from_within(tmp_path: Path) -> None:
    with new_folder(tmp_path, "a copy", 10) as part:
        assert part.parent == tmp_path
        (part / "folder").mkdir()
        (part / "folder" / "file").write_text("whole")
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["folder", "file"]


@pytest.mark.parametrize("word", ["s3://bucket/model", "HF://owner/model", "https://h/x"])
def test_an_address_is_no_folder(tmp_path: Path, word: str) -> None:
    home = HomePaths(tmp_path / "home" / "config", tmp_path / "home" / "state")
    with pytest.raises(UsageError, match="is not the name of a folder here"):
        check_target(Path(word).absolute(), home)
