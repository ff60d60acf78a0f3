"""What happens between the check of `hosts release --wipe` and a person's yes, and beside another home's launch."""

from __future__ import annotations

import dataclasses
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.chance import dice
from tests.commands.saved_run import save_and_end
from tests.conftest import Armada, eventually
from tests.together import codes, rounds, said, together

RELEASE = ["hosts", "release", "local", "--ignore-work", "--wipe"]


@pytest.fixture
def other(armada: Armada) -> Armada:
    """A second home whose `local` is the first one's host."""
    armada.run("ps", "--cached")
    root = armada.folder / "home" / "state" / "local"
    root.mkdir(exist_ok=True)
    (root / "mine").write_text("a user's file, so that the folder stays, which the other home's link leads to")
    state = armada.folder / "other" / "state"
    state.mkdir(parents=True)
    (state / "local").symlink_to(root)
    return dataclasses.replace(armada, env={**armada.env, "ARMADA_HOME": str(armada.folder / "other")})


def answer_yes(armada: Armada, first: Callable[[], object]) -> tuple[int, str]:
    """Wipe on a terminal, and do something else first once it asks."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "armada", *RELEASE]
    with subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env=armada.env, cwd=armada.folder
    ) as shown:
        os.close(theirs)
        text, asked = b"", False
        try:
            while piece := os.read(ours, 4096):
                text += piece
                if not asked and b"[y/N]" in text:
                    asked = True
                    first()
                    os.write(ours, b"y\n")
        except OSError:  # the other side of the terminal is closed
            pass
        code = shown.wait()
    os.close(ours)
    assert asked, text
    return code, text.decode()


@pytest.mark.fault(
    "a copy at home is deleted while a wipe asks", "the wipe says what would be lost, and deletes nothing"
)
def test_what_is_lost_while_a_person_thinks_stays_on_the_host(armada: Armada) -> None:
    run_id = save_and_end(armada)
    assert armada.run("pull", run_id).returncode == 0
    (copy,) = (armada.folder / "home").glob("state/**/checkpoint-20")
    code, text = answer_yes(armada, lambda: shutil.rmtree(copy))
    assert code == 8, text
    assert "checkpoint-20" in text
    assert "a wipe would lose everything marked" in " ".join(text.split())
    assert (armada.local_runs / run_id / "outbox").is_dir()


def test_what_a_person_says_yes_to_is_deleted(armada: Armada) -> None:
    code, text = answer_yes(armada, lambda: None)
    assert code == 0, text
    assert "deleted there: agent" in text
    assert not armada.local_runs.parent.exists()


def test_what_another_home_launches_while_a_person_thinks_is_named_and_stays(armada: Armada, other: Armada) -> None:
    run_id = save_and_end(armada)
    assert armada.run("pull", run_id).returncode == 0
    launched: list[str] = []

    def launch() -> None:
        launched.append(
            other.json("launch", "--host", "local", other.command("sleep", "1000", name="theirs"))["run_id"]
        )

    code, text = answer_yes(armada, launch)
    assert code == 8, text
    assert f"✗ {launched[0]}: " in text
    assert (armada.local_runs / launched[0] / "spec.json").exists()
    assert other.run("stop", launched[0], "--grace", "0").returncode == 0


@pytest.mark.takes_long("two commands at once, three times over with runs of their own")
@pytest.mark.fault("a home wipes while another one launches", "the run goes on, or the launch says that it was refused")
def test_of_a_wipe_and_another_homes_launch_no_run_is_lost(armada: Armada, other: Armada) -> None:
    for number, lags in enumerate(rounds(dice(58))):
        mark = armada.folder / f"job-{number}"
        job = other.command("sh", "-c", f"echo begun > {mark}; exec sleep 1000", name=f"job-{number}")
        wipe, launch = (armada, [*RELEASE, "--yes"]), (other, ["launch", "--host", "local", job])
        both = together(armada, wipe[1], launch[1], lags=lags, envs=[armada.env, other.env])
        codes(both)
        wiped, launched = both
        if launched.returncode == 0:
            eventually(mark.exists)
            (run,) = [run for run in other.json("ps") if run["name"] == f"job-{number}"]
            assert (armada.local_runs / run["run_id"] / "spec.json").exists(), said(wiped)
            assert other.run("stop", run["run_id"], "--grace", "0").returncode == 0
            assert other.run("sync", "now").returncode == 0
            assert other.run("rm", run["run_id"], "--force").returncode == 0
        else:
            assert wiped.returncode == 0, said(launched) + said(wiped)
