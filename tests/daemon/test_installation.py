"""A service file that the service manager takes."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from armada.daemon.installation import install, launchd_plist, systemd_unit
from armada.daemon.instance import only_instance
from armada.paths import HomePaths
from tests.conftest import Armada


def test_install_writes_a_unit_and_says_how_to_enable_it(armada: Armada) -> None:
    armada.env["XDG_CONFIG_HOME"] = str(armada.folder / "config 100%")
    done = armada.run("daemon", "install")
    assert done.returncode == 0, done.stderr
    unit = armada.folder / "config 100%" / "systemd" / "user" / "armada.service"
    text = unit.read_text()
    assert "Type=notify" in text
    assert "WatchdogSec=120" in text
    assert f'"ARMADA_HOME={armada.folder}/home"' in text
    for command in ("systemctl --user enable --now armada", "loginctl enable-linger"):
        assert command in done.stdout


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here to ask")
def test_systemd_takes_the_unit_with_odd_values(tmp_path: Path) -> None:
    unit = tmp_path / "armada.service"
    unit.write_text(systemd_unit(sys.executable, {"ARMADA_HOME": '/it\'s 100% "x" \\ $HOME', "PATH": "/usr/bin:/bin"}))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert "armada.service" not in done.stderr, done.stderr


def test_macos_gets_a_launch_agent() -> None:
    agent = plistlib.loads(launchd_plist("/opt/python", {"ARMADA_HOME": "/a b"}, Path("/x/daemon.log")))
    assert agent["ProgramArguments"] == ["/opt/python", "-m", "armada", "daemon", "run", "--quiet"]
    assert agent["EnvironmentVariables"] == {"ARMADA_HOME": "/a b"}
    assert agent["KeepAlive"] == {"SuccessfulExit": False}


def test_a_launch_agent_that_is_written_again_replaces_the_one_that_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("HOME", str(tmp_path))
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    home.make()
    domain = f"gui/{os.getuid()}"
    place, first = install(home)
    load = f"launchctl bootstrap {domain} {place}"
    assert first == [load]
    assert install(home)[1] == [f"launchctl bootout {domain}/armada.daemon", load]
    with only_instance(home):
        assert install(home)[1] == ["armada daemon stop", f"launchctl bootout {domain}/armada.daemon", load]
