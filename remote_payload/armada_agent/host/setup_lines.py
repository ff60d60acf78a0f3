"""Run a host's shell lines (`setup:` in hosts.yaml, such as `module load cuda/12.4`), once per connection.

A login shell runs them and prints the resulting environment. This process adopts it, and with it builds, a batch
system's tools, supervisors and their jobs. The user wrote the lines for a shell: each reaches it as one argument, and
armada concatenates nothing. Jobs of a batch system have the lines in their job file, too.
"""

import os
import re
import secrets
import shutil
import subprocess
import threading
import time
from typing import Any, Dict, List, Optional

from armada_agent.errors import AgentError
from armada_agent.foundation import parameters
from armada_agent.host import job_variables

_PATIENCE_S = 25.0  # home waits 30 s for an answer; this error should arrive before that
_AGAIN_S = 60.0
_OWN = ("_", "SHLVL", "PWD", "OLDPWD")
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


class _State:
    lines: List[str] = []
    is_done = False
    failure: Optional[str] = None
    failed_at = 0.0
    exported: Dict[str, str] = {}


_lock = threading.Lock()


def use(lines: Any) -> None:
    """Store the lines that home sent. They run only when something needs them."""
    _State.lines = [line for line in lines if parameters.is_text(line)] if isinstance(lines, list) else []


def apply() -> None:
    """Make the environment that the lines produce this process's own, once.

    Raises:
        AgentError: `environment`, with the line that failed and its output.
    """
    failure = find_failure()
    if failure:
        raise AgentError("environment", failure, "fix `setup:` of this host in hosts.yaml")


def exported() -> Dict[str, str]:
    """Return the variables that the lines and their login shell set; empty before they were applied."""
    return dict(_State.exported)


def find_failure() -> Optional[str]:
    """Run the lines if they have not run yet. Return the failure, or None."""
    with _lock:
        if not _State.lines or _State.is_done:
            return None
        if _State.failure is not None and time.monotonic() - _State.failed_at < _AGAIN_S:
            return _State.failure
        try:
            before = job_variables.pick_base(os.environ)
            environment = evaluate(_State.lines, before)
        except AgentError as error:
            _State.failure, _State.failed_at = error.message, time.monotonic()
            return error.message
        _State.is_done, _State.failure = True, None
        _State.exported = {name: value for name, value in environment.items() if before.get(name) != value}
        _adopt(before, environment)
        return None


def evaluate(lines: List[str], environment: Dict[str, str]) -> Dict[str, str]:
    """Run lines in a login shell that starts with an environment, and return the environment after them.

    Raises:
        AgentError: `environment`.
    """
    shell = shutil.which("bash") or "/bin/sh"
    mark = "armada-" + secrets.token_hex(16)
    try:
        child = subprocess.Popen(
            [shell, "-l", "-c", _SCRIPT, "armada-setup", mark] + lines,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise AgentError("environment", "setup of this host: %s: %s" % (shell, error))
    with child:
        try:
            out, err = child.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            raise AgentError("environment", "setup of this host did not end within %.0f s" % _PATIENCE_S)
    return _read(lines, mark, out.decode("utf-8", "surrogateescape"), err.decode("utf-8", "replace"), child.returncode)


def _read(lines: List[str], mark: str, out: str, err: str, status: int) -> Dict[str, str]:
    done, is_done, environment = out.partition("\n%s done\n" % mark)
    count = done.count("\n%s line " % mark)
    failed = done.partition("\n%s failed " % mark)[2].strip()
    said = err.rpartition("%s line %d\n" % (mark, count))[2] if count else err
    words = " ".join(said.replace(mark, "").split())[-600:]
    if not is_done:
        if not count:
            raise AgentError(
                "environment", "setup of this host: its login shell ends before the first line: %s" % words
            )
        how = "failed with exit code %s" % failed if failed.isdigit() else "ended the shell (exit code %d)" % status
        raise _failed(lines, count, how, words)
    for number in range(1, count + 1):
        of_line = err.partition("%s line %d\n" % (mark, number))[2].partition("%s line " % mark)[0]
        if _SAID_FAILED.search(of_line):
            raise _failed(lines, number, "failed", " ".join(of_line.split())[:600])
    pairs = (item.partition("=") for item in environment.split("\0") if "=" in item)
    return {name: value for name, _, value in pairs if name and name not in _OWN}


def _failed(lines: List[str], number: int, how: str, words: str) -> AgentError:
    line = lines[number - 1] if number <= len(lines) else ""
    said = ": " + words if words else ""
    return AgentError("environment", "setup line %d of this host (`%.200s`) %s%s" % (number, line, how, said))


def _adopt(before: Dict[str, str], environment: Dict[str, str]) -> None:
    """Adopt the environment. Folders that were on PATH before and no longer are become its last entries."""
    for name in set(before) - set(environment):
        if name not in _OWN:
            del os.environ[name]
    path = job_variables.join_paths(environment.get("PATH", ""), os.environ.get("PATH", ""))
    os.environ.update(environment)
    os.environ["PATH"] = path
