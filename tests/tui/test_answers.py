"""What the dashboard takes from a command that it asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from armada.tui.operations import Answer, unasked
from tests.tui.conftest import REAL_ASK, World
from tests.waiting import eventually


@pytest.mark.parametrize(
    ("out", "found"),
    [
        ('{"format": 1, "safe": true}', {"format": 1, "safe": True}),
        (json.dumps({"format": 1, "error": {"kind": "HostUnreachable", "message": "it does not answer"}}), None),
        ("[]", None),
        ("", None),
    ],
)
def test_an_error_is_no_answer(out: str, found: object) -> None:
    assert Answer(4, out, "armada: box: it does not answer\n").json == found


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("  RUN  HOST  STATE\n  ok-run-aaaaaa  local  ✓ succeeded  3 m ago\n", ""),
        (
            "armada: box: connection refused\n  ok-run-aaaaaa  local  3 m ago\n",
            "box could not be asked: connection refused",
        ),
        ("armada: box: no\narmada: far: no\nRUN\n", "2 hosts could not be asked: box, far"),
        ("armada: The store has no runs: it was replaced\n", ""),
    ],
)
def test_a_check_of_all_hosts_says_which_could_not_be_asked(tmp_path: Path, output: str, said: str) -> None:
    log = tmp_path / "log"
    log.write_text(output)
    assert unasked(log) == said


def test_a_question_is_put_to_a_process_of_its_own(world: World) -> None:
    answers: list[Answer] = []
    REAL_ASK(["ps", "--cached", "--json"], answers.append)
    REAL_ASK(["show", "nonesuch"], answers.append)
    eventually(lambda: len(answers) == 2)
    refused, listed = sorted(answers, key=lambda answer: answer.out)
    assert (listed.exit_code, listed.json, listed.err) == (0, None, "")
    assert json.loads(listed.out) == []
    assert (refused.exit_code, refused.out, refused.said) == (7, "", "no run's id begins with 'nonesuch'")
