"""A sweep over a long link: 200 cells take as many round trips as one run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.sweeping import cells
from tests.commands.task_box import configure
from tests.conftest import Armada
from tests.ssh_server import SshServer

WAN = Path(__file__).parents[1] / "fleet" / "wan"
MOST_ROUND_TRIPS = 12
"""Six of them are TCP, SSH's and the agent's; docs/design.md names them."""


@pytest.fixture
def far(armada: Armada, server: SshServer, tmp_path: Path) -> Iterator[Path]:
    """A box behind a link of 50 ms whose round trips are counted in a file."""
    (server.bin / "python3").symlink_to(Path(sys.executable).resolve())  # other tests need a box without
    count = tmp_path / "count"
    words = [
        sys.executable,
        str(WAN),
        "127.0.0.1:0",
        f"127.0.0.1:{server.port}",
        "--rtt-ms",
        "50",
        "--count",
        str(count),
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as link:
        assert link.stdout is not None
        port = link.stdout.readline().split()[1]
        configure(armada, server, ssh=f"{server.target.rpartition(':')[0]}:{port}")
        assert armada.run("hosts", "trust", "box", "--yes").returncode == 0
        yield count
        link.terminate()


def test_two_hundred_cells_take_as_many_round_trips_as_one_run(armada: Armada, far: Path) -> None:
    experiment = armada.command("true", name="far")
    assert armada.run("hosts", "check", "box").returncode == 0  # warm: the agent is there
    grid = f"env.X={','.join(map(str, range(200)))}"
    told = armada.json("sweep", experiment, "--host", "box", "--grid", grid, "--parallel", "1", "--yes")
    taken = int(far.read_text().split()[-1])
    assert told["taken"] == {"box": 200}
    assert taken <= MOST_ROUND_TRIPS
    armada.run("sweep", "stop", told["sweep"])
    assert {cell["state"] for cell in cells(armada, told["sweep"])} <= {"cancelled", "succeeded"}
