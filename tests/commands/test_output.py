"""Standard streams that are closed, that nobody reads, and that take nothing more."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Armada

COMMANDS = ["--version", "--help", "help exit-codes", "ps", "ps --json", "hosts ls", "sync ls", "doctor --help"]


def shell(armada: Armada, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell in which `armada` is the program; only a shell can close what it gives."""
    program = f'armada() {{ {shlex.quote(sys.executable)} -m armada "$@"; }}\n'
    argv = ["bash", "-c", program + line]
    return subprocess.run(argv, cwd=armada.folder, env=armada.env, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_what_could_not_be_printed_is_said_with_a_code_of_its_own(armada: Armada) -> None:
    said = shell(armada, "\n".join(f"armada {words} > /dev/full; echo $?" for words in COMMANDS))
    assert said.stdout.split() == ["10"] * len(COMMANDS)
    sentence = "armada: standard output: No space left on device; what was printed is not complete"
    assert said.stderr.splitlines() == [sentence] * len(COMMANDS)


@pytest.mark.parametrize("where", ["%s >&-", "%s | true", "%s <&-", "%s <&- >&- 2>&-", "%s 2> /dev/full"])
def test_output_that_nobody_wants_changes_no_exit_code(armada: Armada, where: str) -> None:
    lines = [f"{where % f'armada {words}'} ; echo ${{PIPESTATUS[0]}} >&3" for words in ("ps", "--version", "show none")]
    said = shell(armada, "exec 3>&1 > /dev/null\n" + "\n".join(lines))
    assert said.stdout.split() == ["0", "0", "7"]
    assert "Traceback" not in said.stderr
    assert "Exception ignored" not in said.stderr


def test_a_launch_does_all_it_does_without_its_output(armada: Armada) -> None:
    armada.command("sh", "-c", "echo a; exit 3")
    launch = "armada launch --host local exp.yaml"
    said = shell(
        armada,
        f"{launch} --json >&- ; echo $?\n{launch} --json > /dev/full; echo $?\n"
        f"{launch} --follow > /dev/full; echo $?\n{launch} --follow | true; echo ${{PIPESTATUS[0]}}",
    )
    assert said.stdout.split() == ["0", "10", "6", "6"], said.stderr
    assert len(armada.json("ps")) == 4


def test_a_file_that_takes_the_number_of_closed_output_is_not_printed_into(armada: Armada) -> None:
    armada.command("true")
    shell(armada, "armada launch --host local exp.yaml --follow >&- 2>&-")
    (run,) = armada.json("ps")
    assert run["state"] == "succeeded"
    assert armada.run("store", "check").returncode == 0


def test_a_log_whose_reader_has_gone_is_followed_no_more(armada: Armada) -> None:
    script = "while echo line; do sleep 0.02; done"
    run_id = armada.json("launch", "--host", "local", armada.command("sh", "-c", script))["run_id"]
    said = shell(armada, f"armada logs -f {run_id} | head -1; echo ${{PIPESTATUS[0]}}")
    assert said.stdout.split() == ["line", "0"]
    assert json.loads(shell(armada, "armada ps --json").stdout)[0]["state"] == "running"
