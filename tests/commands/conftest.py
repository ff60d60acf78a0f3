"""A box over a real sshd, for the tests about tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ssh_server
from tests.commands.task_box import FABFILE, configure
from tests.conftest import Armada
from tests.ssh_server import SshServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    if reason := ssh_server.why_not():
        pytest.skip(reason)
    with ssh_server.ssh_server(tmp_path / "box") as found:
        yield found


@pytest.fixture
def box(armada: Armada, server: SshServer) -> Armada:
    """A home that knows the box, and files of tasks."""
    armada.write("fabfile.py", FABFILE)
    armada.write("names.py", "CARD = 'A100'\n")
    configure(armada, server)
    done = armada.run("hosts", "trust", "box", "--yes")
    assert done.returncode == 0, done.stderr
    return armada
