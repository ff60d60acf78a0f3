"""What every launch goes through, whoever asks for it; the whole way is in tests/commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from armada.config.hosts import Host
from armada.config.tasks.command import Command
from armada.errors import Conflict, NotFound, PreflightRefused
from armada.foundation.progress import NullProgress
from armada.launch.plans.task import Order
from armada.launch.service import Caller, carry_out, find_source, launch_of
from armada.paths import HomePaths
from armada.store import checkpoints, operations, runs
from armada.store.database import Database
from tests.answers import outbox

if TYPE_CHECKING:
    from armada.rpc.session import HostSession

DIGEST = "ab" * 32
COMMAND = Command(name="c", task="command", command=("true",))


class Unasked:
    """A session with a host that must not be asked anything."""

    def __init__(self, name: str) -> None:
        self.host = Host(name=name, ssh=name)

    def call(self, method: str, *_: Any, **__: Any) -> Any:
        raise AssertionError(method)


@pytest.fixture
def order(tmp_path: Path) -> Iterator[Order]:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    home.make()
    with Database(home.store) as database:
        yield Order(cast("HostSession", Unasked("desk")), home, database)


def test_there_is_no_data_of_a_command_to_prepare_and_no_host_is_asked(order: Order) -> None:
    with pytest.raises(PreflightRefused) as refused:
        launch_of(COMMAND, order, only_prepare=True)
    assert (refused.value.message, refused.value.hint) == (
        "there is no data to prepare",
        "`armada prepare` is for trainings with the bundled trainer",
    )


def test_a_host_that_was_removed_meanwhile_is_asked_nothing_and_the_launch_shows_as_failed(
    order: Order, tmp_path: Path
) -> None:
    caller = Caller(("armada", "launch"), tmp_path, NullProgress())
    with pytest.raises(Conflict, match=r"removed from hosts\.yaml"):
        carry_out(launch_of(COMMAND, order), caller)
    (seen,) = operations.recent(order.database, 10)
    assert (seen.kind, seen.host, seen.state) == ("launch", "desk", "failed")


def test_the_same_command_elsewhere_or_by_another_name_is_another_launch(order: Order) -> None:
    other = Order(order.session, order.home, order.database, name="other")
    elsewhere = Order(cast("HostSession", Unasked("box")), order.home, order.database)
    keys = [launch_of(COMMAND, each).key for each in (order, order, other, elsewhere)]
    assert (len(set(keys)), keys[0]) == (3, keys[1])


def gone(name: str) -> HostSession:
    raise NotFound(f"no host is called {name!r}")


def trained(database: Database, place: Path) -> None:
    spec = {"task": "sft", "name": "t", "training": {"lora": {"r": 8}}}
    runs.insert(database, run_id="t-1", name="t", host="box", task="sft", experiment=None, spec=spec)
    entry = {"digest": DIGEST, "step": 30, "size_bytes": 1, "file_count": 1, "created_at": 1.0}
    checkpoints.record_outbox(database, "t-1", outbox([entry]))
    checkpoints.mark_home(database, "t-1", DIGEST, place)


def test_an_adapter_at_home_can_be_merged_after_its_host_was_given_back(order: Order) -> None:
    place = order.home.state / "runs" / "t-1" / "checkpoint-30"
    trained(order.database, place)
    run = runs.find(order.database, "t-1")
    assert find_source(order.database, run, "last", gone, ()).checkpoint.step == 30
    assert find_source(order.database, run, "30", gone, ()).checkpoint.home_path == place
    with pytest.raises(NotFound):
        find_source(order.database, run, "31", gone, ())
    with pytest.raises(NotFound):  # the host is known, so it is asked again later
        find_source(order.database, run, "last", gone, ("box",))
