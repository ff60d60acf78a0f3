"""Run shell lines in a login shell, and return the resulting environment.

The user wrote the lines for a shell: each reaches it as one argument, and armada concatenates nothing.
"""

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from typing import Callable, Dict, List, Optional, Tuple

from armada_agent.errors import AgentError

OWN = ("_", "SHLVL", "PWD", "OLDPWD")
"""Variables that every shell sets for itself."""

_TICK_S = 0.2
# Old module commands print that they failed and exit with 0.
_SAID_FAILED = re.compile(r"ModuleCmd_\w+\.c\(\d+\):ERROR|^Lmod has detected the following error", re.MULTILINE)
_SCRIPT = r"""
exec 3>&1 1>&2
armada_mark=$1
shift
armada_count=0
for armada_line do
  armada_count=$((armada_count + 1))
  printf '\n%s line %s\n' "$armada_mark" "$armada_count" | tee /dev/fd/2 >&3
  eval "$armada_line" || { printf '\n%s failed %s\n' "$armada_mark" "$?" >&3; exit 1; }
done
printf '\n%s done\n' "$armada_mark" >&3
exec env -0 >&3
"""


def evaluate(
    lines: List[str],
    environment: Dict[str, str],
    whose: str = "this host",
    folder: Optional[str] = None,
    patience_s: float = 600.0,
    tick: Optional[Callable[[], None]] = None,
) -> Dict[str, str]:
    """Run lines in a login shell that starts with an environment, and return the environment after them.

    Args:
        lines: Shell lines, each with one or more commands.
        environment: The shell's environment at its start.
        whose: The owner of the lines, for messages.
        folder: The shell's working folder; the default is this process's.
        patience_s: The time limit of the lines in seconds.
        tick: Called while they run. If it raises an error, the lines are killed.

    Raises:
        AgentError: `environment`.
    """
    shell = shutil.which("bash") or "/bin/sh"
    mark = "armada-" + secrets.token_hex(16)
    argv = [shell, "-l", "-c", _SCRIPT, "armada-setup", mark]
    try:
        child = subprocess.Popen(
            [_encode(word) for word in argv + lines],
            env={_encode(name): _encode(value) for name, value in environment.items()},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A guardian takes a child with its own session for the job, so a supervisor's shell only gets its own
            # process group.
            start_new_session=tick is None,
            preexec_fn=os.setpgrp if tick is not None else None,  # noqa: PLW1509  # no thread is there yet
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise AgentError("environment", "setup of %s: %s: %s" % (whose, shell, error))
    with child:
        out, err = _await(child, whose, patience_s, tick)
    said = out.decode("utf-8", "surrogateescape"), err.decode("utf-8", "replace")
    return _Reader(lines, mark, whose).read(said[0], said[1], child.returncode)


def _await(
    child: "subprocess.Popen[bytes]", whose: str, patience_s: float, tick: Optional[Callable[[], None]]
) -> Tuple[bytes, bytes]:
    """Wait until a shell and all its children have ended, and return their output."""
    deadline = time.monotonic() + patience_s
    try:
        while True:
            try:
                return child.communicate(timeout=patience_s if tick is None else _TICK_S)
            except subprocess.TimeoutExpired:
                if tick is None or time.monotonic() > deadline:
                    raise AgentError("environment", "setup of %s did not end within %.0f s" % (whose, patience_s))
                tick()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        raise


class _Reader:
    """Parses a shell's output about the lines that it ran.

    Args:
        lines: The lines as they were passed.
        mark: The marker of armada's own output.
        whose: The owner of the lines.
    """

    def __init__(self, lines: List[str], mark: str, whose: str) -> None:
        self._lines = lines
        self._mark = mark
        self._whose = whose

    def read(self, out: str, err: str, status: int) -> Dict[str, str]:
        mark = self._mark
        done, is_done, environment = out.partition("\n%s done\n" % mark)
        count = done.count("\n%s line " % mark)
        failed = done.partition("\n%s failed " % mark)[2].strip()
        said = err.rpartition("%s line %d\n" % (mark, count))[2] if count else err
        words = " ".join(said.replace(mark, "").split())[-600:]
        if not is_done:
            if not count:
                message = "setup of %s: its login shell ends before the first line: %s" % (self._whose, words)
                raise AgentError("environment", message)
            how = "failed with exit code %s" % failed if failed.isdigit() else "ended the shell (exit code %d)" % status
            raise self._failed(count, how, words)
        for number in range(1, count + 1):
            of_line = err.partition("%s line %d\n" % (mark, number))[2].partition("%s line " % mark)[0]
            if _SAID_FAILED.search(of_line):
                raise self._failed(number, "failed", " ".join(of_line.split())[:600])
        pairs = (item.partition("=") for item in environment.split("\0") if "=" in item)
        return {name: value for name, _, value in pairs if name and name not in OWN}

    def _failed(self, number: int, how: str, words: str) -> AgentError:
        line = self._lines[number - 1] if number <= len(self._lines) else ""
        said = ": " + words if words else ""
        return AgentError("environment", "setup line %d of %s (`%.200s`) %s%s" % (number, self._whose, line, how, said))


def _encode(text: str) -> bytes:
    """Encode text for the system. Python 3.6 under LANG=C would accept only ASCII."""
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape")
