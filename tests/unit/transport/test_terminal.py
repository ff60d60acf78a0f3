"""A person's own program is started by a Python that takes nothing from the folder it starts in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from armada.transport.terminal import LocalWay, SshWay, attach, program_text

REMOTE_PAYLOAD = Path(__file__).parents[3] / "remote_payload"


def test_a_module_of_the_folder_it_starts_in_shadows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = tmp_path / "agent" / "armada_agent" / "runs"
    room.mkdir(parents=True)
    for folder in (room, room.parent):
        (folder / "__init__.py").touch()
    (room / "shell.py").write_text("def enter(asked):\n    return asked['code']\n")
    here = tmp_path / "here"
    here.mkdir()
    (here / "json.py").write_text("raise SystemExit(99)\n")
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONPATH", str(here))
    assert attach(LocalWay(), {"agent": str(tmp_path / "agent"), "code": 7}, terminal=False) == 7


def remotely(words: list[str], tmp_path: Path) -> subprocess.CompletedProcess[bytes]:
    """Run words as `armada exec HOST` does, with the line that sshd gives to the login shell."""
    asked = {"agent": str(REMOTE_PAYLOAD), "root": str(tmp_path), "run_id": None, "setup": [], "argv": words}
    line = SshWay("b2", tmp_path / "config").arguments(program_text("shell", "enter", asked))[-1]
    return subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=False)


def test_a_signal_that_ends_the_command_is_its_exit_code(tmp_path: Path) -> None:
    for number in (2, 9, 15):
        assert remotely(["sh", "-c", f"kill -{number} $$"], tmp_path).returncode == 128 + number
    assert remotely(["sh", "-c", "exit 7"], tmp_path).returncode == 7


def test_every_word_arrives_with_its_bytes(tmp_path: Path) -> None:
    program = "import os,sys; print([os.fsencode(each).hex() for each in sys.argv[1:]])"
    sent = [b"one", b"two\xff", b"", b"\xc3\xa4", b"three"]
    words = [each.decode("utf-8", "surrogateescape") for each in sent]
    done = remotely([sys.executable, "-c", program, *words], tmp_path)
    assert json.loads(done.stdout.replace(b"'", b'"')) == [each.hex() for each in sent], done.stderr


@pytest.mark.parametrize("word", [7, "a\0b", None])
def test_a_word_that_cannot_be_an_argument_stops_the_command(tmp_path: Path, word: object) -> None:
    done = remotely(["touch", str(tmp_path / "made"), word], tmp_path)  # type: ignore[list-item]
    assert done.returncode == 125
    assert b"a word that cannot be an argument" in done.stderr
    assert not (tmp_path / "made").exists()
