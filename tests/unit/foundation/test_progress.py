"""The one progress interface: told to several, from several threads, to a terminal and to the store."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest

from armada.cli.progress import Reporter
from armada.foundation.progress import (
    JoinedProgress,
    NullProgress,
    Progress,
    SerialProgress,
    TransferProgress,
    TransfersAs,
    with_fraction,
)
from armada.store import operations
from armada.store.database import Database
from armada.store.running_operations import operation


class Noting:
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def stage(self, name: str, message: str) -> None:
        self.heard.append(("stage", name, message))

    def now(self, name: str, message: str, fraction: float | None = None) -> None:
        self.heard.append(("now", name, message, fraction))

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None:
        self.heard.append(("transfer", name, what, seen))


SEEN = TransferProgress(10, 100, 5.0)
ALL = [("stage", "plan", "done"), ("now", "provision", "building", 0.5), ("transfer", "sync", "step 3", SEEN)]


def tell_all(progress: Progress) -> None:
    progress.stage("plan", "done")
    progress.now("provision", "building", 0.5)
    progress.transfer("sync", "step 3", SEEN)


def test_several_hear_the_same_in_the_same_order() -> None:
    first, second = Noting(), Noting()
    tell_all(JoinedProgress(first, NullProgress(), SerialProgress(second)))
    assert first.heard == second.heard == ALL


def test_threads_are_heard_one_at_a_time() -> None:
    inside: list[int] = []
    most: list[int] = []

    class Slow(NullProgress):
        def stage(self, name: str, message: str) -> None:
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    serial = SerialProgress(Slow())

    def work() -> None:
        for _ in range(200):
            serial.stage("a", "b")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1


def test_transfers_are_passed_on_under_another_name_and_stages_are_not() -> None:
    noting = Noting()
    tell_all(TransfersAs("pull", noting))
    assert noting.heard == [ALL[1], ("transfer", "pull", "step 3", SEEN)]


def test_a_fraction_is_said_in_percent() -> None:
    assert with_fraction("fetching", 0.375) == "fetching, 38%"
    assert with_fraction("fetching", None) == "fetching"


def test_an_operation_records_what_it_is_told_and_passes_it_on(tmp_path: Path) -> None:
    noting = Noting()
    with Database(tmp_path / "armada.db") as database:
        with operation(database, kind="launch", argv=["armada", "--set", "env.TOKEN=canary-9912"]) as recorded:
            progress = recorded.and_tell(noting)
            progress.stage("plan", "done")
            progress.now("provision", "building", 0.5)
            (row,) = operations.running(database)
            assert (row.step, row.message) == ("provision", "building, 50%")
            assert row.argv == ("armada", "--set", "env.TOKEN=…")
            progress.transfer("sync", "step 3", SEEN)
            (row,) = operations.running(database)
        assert (row.step, row.message, row.done_bytes, row.total_bytes, row.rate) == ("sync", "step 3", 10, 100, 5.0)
    assert noting.heard == ALL


@pytest.mark.parametrize("fraction", [None, 0.5])
def test_a_reporter_writes_how_much_is_done(fraction: float | None) -> None:
    stream = io.StringIO()
    Reporter(stream).now("provision", "building", fraction)
    assert stream.getvalue() == f" provision  building{', 50%' if fraction else ''}\n"
