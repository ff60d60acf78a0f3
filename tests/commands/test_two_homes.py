"""Two homes on one host, as their owners type: whose run it is, what the other has not fetched, who says so."""

from __future__ import annotations

import dataclasses
import shutil

import pytest

from tests.commands.saved_run import save_and_end
from tests.conftest import Armada


@pytest.fixture
def other(armada: Armada) -> Armada:
    """A second home whose `local` is the first one's host, after `armada recover`."""
    armada.run("ps", "--cached")
    (armada.folder / "home" / "state" / "local").mkdir(exist_ok=True)
    state = armada.folder / "other" / "state"
    state.mkdir(parents=True)
    (state / "local").symlink_to(armada.folder / "home" / "state" / "local")
    return dataclasses.replace(armada, env={**armada.env, "ARMADA_HOME": str(armada.folder / "other")})


def test_a_wipe_wants_the_other_homes_name_and_the_other_home_hears_of_it(armada: Armada, other: Armada) -> None:
    run_id = save_and_end(armada)
    assert other.run("recover").returncode == 0
    assert armada.run("sync", "now").returncode == 0
    release = ("hosts", "release", "local", "--ignore-work", "--wipe", "--yes")
    refused = armada.run(*release)
    assert refused.returncode == 8, refused.stdout
    assert "has not fetched 3 checkpoints" in refused.stdout
    assert armada.local_runs.exists()

    homes = armada.json("hosts", "homes", "local")
    (theirs,) = [home for home in homes if not home["this_one"]]
    assert theirs["runs"] == [{"run_id": run_id, "not_fetched": 3, "settled": False}]
    assert theirs["path"] == str(armada.folder / "other" / "state")
    assert theirs["id"][:8] in refused.stdout
    assert armada.run("hosts", "forget-home", "local", "fffff").returncode == 7
    (ours,) = [home for home in homes if home["this_one"]]
    assert armada.run("hosts", "forget-home", "local", ours["id"]).returncode == 2
    said = armada.run("hosts", "forget-home", "local", theirs["id"][:8]).stdout
    assert "3 checkpoints that it has not fetched" in said
    done = armada.run(*release)
    assert done.returncode == 0, done.stdout + done.stderr

    other.run("sync", "now")
    assert "its host was wiped by" in other.run("show", run_id).stdout
    listed = other.run("sync", "ls").stdout
    assert "all home" not in listed
    assert "3 checkpoints lost before reaching home" in listed


def test_a_run_of_another_home_says_so_and_is_not_touched_unawares(armada: Armada, other: Armada) -> None:
    run_id = save_and_end(armada)
    assert other.run("recover").returncode == 0
    for words in (("ps",), ("show", run_id), ("why", run_id)):
        assert "launched by" in " ".join(other.run(*words).stdout.split()), words
        assert "launched by" not in armada.run(*words).stdout, words
    for verb in ("stop", "resume"):
        refused = other.run(verb, run_id)
        assert refused.returncode == 8, verb
        assert f"armada {verb} {run_id} --other-home" in refused.stderr
    assert other.run("stop", run_id, "--other-home").returncode == 0
    other.run("sync", "now")
    assert other.run("rm", run_id).returncode == 8
    (armada.local_runs / run_id / "work" / "scratch.tmp").unlink()  # no sync.outputs names it
    kept = other.run("rm", run_id, "--force")
    assert (kept.returncode, (armada.local_runs / run_id).exists()) == (8, True)
    assert "--other-home" in kept.stderr
    assert other.run("rm", run_id, "--other-home").returncode == 0
    assert not (armada.local_runs / run_id).exists()


def test_a_home_does_not_remove_its_own_run_while_another_has_not_fetched_it(armada: Armada, other: Armada) -> None:
    run_id = save_and_end(armada)
    (armada.local_runs / run_id / "work" / "scratch.tmp").unlink()  # no sync.outputs names it
    assert other.run("recover", "--dry-run").returncode == 0
    assert len(armada.json("hosts", "homes", "local")) == 1  # a dry run registers nobody
    assert other.run("recover").returncode == 0
    assert armada.run("sync", "now").returncode == 0
    assert armada.run("rm", run_id, "--dry-run").returncode == 8
    refused = armada.run("rm", run_id)
    assert refused.returncode == 8
    assert "has not fetched 3 checkpoints" in refused.stderr
    other.run("sync", "now")
    assert armada.run("rm", run_id).returncode == 0


def test_a_copied_home_says_so_once(armada: Armada) -> None:
    armada.run("ps", "--cached")
    shutil.copytree(armada.folder / "home", armada.folder / "copy")
    copy = dataclasses.replace(armada, env={**armada.env, "ARMADA_HOME": str(armada.folder / "copy")})
    assert "is a copy of" in copy.run("ps", "--cached").stderr
    assert copy.run("ps", "--cached").stderr == ""
    assert armada.run("ps", "--cached").stderr == ""
    (armada.folder / "home").rename(armada.folder / "moved")
    moved = dataclasses.replace(armada, env={**armada.env, "ARMADA_HOME": str(armada.folder / "moved")})
    assert moved.run("ps", "--cached").stderr == ""
