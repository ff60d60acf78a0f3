"""`armada rm` deletes nothing on a host that is not intact at home, unless the user says so."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.commands.saved_run import SAVE, save_and_end

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Armada


@pytest.fixture
def run_id(armada: Armada) -> str:
    """A run that saved three checkpoints and ended, all of which is at home."""
    armada.write("save.py", SAVE)
    outputs = {"outputs": ["results/**", "scratch.tmp"]}
    experiment = armada.command("python3", str(armada.folder / "save.py"), sync=outputs)
    found: str = armada.json("launch", "--host", "local", experiment)["run_id"]
    armada.await_end(found)
    armada.json("sync", "now")
    return found


def at_home(armada: Armada, run_id: str) -> Path:
    return armada.folder / "home" / "state" / "runs" / run_id


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.chmod(0o644)
    file.write_bytes(content)


def refused(armada: Armada, run_id: str) -> str:
    """What `rm` says when it refuses; nothing was deleted, and a dry run ends alike."""
    files = sorted((armada.local_runs / run_id).rglob("*"))
    previewed = armada.run("rm", run_id, "--dry-run")
    done = armada.run("rm", run_id)
    assert (previewed.returncode, done.returncode) == (8, 8), previewed.stderr + done.stderr
    assert previewed.stderr == done.stderr
    assert sorted((armada.local_runs / run_id).rglob("*")) == files
    assert f"armada rm {run_id} --force to lose them" in done.stderr
    return done.stderr


def test_a_run_that_is_whole_at_home_is_removed(armada: Armada, run_id: str) -> None:
    assert armada.run("rm", run_id, "--dry-run").returncode == 0
    done = armada.run("rm", run_id)
    assert (done.returncode, "3 checkpoints kept in" in done.stdout) == (0, True), done.stderr
    assert not (armada.local_runs / run_id).exists()


@pytest.mark.parametrize("change", [damage, lambda file: file.unlink()], ids=["a byte is wrong", "a file is missing"])
def test_a_checkpoint_that_is_damaged_at_home_keeps_the_run(
    armada: Armada, run_id: str, change: Callable[[Path], None]
) -> None:
    change(at_home(armada, run_id) / "checkpoints" / "checkpoint-30" / "model.bin")
    for _ in range(2):  # the second time the damage is known
        said = refused(armada, run_id)
        assert f"only on local: {run_id}: checkpoint-30 is damaged at home: the only intact copy is there" in said
        assert "checkpoint-20" not in said
        assert f"armada sync verify {run_id} --read-data" in said
    assert armada.run("sync", "verify", run_id, "--read-data").returncode == 0
    assert armada.run("rm", run_id).returncode == 0


def test_a_checkpoint_whose_size_alone_is_known_is_read_first(armada: Armada, run_id: str) -> None:
    damage(at_home(armada, run_id) / "checkpoints" / "checkpoint-30" / "model.bin")
    for file in (armada.folder / "home" / "state").glob("armada.db*"):
        file.unlink()
    armada.json("recover", "--sizes-only")
    assert "checkpoint-30 is damaged at home" in refused(armada, run_id)


def test_what_is_not_home_is_named_and_force_deletes_it(armada: Armada) -> None:
    run_id = save_and_end(armada)
    said = refused(armada, run_id)
    assert f"only on local: {run_id}: checkpoint-10 (" in said
    assert "; and 2 more" in said
    assert f"armada sync now {run_id} or armada pull {run_id}, then copy what you need from the host" in said
    armada.json("sync", "now", run_id)
    said = refused(armada, run_id)
    assert f"only on local: {run_id}: 1 file it wrote (20 B), that no sync.outputs names: work/scratch.tmp" in said
    assert "sync now" not in said
    assert armada.run("rm", run_id, "--force", "--dry-run").returncode == 0
    assert armada.run("rm", run_id, "--force").returncode == 0
    assert not (armada.local_runs / run_id).exists()


@pytest.mark.parametrize("name", ["output.log", "work/results/table.csv"])
def test_a_log_or_an_output_that_is_not_home_keeps_the_run(armada: Armada, run_id: str, name: str) -> None:
    with (armada.local_runs / run_id / name).open("a") as file:
        file.write("more\n")
    said = refused(armada, run_id)
    assert "not home of its logs and outputs: 1 file (" in said
    assert name in said
    assert f"armada sync now {run_id}" in said
    armada.json("sync", "now", run_id)
    assert armada.run("rm", run_id).returncode == 0


def test_an_output_that_was_deleted_at_home_keeps_the_run(armada: Armada, run_id: str) -> None:
    shutil.rmtree(at_home(armada, run_id) / "outputs")
    assert "not home of its logs and outputs" in refused(armada, run_id)
    armada.json("sync", "now", run_id)
    assert armada.run("rm", run_id).returncode == 0


def test_what_force_gives_up_is_said(armada: Armada) -> None:
    run_id = save_and_end(armada)
    said = armada.json("rm", run_id, "--force", "--dry-run")
    assert said["given_up"] is None, "a dry run does the checks of the removal"
    gone = armada.run("rm", run_id, "--force")
    assert "given up   3 checkpoints (" in gone.stdout
    assert "its log and other outputs, none of which is at home" in gone.stdout
    assert "other files that it wrote, if there are any" in gone.stdout


def test_force_says_what_no_sync_brings_and_gives_nothing_else_up(armada: Armada) -> None:
    run_id = save_and_end(armada)
    armada.json("sync", "now", run_id)
    told = armada.json("rm", run_id, "--force")
    assert told["given_up"]["sentences"] == ["1 other file that no sync brings: no sync.outputs names them"]
