"""What home writes is what the payload reads; and the example that people start from trains."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section

from armada.config.experiments import load_experiment
from armada.config.profiles import load_profile
from armada.config.tasks.sft import Sft
from armada.launch.plans.training import Training, take_data
from armada.launch.training.batch import Batch
from armada.paths import HomePaths, HostPaths
from armada.provision.environment import Environment
from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import PayloadRun

ARC = Path(__file__).parents[2] / "examples" / "arc"


def plan(home: Path, overrides: tuple[str, ...] = (), profile: str = "cpu", gpus: int = 0) -> Training:
    experiment = load_experiment(ARC / "arc.yaml", overrides)
    assert isinstance(experiment, Sft)
    return Training(
        experiment,
        load_profile(profile, HomePaths(home / "config", home / "state")),
        HostPaths(PurePosixPath("/armada")),
        Environment("key", ">=3.11", "", None, ready=True),
        Batch(16, 4, 4 // max(1, gpus), max(1, gpus)),
        run_id="arc-1",
        title="arc",
        gpus=gpus,
        cores=2,
        data=take_data(experiment.data.paths),
        kernels="none" if experiment.train.kernels == "auto" else experiment.train.kernels,
    )


def test_the_payload_reads_what_home_plans(tmp_path: Path) -> None:
    planned = plan(tmp_path)
    training = parse_training(Section(planned.section().as_json(), "training"))
    assert training.is_stream
    assert training.train_data[0].hook == "puzzles:sample"
    assert (training.workers, training.evaluation.samples, training.save_every_minutes) == (1, 4, 10.0)
    assert (training.peak_flops, training.accept_changes) == (None, False)
    assert planned.argv()[1:3] == ["-m", "armada_train.launch"]
    assert planned.argv()[-2:] == ["--spec", "/armada/runs/arc-1/spec.json"]

    changed = ("resume.accept_changes=true", "train.kernels=hub", "train.compile=true", "train.neftune_alpha=5.0")
    training = parse_training(Section(plan(tmp_path, changed, "rtx3090-2x", gpus=2).section().as_json(), "training"))
    assert training.peak_flops == 71e12
    assert training.accept_changes
    assert (training.schedule.kernels, training.schedule.compile) == ("hub", True)


def test_a_saved_dataset_travels_with_all_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "saved" / "part"
    folder.mkdir(parents=True)
    for name in ("state.json", "data.arrow"):
        (folder.parent / name).write_text("{}")
    (folder / "deep.arrow").write_text("")
    override = f"data.eval=[{{path: {folder.parent}}}]"
    planned = plan(tmp_path, (override,))
    data = next(content for content in planned.contents() if content.kind == "data")
    assert {entry[0] for entry in data.manifest} == {"saved/state.json", "saved/data.arrow", "saved/part/deep.arrow"}
    assert planned.section().data.eval[0].path.endswith(f"{data.sha}/saved")


@pytest.mark.payload
@pytest.mark.takes_long("the example as it stands in the repository")
def test_the_example_trains_on_puzzles_made_on_the_spot(payload_python: Interpreter, tmp_path: Path) -> None:
    shutil.copytree(ARC, tmp_path / "arc")
    subprocess.run([payload_python.path, "-B", "make_eval.py"], cwd=tmp_path / "arc", check=True)
    ours, made = ((folder / "data" / "eval.jsonl").read_bytes() for folder in (ARC, tmp_path / "arc"))
    assert ours == made

    section: dict[str, Any] = json.loads(
        json.dumps(plan(tmp_path, ("train.max_steps=3", "train.warmup_steps=0")).section().as_json())
    )
    section["data"]["eval"] = [{"path": str(ARC / "data" / "eval.jsonl")}]
    run = PayloadRun(tmp_path / "run", payload_python, section).prepare()
    shutil.copy(ARC / "puzzles.py", run.path / "work")
    run.train(launcher=True)
    assert run.summary["dropped_samples"] == 0
    assert run.summary["train_tokens"] > 1000
    assert len((run.path / "samples.jsonl").read_text().splitlines()) == 8
