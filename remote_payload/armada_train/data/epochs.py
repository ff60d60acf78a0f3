"""Report which rows are repeated at the end of an epoch."""

from __future__ import annotations

from armada_train.specification.values import Batch, Schedule


def doubt_about_epochs(rows: int, batch: Batch, schedule: Schedule) -> str | None:
    """Explain if several ranks make an epoch's last step differ from that of a single rank.

    Every rank needs the same number of micro batches. So accelerate repeats rows from the epoch's beginning
    (`even_batches`): 13 rows on 2 ranks with micro batches of 4 become 16.

    Args:
        rows: Number of rows in one epoch.
        batch: How a step is split.
        schedule: Tells whether the end of an epoch is reached.

    Returns:
        A message, or None if nothing is repeated.
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
