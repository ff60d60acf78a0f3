"""The experiment of the tutorial is one that a reader can paste and run."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import Armada

PAGE = Path(__file__).parents[2] / "docs/tutorial/rented-box.md"


def test_the_experiment_of_the_tutorial_runs_and_its_checkpoints_come_home(armada: Armada) -> None:
    files = dict(re.findall(r"^`([\w.]+)`\n\n```\w+\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    assert set(files) == {"train.py", "count.yaml"}
    (armada.folder / "count").mkdir()
    # A reader waits for six seconds, a test does not.
    (armada.folder / "count/train.py").write_text(files["train.py"].replace("time.sleep(1)", ""))
    (armada.folder / "count/count.yaml").write_text(files["count.yaml"])
    launched = armada.run("launch", "--host", "local", "count/count.yaml", "--follow", "--no-daemon")
    assert "succeeded" in launched.stdout
    assert [f"checkpoint-{step} (every byte verified)" in launched.stdout for step in (3, 6)] == [True, True]
