"""What `armada doctor` says of home."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from armada.doctor.home import examine_home
from armada.paths import HomePaths


def said(home: HomePaths) -> list[tuple[str, str]]:
    report, _ = examine_home(home, home.config)
    return [(each.outcome, each.message) for each in report.findings if "notifications" in each.message]


def test_services_that_cannot_be_told_without_their_package_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    home.make()
    home.notifications_file.write_text('urls: ["ntfy://topic"]\n')
    home.notifications_file.chmod(0o600)
    assert said(home) == [("ok", "notifications can be sent")]
    find = importlib.util.find_spec

    def without_apprise(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "apprise" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_apprise)
    ((outcome, message),) = said(home)
    assert outcome == "warn"
    assert message.endswith("names services, but apprise is not installed: they get no notifications")
