"""The tool that tells the audit's stories to the old core."""

from __future__ import annotations

import pytest

from tests.tools import old_core


def test_a_clone_without_the_history_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(old_core, "CORE", "0" * 40)
    assert old_core.main() == 2
    said = capsys.readouterr().err
    assert f"does not have the commits {'0' * 40}" in said
    assert "git fetch --unshallow" in said


def test_the_table_names_what_broke_and_no_temporary_folder() -> None:
    rows = [("a finding", "launch sync", "deleted ['/dev/shm/tmpab12/home/state']"), ("another", "look", None)]
    assert old_core.table(rows).splitlines()[2:] == [
        "| a finding | `launch sync` | deleted ['home/state'] |",
        "| another | `look` | **nothing** |",
    ]
