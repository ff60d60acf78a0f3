"""Have the end completed of a run whose job ended well and whose supervisor died before it wrote that.

Whoever looks at such a run starts a process for it (`cleanup.clear`): none while another is at work, as far as locks show
that, and at most one a minute, by the date of a file in the submission's folder.
"""

import contextlib
import os

from armada_agent.errors import is_disk_full
from armada_agent.foundation import files
from armada_agent.foundation.session import Call
from armada_agent.host import detached
from armada_agent.paths import RunPaths

_EVERY_S = 60.0


def start(call: Call, paths: RunPaths, submission: int) -> None:
    """Start such a process, unless one is at work or was started just now."""
    if not files.is_locked(paths.supervisor_lock) and _note_start(paths, submission):
        detached.start("clear", call.session.agent_path, paths, submission)


def _note_start(paths: RunPaths, submission: int) -> bool:
    """Date the submission's file, and return whether the last start is long ago, by the file system's clock."""
    mark = paths.submission(submission, "completing")
    now = files.time_beside(paths.checkpoint_watch_lock)
    with contextlib.suppress(OSError):  # it is the first one
        if 0 <= now - os.lstat(mark).st_mtime < _EVERY_S:
            return False
    try:
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600))
        os.utime(mark, (now, now))
    except OSError as error:
        return not is_disk_full(error)  # no process could write the end now
    return True
