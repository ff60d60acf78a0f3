"""Report what the end of an epoch does to its rows."""

from __future__ import annotations

from armada_train.specification.values import Batch, Schedule


def doubt_about_epochs(rows: int, batch: Batch, schedule: Schedule) -> str | None:
    """Say where several ranks make an epoch's last step another one than a single rank would.

    Every rank needs as many micro batches as the others. So accelerate takes rows of the epoch's beginning a second time
    (`even_batches`): 13 rows on 2 ranks with micro batches of 4 are 16.

    Args:
        rows: Of one epoch.
        batch: How a step is split.
        schedule: Says whether the end of an epoch is reached.

    Returns:
        A finding, or None where nothing is repeated.
    """
    at_once = batch.micro * batch.processes
    repeated = -rows % at_once
    steps = -(-(rows + repeated) // batch.overall)
    ends = schedule.max_steps is None or schedule.max_steps >= steps
    if batch.processes == 1 or not repeated or not ends or (schedule.epochs or 1.0) < 1.0:
        return None
    return (
        f"{rows:,} rows are not a multiple of the {at_once} that {batch.processes} ranks take at once: in the last step of each epoch "
        f"{repeated} {'row comes' if repeated == 1 else 'rows come'} a second time, so the result depends on the number of ranks"
    )
