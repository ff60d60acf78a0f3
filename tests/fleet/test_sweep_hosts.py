"""A sweep over two real SSH hosts, one of which is killed in the middle."""

from __future__ import annotations

import pytest

from tests.conftest import Armada, eventually
from tests.fleet import machines
from tests.fleet.conftest import Fleet

HOSTS = ("workstation", "a100-2")


@pytest.mark.fault(
    "one of two hosts of a sweep killed and restarted",
    "its waiting cells start again, `sweep retry` resumes the lost ones, and each cell of the other host runs once",
)
@pytest.mark.takes_long("twelve cells on two hosts, one of which is down for a while")
def test_twelve_cells_over_two_hosts_end_well_though_one_host_is_killed(armada: Armada, fleet: Fleet) -> None:
    with fleet.borrow("a100-2") as machine:
        places = {"workstation": fleet.host("workstation"), "a100-2": machine}
        for name, place in places.items():
            words = ["hosts", "add", name, place.target, "--identity", str(machines.IDENTITY), "--yes"]
            assert armada.run(*words).returncode == 0
        for name, place in places.items():
            fleet.run(name, "cd && rm -f go starts", user=place.user)
        script = 'echo "$X" >> ~/starts; until [ -e ~/go ]; do sleep 0.2; done'
        experiment = armada.command("sh", "-c", script, name="two-hosts", env={"X": "0"}, resources={"gpus": 0})
        grid = f"env.X={','.join(f'x{number}' for number in range(12))}"
        hosts = [word for name in HOSTS for word in ("--host", name)]
        told = armada.json("sweep", experiment, *hosts, "--grid", grid, "--parallel", "4", "--no-daemon")
        sweep = told["sweep"]
        assert sum(told["taken"].values()) == 12

        def starts(name: str) -> list[str]:
            return fleet.run(name, "cd && cat starts 2>/dev/null || true", user=places[name].user).split()

        eventually(lambda: len(starts("workstation")) + len(starts("a100-2")) == 4)
        began = set(starts("a100-2"))
        assert len(began) < 4
        assert began
        machines.kill(machine)
        fleet.run("workstation", "cd && touch go", user=places["workstation"].user)

        def done(host: str) -> bool:
            found = [cell for cell in armada.json("sweep", "show", sweep)["cells"] if cell["host"] == host]
            return all(cell["state"] in ("succeeded", "failed") for cell in found)

        eventually(lambda: done("workstation"), within_s=120)
        assert len(starts("workstation")) == told["taken"]["workstation"]
        machines.start([machine])
        fleet.run("a100-2", "cd && touch go", user=machine.user)
        eventually(lambda: done("a100-2"), within_s=180)
        lost = [cell for cell in armada.json("sweep", "show", sweep)["cells"] if cell["state"] == "failed"]
        assert {cell["values"]["env.X"] for cell in lost} == began
        assert {cell["reason"] for cell in lost} == {"host_rebooted"}
        again = armada.json("sweep", "retry", sweep, "--reason", "host_rebooted", "--no-daemon")
        assert len(again["resumed"]) == len(lost)
        eventually(lambda: done("a100-2"), within_s=120)
        assert {cell["state"] for cell in armada.json("sweep", "show", sweep)["cells"]} == {"succeeded"}
        assert len(starts("a100-2")) == told["taken"]["a100-2"] + len(lost)
