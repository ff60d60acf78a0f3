"""How many round trips things take over a real SSH connection: what a person on a train waits for.

`wan --count` counts the longest chain of words and answers, not seconds, so a slow machine does not change the numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from armada.config.experiments import load_experiment
from armada.config.hosts import Host
from armada.daemon.host_status import HostStatusRegistry
from armada.daemon.watcher import Watcher
from armada.errors import ArmadaError
from armada.foundation.progress import NullProgress
from armada.launch.plans.plan import make_plan
from armada.launch.plans.registry import task_of
from armada.launch.plans.task import Order
from armada.launch.start import start
from armada.paths import HomePaths
from armada.rpc.client import Call
from armada.rpc.session import HostSession
from armada.store import hosts, runs
from armada.store.database import Database
from tests.fleet import machines
from tests.fleet.conftest import BadLink, Fleet
from tests.fleet.remote_run import Remote

if TYPE_CHECKING:
    from armada.foundation.progress import NullProgress
    from tests.fleet.conftest import SshHost

TO_STARTED = 8
"""TCP, SSH's two, the login, the channel, the command, what the host is, the run."""


class Counted(HostSession):
    """A session that notes at each answer how many round trips its connection has taken."""

    def __init__(self, host: Host, home: HomePaths, count: Path) -> None:
        super().__init__(host, home)
        self._count = count
        self.taken: dict[str, int] = {}

    def call(self, request: Any, *params: Any, **options: Any) -> Any:
        answer = super().call(request, *params, **options)
        self.taken[_method(request)] = newest(self._count)
        return answer

    def begin(self, request: Any, *params: Any, **options: Any) -> Callable[[], Any]:
        wait: Callable[[], Any] = super().begin(request, *params, **options)

        def noting() -> Any:
            answer = wait()
            self.taken[_method(request)] = newest(self._count)
            return answer

        return noting

    def call_all(self, questions: Sequence[Call[Any]]) -> list[Any]:
        answers = super().call_all(questions)
        self.taken |= {question.method: newest(self._count) for question in questions}
        return answers


def _method(request: Any) -> str:
    return str(getattr(request, "method", request))


def newest(count: Path) -> int:
    """The round trips of the connection that was made last."""
    return int(count.read_text().split()[-1])


@pytest.fixture
def far(
    fleet: Fleet, known: Callable[..., SshHost], bad_link: Callable[..., BadLink], there: str, tmp_path: Path
) -> tuple[Host, Path]:
    """A host behind a long link, and where its round trips are counted."""
    count = tmp_path / "count"
    # Long enough that two things said at once are on their way before the answer to the first can be.
    link = bad_link(fleet.host("workstation"), "--rtt-ms", "60", "--count", str(count))
    address = f"researcher@127.0.0.1:{link.port}"
    known("workstation", name="far", ssh=address)
    return Host(name="far", ssh=address, identity=machines.IDENTITY, root=there), count


def test_a_warm_launch_has_started_after_eight_round_trips(
    far: tuple[Host, Path], home: HomePaths, tmp_path: Path
) -> None:
    host, count = far
    experiment = tmp_path / "exp.yaml"
    experiment.write_text(json.dumps({"name": "far", "task": "command", "command": ["true"]}))
    with HostSession(host, home) as session:
        session.call("host.facts", {})  # warm: the agent is there
    with Counted(host, home, count) as session, Database(home.store) as database:
        plan = make_plan(task_of(load_experiment(experiment, []), Order(session, home, database)))
        run = start(database, session, plan, NullProgress(), lock=home.lock("host-far"))
        assert run.state in {"queued", "running", "succeeded"}
        assert session.taken == {"host.facts": TO_STARTED - 1, "run.create": TO_STARTED, "run.observe": TO_STARTED + 1}


def test_two_hundred_files_take_as_many_round_trips_as_two(
    far: tuple[Host, Path], home: HomePaths, tmp_path: Path
) -> None:
    host, count = far
    with HostSession(host, home) as session:
        session.call("host.facts", {})  # warm: the agent is there
    taken, in_all = {}, {}
    for number in (2, 200):
        folder = tmp_path / f"data-{number}"
        folder.mkdir()
        for each in range(number):
            (folder / f"{each}.txt").write_text(f"{number} {each}\n")
            (tmp_path / f"alone-{number}-{each}.txt").write_text(f"alone {number} {each}\n")
        files = {f"alone/{each}": f"alone-{number}-{each}.txt" for each in range(number)}
        experiment = tmp_path / f"{number}.yaml"
        job = {"name": f"files-{number}", "task": "command", "command": ["true"]}
        experiment.write_text(json.dumps({**job, "files": {"data": folder.name, **files}}))
        before = sum(map(int, count.read_text().split()))
        with Counted(host, home, count) as session, Database(home.store) as database:
            plan = make_plan(task_of(load_experiment(experiment, []), Order(session, home, database)))
            start(database, session, plan, NullProgress(), lock=home.lock("host-far"))
            taken[number] = session.taken["run.create"]
        in_all[number] = sum(map(int, count.read_text().split())) - before
    assert taken[200] == taken[2]
    assert in_all[200] < in_all[2] + 20  # over every connection; rsync's own words may meet or not


def test_a_look_of_the_daemon_at_a_host_is_one_round_trip(far: tuple[Host, Path], home: HomePaths) -> None:
    """With more runs than one question carries, and with facts and load due in the same look."""
    host, count = far
    run_ids = [f"many-{number:06}" for number in range(55)]
    with HostSession(host, home) as session:
        made = session.call_all([Call("run.create", creation(run_id), 120.0) for run_id in run_ids])
        assert not [answer for answer in made if isinstance(answer, ArmadaError)]
    clock = [1_800_000_000.0]
    watcher = Watcher(host, home, HostStatusRegistry(), now=lambda: clock[0])
    try:
        with Database(home.store) as database:
            for run_id in run_ids:
                runs.insert(database, run_id=run_id, name="many", host="far", task="command", experiment=None, spec={})
            watcher.look(database)
            for passes in (2.0, 2.0, 10.0, 60.0):
                before, clock[0] = newest(count), clock[0] + passes
                watcher.look(database)
                assert newest(count) == before + 1, passes
            (record,) = hosts.every(database)
            assert (record.facts or {})["hostname"] == "workstation"
            assert {runs.find(database, run_id).observed_at is not None for run_id in run_ids} == {True}
    finally:
        watcher.close()


TO_VERIFIED = 9
"""Six to the agent; the run's state, what it has and the manifest; the greeting of the direct stream, if that is quicker; the files."""


class Told(NullProgress):
    """A listener that notes how many round trips a checkpoint took to be home."""

    def __init__(self, count: Path) -> None:
        self._count = count
        self.verified: list[int] = []

    def stage(self, name: str, message: str) -> None:
        self.verified.append(newest(self._count))


def test_a_small_checkpoint_from_afar_is_home_after_nine_round_trips_over_one_connection(
    far: tuple[Host, Path], fleet: Fleet, there: str, home: HomePaths
) -> None:
    host, count = far
    port = int((host.ssh or "").rpartition(":")[2])
    with closing(Remote(home, fleet, "workstation", there, port)) as run:
        run.create()
        run.save(1, {"adapter_model.safetensors": 40_000, "adapter_config.json": 500})
        run.session.close()
        connections = len(count.read_text().split())
        told = Told(count)
        run.session = session = Counted(run.host, home, count)
        outcome = run.sync(insist=True, progress=told)
        assert [run.is_right(place) for place in outcome.published] == [True]
        assert "spec.json" in outcome.outputs.fetched
        assert [taken <= TO_VERIFIED for taken in told.verified] == [True], told.verified
        # The outputs' hashes were asked for before; they and the answer that the host knows come in the same flight.
        assert session.taken["outbox.ack"] <= TO_VERIFIED + 1
        assert len(count.read_text().split()) == connections + 1


def creation(run_id: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "format": 1, "run_id": run_id, "name": "many", "task": "command", "created_at": "2026-01-01T00:00:00+00:00",
        "host": "far", "profile": None, "job": {"argv": ["true"], "env": {}, "code": None, "secrets": []},
        "gpus": 0, "processes": 1, "environment": None, "stop_grace_s": 5.0,
        "outbox": {"keep": 3, "disk_floor_bytes": 0}, "training": None, "experiment": {},
    }  # fmt: skip
    return {"run_id": run_id, "spec": spec, "files": {}, "secrets": {}}
