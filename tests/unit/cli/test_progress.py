"""The live line of long commands: nothing is printed behind it."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import pytest

from armada.cli.progress import Reporter, say

BEGIN = """
import sys
from armada.foundation.standard_streams import checked, guard
guard()
from armada.cli import main
from armada.cli.progress import Reporter, say
from armada.errors import ArmadaError
reporter = Reporter(sys.stderr)
reporter.now("cp", "half of it")
"""


def printed(more: str) -> str:
    """What a terminal got from a program that shows a live line, and does something more."""
    master, slave = pty.openpty()
    command = [sys.executable, "-c", BEGIN + more]
    try:
        with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave) as process:
            assert process.wait(60) == 0
        return os.read(master, 10_000).decode()
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize(
    ("more", "then"),
    [
        ("main._say(ArmadaError('it failed'), [])", "armada: it failed\r\n"),
        ("main._say_interrupted([])", "armada: interrupted; started runs continue (armada ps)\r\n"),
        ("print('x.py: 1 file')", "x.py: 1 file\r\n"),
        ("sys.stderr.write('a word\\n')", "a word\r\n"),
        ("say('the connection is lost')", "armada: the connection is lost\r\n"),
        ("reporter.stage('cp', 'all of it')", " cp         all of it\r\n"),
        ("reporter.clear()", ""),
        ("checked(0)", ""),
    ],
)
def test_a_live_line_is_erased_before_anything_else_is_printed(more: str, then: str) -> None:
    assert printed(more) == f" cp         half of it\r\x1b[K{then}"


def test_a_live_line_comes_back_after_what_was_printed_meanwhile() -> None:
    seen = printed("print('a word'); reporter.now('cp', 'half of it'); reporter.now('cp', 'half of it')")
    assert seen == " cp         half of it\r\x1b[Ka word\r\n cp         half of it"


def test_in_a_pipe_nothing_is_erased() -> None:
    stream = io.StringIO()
    reporter = Reporter(stream)
    reporter.now("cp", "half of it")
    reporter.stage("cp", "all of it")
    say("a word")
    assert stream.getvalue() == " cp         half of it\n cp         all of it\n"
