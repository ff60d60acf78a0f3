"""Query Slurm's controller without a long wait if it is down.

Each of Slurm's programs tries for 9 to 18 s before it reports that the controller does not answer, and for minutes at
sites with a longer MessageTimeout. `scontrol ping` reports within 10 ms that nothing listens, so it runs when an answer
is late.
"""

import os
import re
import time
from typing import Optional, Sequence, Tuple

from armada_agent.engines import engine
from armada_agent.engines.engine import EngineError
from armada_agent.foundation import files

_PING_S = 5.0
_REMEMBERED_S = 15.0


def ask(argv: Sequence[str], timeout_s: float = engine.TOOL_S, stdin: bytes = b"") -> Tuple[str, str]:
    """Run one of Slurm's programs that asks the controller. If the controller is down, wait a few seconds only.

    Args:
        argv: Program and arguments.
        timeout_s: The time limit for a controller that is up.
        stdin: What the program reads.

    Returns:
        The program's stdout and stderr.

    Raises:
        EngineError: The program is missing, failed, or did not answer in time.
    """
    try:
        return engine.run_tool_aloud(argv, stdin, timeout_s, find_trouble=_find_trouble)
    except EngineError as error:
        if error.refused or error.missing:
            raise
        raise EngineError("the Slurm controller does not answer: " + error.message, late=error.late)


def require_up() -> None:
    """Refuse at once if the controller is down: sbatch would wait two minutes, and nobody would know what came of it.

    Raises:
        EngineError: `scontrol ping` reports that no controller is up. Nothing was asked of it.
    """
    try:
        down = _ping()
    except EngineError:
        return  # a controller that is only slow is waited for
    if down is not None:
        raise EngineError("the Slurm controller does not answer, so nothing was submitted: " + down, refused=True)


def _find_trouble() -> Optional[str]:
    """Return what is wrong with the controller; None if it is up, or if ping reports nothing about it."""
    try:
        return _ping()
    except EngineError:
        return "scontrol ping got no answer within %.0f s" % _PING_S


def _ping() -> Optional[str]:
    """Return `scontrol ping`'s report that all controllers are down; None if one is up, or if it reports nothing about them.

    Raises:
        EngineError: It did not answer in time.
    """
    try:
        said = engine.run_tool(["scontrol", "ping"], timeout_s=_PING_S)
    except EngineError as error:
        if error.late:
            raise
        said = error.message  # newer versions exit with 1 if all controllers are down
    found = re.findall(r"Slurmctld\S* at \S+ is (?:UP|DOWN)", said)
    if not found or any(line.endswith("UP") for line in found):
        return None
    return "; ".join(found)[:300]


def refuse_if_silent(root: str) -> None:
    """Raise the last poll's error if it is recent, so that no command waits a second time for a controller that is down.

    Raises:
        EngineError: The controller did not answer a moment ago.
    """
    try:
        kept = files.read_json(os.path.join(root, "schedulers", "squeue.json")) or {}
    except files.UnreadableError:
        return
    failed_at, error = kept.get("failed_at"), kept.get("error")
    if isinstance(failed_at, (int, float)) and isinstance(error, str) and 0 <= time.time() - failed_at < _REMEMBERED_S:
        raise EngineError(error)
