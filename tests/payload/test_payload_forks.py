"""The fork server itself: what it starts ends with it, and what it cannot stand in for it refuses."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.payload.interpreter import Interpreter, wait_for_end
from tests.waiting import eventually

pytestmark = pytest.mark.payload


def test_a_forked_process_has_its_own_environment_folder_arguments_streams_and_exit_code(
    payload_python: Interpreter, tmp_path: Path
) -> None:
    program = (
        "import os, signal, sys; print(os.environ['MINE'], 'HF_HUB_OFFLINE' in os.environ, os.getcwd(), sys.argv[1:]); "
        "print(os.getsid(0) == os.getpid(), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, "
        "sys.stdin.read() == '', len(os.listdir('/proc/self/task')), 'armada_train.tasks.train' in sys.modules); sys.exit(7)"
    )
    ended = payload_python.finish("-c", program, "a", "b c", cwd=tmp_path, environment={"MINE": "yes"})
    assert ended.output.splitlines() == [f"yes False {tmp_path} ['a', 'b c']", "True True True 1 False"]
    assert ended.code == 7


def test_a_forked_process_is_killed_as_any_other(payload_python: Interpreter) -> None:
    process = payload_python.start("-c", "import time; time.sleep(3600)")
    assert process.poll() is None
    os.kill(process.pid, signal.SIGTERM)
    assert wait_for_end(process).code == -signal.SIGTERM


@pytest.mark.parametrize(
    ("arguments", "environment", "why"),
    [
        (("-X", "importtime", "-c", ""), {}, "cannot run"),
        (("-c", ""), {"HF_HOME": "/elsewhere"}, "HF_HOME is '/elsewhere'"),
        (("-c", ""), {"OMP_NUM_THREADS": "4"}, "OMP_NUM_THREADS is '4'"),
    ],
)
def test_what_was_settled_before_the_fork_is_refused(
    payload_python: Interpreter, arguments: tuple[str, ...], environment: dict[str, str], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        payload_python.start(*arguments, environment=environment)


def test_what_the_fork_server_started_ends_with_it(payload_python: Interpreter, tmp_path: Path) -> None:
    other = Interpreter(payload_python.path, tmp_path, bare=True)
    process = other.start("-c", "import time; time.sleep(3600)")
    other.close()
    eventually(lambda: not Path(f"/proc/{process.pid}").exists(), "its process to end")
