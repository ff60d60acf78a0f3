"""What an experiment's `start_from:` names is looked for before anything is planned, and the line that names it is said."""

from __future__ import annotations

import hashlib
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from armada.config.experiments import load_experiment
from armada.config.hosts import Host
from armada.config.tasks.sft import Sft
from armada.errors import ArmadaError, Conflict, NotFound
from armada.launch.resume import resume_run
from armada.launch.training.warmstart import find_start
from armada.paths import HomePaths
from armada.store import checkpoints, runs
from armada.store.database import Database
from armada.verdicts.states import Verdict
from tests import published_run
from tests.answers import Answering, answered, outbox

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from armada.rpc.session import HostSession

RUN = "arc-abc234"
EXPERIMENT = (
    "name: next\ntask: sft\nmodel: owner/tiny\ndata: {train: [{path: rows.jsonl}]}\n"
    "train: {global_batch_size: 4, max_steps: 5, learning_rate: 1e-4}\n"
)


class Session(Answering):
    """A host that says nothing new of a run."""

    host = Host.model_validate({"name": "box", "ssh": "box"})

    def __init__(self, home: HomePaths) -> None:
        self.home = home

    manifest = ""

    def call_all(self, calls: Sequence[Any]) -> list[Any]:
        return answered(calls, [{"runs": []} for _ in calls])

    def said(self, method: str, _params: dict[str, Any], /, **_: Any) -> Any:
        assert method == "outbox.manifest"
        return {"text": self.manifest}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "state" / "armada.db") as opened:
        yield opened


def add(
    database: Database,
    *,
    host: str = "box",
    task: str = "sft",
    steps: tuple[int, ...] = (),
    experiment: str | None = None,
) -> None:
    runs.insert(database, run_id=RUN, name="arc", host=host, task=task, experiment=experiment, spec={})
    runs.record(database, RUN, Verdict("succeeded", None, None, 1, 5), submission=1, observed_at=time.time())
    entries = [
        {"digest": f"{step:064x}", "step": step, "size_bytes": 1, "file_count": 1, "created_at": 1.0} for step in steps
    ]
    checkpoints.record_outbox(database, RUN, outbox(entries))


def experiment(folder: Path, start: str) -> Sft:
    (folder / "rows.jsonl").write_text(json.dumps({"prompt": "a", "completion": "b"}) + "\n")
    (folder / "exp.yaml").write_text(f"{EXPERIMENT}{start}\n")
    found = load_experiment(folder / "exp.yaml")
    assert isinstance(found, Sft)
    return found


def find(database: Database, tmp_path: Path, start: str) -> object:
    session = Session(HomePaths(tmp_path / "config", tmp_path / "state"))
    return find_start(database, cast("HostSession", session), experiment(tmp_path, start))


def test_what_resume_says_to_write_is_accepted_when_pasted(database: Database, tmp_path: Path) -> None:
    add(database)
    session = Session(HomePaths(tmp_path / "config", tmp_path / "state"))
    with pytest.raises(Conflict) as refused:
        resume_run(database, cast("HostSession", session), runs.find(database, RUN))
    line = re.search(r"`(start_from: .*?)`", refused.value.hint or "")
    assert line is not None
    start = experiment(tmp_path, line[1]).start_from
    assert start is not None
    assert (start.run, start.path, start.checkpoint) == (RUN, None, None)


@pytest.mark.parametrize(("file", "named"), [(None, "FILE"), ("/home/me/my exp.yaml", "'/home/me/my exp.yaml'")])
def test_a_run_without_weights_is_not_said_to_be_a_start(
    database: Database, tmp_path: Path, file: str | None, named: str
) -> None:
    add(database, task="command", experiment=file)
    session = Session(HomePaths(tmp_path / "config", tmp_path / "state"))
    with pytest.raises(Conflict) as refused:
        resume_run(database, cast("HostSession", session), runs.find(database, RUN))
    assert refused.value.hint == f"to run it once more: armada launch --host box {named}"


@pytest.mark.parametrize(
    ("start", "said", "hint"),
    [
        ("start_from: nobody", "`start_from.run`: no run's id begins with 'nobody'", "armada ps lists them"),
        (
            "start_from: {run: arc, checkpoint: 7}",
            f"`start_from.run`: {RUN} has no checkpoint 7",
            "known steps",
        ),
        ("start_from: {path: empty}", "`start_from.path`: ", "name a checkpoint of `task: sft`"),
    ],
)
def test_a_start_that_is_not_there_is_refused_with_the_line_that_names_it(
    database: Database, tmp_path: Path, start: str, said: str, hint: str
) -> None:
    (tmp_path / "empty").mkdir()
    add(database)
    with pytest.raises(ArmadaError) as refused:
        find(database, tmp_path, start)
    assert str(refused.value).startswith(f"{tmp_path / 'exp.yaml'}:6: {said}")
    assert hint in (refused.value.hint or "")


def test_none_is_the_best_where_none_has_an_evaluation_loss(database: Database, tmp_path: Path) -> None:
    add(database, steps=(10, 20))
    with pytest.raises(NotFound) as refused:
        find(database, tmp_path, "start_from: {run: arc, checkpoint: best}")
    assert f"{RUN} has no checkpoint with an evaluation loss, so none is the best" in str(refused.value)
    assert refused.value.hint == "known steps: 10, 20"


def test_a_checkpoint_on_the_host_that_holds_no_weights_is_refused_before_the_launch(
    database: Database, tmp_path: Path
) -> None:
    listed = {"format": 1, "step": 30, "files": [{"path": "state.pkl", "size": 1, "sha256": "0" * 64}]}
    session = Session(HomePaths(tmp_path / "config", tmp_path / "state"))
    session.manifest = json.dumps(listed)
    digest = hashlib.sha256(session.manifest.encode()).hexdigest()
    add(database)
    entry = {"digest": digest, "step": 30, "size_bytes": 1, "file_count": 1, "created_at": 1.0}
    checkpoints.record_outbox(database, RUN, outbox([entry]))
    with pytest.raises(NotFound) as refused:
        find_start(database, cast("HostSession", session), experiment(tmp_path, f"start_from: {RUN}"))
    said = f"exp.yaml:6: `start_from.run`: checkpoint 30 of {RUN}, on box: it has no weights"
    assert said in refused.value.message


def test_a_checkpoint_that_lies_on_another_host_only_says_where_and_how_to_get_it(
    database: Database, tmp_path: Path
) -> None:
    add(database, host="elsewhere", steps=(10, 20))
    with pytest.raises(NotFound) as refused:
        find(database, tmp_path, f"start_from: {{run: {RUN}, checkpoint: 20}}")
    assert "elsewhere has the checkpoints 10, 20" in refused.value.message
    assert refused.value.hint == f"armada pull {RUN} --checkpoint 20, or launch on elsewhere"


def test_a_checkpoint_that_is_damaged_at_home_is_refused_and_doubted(database: Database, tmp_path: Path) -> None:
    add(database)
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    place = published_run.publish(database, home, RUN, 30, {"model.safetensors": b"w", "config.json": b"{}"})
    assert find(database, tmp_path, f"start_from: {RUN}") is not None
    (place / "model.safetensors").unlink()
    with pytest.raises(ArmadaError) as refused:
        find(database, tmp_path, f"start_from: {RUN}")
    said = f"checkpoint-30 of {RUN} is damaged at home: model.safetensors is not as it came; nothing was sent"
    assert refused.value.message == f"{tmp_path / 'exp.yaml'}:6: `start_from.run`: {said}"
    [known] = checkpoints.of_run(database, RUN)
    assert not known.is_good_home
