"""Tell a refusal from the failure of a repeated request: an earlier one may have started what this one asks for.

Home repeats a request whose answer was lost, and takes an error for a refusal: nothing was started. That is not so where
the earlier request has claimed the submission.
"""

import contextlib
import os
from typing import Iterable, Iterator, Sequence

from armada_agent.errors import AgentError, from_os_error
from armada_agent.foundation import files
from armada_agent.paths import RunPaths
from armada_agent.runs.scheduler import SAFE


@contextlib.contextmanager
def doubted(asked: Iterable[RunPaths], number: int, sure: Sequence[str] = ()) -> Iterator[None]:
    """Say of an error in this block that the outcome is unknown, if the submission of one of the runs may be claimed.

    Args:
        asked: The runs.
        number: The number of their submission.
        sure: Kinds of errors that are raised as they are.

    Raises:
        AgentError: `outcome_unknown`.
    """
    try:
        yield
    except Exception as error:  # also that there is no further thread, at the user's limit of processes
        known = _as_agent_error(error)
        is_sure = known.kind == "outcome_unknown" or known.kind in sure
        if is_sure or not any(may_be_claimed(paths, number) for paths in asked):
            raise
        message = "submission %d may have been claimed before, and it is unknown whether it has started: %s"
        raise AgentError("outcome_unknown", message % (number, known.message), known.hint or SAFE)


def _as_agent_error(error: Exception) -> AgentError:
    if isinstance(error, AgentError):
        return error
    if isinstance(error, OSError):
        return from_os_error(error)
    if isinstance(error, files.UnreadableError):
        return AgentError("io", str(error))
    return AgentError("internal", "%s: %s" % (type(error).__name__, error))


def may_be_claimed(paths: RunPaths, number: int) -> bool:
    """Return whether a submission was claimed; also if that cannot be seen now."""
    try:
        if any(_is_seen(paths.submission(number, name)) for name in ("claim.json", "job.json")):
            return True
        paths.is_there()  # raises an error where the run is set aside, or its disk is away
    except OSError:
        return True
    return False


def _is_seen(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
