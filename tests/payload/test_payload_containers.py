"""The bundled trainer in containers, by the real podman: data, training, kill, resume, merge, all by the Python of an image."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import container_tools
from tests.payload.payload_run import TINY, chats, write_jsonl
from tests.payload.prepared import output, run_folder
from tests.supervisors import kill_both
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Armada
    from tests.container_tools import ContainerTool
    from tests.payload.interpreter import Interpreter

pytestmark = [pytest.mark.payload, pytest.mark.xdist_group("podman")]

IMAGE = "localhost/trainer:1"
ROWS = """
import pathlib
import time

def sample(index, rng):
    while index >= 400 and not pathlib.Path("go").exists():
        time.sleep(0.1)
    return {"messages": [{"role": "user", "content": f"{index}?"}, {"role": "assistant", "content": "Yes."}]}
"""
"""A training on these rows waits to be killed."""

TRAINING = {
    "name": "boxed",
    "task": "sft",
    "environment": {"container": IMAGE},
    "model": {"tiny": TINY},
    "data": {"train": [{"path": "train.jsonl"}]},
    "train": {"global_batch_size": 4, "max_steps": 5},
    "lora": {"r": 4},
    "checkpoint": {"every_steps": 2},
    "tracking": {"wandb": "off"},
}


@pytest.fixture
def boxed(armada: Armada, payload_python: Interpreter) -> Iterator[Armada]:
    """An armada whose `local` has podman and an image whose python3 is the payload's."""
    with container_tools.podman_or_skip() as podman:
        make_image(podman, payload_python.path, armada.folder / "tree")
        armada.env["PATH"] = f"{podman.program.parent}:{armada.env['PATH']}"
        write_jsonl(armada.folder / "train.jsonl", chats(32))
        yield armada
        podman.clear()


def make_image(podman: ContainerTool, python: str, tree: Path) -> None:
    """Make an image whose python3 is that of this machine; a gigabyte of packages is mounted and not copied."""
    (tree / "bin").mkdir(parents=True)
    for name in ("usr", "dev", "proc", "sys", "etc", "run", "tmp"):
        (tree / name).mkdir()
    for name in ("lib", "lib64"):
        (tree / name).symlink_to(f"usr/{name}")
    (tree / "bin" / "sh").symlink_to("/usr/bin/sh")
    program = tree / "bin" / "python3"
    program.write_text(f'#!/bin/sh\nexport PYTHONDONTWRITEBYTECODE=1\nexec {shlex.quote(python)} "$@"\n')
    program.chmod(0o755)
    podman.import_image(IMAGE, tree, "--change", "ENV PATH=/bin:/usr/bin")
    folder = Path(python).parents[1]
    mounted = {"/usr", str(folder), str(Path(python).resolve().parents[1])}
    settings = podman.program.parent.parent / "containers.conf"
    volumes = json.dumps([f"{place}:{place}:ro" for place in sorted(mounted)])
    settings.write_text(f"{settings.read_text()}volumes = {volumes}\n")


def launch(armada: Armada, *words: str, **changes: Any) -> Any:
    file = armada.write("exp.yaml", json.dumps(TRAINING | changes))
    return armada.json("launch", "--host", "local", file, *words)


@pytest.mark.long
@pytest.mark.takes_long("a training in a container, which imports torch anew")
def test_a_training_in_a_container_brings_its_checkpoint_home(boxed: Armada) -> None:
    launched = launch(boxed, "--follow")
    run_id = launched["run_id"]
    assert (launched["state"], launched["step"]) == ("succeeded", 5), output(boxed, run_id)
    shown = boxed.json("show", run_id)
    assert shown["spec"]["container"]["image"] == IMAGE
    last = shown["checkpoints"][-1]
    assert last["step"] == 5
    assert (Path(last["home_path"]) / "adapter_model.safetensors").is_file()
    assert list((boxed.local_runs.parent / "prepared").glob("*/facts.json"))
    assert not (boxed.local_runs.parent / "envs").exists()


@pytest.mark.long
@pytest.mark.takes_long("two attempts in containers, each of which imports torch anew")
def test_a_training_in_a_container_is_killed_goes_on_and_its_checkpoints_come_home(boxed: Armada) -> None:
    (boxed.folder / "project").mkdir()
    boxed.write("project/rows.py", ROWS)
    (boxed.folder / "train.jsonl").unlink()
    data, train = {"train": [{"hook": "rows:sample"}]}, {"global_batch_size": 4, "max_steps": 150}
    run_id = launch(boxed, code="project", data=data, train=train, checkpoint={"every_steps": 20})["run_id"]
    folder = run_folder(boxed, run_id)
    eventually(lambda: list((folder / "outbox").glob("*/MANIFEST.json")), "a checkpoint", longest_pause_s=1.0)
    alive = boxed.json("show", run_id)
    assert (alive["state"], alive["step"] > 0, alive["spec"]["container"]["image"]) == ("running", True, IMAGE)
    kill_both(json.loads((folder / "submissions" / "1" / "job.json").read_text()))
    end_job(run_id)
    eventually(lambda: boxed.json("show", run_id)["state"] == "failed")
    (folder / "work" / "go").touch()
    done = boxed.json("resume", run_id, "--follow", rc=None)
    said = output(boxed, run_id)
    assert (done["state"], done["attempt"], done["step"]) == ("succeeded", 2, 150), said
    assert "resuming from checkpoint-" in said
    last = boxed.json("show", run_id)["checkpoints"][-1]
    assert last["step"] == 150
    assert (Path(last["home_path"]) / "adapter_model.safetensors").is_file()
    assert "/envs/" not in (folder / "spec.json").read_text()
    assert not (boxed.local_runs.parent / "envs").exists()


@pytest.mark.long
@pytest.mark.takes_long("a preparation, a training and a merge, each in a container that imports torch anew")
def test_data_is_prepared_for_trainings_in_containers_and_their_adapters_are_merged_there(boxed: Armada) -> None:
    file = boxed.write("exp.yaml", json.dumps(TRAINING))
    prepared = boxed.json("prepare", "--host", "local", file, "--follow", rc=None)
    assert prepared["state"] == "succeeded", output(boxed, prepared["run_id"])
    (made,) = (boxed.local_runs.parent / "prepared").glob("*/facts.json")
    written = made.stat().st_mtime_ns
    run_id = launch(boxed, "--follow")["run_id"]
    assert [made] == list((boxed.local_runs.parent / "prepared").glob("*/facts.json"))
    assert made.stat().st_mtime_ns == written
    merged = boxed.json("merge", run_id, "--follow", rc=None)
    assert merged["state"] == "succeeded", output(boxed, merged["run_id"])
    shown = boxed.json("show", merged["run_id"])
    assert shown["spec"]["container"]["id"] == boxed.json("show", run_id)["spec"]["container"]["id"]
    (checkpoint,) = shown["checkpoints"]
    assert (Path(checkpoint["home_path"]) / "model.safetensors").is_file()
    assert not (boxed.local_runs.parent / "envs").exists()


def end_job(run_id: str) -> None:
    """Kill all processes of a run, as a restart of the host does."""
    marker = f"ARMADA_RUN_ID={run_id}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
