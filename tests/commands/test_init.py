"""`armada init`, and the launch of what it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.commands.test_json import check
from tests.unit.launch.drafts.draft_scripts import ARGPARSE, LIGHTNING

if TYPE_CHECKING:
    from tests.conftest import Armada


def test_what_is_written_passes_a_dry_run(armada: Armada) -> None:
    armada.write("fit.py", LIGHTNING)
    told = armada.json("init")
    check(told, "init")
    assert told["script"] == "fit.py"
    planned = armada.json("launch", "--host", "local", "experiment.yaml", "--dry-run")
    assert planned["spec"]["job"]["argv"][-3:] == ["--script", "fit.py", "--"]
    again = armada.run("init")
    assert again.returncode == 8
    assert again.stderr.startswith("armada: experiment.yaml exists already")


def test_a_launch_refuses_what_is_not_filled_in(armada: Armada) -> None:
    armada.write("train.py", ARGPARSE)
    assert armada.json("init", "train.py")["to_fill_in"] == ["data_dir", "--batch-size"]
    refused = armada.json("launch", "--host", "local", "experiment.yaml", "--dry-run", rc=3)
    (failed,) = [each for each in refused["checks"] if each["outcome"] == "fail"]
    assert failed["code"] == "ARM019"
    assert "FILL-IN:data_dir, --batch-size=FILL-IN:batch_size" in failed["message"]
    assert armada.json("ps") == []
