"""Which home a daemon serves, and when it gives its place to another one."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
from pathlib import Path

import pytest

from armada import api
from armada.daemon import control, instance, service, status
from armada.daemon.installation import install, systemd_unit
from armada.daemon.service import serve
from armada.daemon.variables import environment, locating
from armada.errors import ArmadaError, ConfigError, Conflict
from armada.paths import HomePaths
from armada.store.database import explain
from tests.conftest import Armada, eventually


def home_under(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> HomePaths:
    """Return the home of a process that has these variables and works in `/`, as daemons do."""
    with monkeypatch.context() as then:
        for name in ("ARMADA_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "ARMADA_SSH_CONFIG"):
            then.delenv(name, raising=False)
        for name, value in variables.items():
            then.setenv(name, value)
        then.chdir("/")
        return HomePaths.from_environment()


def unit_variables(unit: str) -> dict[str, str]:
    """Return the variables of a unit whose values have nothing to escape."""
    return dict(line.strip('"').split("=", 1) for line in re.findall(r"^Environment=(.*)$", unit, re.MULTILINE))


@pytest.mark.parametrize(
    "own",
    [
        {"ARMADA_HOME": "home"},
        {"XDG_CONFIG_HOME": "/tmp/conf", "XDG_DATA_HOME": "/tmp/disk/share"},
        {"XDG_DATA_HOME": "relative/and/ignored"},
        {},
    ],
)
def test_a_daemon_serves_the_home_of_the_command_that_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("ARMADA_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value.replace("/tmp", str(tmp_path)))
    home = HomePaths.from_environment()
    absolute = HomePaths(home.config.absolute(), home.state.absolute())
    assert home_under(environment(os.environ, home), monkeypatch) == absolute
    place, _ = install(home)
    assert home_under(unit_variables(place.read_text()), monkeypatch) == absolute


def test_a_home_that_the_environment_does_not_name_is_served_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    for elsewhere in ({}, {"ARMADA_HOME": "/elsewhere"}):
        assert home_under(environment(elsewhere, home), monkeypatch) == home
    assert "ARMADA_HOME" not in environment(
        {"ARMADA_HOME": "/elsewhere"}, HomePaths(Path("/c/armada"), Path("/d/armada"))
    )


def test_the_ssh_configuration_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    assert locating({"ARMADA_SSH_CONFIG": "my_config"}, home)["ARMADA_SSH_CONFIG"] == str(tmp_path / "my_config")


def test_a_unit_that_systemd_may_not_find_is_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    home.make()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "my conf"))
    place, commands = install(home)
    assert shlex.split(commands[0]) == ["systemctl", "--user", "link", str(place)]
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert not [command for command in install(home)[1] if "link" in command.split("#")[0].split()]


def test_a_launch_of_the_api_starts_the_daemon_of_its_own_home(
    armada: Armada, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = armada.folder / "home"
    for name, value in armada.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ARMADA_HOME")
    monkeypatch.chdir(armada.folder)
    monkeypatch.delenv("ARMADA_NO_DAEMON", raising=False)
    api.Armada(base).launch(armada.command("true"), host="local")
    home = HomePaths(base / "config", base / "state")
    eventually(lambda: instance.is_held(home))
    control.stop(home)


@pytest.fixture
def automatic(armada: Armada) -> HomePaths:
    """A home with a daemon as a launch starts it."""
    home = HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state")
    assert armada.run("daemon", "start", "--auto").returncode == 0
    eventually(lambda: status.judge(home).condition == "fresh")
    return home


def test_a_daemon_that_stays_takes_the_place_of_one_of_a_launch(armada: Armada, automatic: HomePaths) -> None:
    first = instance.holder(automatic)
    service_manager = armada.start("daemon", "run")
    eventually(lambda: (found := status.read(automatic)) is not None and not found.auto and found.ended is None)
    second = instance.holder(automatic)
    assert second is not None
    assert second.pid == service_manager.pid != (first and first.pid)
    assert "already running" in armada.run("daemon", "start", "--auto").stdout  # and nothing takes its place
    control.stop(automatic)
    service_manager.communicate()
    assert service_manager.returncode == 0


def test_a_launch_starts_its_own_version_in_the_place_of_another_one(
    armada: Armada, automatic: HomePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = instance.holder(automatic)
    assert not control.start(automatic, auto=True)
    monkeypatch.setattr(control, "__version__", "999")
    for name, value in armada.env.items():
        monkeypatch.setenv(name, value)
    assert control.start(automatic, auto=True)
    eventually(lambda: instance.holder(automatic) not in (None, first))


def test_status_names_the_version_of_a_daemon_that_is_another(armada: Armada, automatic: HomePaths) -> None:
    control.stop(automatic)
    told = json.loads(status.status_file(automatic).read_text())
    with instance.only_instance(automatic):
        status.status_file(automatic).write_text(json.dumps({**told, "version": "0.0.7", "ended": None}))
        assert "it runs armada 0.0.7, and this is armada" in armada.run("daemon", "status").stdout


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY])
def test_a_store_that_cannot_be_used_for_a_while_does_not_end_the_service_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    home.make()
    cause = sqlite3.OperationalError("full, or locked")
    cause.sqlite_errorcode = code

    def opened(path: Path, *, existing: bool) -> None:
        explained = explain(cause, path)
        assert isinstance(explained, ConfigError | Conflict)
        raise explained from cause

    monkeypatch.setattr(service, "Database", opened)
    with pytest.raises(ArmadaError) as refused:
        serve(home, auto=False)
    (given_up,) = re.findall(r"RestartPreventExitStatus=(.*)", systemd_unit("python", {}))
    assert str(refused.value.exit_code) not in given_up.split()
