"""The lesson about an own script prints what its page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ssh_server
from tests.payload.interpreter import Interpreter
from tests.tools.transcripts import PAGE, differences, tell


@pytest.mark.payload
@pytest.mark.long
@pytest.mark.takes_long("a whole lesson: an environment that uv builds, two attempts, an export that is loaded")
def test_the_lesson_about_an_own_script_prints_what_its_page_shows(payload_python: Interpreter, tmp_path: Path) -> None:
    if reason := ssh_server.why_not():
        pytest.skip(reason)
    page = PAGE.read_text("utf-8")
    assert differences(page, tell(page, tmp_path, payload_python.path)) == [], "make transcripts"
