"""Query Slurm's controller, without a long wait if it is down.

Slurm's programs try for 9 to 18 s each before they say that nobody answers, and for minutes where a site has set a longer
MessageTimeout. `scontrol ping` says within 10 ms that nobody listens, so it is asked when an answer is late.
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
    """Run one of Slurm's programs that asks the controller; where that is down, for a few seconds only.

    Args:
        argv: Program and arguments.
        timeout_s: How long a controller that is up may take.
        stdin: What it reads.

    Returns:
        What it printed, and what it said beside that.

    Raises:
        EngineError: It is missing, failed, or did not answer in time.
    """
    try:
        return engine.run_tool_aloud(argv, stdin, timeout_s, find_trouble=_find_trouble)
    except EngineError as error:
        if error.refused or error.missing:
            raise
        raise EngineError("the Slurm controller does not answer: " + error.message, late=error.late)


def _find_trouble() -> Optional[str]:
    """Say what `scontrol ping` finds wrong; None where one controller is up, or where it says nothing of the kind."""
    try:
        said = engine.run_tool(["scontrol", "ping"], timeout_s=_PING_S)
    except EngineError as error:
        if error.late:
            return "scontrol ping got no answer within %.0f s" % _PING_S
        said = error.message  # newer versions leave with 1 when all are down
    found = re.findall(r"Slurmctld\S* at \S+ is (?:UP|DOWN)", said)
    if not found or any(line.endswith("UP") for line in found):
        return None
    return "; ".join(found)[:300]


def refuse_if_silent(root: str) -> None:
    """Answer with the last look's failure where that was a moment ago, so that no command waits twice for one controller.

    Raises:
        EngineError: It did not answer then.
    """
    try:
        kept = files.read_json(os.path.join(root, "schedulers", "squeue.json")) or {}
    except files.UnreadableError:
        return
    failed_at, error = kept.get("failed_at"), kept.get("error")
    if isinstance(failed_at, (int, float)) and isinstance(error, str) and 0 <= time.time() - failed_at < _REMEMBERED_S:
        raise EngineError(error)
