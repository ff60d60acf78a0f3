"""A box without python3, for a user who is not root there: armada's own task gets one, and a launch follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Armada
from tests.fleet import machines
from tests.fleet.conftest import Fleet

PYTHON = Path("/usr/bin/python3").resolve()
UV = """#!/bin/sh
# Stands for uv's download alone.
case "$*" in *find*) echo /usr/bin/another-python;; esac
"""
FABFILE = """\
from fabric import task


@task
def send(c):
    c.put("fabfile.py", "sent.py")
    c.run("whoami; command -v python3 || echo none")
"""


@pytest.mark.skipif(not PYTHON.is_file(), reason="this machine's own python3 is not in /usr/bin")
@pytest.mark.parametrize("transport", ["fabric", "openssh"])
def test_a_box_without_python3_gets_one_without_root_and_takes_a_launch(
    armada: Armada, fleet: Fleet, transport: str
) -> None:
    machine = fleet.host("bare-2")
    fleet.run("bare-2", f"rm -rf ~{machine.user}/.armada ~{machine.user}/.local")
    install = "cat > {0}.new && chmod 755 {0}.new && mv {0}.new {0}"
    fleet.run("bare-2", install.format("/usr/bin/another-python"), stdin=PYTHON.read_bytes())
    fleet.run("bare-2", install.format("/usr/local/bin/uv"), stdin=UV.encode())
    armada.write("fabfile.py", FABFILE)
    added = armada.run(
        "hosts", "add", "box", machine.target, "--identity", str(machines.IDENTITY), "--yes", "--transport", transport
    )
    try:
        assert added.returncode == 5, added.stdout + added.stderr
        assert "armada hosts provision box python" in added.stdout + added.stderr
        done = armada.run("hosts", "provision", "box", "fabfile.py:send", "python")
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"            {machine.user}\n            none\n" in done.stdout
        assert fleet.run("bare-2", f"readlink ~{machine.user}/.local/bin/python3") == "/usr/bin/another-python\n"
        launched = armada.run("launch", "--host", "box", armada.command("echo", "hello"), "--follow")
        assert launched.returncode == 0, launched.stdout + launched.stderr
        assert armada.json("hosts", "provision", "box", "fabfile.py:send")["tasks"][0]["outcome"] == "there"
    finally:
        armada.run("hosts", "disconnect", "box")
