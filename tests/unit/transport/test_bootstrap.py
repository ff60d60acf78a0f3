from __future__ import annotations

import ast
import base64
import json
import re
import shutil
import subprocess
import zlib

import pytest

from armada.transport.bootstrap import COMMAND, opening, stage_1, upload

HOSTILE = '~/it\'s "q" $(touch x)\n`id` — ü'


def test_no_value_is_part_of_the_command_line() -> None:
    assert COMMAND.isascii()
    assert COMMAND.isprintable()
    # One argument in single quotes, and in it nothing that csh or fish would read inside them.
    assert re.fullmatch(r"sh -c '[^'!`\\]*'", COMMAND)
    # The host's own variables, read there by sh.
    assert set(re.findall(r"\$(\w*)", COMMAND)) == {"LD_LIBRARY_PATH", "PATH", "HOME"}


def test_stage_one_is_python_3_6_and_ascii() -> None:
    ast.parse(stage_1(), feature_version=(3, 6))
    assert stage_1().isascii()


def test_every_value_travels_as_one_line_of_json() -> None:
    stream = opening(root=HOSTILE, sha256="0" * 64, nonce="n")
    length, _, rest = stream.partition(b"\n")
    program, head = rest[: int(length)], rest[int(length) :]
    assert program.decode() == stage_1()
    assert head.count(b"\n") == 1
    assert json.loads(head) == {"root": HOSTILE, "sha256": "0" * 64, "nonce": "n", "protocol": 1}


def test_lines_of_setup_travel_as_json_too() -> None:
    head = opening(root="~", sha256="0" * 64, nonce="n", setup=[HOSTILE]).rpartition(b"main()\n")[2]
    assert head.count(b"\n") == 1
    assert json.loads(head)["setup"] == [HOSTILE]


def test_the_upload_is_one_line() -> None:
    assert json.loads(upload(b"\x00\n\xff", packed=False)) == {"agent": "AAr/"}
    packed = upload(b"x" * 1000, packed=True)
    assert packed.count(b"\n") == 1
    assert len(packed) < 100
    assert zlib.decompress(base64.b64decode(json.loads(packed)["agent"])) == b"x" * 1000


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "csh", "tcsh", "fish"])
def test_the_command_line_means_the_same_to_every_shell_here(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = b"print(6 * 7)"
    done = subprocess.run(
        [shell, "-c", COMMAND], input=b"%d\n%s" % (len(program), program), capture_output=True, check=True
    )
    assert done.stdout == b"42\n"


def test_a_home_that_hangs_up_instead_of_sending_the_agent_leaves_nothing_running(tmp_path: object) -> None:
    stream = opening(root=str(tmp_path), sha256="0" * 64, nonce="n")
    done = subprocess.run(["sh", "-c", COMMAND], input=stream, capture_output=True, timeout=30, check=True)
    assert json.loads(done.stdout.partition(b"@@ARMADA ")[2]) == {"need": "agent", "nonce": "n", "packed": True}
