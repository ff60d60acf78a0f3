"""Finish announced checkpoints whose supervisor died, in a separate process at idle priority.

A job may outlive its supervisor (the kernel killed it for memory, or a user by mistake) and continue to announce
checkpoints. A job that died with it may have announced one just before. An announced checkpoint is complete, so it
comes home like any other.
"""

import os
import time
from typing import Any

from armada_agent.foundation import files
from armada_agent.foundation.log import say
from armada_agent.outbox.finishing import Outbox
from armada_agent.paths import RunPaths, newest
from armada_agent.records.journal import Journal

_ROUNDS = 3
_PAUSE_S = 1.0


class _Aside(Journal):
    """Writes only to supervisor.log: a run's records belong to its supervisor, and one may start at any time."""

    def record(self, kind: str, **fields: Any) -> None:
        say("%s: %s" % (kind, ", ".join("%s=%s" % pair for pair in sorted(fields.items()))))


def finish(root: str, run_id: str, submission: int) -> int:
    """Finish announced checkpoints, and record the ones that fail, so that they are not hashed again and again."""
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    os.nice(19)
    paths = RunPaths(root, run_id)
    try:
        settings = (files.read_json(paths.spec) or {}).get("outbox")
    except files.UnreadableError as error:
        say("finishing checkpoints with default settings: %s" % error)
        settings = None
    journal = _Aside(paths, submission)
    journal.state["attempt"] = newest(paths.attempts()) or 0
    outbox = Outbox(paths, settings if isinstance(settings, dict) else {}, journal)
    for _ in range(_ROUNDS):
        outbox.look()
        if not outbox.waiting():
            break
        time.sleep(_PAUSE_S)
    if outbox.given_up():
        names = [os.path.basename(folder) for folder in outbox.given_up()]
        files.write_json(paths.given_up, {"folders": names})
    return 0
