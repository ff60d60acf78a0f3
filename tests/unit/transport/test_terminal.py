"""A person's own program is started by a Python that takes nothing from the folder it starts in."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.transport.terminal import LocalWay, attach


def test_a_module_of_the_folder_it_starts_in_shadows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = tmp_path / "agent" / "armada_agent" / "runs"
    room.mkdir(parents=True)
    for folder in (room, room.parent):
        (folder / "__init__.py").touch()
    (room / "shell.py").write_text("def enter(asked):\n    return asked['code']\n")
    here = tmp_path / "here"
    here.mkdir()
    (here / "json.py").write_text("raise SystemExit(99)\n")
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONPATH", str(here))
    assert attach(LocalWay(), {"agent": str(tmp_path / "agent"), "code": 7}, terminal=False) == 7
