"""Pipes in the place of files at home: nothing waits for them, and a sentence says what to do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Armada


@pytest.mark.parametrize("name", [".index.json", "output.log"])
def test_a_pipe_in_the_place_of_an_output_holds_up_no_command(armada: Armada, name: str) -> None:
    run_id = armada.json("launch", "--host", "local", armada.command("echo", "printed"))["run_id"]
    armada.await_end(run_id)
    armada.json("sync", "now", run_id)
    place = armada.folder / "home" / "state" / "runs" / run_id / "outputs" / name
    place.unlink()
    os.mkfifo(place)
    for words, code in ((("sync", "now", run_id), 1), (("hosts", "release", "local"), 8), (("rm", run_id), 8)):
        done = armada.run(*words, timeout_s=60)
        assert done.returncode == code, done.stderr
        if words[0] == "sync":
            assert f"{place} is not a regular file, so " in done.stderr
            assert f"move it away, then armada sync now {run_id}" in done.stderr
        else:
            assert "not home of its logs and outputs" in done.stdout + done.stderr
    place.unlink()
    assert armada.run("sync", "now", run_id).returncode == 0
    assert (place.parent / "output.log").read_text() == "printed\n"
    assert armada.run("rm", run_id).returncode == 0
