"""`armada sweep extend --search`: more trials for a search."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from armada.cli.printing import print_json
from armada.cli.progress import Reporter
from armada.cli.sweep_views import refuse_over
from armada.config.sweep import SearchCells
from armada.errors import UsageError
from armada.provision.exclusive_lock import exclusive_lock
from armada.store import sweeps
from armada.sweeps.cells import MOST_CELLS
from armada.sweeps.search import refuse_small_space
from armada.sweeps.searched import change_search, last_number, search_of

if TYPE_CHECKING:
    import argparse

    from armada.cli.context import Context
    from armada.store.sweeps import SweepRecord


def extend_search(context: Context, record: SweepRecord, options: argparse.Namespace) -> int:
    """Allow a search more trials; the daemon and `sweep show` hand them over. A stopped one goes on.

    Raises:
        UsageError: It is no search, or something else than `--search` is asked for.
        Conflict: Its rule would stop it at once.
    """
    from armada.cli.daemon import start_for_launch

    name, search = record.name, search_of(record)
    if search is None:
        raise UsageError(f"{name} is no search, so --search cannot extend it", hint="--grid or --random adds cells")
    others = ("grid", "random", "space", "host", "parallel", "profile", "overrides", "gpus", "seed", "dry_run")
    if options.search is None or any(getattr(options, each) not in (None, [], False) for each in others):
        raise UsageError(
            f"{name} is a search: it can have more trials, and nothing else changes",
            hint=f"armada sweep extend {name} --search 10",
        )
    refuse_over(context, record)
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    lock = context.home.lock(f"sweep-{name}")
    with exclusive_lock(lock, f"extension of {name}", lambda who: reporter.stage("waiting", who)):
        record = sweeps.find(context.database, name)
        search = search_of(record) or search
        trials = search.cells.trials + options.search
        if trials > MOST_CELLS:
            raise UsageError(f"a sweep has at most {MOST_CELLS:,} cells, not {trials:,}")
        refuse_small_space(SearchCells.model_copy(search.cells, update={"trials": trials}))
        with context.database.transaction():
            change_search(context.database, name, trials=trials, since=last_number(record), note="")
            if record.state == "stopped":
                sweeps.set_state(context.database, name, "started")
    if not options.no_daemon:
        start_for_launch(context.home)
    if options.json:
        print_json({"sweep": name, "taken": {}})
    else:
        reporter.line(f"{name}: {trials} trials now; armada sweep show {name}")
    return 0
