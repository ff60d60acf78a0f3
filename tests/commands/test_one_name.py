"""Runs of a host whose name stands for another machine in a second file, by now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conftest import eventually

if TYPE_CHECKING:
    from tests.conftest import Armada


def test_a_run_is_stopped_where_it_was_started(armada: Armada) -> None:
    """The project's `local` counted when it was launched; now hosts.yaml means another folder by that name."""
    armada.write("armada.yaml", f"hosts: {{local: {{root: {armada.folder}/rented}}}}\n")
    experiment = armada.command("sh", "-c", "echo to-be-read; sleep 1000")
    run_id = armada.json("launch", "--host", "local", experiment)["run_id"]
    eventually(lambda: "to-be-read" in armada.run("logs", run_id).stdout)
    (armada.folder / "home" / "config").mkdir(parents=True, exist_ok=True)
    own = armada.folder / "home" / "config" / "hosts.yaml"
    own.write_text(f"hosts: {{local: {{root: {armada.folder}/mine}}}}\n")
    refused = armada.run("launch", "--host", "local", experiment)
    assert refused.returncode != 0
    assert "another machine by this name (`root`)" in refused.stderr
    listed = armada.run("ps")
    assert "armada: local: its runs are looked for at this machine in " in listed.stderr
    assert str(own) in listed.stderr
    assert armada.json("ps")[0]["state"] == "running"
    done = armada.run("stop", run_id, "--grace", "1")
    assert done.returncode == 0, done.stderr
    assert "cancelled" in done.stdout
