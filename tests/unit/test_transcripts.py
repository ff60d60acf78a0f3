"""The lesson about an own script: its commands are armada's, and its tool finds what differs."""

from __future__ import annotations

import shlex

import pytest

from armada.cli.main import build_parser
from tests.tools.transcripts import PAGE, commands, differences, filled

TEXT = PAGE.read_text("utf-8")
COMMANDS = [line for block in commands(TEXT) for line in block]
TYPED = [line for line in COMMANDS if line.startswith("$ armada ")]


@pytest.mark.parametrize("line", TYPED)
def test_a_command_of_the_lesson_is_understood(line: str) -> None:
    build_parser().parse_args(shlex.split(line)[2:])


def test_the_lesson_goes_from_a_pasted_line_over_a_kill_to_an_export() -> None:
    assert [line.split()[2] for line in TYPED] == ["launch", "ps", "why", "resume", "export", "hosts"]
    assert COMMANDS[2].startswith("# kill -9")
    assert "signal_SIGKILL" in TEXT
    assert "(every byte verified)" in TEXT


def test_a_page_keeps_its_prose_when_its_blocks_are_written_again() -> None:
    told = filled(TEXT, [f"block {number}\n" for number in range(len(commands(TEXT)))])
    assert "```console\nblock 0\n```" in told
    assert told.split("```console")[0] == TEXT.split("```console")[0]
    assert differences(TEXT, told)


def test_numbers_and_columns_are_no_difference_and_words_are() -> None:
    page = " ended      succeeded after 1 m 11 s, step 4000\nbox  ● running  1,027  0.412\n"
    other = " ended      succeeded after 39 s, step 3\nbox   ● running  12     1e-05\n"
    assert differences(page, other) == []
    assert len(differences(page, other.replace("succeeded", "failed"))) == 1
    assert differences(page, other + "more\n") == ["one has more lines"]
