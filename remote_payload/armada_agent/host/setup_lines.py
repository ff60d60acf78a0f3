"""Run a host's shell lines (`setup:` in hosts.yaml, such as `module load cuda/12.4`), once per connection.

A login shell runs them and prints the resulting environment. This process adopts it, and with it builds, a batch
system's tools, supervisors and their jobs. The user wrote the lines for a shell: each reaches it as one argument, and
armada concatenates nothing. Jobs of a batch system have the lines in their job file, too.
"""

import os
import threading
import time
from typing import Any, Dict, List, Optional

from armada_agent.errors import AgentError
from armada_agent.foundation import parameters
from armada_agent.host import job_variables, login_shell

_PATIENCE_S = 25.0  # home waits 30 s for an answer; this error should arrive before that
_AGAIN_S = 60.0


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
            environment = login_shell.evaluate(_State.lines, before, patience_s=_PATIENCE_S)
        except AgentError as error:
            _State.failure, _State.failed_at = error.message, time.monotonic()
            return error.message
        _State.is_done, _State.failure = True, None
        _State.exported = {name: value for name, value in environment.items() if before.get(name) != value}
        _adopt(before, environment)
        return None


def _adopt(before: Dict[str, str], environment: Dict[str, str]) -> None:
    """Adopt the environment. Folders that were on PATH before and no longer are become its last entries."""
    for name in set(before) - set(environment):
        if name not in login_shell.OWN:
            del os.environ[name]
    path = job_variables.join_paths(environment.get("PATH", ""), os.environ.get("PATH", ""))
    os.environ.update(environment)
    os.environ["PATH"] = path
