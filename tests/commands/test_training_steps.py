"""`armada prepare`, and trainings that begin with another run's checkpoint, as a user types them; nothing is trained here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Armada

# What the payload leaves after three saves, with weights of two bytes.
SAVE = r"""
import json, os, struct, time
run = os.environ["ARMADA_RUN_DIR"]
header = json.dumps({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}).encode()
for step, loss in ((10, 0.5), (20, 0.3), (30, 0.4)):
    part = os.path.join(run, "outbox", ".part-%d" % step)
    os.makedirs(part)
    for name, content in (
        ("adapter_model.safetensors", struct.pack("<Q", len(header)) + header + b"%d" % step),
        ("adapter_config.json", b"{}"), ("optimizer.pt", b"moments"), ("scheduler.pt", b"-"), ("rng_state.pth", b"-"),
        ("trainer_state.json", b"{}"),
    ):
        open(os.path.join(part, name), "wb").write(content)
    json.dump({"step": step, "kind": "periodic", "time": time.time(), "metrics": {"eval_loss": loss}},
              open(os.path.join(part, ".announce.json"), "w"))
    with open(os.path.join(run, "metrics.jsonl"), "a") as metrics:
        print(json.dumps({"kind": "eval", "step": step, "time": time.time(), "attempt": 1, "eval_loss": loss}), file=metrics)
    os.rename(part, os.path.join(run, "outbox", ".new-%d" % step))
"""


def write_training(armada: Armada, **more: Any) -> str:
    rows = [{"prompt": "a", "completion": "b"}] * 8
    armada.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    experiment = {
        "name": "continued",
        "task": "sft",
        "model": {"tiny": {}},
        "data": {"train": [{"path": "rows.jsonl"}]},
        "train": {"global_batch_size": 4, "max_steps": 2},
        "lora": {},
        **more,
    }
    return armada.write("training.yaml", json.dumps(experiment))


@pytest.fixture
def run_id(armada: Armada) -> str:
    """A run that saved three checkpoints and ended; nothing of it is home."""
    armada.write("save.py", SAVE)
    experiment = armada.command("python3", str(armada.folder / "save.py"))
    found: str = armada.json("launch", "--host", "local", experiment)["run_id"]
    armada.await_end(found)
    assert armada.json("ps")[0]["state"] == "succeeded"
    return found


def start_of(armada: Armada, **start: Any) -> dict[str, Any]:
    experiment = write_training(armada, start_from=start)
    found: dict[str, Any] = armada.json("launch", "--host", "local", experiment, "--dry-run")["spec"]["training"][
        "start_from"
    ]
    return found


def step_in(folder: Path) -> int:
    return int((folder / "adapter_model.safetensors").read_bytes()[-2:])


def test_preparing_is_a_run_of_its_own_without_gpus(armada: Armada) -> None:
    experiment = write_training(armada)
    training = armada.json("launch", "--host", "local", experiment, "--dry-run")["spec"]
    spec = armada.json("prepare", "--host", "local", experiment, "--dry-run")["spec"]
    assert (spec["task"], spec["gpus"], spec["processes"], spec["name"]) == ("prepare", 0, 1, "continued: data")
    assert spec["job"]["argv"][1:4] == ["-m", "armada_train", "prepare"]
    assert spec["job"]["argv"][4].endswith(f"/{spec['run_id']}/spec.json")
    # What the cache's keys are made from is the same, and so is the cache.
    assert {**spec["training"], "tracking": None} == {**training["training"], "tracking": None}
    assert spec["training"]["prepared"].endswith("/prepared")


def test_a_command_has_no_data_to_prepare(armada: Armada) -> None:
    done = armada.run("prepare", "--host", "local", armada.command("true"))
    assert done.returncode == 3
    assert "there is no data to prepare" in done.stderr


def test_parquet_and_the_hub_are_counted_where_the_libraries_are(armada: Armada) -> None:
    (armada.folder / "more.parquet").write_bytes(b"PAR1 and so on")
    data = {"train": [{"path": "rows.jsonl"}, {"path": "more.parquet"}, {"hub": "a/b", "split": "test", "weight": 0.5}]}
    shown = armada.run("launch", "--host", "local", write_training(armada, data=data), "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "8 rows of data and more · parquet, saved and hub datasets are counted on the host" in shown.stdout
    spec = armada.json("launch", "--host", "local", "training.yaml", "--dry-run")["spec"]
    assert spec["training"]["data"]["train"][2] == {"hub": {"id": "a/b", "split": "test"}, "weight": 0.5}
    assert "HF_HUB_OFFLINE" not in spec["job"]["env"]


@pytest.mark.parametrize(("checkpoint", "step"), [("last", 30), ("best", 20), (10, 10), (None, 30)])
def test_a_checkpoint_still_on_the_host_is_taken_where_it_lies_and_one_that_is_home_travels(
    armada: Armada, run_id: str, checkpoint: str | int | None, step: int
) -> None:
    asked = {"run": run_id, **({"checkpoint": checkpoint} if checkpoint else {})}
    there = start_of(armada, **asked, optimizer="moments")
    assert there["optimizer"] == "moments"
    assert step_in(Path(there["path"])) == step
    assert "/outbox/" in there["path"]

    assert armada.run("pull", run_id).returncode == 0
    home = start_of(armada, **asked)
    assert home["optimizer"] is False
    assert "/models/" in home["path"]
    shown = armada.run("launch", "--host", "local", "training.yaml", "--dry-run").stdout
    assert "models " in shown
    assert "· 2 files ·" in shown  # the adapter and its configuration: no optimizer, no trainer's state


def test_a_folder_is_a_start_too(armada: Armada, run_id: str) -> None:
    assert armada.run("pull", run_id, "--checkpoint", "20", "--to", "copied").returncode == 0
    assert "/models/" in start_of(armada, path="copied", optimizer="moments")["path"]
    (armada.folder / "copied" / "optimizer.pt").unlink()
    done = armada.run("launch", "--host", "local", "training.yaml", "--dry-run")
    assert (done.returncode, "it has no optimizer.pt" in done.stderr) == (2, True)
    (armada.folder / "copied" / "adapter_model.safetensors").unlink()
    done = armada.run("launch", "--host", "local", "training.yaml", "--dry-run")
    assert (done.returncode, "it has no weights" in done.stderr) == (2, True)


def test_what_is_no_start_is_refused_before_anything_travels(armada: Armada, run_id: str) -> None:
    for start, code, words in (
        ({"run": "nobody"}, 7, "no run's id begins with 'nobody'"),
        ({"run": run_id, "checkpoint": 15}, 7, f"{run_id} has no checkpoint 15"),
    ):
        experiment = write_training(armada, start_from=start)
        done = armada.run("launch", "--host", "local", experiment, "--dry-run")
        assert done.returncode == code
        assert words in done.stderr
    assert armada.run("pull", run_id).returncode == 0
    (file,) = armada.folder.glob("home/state/runs/*/checkpoints/checkpoint-30/adapter_model.safetensors")
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:-2] + b"99")
    done = armada.run("launch", "--host", "local", write_training(armada, start_from={"run": run_id}), "--dry-run")
    assert done.returncode == 1
    assert "is damaged at home: adapter_model.safetensors is not as it came; nothing was sent" in done.stderr
    assert f"armada sync verify {run_id}" in done.stderr
