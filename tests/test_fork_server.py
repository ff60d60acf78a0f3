"""A forked command is to its user what a process that starts anew is."""

from __future__ import annotations

import subprocess

import pytest

from tests import fork_server
from tests.conftest import Armada


@pytest.mark.parametrize(
    "words",
    [["--version"], ["ps", "--json"], ["show", "none"], ["nonsense"], ["launch", "--host"], ["logs", "--help"], []],
    ids=" ".join,
)
def test_a_forked_command_answers_as_a_new_process_does(armada: Armada, words: list[str]) -> None:
    forked, anew = armada.run(*words), armada.run(*words, process=True)
    assert (forked.returncode, forked.stdout, forked.stderr) == (anew.returncode, anew.stdout, anew.stderr)


def test_a_forked_command_has_the_tests_folder_and_environment(armada: Armada) -> None:
    (armada.folder / "armada.yaml").write_text('{"hosts": {"mine": {"local": true, "root": "~/mine"}}}')
    armada.env["HOME"] = str(armada.folder / "elsewhere")
    shown = armada.run("hosts", "check", "mine")
    assert shown.returncode == 0, shown.stderr
    assert (armada.folder / "elsewhere" / "mine").is_dir()


def test_a_forked_command_that_does_not_end_is_killed(armada: Armada) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        armada.run("daemon", "run", timeout_s=0.5)
    assert armada.json("daemon", "status", rc=None)["condition"] != "fresh"


def test_an_environment_that_an_interpreter_reads_at_its_start_takes_a_new_process(armada: Armada) -> None:
    assert fork_server.suits(armada.env)
    assert not fork_server.suits({**armada.env, "PYTHONUTF8": "1"})
    assert not fork_server.suits({**armada.env, "LC_ALL": "tests"})
