"""Trainings that people bring, with transformers' Trainer and with plain DDP: they are killed, go on and come home with one curve."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from armada.paths import HomePaths
from armada.store import metrics
from armada.store.database import Database
from tests.conftest import Armada
from tests.payload.interpreter import Interpreter
from tests.payload.prepared import output, prepare_environment, run_folder
from tests.supervisors import kill_both
from tests.waiting import eventually

pytestmark = pytest.mark.payload

# As in transformers' own examples; it waits after its second checkpoint, until somebody kills it.
TRAINER = """\
import pathlib, sys, time
import torch
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

class Waits(TrainerCallback):
    def on_save(self, args, state, control, **kwargs):
        if state.global_step == 4 and not args.resume_from_checkpoint:
            pathlib.Path("waits").touch()
            time.sleep(600)

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
torch.manual_seed(0)
size = dict(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
model = LlamaForCausalLM(LlamaConfig(**size))
rows = [{"input_ids": row, "labels": row} for row in torch.randint(64, (16, 8))]
trainer = Trainer(model, args, train_dataset=rows, callbacks=[Waits()])
trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
"""
WORDS = ["--output_dir", "out", "--max_steps", "6", "--save_steps", "2", "--logging_steps", "1", "--report_to", "none",
         "--per_device_train_batch_size", "4", "--use_cpu", "--disable_tqdm", "True"]  # fmt: skip

# As in torch's tutorial of DDP, with its loop written out.
DDP = """\
import os, pathlib, sys, time
import torch
import torch.distributed as dist
import armada_log

dist.init_process_group("gloo")
rank, resumed = dist.get_rank(), sys.argv[2:] and sys.argv[2]
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
if resumed:
    model.load_state_dict(torch.load(f"{resumed}/weights.pt"))
step = int(resumed.rpartition("-")[2]) if resumed else 0
ddp = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
while step < 6:
    step += 1
    loss = (ddp(torch.randn(8, 4, generator=torch.Generator().manual_seed(10 * step + rank))) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0:
        armada_log.log(step=step, total_steps=6, loss=loss.item())
        if step % 2 == 0:
            part = pathlib.Path("out", f".part-{step}")
            part.mkdir(parents=True, exist_ok=True)
            torch.save(model.state_dict(), part / "weights.pt")
            part.rename(f"out/checkpoint-{step}")
    if step == 4 and not resumed:
        dist.barrier()
        pathlib.Path("waits").touch()
        time.sleep(600)
dist.destroy_process_group()
"""
LOADS = "import sys; from transformers import AutoModelForCausalLM as M; print(M.from_pretrained(sys.argv[1]).config.vocab_size)"
LOADS_WEIGHTS = "import sys, torch; print(len(torch.load(sys.argv[1] + '/weights.pt')))"

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own-script" / "finetuning.yaml"

KINDS: dict[str, dict[str, Any]] = {
    "trainer": {"task": "script", "script": "train.py", "arguments": WORDS, "resume": ["--resume_from_checkpoint", "{checkpoint}"]},
    "torchrun": {
        "task": "command",
        "command": ["torchrun", "--nproc_per_node", "2", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "train.py"],
        "resume": ["--resume", "{checkpoint}"],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "script", "loads", "says"),
    [
        pytest.param("trainer", TRAINER, LOADS, "64", id="trainer", marks=pytest.mark.long),
        pytest.param("torchrun", DDP, LOADS_WEIGHTS, "2", id="torchrun"),
    ],
)
@pytest.mark.takes_long("two attempts that import torch anew, and a third interpreter that loads what came home")
def test_a_training_of_ones_own_is_killed_goes_on_and_comes_home_with_one_curve(
    armada: Armada, payload_python: Interpreter, kind: str, script: str, loads: str, says: str
) -> None:
    environment = prepare_environment(armada, payload_python.path)
    torchrun = environment / "bin" / "torchrun"
    torchrun.write_text(f'#!/bin/sh\nexec {environment}/bin/python -m torch.distributed.run "$@"\n')
    torchrun.chmod(0o755)
    project = armada.folder / "project"
    project.mkdir()
    (project / "train.py").write_text(script)
    shared = {"name": kind, "code": "project", "checkpoint": {"pattern": "out/checkpoint-*", "quiet_s": 0}}
    file = armada.write("exp.yaml", json.dumps({**shared, "environment": "profile", **KINDS[kind]}))
    run_id = armada.json("launch", "--host", "local", file)["run_id"]
    folder = run_folder(armada, run_id)
    eventually((folder / "work" / "waits").exists, within_s=120)
    eventually(lambda: 4 in [each["step"] for each in armada.json("show", run_id)["checkpoints"]], within_s=120)
    kill_both(json.loads((folder / "submissions" / "1" / "job.json").read_text()))
    for process in Path("/proc").glob("[0-9]*"):  # torchrun's ranks are not of its group
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink() == folder / "work":
                os.kill(int(process.name), signal.SIGKILL)
    eventually(lambda: armada.json("show", run_id)["state"] == "failed")
    resumed = armada.json("resume", run_id, "--follow")
    assert (resumed["state"], resumed["attempt"]) == ("succeeded", 2), output(armada, run_id)
    shown = armada.json("show", run_id)
    home = {each["step"]: Path(each["home_path"]) for each in shown["checkpoints"] if each["home_path"]}
    assert 6 in home
    with Database(HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state").store) as database:
        assert [step for step, _ in metrics.curve(database, run_id, "loss")] == [1, 2, 3, 4, 5, 6]
    loaded = subprocess.run(
        [payload_python.path, "-c", loads, str(home[6])], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == says


@pytest.mark.takes_long("a training in an interpreter that imports torch anew")
def test_the_example_of_a_script_trains_and_comes_home(armada: Armada, payload_python: Interpreter) -> None:
    prepare_environment(armada, payload_python.path, writes_bytecode=True)
    run = armada.json("launch", "--host", "local", str(EXAMPLE), "--follow")
    assert (run["state"], run["step"]) == ("succeeded", 20), output(armada, run["run_id"])
    shown = armada.json("show", run["run_id"])
    assert {each["step"] for each in shown["checkpoints"] if each["home_path"]} == {10, 20}
    with Database(HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state").store) as database:
        losses = {step: value for step, value in metrics.curve(database, run["run_id"], "loss") if value is not None}
    assert losses[20] < losses[1]
    # With bytecode beside armada's own modules, the next launch there would be refused: the content would not match its hash.
    assert not list((armada.local_runs.parent / "code").rglob("__pycache__"))
