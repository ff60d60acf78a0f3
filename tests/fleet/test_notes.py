"""The steps of two researchers' notes, with their own script on their own GPUs, as far as a plan shows: nothing is trained.

A speed test by hand on two RTX 3090, a training on two of them, and the final one on a rented box with eight A100.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Armada
from tests.fleet.conftest import Fleet

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "own-script" / "finetuning.py"
SPEED = [(2, 8, 512), (1, 8, 512), (1, 4, 512), (1, 1, 512), (2, 4, 1024), (2, 2, 4096), (2, 1, 8192)]
"""GPUs, samples per device, tokens."""
WEB = ["100k_gpt4o-mini_generated_problems.jsonl", "data_100k.jsonl", "data_suggestfunction_100k.jsonl"]


def planned(armada: Armada, host: str, **experiment: Any) -> dict[str, Any]:
    """Plan a run of the script; the answer with the plan and its checks."""
    project = armada.folder / "project"
    project.mkdir(exist_ok=True)
    (project / "finetuning.py").write_bytes(SCRIPT.read_bytes())
    shared = {
        "name": "notes",
        "task": "script",
        "script": "finetuning.py",
        "code": "project",
        "tracking": {"wandb": "off"},
    }
    file = armada.write("notes.yaml", json.dumps({**shared, **experiment}))
    found: dict[str, Any] = armada.json("launch", "--host", host, file, "--dry-run")
    assert not [check for check in found["checks"] if check["outcome"] == "fail"]
    return found


def accelerate_settings(found: dict[str, Any]) -> str:
    text: str = found["files"]["launch/accelerate.yaml"]
    return text


@pytest.mark.parametrize(("gpus", "per_device", "tokens"), SPEED)
def test_a_speed_test_by_hand(
    armada: Armada, add: Callable[..., None], gpus: int, per_device: int, tokens: int
) -> None:
    """`accelerate launch --num_processes 2 --mixed_precision bf16 --multi_gpu finetuning.py …` of the notes."""
    add("workstation", "--profile", "rtx3090-2x")
    words = ["--train-dataset", "data.jsonl", "--n-gpus", gpus, "--per-device-train-batch-size", per_device]
    words += ["--batch-size", 16, "--max-seq-len", tokens, "--max-steps", 100, "--save-steps", 100]
    (armada.folder / "data.jsonl").write_text('{"text": "one"}\n')
    files = {"data.jsonl": "data.jsonl"}
    found = planned(armada, "workstation", arguments=list(map(str, words)), files=files, resources={"gpus": gpus})
    assert (found["spec"]["gpus"], found["spec"]["processes"]) == (gpus, gpus)
    assert "mixed_precision: bf16" in accelerate_settings(found)
    assert f"num_processes: {gpus}" in accelerate_settings(found)
    argv = found["spec"]["job"]["argv"]
    assert argv[argv.index("--max-seq-len") + 1] == str(tokens)


def test_the_final_training_on_eight_rented_gpus(armada: Armada, add: Callable[..., None], fleet: Fleet) -> None:
    """Its data was copied by scp and fetched by wget, its packages installed by hand, its checkpoints fetched by a loop of rsync."""
    add("a100-1", "--profile", "a100-80gb-8x")
    fleet.run(
        "a100-1", 'mkdir -p /mnt/barc && echo \'{"text": "x"}\' | tee ' + " ".join(f"/mnt/barc/{name}" for name in WEB)
    )
    for name in ("evaluation_v0.json", "training_v1.json", "re-arc.json"):
        armada.write(name, "{}\n")
    files = {f"data/{name}": name for name in ("evaluation_v0.json", "training_v1.json", "re-arc.json")}
    files |= {f"data/barc/{name}": f"host:/mnt/barc/{name}" for name in WEB}
    words = ["--n-gpus", 8, "--batch-size", 16, "--max-steps", 200_000, "--lora-r", 128, "--max-seq-len", 8192]
    words += [word for name in files for word in ("--train-dataset", name)]
    found = planned(
        armada,
        "a100-1",
        arguments=list(map(str, words)),
        files=files,
        resources={"gpus": 8},
        environment={"requirements": ["liger-kernel"]},
        checkpoint={"pattern": "out/checkpoint-*", "keep_last": 2},
        resume=["--resume-from-checkpoint", "{checkpoint}"],
        sync={"every": "1h"},
    )
    assert (found["spec"]["gpus"], found["spec"]["processes"]) == (8, 8)
    assert {link["name"] for link in found["spec"]["job"]["data"]} == set(files)
    assert "num_processes: 8" in accelerate_settings(found)
    fleet.run("a100-1", "rm -r /mnt/barc")
