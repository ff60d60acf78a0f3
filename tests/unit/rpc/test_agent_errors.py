"""Why an agent ended before it spoke, by what the far end said; the words are recorded from bash 5.2 and Python 3.11."""

from __future__ import annotations

import subprocess
import sys

import pytest

from armada.rpc.agent_errors import start_error
from armada.transport.bootstrap import LOADER

TRACEBACK = 'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'


@pytest.mark.parametrize(
    ("noise", "diagnosis", "words", "hint"),
    [
        ("", "(exit status 3)", "ended with exit status 3 before python3 could start", "may call `exit`"),
        ("no quota\n", "(exit status 1)", "before python3 could start: no quota", "may call `exit`"),
        ("bash: python3: command not found", "(exit status 127)", "no python3 on this host", "install Python 3.6"),
        ("python3: error while loading shared libraries: libz.so", "(exit status 127)", "does not start", "LD_LIBRARY"),
        (TRACEBACK + "MemoryError\n", "(exit status 1)", "the agent could not start: Traceback", None),
    ],
)
def test_what_kept_an_agent_from_starting_is_named(noise: str, diagnosis: str, words: str, hint: str | None) -> None:
    error = start_error(noise, diagnosis, host="box")
    assert words in error.message
    assert (hint or "") in (error.hint or "")


@pytest.mark.parametrize("taken", ["read line", "read -n 1 key", "cat > /dev/null"])
def test_a_start_up_file_that_reads_what_armada_sends_is_named(taken: str) -> None:
    sent = b"43\nif True:\n    print('a program of 43 bytes')\n\n"
    shell = ["bash", "-c", f'{taken}; exec "$0" -c "$1"', sys.executable, LOADER]
    ended = subprocess.run(shell, input=sent, capture_output=True, check=False)
    assert ended.returncode == 1
    error = start_error(ended.stderr.decode(), "(exit status 1)", host="box")
    assert "a start-up file there reads standard input" in error.message
    assert "[ -t 0 ] || return" in (error.hint or "")
