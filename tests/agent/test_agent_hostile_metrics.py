"""Whatever takes the place of a file with metrics: the job is watched on, and another run's curves are its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from armada_agent.metrics import event_files, wandb_files

from tests import hostile
from tests.agent.watched_run import RECORDINGS, WatchedRun
from tests.chance import dice

FILES = {
    "log": "output.log",
    "armada_log": "reported.jsonl",
    "file": "work/a.csv",
    "JSON lines": "work/b.jsonl",
    "trainer_state": "work/checkpoint-10/trainer_state.json",
    "tensorboard": "work/runs/events.out.tfevents.1",
    "wandb": "work/wandb/run-1-a/run-a.wandb",
    "metrics": "metrics.jsonl",
    "watch": "curves.json",
}


def fill(run: WatchedRun) -> None:
    """Write what a job would to every source."""
    run.print("{'loss': 1.0, 'step': 1}\n")
    texts = {
        Path(run.paths.reported): b'{"step": 1, "values": {"said": 1}}\n',
        run.work / "a.csv": b"step,table\n1,1\n",
        run.work / "b.jsonl": b'{"step": 1, "row": 0.5}\n',
        run.folder / FILES["trainer_state"]: (RECORDINGS / "trainer_state-10.json").read_bytes(),
        run.folder / FILES["tensorboard"]: (RECORDINGS / "tensorboard-torch.tfevents").read_bytes(),
        run.folder / FILES["wandb"]: (RECORDINGS / "offline-0.31.wandb").read_bytes(),
    }
    for path, content in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.mark.parametrize("source", FILES)
def test_a_source_takes_whatever_lies_there(tmp_path: Path, source: str) -> None:
    chance = dice(521 + list(FILES).index(source))
    other = WatchedRun(tmp_path / "other", metrics=["*.csv", "*.jsonl"])
    fill(other)
    other.look()
    run = WatchedRun(tmp_path / "host", metrics=["*.csv", "*.jsonl"])
    fill(run)
    run.look(final=True)
    place = Path(run.paths.reported) if source == "armada_log" else run.folder / FILES[source]
    right = place.read_bytes()
    for number in range(hostile.CASES):
        if number % 10 == 0:
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            place.unlink(missing_ok=True)
            place.write_bytes(right)
        said = hostile.replace(chance, place, [other.folder / FILES[source], tmp_path / "nowhere", tmp_path])
        run.begin()
        run.look()
        if not place.is_file() or place.stat().st_size < hostile.HUGE_BYTES:
            run.look(final=True)
        assert not any("no longer read" in each for each in run.findings()), said
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    (run.folder / "metrics.jsonl").unlink(missing_ok=True)
    (run.work / "a.csv").unlink(missing_ok=True)
    (run.work / "b.jsonl").unlink(missing_ok=True)
    run.log.unlink(missing_ok=True)
    run.begin()
    run.print("{'loss': 0.125, 'step': 5000}\n")
    run.look(final=True)
    assert (5000, 0.125) in run.curve("loss")
    other.look(final=True)
    assert {line["source"] for line in other.lines()} >= {"log", "file", "trainer_state", "tensorboard", "wandb"}
    assert other.findings() == []


def test_events_and_histories_of_any_bytes_are_parsed_or_are_none() -> None:
    chance = dice(531)
    whole = (RECORDINGS / "tensorboard-torch.tfevents").read_bytes()
    history = (RECORDINGS / "offline-0.31.wandb").read_bytes()
    for _ in range(hostile.CASES):
        at = chance.randrange(len(whole) - 100)
        for step, _moment, tag, value in event_files.scalars(hostile.content(chance, whole[at : at + 300])[:5000]):
            assert isinstance(step, int), tag
            assert isinstance(value, float), tag
        at = chance.randrange(len(history) - 100)
        for _step, row in wandb_files.history(hostile.content(chance, history[at : at + 500])[:5000]):
            assert all(isinstance(name, str) for name in row)
