"""Select the checkpoint of a run that the user names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from armada.errors import HostUnreachable, NotFound, UsageError
from armada.foundation.metric_goals import BestBy
from armada.foundation.sanitize import sanitize_line
from armada.monitor.observe import observe
from armada.store import checkpoints
from armada.store.best_metric import best_by
from armada.sync.checkpoints.apply_retention import candidates

if TYPE_CHECKING:
    from armada.rpc.session import HostSession
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.store.runs import Run

_DIGEST = re.compile("[0-9a-f]{16,64}")


def choose_checkpoint(database: Database, session: HostSession | None, run: Run, word: str) -> Checkpoint:
    """Find the checkpoint that the user names: a step, `best`, `last`, or a prefix of its digest.

    If the host does not answer, or there is no session, only checkpoints at home are found.

    Raises:
        UsageError: The word is none of these.
        NotFound: There is no such checkpoint, at home or on the host.
    """
    digest = _DIGEST.fullmatch(word) is not None
    if word not in ("best", "last") and not word.isdecimal() and not digest:
        raise UsageError(f"{word!r} is not a step, `best` or `last`", hint="--checkpoint 500")
    reached = session is not None
    if session is not None:
        try:
            observe(database, session, [run])
        except HostUnreachable:
            reached = False
    known = [c for c in checkpoints.of_run(database, run.run_id) if c.home_path is not None or (c.on_host and reached)]
    if word == "last":
        matching = known[-1:]
    elif word == "best":
        losses = {c.digest: c.loss for c in candidates(database, run.run_id, known) if c.loss is not None}
        matching = sorted((c for c in known if c.digest in losses), key=lambda c: losses[c.digest])[:1]
    elif digest:
        matching = [c for c in known if c.digest.startswith(word)][:1]
    else:
        matching = [c for c in known if c.step == int(word)][-1:]  # after a resume a step may be saved twice
    if not matching:
        steps = ", ".join(str(c.step) for c in known[-8:]) or "none"
        best = best_by(database, run.run_id)
        called = "an evaluation loss" if best == BestBy() else f"a value of {sanitize_line(best.name, 100)}"
        without_loss = f"checkpoint with {called}, so none is the best"
        wanted = without_loss if word == "best" and known else f"checkpoint {word}"
        why = "does not answer" if session is not None else "was not asked"
        where = "" if reached else f"; {run.host} {why}, so only the checkpoints at home were searched"
        raise NotFound(f"{run.run_id} has no {wanted}{where}", hint=f"known steps: {steps}")
    return matching[0]
