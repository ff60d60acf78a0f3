"""The log of a detached process: its standard error, which is supervisor.log in the run's folder."""

import sys
import time


def say(message: str) -> None:
    """Write a line with the time; drop it if the disk does not take it."""
    try:
        sys.stderr.write("%s %s\n" % (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), message))
        sys.stderr.flush()
    except OSError:
        return  # the log is on the same full disk; the journal keeps what matters
