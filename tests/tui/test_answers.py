"""What the dashboard takes from a command that it asked."""

from __future__ import annotations

import json

import pytest

from armada.tui.operations import Answer


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
