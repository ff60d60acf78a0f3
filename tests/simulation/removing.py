"""`armada rm RUN` in a simulated world: the real command, with a session to a simulated host."""

from __future__ import annotations

import argparse
import contextlib
import io
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from armada.cli.progress import Reporter
from armada.cli.remove import remove_one
from armada.cli.several import Patience

if TYPE_CHECKING:
    from armada.cli.context import Context
    from armada.paths import HomePaths
    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.runs import Run

_OPTIONS = argparse.Namespace(force=False, without_host=False, other_home=False, dry_run=False)


def remove_run(database: Database, home: HomePaths, session: HostSession, run: Run) -> None:
    """Remove a run on its host and at home; nobody said that anything may be lost.

    Raises:
        ArmadaError: Why it was not removed.
    """
    context = SimpleNamespace(
        database=database,
        home=home,
        is_read_only=False,
        hosts=lambda: {run.host: None},
        session=lambda *_, **__: contextlib.nullcontext(session),
    )
    remove_one(cast("Context", context), _OPTIONS, Reporter(io.StringIO()), Patience(0.0), run)
