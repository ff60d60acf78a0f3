"""The tasks that armada brings, and a launch on a box without python3, over a real sshd."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jsonschema
import pytest

from armada.cli.shapes import SHAPES, schema_of
from tests.commands.task_box import FABFILE, configure, outcomes, provision
from tests.conftest import Armada
from tests.ssh_server import SshServer

APT = """\
case "$*" in
*update*) echo "Hit:1 http://deb.debian.org stable";;
*install*) for last; do :; done; echo "$*" >> {log}; echo "$last" >> {log}.has; echo "Setting up $last";;
esac
"""
DPKG = """\
for last; do :; done
if grep -qx -- "$last" {log}.has; then printf 'ii '; else echo "no packages found matching $last" >&2; exit 1; fi
"""


def give_apt(server: SshServer, installs: str = "") -> Path:
    """Give the box an apt that records what it is told. `installs` is what it does in the place of an installation."""
    log = server.folder / "apt"
    (server.folder / "apt.has").write_text("tmux\n")
    server.program("apt-get", APT.format(log=log) + installs)
    server.program("dpkg-query", DPKG.format(log=log))
    server.program("sudo", 'shift; exec "$@"')  # for tests as another user than root; root's tasks need none
    return log


def test_packages_of_the_system_are_installed_where_they_are_missing(box: Armada, server: SshServer) -> None:
    log = give_apt(server)
    done = box.run("hosts", "provision", "box", "system-packages=tmux,rsync")
    assert done.returncode == 0, done.stderr
    assert log.read_text() == "-o DPkg::Lock::Timeout=300 -y --no-install-recommends install rsync\n"
    assert "Setting up rsync\n" in done.stdout
    again = box.run("hosts", "provision", "box", "system-packages=tmux,rsync")
    assert "already there: tmux rsync" in again.stdout, "one that a person names looks for itself"
    assert len(log.read_text().splitlines()) == 1


def test_without_a_package_manager_the_packages_are_named(box: Armada) -> None:
    done = box.run("hosts", "provision", "box", "system-packages=tmux")
    assert (done.returncode, "neither apt-get nor dnf is on this host" in done.stderr) == (5, True)


def test_a_box_without_python3_gets_one_from_its_packages_and_then_takes_a_launch(
    box: Armada, server: SshServer
) -> None:
    refused = box.run("launch", "--host", "box", box.command("echo", "hello"))
    assert (refused.returncode, "no python3 on this host" in refused.stderr) == (5, True)
    assert "armada hosts provision box python" in refused.stderr
    log = give_apt(server, f'case "$*" in *python3*) ln -s {sys.executable} {server.bin}/python3;; esac')
    configure(box, server, provision=["python", {"system-packages": ["tmux"]}, "../../fabfile.py:drivers"])
    planned = box.run("launch", "--host", "box", "exp.yaml", "--dry-run")
    assert planned.returncode == 5, "a dry run changes nothing, and so finds no python3"
    done = box.run("launch", "--host", "box", "exp.yaml", "--follow")
    assert done.returncode == 0, done.stderr
    assert log.read_text().endswith("install python3\n")
    assert "fabfile.py:drivers: done in" in done.stdout
    assert (server.home / "ran").read_text() == "again\n"
    second = box.run("launch", "--host", "box", "exp.yaml", "--follow")
    assert second.returncode == 0, second.stderr
    assert (server.home / "ran").read_text() == "again\n", "each task once"
    planned = box.run("launch", "--host", "box", "exp.yaml", "--dry-run")
    assert " tasks      first, if new: python · system-packages tmux · fabfile.py:drivers\n" in planned.stdout


def test_a_task_that_fails_stops_the_launch(box: Armada, server: SshServer) -> None:
    configure(box, server, provision=["../../fabfile.py:raises"])
    done = box.run("launch", "--host", "box", box.command("true"))
    assert (done.returncode, "the task fabfile.py:raises failed: ValueError: no such card" in done.stderr) == (5, True)
    assert box.json("ps", "--all") == []


def test_a_box_without_python3_and_root_gets_one_by_uv(box: Armada, server: SshServer) -> None:
    """The fake uv stands for the download alone."""
    server.program(
        "uv",
        f'case "$*" in *find*) echo {sys.executable};; *) echo "$UV_PYTHON_INSTALL_DIR $*" >> {server.folder}/uv;; esac',
    )
    assert provision(box, "python") == [("python", "ran")]
    root = server.home / ".armada"
    assert (server.folder / "uv").read_text() == f"{root}/tools/python python install --no-bin 3.12\n"
    assert (server.home / ".local" / "bin" / "python3").readlink() == Path(sys.executable)
    done = box.run("launch", "--host", "box", box.command("echo", "hello"), "--follow")
    assert done.returncode == 0, done.stderr


def test_uv_is_told_where_to_go_and_without_a_way_to_fetch_it_that_is_said(box: Armada, server: SshServer) -> None:
    done = box.run("hosts", "provision", "box", "uv")
    assert (done.returncode, "uv cannot be fetched there: neither curl nor wget" in done.stderr) == (5, True)
    # The installer of uv, as curl would bring it.
    server.program(
        "curl", """echo 'echo "#!/bin/sh" > "$UV_UNMANAGED_INSTALL/uv"; chmod +x "$UV_UNMANAGED_INSTALL/uv"' > "$4\""""
    )
    assert provision(box, "uv") == [("uv", "ran")]
    assert os.access(server.home / ".armada" / "tools" / "uv" / "bin" / "uv", os.X_OK)
    assert sorted(each.name for each in (server.home / ".armada" / "tools" / "uv").iterdir()) == ["bin"]
    assert provision(box, "uv") == [("uv", "ran")]
    (server.home / ".armada" / "tools").chmod(0o777)
    refused = box.run("hosts", "provision", "box", "uv")
    assert (refused.returncode, "another user may change" in refused.stderr) == (5, True)


def test_the_host_local_has_tasks_too_but_no_sftp(armada: Armada) -> None:
    armada.env["HOME"] = str(armada.folder)
    armada.write("fabfile.py", FABFILE)
    armada.write("names.py", "CARD = 'A100'\n")
    answer = armada.json("hosts", "provision", "local", "fabfile.py:drivers")
    assert outcomes(answer) == [("fabfile.py:drivers", "ran")]
    assert (armada.folder / "ran").read_text() == "again\n"
    done = armada.run("hosts", "provision", "local", "fabfile.py:send")
    assert (done.returncode, "send failed: `put` and `get` need SSH" in done.stderr) == (5, True)


def test_the_tasks_are_listed_without_asking_a_host(armada: Armada) -> None:
    said = armada.run("hosts", "provision", "--list")
    assert [line.split()[0] for line in said.stdout.splitlines()] == ["TASK", "python", "system-packages", "uv"]
    file = armada.folder / "home" / "config" / "hosts.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("hosts: {box: {ssh: me@192.0.2.1, provision: [uv, {fabfile.py:drivers: [535]}]}}\n")
    told = armada.json("hosts", "provision", "box", "--list")
    assert [(each["task"], each["configured"]) for each in told["tasks"]][:3] == [
        ("uv", True),
        ("fabfile.py:drivers 535", True),
        ("python", False),
    ]
    jsonschema.validate(told, schema_of(SHAPES["hosts provision"]))


@pytest.mark.parametrize(
    ("provision", "said"),
    [
        ("[pyton]", "armada brings no task called 'pyton'"),
        ("[{uv: [x]}]", "uv takes no arguments"),
        ("[{system-packages: rsync}]", "the arguments of system-packages must be a list"),
        ("[../other.py:x]", "is outside of the project"),
        ("[fabfile.py]", "armada brings no task called 'fabfile.py'"),
        ("[3]", "must be a task, not 3"),
    ],
)
def test_a_wrong_entry_is_named_with_its_line(armada: Armada, provision: str, said: str) -> None:
    armada.write("armada.yaml", f"hosts:\n  box:\n    ssh: box\n    provision: {provision}\n")
    done = armada.run("hosts", "provision", "box")
    assert (done.returncode, "armada.yaml:4: " in done.stderr, said in done.stderr) == (2, True, True), done.stderr
