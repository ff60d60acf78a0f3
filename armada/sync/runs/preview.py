"""Preview what a sync would fetch and delete. The host is queried and its answers are recorded; nothing else changes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.config.sync import settings_of
from armada.monitor.look import where
from armada.monitor.observe import observe
from armada.store import checkpoints, runs
from armada.sync.checkpoints import apply_retention
from armada.sync.outputs.listing import coming, stale
from armada.sync.runs.outbox_listing import look_at
from armada.verdicts.presence import There
from armada.verdicts.retention import decide_home, decide_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.store.checkpoints import Checkpoint
    from armada.sync.context import HostContext
    from armada.sync.outputs.long_logs import Listed


@dataclass(frozen=True, slots=True)
class Preview:
    """One run: what would be fetched, and which steps retention would then delete at home and on the host.

    `optimizers_home`: steps whose optimizer states would go at home, if those that come have theirs.
    """

    run_id: str
    checkpoints: tuple[Checkpoint, ...]
    outputs: tuple[Listed, ...]
    deleted_home: tuple[int, ...]
    deleted_host: tuple[int, ...]
    optimizers_home: tuple[int, ...]


def preview(context: HostContext, run_ids: Sequence[str]) -> list[Preview]:
    """Preview a sync for runs of one host.

    Raises:
        HostUnreachable: The host does not answer.
    """
    database, home = context.database, context.home
    chosen = [runs.find(database, run_id) for run_id in run_ids]
    observe(database, context.session, [run for run in chosen if not run.ended or run.is_guess])
    looks = look_at(database, context.session, chosen)
    found = []
    for run in chosen:
        entry = looks[run.run_id].entry
        if entry.problem is None and where(run, looks[run.run_id].folder) in (There.HERE, There.REMOVED):
            checkpoints.record_outbox(database, run.run_id, entry.outbox, unreadable=entry.unreadable)
        known = checkpoints.of_run(database, run.run_id)
        settings = settings_of(runs.spec(database, run.run_id))
        chosen_now = apply_retention.wanted(database, run.run_id, known, settings)
        digests = {checkpoint.digest for checkpoint in chosen_now}
        then = [
            dataclasses.replace(c, at_home=True, acknowledged=True) if c.digest in digests else c
            for c in apply_retention.candidates(database, run.run_id, known)
        ]
        gone_home = {d.candidate.digest for d in decide_home(then, settings.keep_home) if not d.keep}
        left = [dataclasses.replace(c, at_home=c.at_home and c.digest not in gone_home) for c in then]
        states = apply_retention.plan_optimizers(database, run.run_id, settings, chosen_now)
        found.append(
            Preview(
                run.run_id,
                tuple(chosen_now),
                tuple(stale(home, run.run_id, coming(home, run.run_id, entry, settings.log_limit_bytes)[0])),
                tuple(c.step for c in then if c.at_home and c.digest in gone_home),
                tuple(d.candidate.step for d in decide_host(left, settings.keep_remote) if not d.keep),
                tuple(d.candidate.step for d in states if not d.keep and d.candidate.digest not in gone_home),
            )
        )
    return found
