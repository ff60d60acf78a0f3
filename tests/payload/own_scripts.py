"""Training scripts as people bring them, each of which waits at one step of its first attempt until somebody kills it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.payload.own_training import Training

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

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
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # at the interpreter's end gloo's threads may abort the process: "terminate called without an active exception"
"""
LOADS = "import sys; from transformers import AutoModelForCausalLM as M; print(M.from_pretrained(sys.argv[1]).config.vocab_size)"
LOADS_WEIGHTS = "import sys, torch; print(len(torch.load(sys.argv[1] + '/weights.pt')))"

# Its rows are read from the end of a gigabyte that did not come with the code.
FAR = 'rows = [{"input_ids": row, "labels": row} for row in torch.randint(64, (16, 8))]'
WITH_DATA = TRAINER.replace(
    FAR,
    """\
data = torch.from_file("data/corpus.bin", size=1 << 30, dtype=torch.uint8)
assert int(data[-1]) == 63, "not the end of the corpus"
rows = [{"input_ids": row, "labels": row} for row in data[-128:].long().view(16, 8)]""",
)

# The example, which waits until somebody kills it.
LIGHTNING = (EXAMPLES / "lightning" / "train.py").read_text()
WAITS = """\
class Waits(lightning.Callback):
    def on_train_batch_start(self, trainer, *_):
        if trainer.global_step == 40 and not trainer.ckpt_path:
            import pathlib, time

            pathlib.Path("waits").touch()
            time.sleep(600)


def main("""
LIGHTNING = LIGHTNING.replace("def main(", WAITS).replace("callbacks=[", "callbacks=[Waits(), ")
LOADS_LIGHTNING = """\
import pathlib, sys, torch
from train import Curve
(file,) = pathlib.Path(sys.argv[1]).glob("*.ckpt")
print(*Curve.load_from_checkpoint(file)(torch.zeros(1, 1)).shape)
"""

FOLDERS = {"pattern": "out/checkpoint-*", "quiet_s": 0}
BY_HF = {"task": "script", "script": "train.py", "arguments": WORDS, "checkpoint": FOLDERS,
         "resume": ["--resume_from_checkpoint", "{checkpoint}"]}  # fmt: skip
BY_TORCHRUN = {
    "task": "command",
    "command": ["torchrun", "--nproc_per_node", "2", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "train.py"],
    "environment": "profile",
    "checkpoint": FOLDERS,
    "resume": ["--resume", "{checkpoint}"],
}  # fmt: skip
BY_DDP = {"task": "script", "script": "train.py", "arguments": ["first"], "resources": {"processes": 2},
          "checkpoint": FOLDERS, "resume": ["{checkpoint}"]}  # fmt: skip

TRAINER_RUN = Training("trainer", TRAINER, BY_HF, LOADS, "64")
TORCHRUN_RUN = Training("torchrun", DDP, BY_TORCHRUN, LOADS_WEIGHTS, "2")
DDP_RUN = Training("ddp", DDP, BY_DDP, LOADS_WEIGHTS, "2")


def with_requirements_and_data(folder: Path) -> Training:
    """Return a training with the Trainer, packages of its own and a gigabyte of data, which is written into a folder."""
    corpus, block = folder / "corpus.bin", bytes(range(64)) * (1 << 14)
    with corpus.open("wb") as stream:
        stream.writelines(block for _ in range((1 << 30) // len(block)))
    own = {
        "files": {"data/corpus.bin": str(corpus)},
        "environment": {"requirements": ["transformers", "accelerate>=1.1"]},
    }
    return Training("trainer", WITH_DATA, {**BY_HF, **own}, LOADS, "64")


def with_lightning() -> Training:
    """Return the example with Lightning, which waits."""
    found: dict[str, Any] = YAML(typ="safe").load(EXAMPLES / "lightning" / "lightning.yaml")
    found["checkpoint"]["quiet_s"] = 0
    steps: Any = {"waits_at": 40, "steps": 60, "evaluated": (20, 40, 60)}
    return Training("lightning", LIGHTNING, found | {"code": "project"}, LOADS_LIGHTNING, "1 1", **steps)
