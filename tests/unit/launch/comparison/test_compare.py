"""Several hosts at once: whom a silent one delays, what is asked, and what the estimates are made from."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from armada.config.experiments import load_experiment
from armada.config.hosts import Host
from armada.errors import ConfigError, HostUnreachable, PreflightRefused
from armada.launch.comparison import compare
from armada.launch.comparison.choice import candidate_of
from armada.launch.comparison.compare import Compared, Question, compare_hosts
from armada.launch.keep import record_of
from armada.paths import HomePaths
from armada.protocol.sources import WebSource
from armada.provision.sources import FoundFile
from armada.records.launch_record import forget_record, write_record
from armada.store import hosts as host_records
from armada.store import metrics, runs
from armada.store.database import Database
from tests import host_facts
from tests.unit.launch.plans.test_plans import A100, CLUSTER, COMMAND, DESK, Answers

SFT = """\
name: t
task: sft
model: {tiny: {hidden_size: 1024, layers: 24, heads: 16, kv_heads: 16, intermediate_size: 4096, vocab_size: 50000}}
data: {train: [{path: rows.jsonl}]}
train: {global_batch_size: 16, max_steps: 1000, max_length: 512}
lora: {}
"""
METHODS = {"host.facts", "content.check", "scheduler.check", "environment.status", "model.find", "scheduler.queue"}
"""What a plan asks; each of them changes nothing."""

PARTITION = {"name": "gpu", "nodes": 2, "cpus": 64, "cpus_free": 8, "gpus": 16, "gpus_free": 3}
QUEUE = {"time": 1.0, "partitions": [PARTITION, PARTITION | {"name": "old"}], "mine": {"PENDING": 2, "RUNNING": 1}}


class World:
    """Sessions by the names of their hosts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = HomePaths(folder / "config", folder / "state")
        self.home.make()
        self.gpus: dict[str, int] = {"a100": 8, "b100": 8}
        self.facts: dict[str, Any] = {}
        self.problems: dict[str, Callable[[], None]] = {}
        self.asked: list[tuple[str, str]] = []
        self.queue: Callable[[], dict[str, Any]] = lambda: QUEUE

    def compare(
        self, text: str, *hosts: dict[str, Any], greeting_s: float = 60.0, rest_s: float = 60.0
    ) -> dict[str, Compared]:
        (self.folder / "e.yaml").write_text(text)
        question = Question(load_experiment(self.folder / "e.yaml"), self.home)
        found = compare_hosts(
            question, [Host.model_validate(host) for host in hosts], greeting_s=greeting_s, rest_s=rest_s
        )
        return {each.host.name: each for each in found}

    def recorded(self, run_id: str, spec: dict[str, Any], points: int, step_s: float, *, host: str = "a100") -> None:
        """A run with curves, as it would be launched with `spec`."""
        with Database(self.home.store) as database:
            runs.insert(database, run_id=run_id, name="t", host=host, task="sft", experiment=None, spec=spec)
            one = {"tokens_per_s": 800 / step_s, "samples_per_s": 16 / step_s, "step_time_s": step_s, "mfu": 0.25}
            lines: list[dict[str, object]] = [
                {"kind": "train", "step": step, "time": 1.0, "loss": 1.0, **one} for step in range(2, points + 2)
            ]
            slow = {
                "kind": "train",
                "step": 1,
                "time": 1.0,
                "step_time_s": 1e4,
                "tokens_per_s": 1.0,
                "samples_per_s": 1.0,
            }
            assert metrics.record_metrics(database, run_id, [slow, *lines], offset=0, next_offset=9)


class Session(Answers):
    """A session whose host may be silent."""

    def __init__(self, world: World, host: Host) -> None:
        super().__init__(host.model_dump(exclude_none=True, exclude={"origin"}), world.gpus.get(host.name, 0))
        self._facts |= world.facts.get(host.name, {})
        self._world = world
        self.has_greeted = host.name not in world.problems  # however slow this machine is

    def said(self, method: str, params: dict[str, Any], /, **options: Any) -> dict[str, Any]:
        self._world.asked.append((self.host.name, method))
        self._world.problems.get(self.host.name, lambda: None)()
        self.has_greeted = True
        if method == "scheduler.queue":
            return self._world.queue()
        return super().said(method, params, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    (tmp_path / "rows.jsonl").write_text('{"text": "hello hello hello"}\n' * 3)
    found = World(tmp_path)
    monkeypatch.setattr(compare, "HostSession", lambda host, _home, **_: Session(found, host))
    yield found
    for release in found.problems.values():
        getattr(release, "event", threading.Event()).set()


def never() -> Callable[[], None]:
    """A host that does not answer until the test is over."""
    event = threading.Event()

    def wait() -> None:
        event.wait()
        raise HostUnreachable("the test is over")

    vars(wait)["event"] = event
    return wait


def refuse() -> None:
    raise HostUnreachable("nothing listens", hint="start it")


B100 = {**A100, "name": "b100", "price_per_hour": 12.0}


def test_a_silent_host_and_a_dead_one_hide_no_other_and_nothing_is_changed_anywhere(world: World) -> None:
    world.problems = {"silent": never(), "dead": refuse}
    hosts = ({"name": "silent", "ssh": "s"}, {"name": "dead", "ssh": "d"}, DESK, A100, CLUSTER)
    found = world.compare(SFT, *hosts, greeting_s=0.2)
    assert {name: each.outcome for name, each in found.items()} == {
        "silent": "unreachable", "dead": "unreachable", "desk": "possible", "a100": "possible", "hpc": "possible",
    }  # fmt: skip
    assert found["silent"].refusals == ["no answer within 0.2 s"]
    assert (found["dead"].exit_code, found["desk"].exit_code) == (4, 0)
    assert {method for _, method in world.asked} <= METHODS


def test_a_host_that_answers_first_and_then_falls_silent_ends_too(world: World) -> None:
    stuck = never()
    world.problems["a100"] = lambda: stuck() if ("a100", "content.check") in world.asked else None
    vars(world.problems["a100"])["event"] = vars(stuck)["event"]
    found = world.compare(SFT, A100, DESK, greeting_s=30.0, rest_s=0.2)
    assert found["a100"].refusals == ["no plan within 0.2 s of the other hosts"]
    assert found["desk"].outcome == "possible"


def test_a_wrong_experiment_is_said_before_any_host_is_asked(world: World) -> None:
    (world.folder / "rows.jsonl").write_text("no json\n")
    with pytest.raises(ConfigError, match=r"rows\.jsonl:1"):
        world.compare(SFT, A100, DESK)
    assert world.asked == []


def test_files_at_home_are_read_once_for_all_hosts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from armada.launch.training.dataset import check_data

    read: list[object] = []

    def count(data: Any, task: str) -> Any:
        read.append(data)
        return check_data(data, task)

    monkeypatch.setattr("armada.launch.plans.bundled.check_data", count)
    world.compare(SFT, A100, B100, DESK)
    assert len(read) == 1


def test_a_refusal_of_one_host_is_its_own(world: World) -> None:
    world.facts["desk"] = {"disk": {"total_bytes": 10**10, "free_bytes": 10**6}}
    found = world.compare(SFT, A100, DESK, {**A100, "name": "none", "profile": "a100-80gb-8x"})
    assert found["desk"].exit_code == found["none"].exit_code == 3
    assert "ARM005" in found["desk"].refusals[0]
    assert any("ARM001" in why for why in found["none"].refusals)
    assert found["a100"].outcome == "possible"
    wrong = world.compare(SFT.replace("global_batch_size: 16", "global_batch_size: 15"), A100, DESK)
    assert isinstance(wrong["a100"].error, PreflightRefused)
    assert wrong["desk"].outcome == "refused", "its disk"


def test_a_bug_in_one_plan_is_not_taken_for_a_silent_host(world: World) -> None:
    def bug() -> None:
        raise ZeroDivisionError

    world.problems["a100"] = bug
    with pytest.raises(ZeroDivisionError):
        world.compare(SFT, A100, DESK)


# --- estimates ------------------------------------------------------------------------------------------------------


def plan_of(found: Compared) -> dict[str, Any]:
    assert found.plan is not None
    spec: dict[str, Any] = json.loads(json.dumps(found.plan.spec.as_json()))
    return spec


def test_without_any_run_the_hours_are_from_the_peak_and_the_price_makes_them_money(world: World) -> None:
    found = world.compare(SFT, A100, B100)
    first, second = found["a100"].estimate, found["b100"].estimate
    assert first is not None
    assert second is not None
    assert first.speed is not None
    assert first.speed.origin == "peak"
    assert first.seconds is not None
    assert first.seconds.is_sane
    assert (first.cost, first.wait.seconds, first.wait.said) == (None, 0.0, "8 of 8 GPUs free")
    assert second.seconds is not None
    assert second.cost is not None
    assert second.cost.middle == pytest.approx(second.seconds.middle / 300)


def test_a_tiny_model_is_not_estimated_by_the_peak(world: World) -> None:
    found = world.compare(SFT.replace("layers: 24", "layers: 1").replace("50000", "5000"), A100)["a100"].estimate
    assert found is not None
    assert found.seconds is None
    assert found.said.endswith("a model below 100M parameters says nothing about a GPU's speed")


def test_a_recorded_run_of_the_same_training_gives_the_hours(world: World) -> None:
    world.recorded("t-old", plan_of(world.compare(SFT, A100)["a100"]), 50, 3.6)
    found = world.compare(SFT, A100, B100)
    estimate = found["a100"].estimate
    assert estimate is not None
    assert estimate.said == "run t-old, the same training"
    assert estimate.duration is not None
    assert estimate.duration.parts["steps"].middle == pytest.approx(3600), "1,000 steps; the first point is the start"
    assert estimate.until_end_s is not None
    other = found["b100"].estimate
    assert other is not None
    assert other.said == "run t-old (on a100)"


def test_steps_that_only_a_host_can_count_are_known_from_a_run_of_the_same_data(world: World) -> None:
    (world.folder / "saved").mkdir()
    (world.folder / "saved" / "state.json").write_text("{}")
    text = SFT.replace("rows.jsonl", "saved").replace("max_steps: 1000", "epochs: 2")

    def estimate(change: str = "epochs: 2") -> tuple[float | None, str]:
        found = world.compare(text.replace("epochs: 2", change), A100)["a100"].estimate
        assert found is not None
        steps = found.duration.steps if found.duration is not None else None
        return steps.middle if steps is not None else None, found.said

    before, said = estimate()
    assert before is None
    assert said.startswith("the number of steps is counted on the host; speed: 3% to 45%")
    world.recorded("t-old", plan_of(world.compare(text, A100)["a100"]), 50, 3.6)
    with Database(world.home.store) as database, database.transaction() as connection:
        connection.execute("UPDATE runs SET total_steps = 777")
    assert estimate() == (777, "run t-old, the same training")
    assert estimate("epochs: 3")[0] is None
    assert estimate("epochs: 2, long_samples: split")[0] is None
    (world.folder / "saved" / "state.json").write_text('{"other": 1}')
    assert estimate()[0] is None


def test_a_rented_machine_that_is_gone_still_says_how_fast_its_gpus_were(world: World) -> None:
    world.recorded("t-old", plan_of(world.compare(SFT, A100)["a100"]), 50, 3.6, host="given-back")
    estimate = world.compare(SFT, A100)["a100"].estimate
    assert estimate is not None
    assert estimate.said == "run t-old (on given-back)"


def test_a_host_whose_machine_was_replaced_says_nothing_about_the_old_runs_gpus(world: World) -> None:
    spec = plan_of(world.compare(SFT, A100)["a100"]) | {"profile": "gone"}
    world.recorded("t-old", spec, 50, 3.6)
    with Database(world.home.store) as database:
        host_records.record_facts(database, "a100", host_facts.answer(gpus=[{}] * 8))
        runs.set_root(database, "t-old", "r-1")
    one = world.compare(SFT, {**A100, "profile": "a100-80gb-8x"})["a100"].estimate
    assert one is not None
    assert one.speed is not None
    assert one.speed.origin == "peak", (
        "the profile of the run is gone, and the names of its GPUs are not those of a profile"
    )
    with Database(world.home.store) as database:
        host_records.record_facts(database, "a100", host_facts.answer(gpus=[{}] * 8, root_id="r-2"))
    two = world.compare(SFT, A100)["a100"].estimate
    assert two is not None
    assert two.speed is not None
    assert two.speed.origin == "peak"


@pytest.mark.parametrize(
    "change",
    [
        {"training": None}, {"training": {"batch": 7}}, {"training": []}, {"experiment": "x"}, {"gpus": "all"}, {"profile": 7},
        {"experiment": {"model": {"tiny": float("1e9")}}},
    ],
)  # fmt: skip
def test_records_of_another_armada_or_a_hostile_job_are_passed_over(world: World, change: dict[str, Any]) -> None:
    world.recorded("t-old", plan_of(world.compare(SFT, A100)["a100"]) | change, 50, 3.6)
    found = world.compare(SFT, A100)["a100"].estimate
    assert found is not None
    assert found.seconds is not None
    assert "the same training" not in found.said


@pytest.mark.parametrize("step_s", [1e-300, 1e300, float("inf"), float("nan")])
def test_absurd_curves_give_no_absurd_hours(world: World, step_s: float) -> None:
    world.recorded("t-old", plan_of(world.compare(SFT, A100)["a100"]), 50, step_s)
    found = world.compare(SFT, A100)["a100"].estimate
    assert found is not None
    assert found.seconds is None or found.seconds.is_sane


def busy(*run_ids: str | None) -> dict[str, Any]:
    return {"processes": [{"pid": 7, "run_id": run_id} for run_id in run_ids]}


def test_the_wait_is_that_of_the_runs_that_hold_the_gpus(world: World) -> None:
    with Database(world.home.store) as database:
        runs.insert(database, run_id="t-1", name="t", host="a100", task="sft", experiment=None, spec={})
        with database.transaction() as connection:
            connection.execute("UPDATE runs SET state = 'running', step = 10, total_steps = 20, step_time_s = 60.0")
    gpu = {"name": "NVIDIA A100-SXM4-80GB"}
    ours, theirs = [gpu | busy("t-1")] * 4 + [gpu] * 4, [gpu | busy(None)] * 4 + [gpu] * 4

    def wait(gpus: list[dict[str, Any]], waiting: int = 0, need: int = 8) -> tuple[float | None, str]:
        queue = {"waiting": [{"run_id": "t-2", "since": 1.0}] * waiting}
        world.facts["a100"] = {**host_facts.answer(gpus=gpus), "queue": queue}
        found = world.compare(SFT + f"resources: {{gpus: {need}}}\n", A100)["a100"].estimate
        assert found is not None
        return found.wait.seconds, found.wait.said

    assert wait(ours) == (600.0, "4 of 8 GPUs free, the others in 10 m")
    assert wait(ours, need=4) == (0.0, "4 of 8 GPUs free")
    assert wait(theirs) == (None, "4 of 8 GPUs free; who uses the others does not say for how long")
    assert wait(ours, waiting=1, need=4) == (None, "4 of 8 GPUs free, 1 run waiting")


def test_a_cluster_says_itself_when_it_would_start(world: World) -> None:
    found = world.compare(SFT, CLUSTER)["hpc"]
    assert found.estimate is not None
    assert found.estimate.wait.said == "slurm: starts now"
    assert candidate_of(found).until_end_s is not None
    assert found.queue is not None
    assert found.queue.mine["PENDING"] == 2


def test_a_queue_that_is_not_told_loses_no_plan(world: World) -> None:
    world.queue = lambda: refuse() or {}  # type: ignore[func-returns-value]
    found = world.compare(SFT, CLUSTER)["hpc"]
    assert (found.outcome, found.queue) == ("possible", None)


def succeeded(world: World, text: str, run_id: str = "c-1", *, seconds: float = 3600.0) -> None:
    """A run of the experiment on desk that took so long."""
    found = world.compare(text, DESK)["desk"]
    spec = plan_of(found)
    with Database(world.home.store) as database:
        runs.insert(database, run_id=run_id, name="c", host="desk", task=spec["task"], experiment=None, spec=spec)
        with database.transaction() as connection:
            connection.execute(
                "UPDATE runs SET state = 'succeeded', started_at = 100.0, ended_at = ?", (100 + seconds,)
            )
    assert found.plan is not None
    write_record(world.home, run_id, record_of(found.plan))


def hours(world: World, text: str, **host: str) -> tuple[float | None, str]:
    found = world.compare(text, DESK | host)["desk"].estimate
    assert found is not None
    return found.seconds.middle if found.seconds is not None else None, found.said


SAME = (3600.0, "run c-1, the same experiment")
OTHER = (None, "run c-1 of this experiment had other code or data")


def test_the_same_command_ran_so_long_before(world: World) -> None:
    succeeded(world, COMMAND)
    assert hours(world, COMMAND) == SAME
    assert hours(world, COMMAND.replace("hi", "ho")) == (None, "no such run was recorded")


@pytest.mark.parametrize("task", ["script: t.py", "command: [python3, t.py]"])
def test_a_run_with_other_code_says_nothing_about_the_time(world: World, task: str) -> None:
    (world.folder / "project").mkdir()
    code = world.folder / "project" / "t.py"
    code.write_text("import time; time.sleep(1)\n")
    text = f"name: c\ntask: {task.partition(':')[0]}\n{task}\ncode: project\n"
    succeeded(world, text)
    assert hours(world, text) == SAME
    code.write_text("import time; time.sleep(100000)\n")
    assert hours(world, text) == OTHER
    succeeded(world, text, "c-2", seconds=7200.0)
    assert hours(world, text) == (7200.0, "run c-2, the same experiment")
    code.write_text("import time; time.sleep(1)\n")
    assert hours(world, text) == (7200.0, "run c-1, the same experiment"), "an older run of this very code"


@pytest.mark.parametrize("key", ["files: {rows: rows.jsonl}", "data: {train: [{path: rows.jsonl}]}"])
def test_a_run_with_other_data_says_nothing_about_the_time(world: World, key: str) -> None:
    text = f"{COMMAND}{key}\n"
    succeeded(world, text)
    assert hours(world, text) == SAME
    assert hours(world, text, root="/elsewhere/data") == SAME, "only the root differs"
    (world.folder / "rows.jsonl").write_text('{"text": "hello"}\n' * 1000)
    assert hours(world, text) == OTHER


def test_a_download_counts_by_the_version_that_its_server_names(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{COMMAND}files: {{w: https://example.org/w}}\n"
    versions: list[str | None] = ["a" * 64]

    def look_up(*_: object) -> list[FoundFile]:
        source = WebSource(kind="web", url="https://example.org/w", name="w")
        return [FoundFile("w", "https://example.org/w", source, versions[-1], 7)]

    monkeypatch.setattr("armada.launch.plans.files.look_up", look_up)
    succeeded(world, text)
    assert hours(world, text) == SAME
    versions.append("b" * 64)
    assert hours(world, text) == OTHER
    versions.append(None)
    assert hours(world, text) == OTHER, "nothing shows whether it has changed"
    versions.append("a" * 64)
    forget_record(world.home, "c-1")
    assert hours(world, text) == OTHER, "nobody knows what the run had"


@pytest.mark.parametrize("job", [None, 7, [], {"code": 7, "data": "x"}, {"data": [7, {"name": [], "content": {}}]}])
def test_a_job_of_another_armada_or_a_hostile_one_is_not_the_same(world: World, job: object) -> None:
    text = f"{COMMAND}files: {{rows: rows.jsonl}}\n"
    succeeded(world, text)
    with Database(world.home.store) as database:
        runs.set_spec(database, "c-1", runs.spec(database, "c-1") | {"job": job})
    assert hours(world, text) == OTHER


def test_a_training_whose_data_has_grown_takes_more_steps(world: World) -> None:
    text = SFT.replace("max_steps: 1000", "epochs: 2").replace("max_length: 512", "max_length: 512, packing: false")
    (world.folder / "rows.jsonl").write_text('{"text": "hello"}\n' * 1600)
    world.recorded("t-old", plan_of(world.compare(text, A100)["a100"]), 50, 3.6)
    with Database(world.home.store) as database, database.transaction() as connection:
        connection.execute("UPDATE runs SET total_steps = 200")

    def steps() -> float:
        found = world.compare(text, A100)["a100"].estimate
        assert found is not None
        assert found.duration is not None
        assert found.duration.steps is not None
        return found.duration.steps.middle

    assert steps() == 200
    (world.folder / "rows.jsonl").write_text('{"text": "hello"}\n' * 16000)
    assert steps() == 2000


def test_a_hook_of_other_code_makes_other_data(world: World) -> None:
    (world.folder / "project").mkdir()
    code = world.folder / "project" / "mine.py"
    code.write_text("def rows(context):\n    yield {'text': 'hello'}\n")
    text = SFT.replace("{path: rows.jsonl}", "{hook: 'mine:rows'}") + "code: project\n"
    world.recorded("t-old", plan_of(world.compare(text, A100)["a100"]), 50, 3.6)

    def said() -> str:
        found = world.compare(text, A100)["a100"].estimate
        assert found is not None
        return found.said

    assert said() == "run t-old, the same training"
    code.write_text("def rows(context):\n    yield {'text': 'hello' * 10_000}\n")
    assert "data" in said()
