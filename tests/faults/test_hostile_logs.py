"""A job that prints what terminals obey: nothing of it reaches a person's terminal alive, whatever command shows it."""

from __future__ import annotations

import json
import unicodedata

import pytest

from tests.conftest import Armada

LINES = {
    "colour and cursor": b"\x1b[31mred\x1b[0m \x1b[2J\x1b[1;1H",
    "clipboard": b"\x1b]52;c;cm0gLXJmIH4=\x07",
    "title and link": b"\x1b]0;owned\x07 \x1b]8;;http://evil\x1b\\x\x1b]8;;\x1b\\",
    "device control": b"\x1bP+q544e\x1b\\ \x1b_ap\x1b\\",
    "C1": "csi \x9b31m osc \x9d52;c;x\x9c".encode(),
    "NUL and bells": b"\x00\x07\x08\x08\x0b\x0c\x7f",
    "bidi": "user \u202e\u2066gpj.exe\u2069 \u200f\u061c".encode(),
    "bad UTF-8": b"\xff\xfe \xc3( \xed\xa0\x80 \xf0\x9f",
    "rewritten line": b"loss 9.9\rrewritten line: loss 0.1",
    "endless line": b"x" * 12_000,
}


def harmful(text: str) -> set[str]:
    """What a terminal would obey or a reader be deceived by; newlines and tabs are neither."""
    kinds = {"Cc", "Cf", "Cs"}
    return {
        repr(character) for character in text if unicodedata.category(character) in kinds and character not in "\n\t"
    }


@pytest.mark.fault(
    "log lines with ESC, OSC 52, C1, NUL, bidi controls, bad UTF-8", "shown inert by every command, stored as they are"
)
def test_no_command_prints_what_a_terminal_would_obey(armada: Armada) -> None:
    said = b"".join(name.encode() + b": " + line + b"\n" for name, line in LINES.items())
    (armada.folder / "said").write_bytes(said)
    name = b"".join(LINES.values())[:200].decode("utf-8", "ignore").replace("\x00", "")
    failing = 'cat said >&2; cat said > "$ARMADA_RUN_DIR/attempts/1/failure.json"; cat said; exit 9'
    experiment = armada.command("sh", "-c", f"cd {armada.folder}; {failing}", name=name)
    launched = armada.run("launch", "--host", "local", experiment, "--follow")
    assert launched.returncode == 6
    (run,) = armada.json("ps")
    raw = (armada.local_runs / run["run_id"] / "output.log").read_bytes()
    assert raw == said * 2
    seen = [launched]
    for words in (["ps"], ["show"], ["logs"], ["logs", "-f"], ["logs", "--tail", "5"], ["why"], ["pull"], ["stop"]):
        arguments = words if words == ["ps"] else [words[0], run["run_id"], *words[1:]]
        seen.append(armada.run(*arguments))
        if "--tail" not in words and words[0] == "logs":
            assert all(each in seen[-1].stdout for each in LINES)
    for done in seen:
        assert harmful(done.stdout + done.stderr) == set(), done.args
        assert "Traceback" not in done.stderr
    shown = json.dumps(armada.json("show", run["run_id"]))
    assert shown.isascii()  # JSON escapes what a terminal would obey
