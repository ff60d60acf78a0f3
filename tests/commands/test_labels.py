"""Labels of real runs: from the experiment to the store, never to the host, and back after the store was lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from armada.paths import HomePaths
from tests.commands.saved_run import save_and_end
from tests.conftest import Armada


def test_group_and_tags_of_a_launch_stay_at_home(armada: Armada) -> None:
    plain = armada.json("launch", "--host", "local", armada.command("true"))
    labelled = armada.command("true", group="sweep 1", tags=["arc", "base"])
    run = armada.json("launch", "--host", "local", labelled, "--tag", "arc", "--tag", "mine")
    assert (run["group"], run["tags"]) == ("sweep 1", ["arc", "base", "mine"])
    other = armada.json("launch", "--host", "local", labelled, "--group", "other", "--follows", plain["run_id"])
    assert (plain["follows"], other["follows"]) == (None, plain["run_id"])
    assert (other["group"], other["tags"]) == ("other", ["arc", "base"])
    specs = [json.loads((armada.local_runs / each["run_id"] / "spec.json").read_text()) for each in (plain, run, other)]
    assert len({spec["launch_key"] for spec in specs}) == 1
    for spec in specs:
        assert not {"group", "tags", "follows"} & set(spec["experiment"])
        assert "sweep" not in json.dumps(spec)
        assert "arc" not in json.dumps(spec)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"tags": "arc"}, "`tags`"),
        ({"tags": ["ok", "-no"]}, "'-no' cannot be a tag"),
        ({"tags": [f"t{number}" for number in range(51)]}, "`tags`"),
        ({"group": " x"}, "' x' cannot name a group"),
        ({"group": 3}, "`group`"),
        ({"follows": "x-aaaaaa"}, "unknown key `follows`"),
    ],
)
def test_wrong_labels_in_an_experiment_are_told_with_their_line(
    armada: Armada, more: dict[str, Any], words: str
) -> None:
    done = armada.run("launch", "--host", "local", armada.command("true", **more))
    assert done.returncode == 2
    assert words in done.stderr
    assert "exp.yaml:1" in done.stderr
    assert armada.json("ps") == []


def test_wrong_labels_of_the_command_line_start_nothing(armada: Armada) -> None:
    file = armada.command("true")
    assert armada.run("launch", "--host", "local", file, "--tag", "a b").returncode == 2
    assert armada.run("launch", "--host", "local", file, "--group", "").returncode == 2
    unknown = armada.run("launch", "--host", "local", file, "--follows", "nobody")
    assert "no run's id begins with 'nobody'" in unknown.stderr
    assert armada.json("ps") == []


def test_an_archived_run_still_syncs_still_holds_its_host_and_is_recovered_with_its_labels(armada: Armada) -> None:
    run_id = save_and_end(armada)
    armada.json("tag", run_id, "--add", "arc")
    armada.json("archive", run_id)
    assert armada.json("ps") == []
    assert [run["run_id"] for run in armada.json("ps", "--archived")] == [run_id]
    assert armada.json("hosts", "release", "local", rc=8)["safe"] is False
    (synced,) = armada.json("sync", "now")
    assert len(synced["published"]) == 3
    home = HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state")
    for file in home.state.glob("armada.db*"):
        file.unlink()
    armada.json("recover")
    (found,) = armada.json("ps", "--archived")
    assert (found["run_id"], found["tags"]) == (run_id, ["arc"])
    armada.json("rm", run_id, "--force")  # despite its file that no sync.outputs names
    assert home.labels(run_id).exists()  # beside the checkpoints that stay
