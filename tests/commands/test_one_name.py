"""Runs of a host whose name stands for another machine in a second file, by now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.store import hosts, runs
from armada.store.database import Database
from tests.conftest import eventually

if TYPE_CHECKING:
    from tests.conftest import Armada


def test_both_files_are_named_where_a_run_is_looked_for_on_another_machine(armada: Armada) -> None:
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
    for command in (["ps"], ["stop", run_id, "--grace", "1"]):
        said = armada.run(*command).stderr
        assert "armada: local: its last runs were started on this machine in " in said
        assert str(own) in said
    removed = armada.run("rm", run_id)
    assert removed.returncode == 2
    assert f"{run_id} may still be running by the first one, so it was not removed" in removed.stderr
    own.unlink()
    done = armada.run("stop", run_id, "--grace", "1")
    assert done.returncode == 0, done.stderr
    assert "cancelled" in done.stdout


def test_a_name_with_runs_of_a_projects_machine_is_not_given_to_another(armada: Armada) -> None:
    there = armada.folder / "proj"
    there.mkdir()
    (there / "armada.yaml").write_text("hosts:\n  box: {ssh: me@192.0.2.1}\n")
    assert armada.run("hosts", "ls").returncode == 0
    with Database(armada.folder / "home" / "state" / "armada.db") as database:
        hosts.record_facts(database, "box", {}, origin=str(there / "armada.yaml"))
        runs.insert(database, run_id="x-aaaaaa", name="x", host="box", task="command", experiment=None, spec={})
    for more in ([], ["--dry-run"]):
        refused = armada.run("hosts", "add", "box", "me@192.0.2.2", "--yes", *more)
        assert refused.returncode == 2
        assert f"{there}/armada.yaml:2: box is me@192.0.2.1 here, and me@192.0.2.2 in " in refused.stderr
        assert "may still be running, so nothing was added" in refused.stderr
        assert "; or, if that machine is gone: armada rm x-aaaaaa --force" in refused.stderr
