"""Tell armada about your training: curves, steps, tokens per second, time left.

    import armada_log

    armada_log.log(step, loss=0.41, lr=1e-5, tokens=4096)
    armada_log.progress(step, total)

Started by armada, a script or command finds this module by itself, in any Python from 3.6. Anywhere else you may copy this one file
beside your script, or install armada; there both functions do nothing. Neither raises, prints or waits, whatever happens.
"""

import json
import os
import sys
import time
from typing import Any, Dict, Mapping, Optional

__all__ = ["log", "progress"]

_VARIABLE = "ARMADA_LOG_FILE"
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_LONGEST = 60000  # of a line; armada reads none above 64 KiB
_MOST_VALUES = 500


def log(step: int, values: Optional[Mapping[str, Any]] = None, *, every_rank: bool = False, **more: Any) -> None:
    """Add a point to each curve.

    Of several ranks only the first writes.

    Args:
        step: The optimizer step that the numbers are of.
        values: Names and numbers, for names that are no Python words. What is no number is left out.
        every_rank: The other ranks write too, into curves of their own: `rank1/loss`.
        more: Names and numbers: `loss`, `eval_loss`, `lr`, `grad_norm`, `epoch`, whatever you measure. `tokens` are those since
            the call before, from which the tokens per second are computed.
    """
    try:
        if not os.environ.get(_VARIABLE):
            return
        rank = _rank()
        if rank and not every_rank:
            return
        found = {}  # type: Dict[str, float]
        for name, value in dict(values or {}, **more).items():
            number = _number(value)
            if number is not None and len(found) < _MOST_VALUES:
                found["rank%d/%s" % (rank, name) if rank else str(name)] = number
        _append({"step": int(step), "values": found})
    except Exception:  # noqa: S110 - a curve is never worth a training
        pass


def progress(step: int, total: Optional[int] = None) -> None:
    """Say how far the training is.

    Args:
        step: The optimizer steps that are done.
        total: How many there will be; needed for the time left.
    """
    try:
        if os.environ.get(_VARIABLE) and not _rank():
            _append({"step": int(step), "total": None if total is None else int(total)})
    except Exception:  # noqa: S110 - as above
        pass


def _rank() -> int:
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():  # type: ignore[attr-defined]
            return int(distributed.get_rank())  # type: ignore[attr-defined]
    except Exception:  # noqa: S110 - then the variables say it
        pass
    for name in _RANKS:
        word = os.environ.get(name, "")
        if word.isdigit():
            return int(word)
    return 0


def _number(value: Any) -> Optional[float]:
    try:
        return float(value)
    except Exception:
        return None


def _append(record: Dict[str, Any]) -> None:
    """Write one line by one call, so that lines of threads and processes do not mix."""
    record["time"] = time.time()
    line = json.dumps(record).encode("utf-8", "replace")
    if len(line) > _LONGEST:
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(os.environ[_VARIABLE], flags, 0o600)
    try:
        # The first end of line closes what a full disk has left of the line before; readers pass over empty ones.
        os.write(descriptor, b"\n" + line + b"\n")
    finally:
        os.close(descriptor)
