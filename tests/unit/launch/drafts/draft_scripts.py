"""Training scripts as people write them, for tests of `armada init`: text, because nothing may ever import them."""

ARGPARSE = '''
"""Train a small classifier."""
import argparse
import os
import torch


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("data_dir", help="folder with the images")
    group = parser.add_argument_group("training")
    group.add_argument("--lr", type=float, default=1e-3, help="learning rate # not: a comment")
    group.add_argument("-b", "--batch-size", type=int, required=True, help="samples\\nat once")
    group.add_argument("--optimizer", choices=["adam", "sgd"], default="adam")
    group.add_argument("--amp", action="store_true")
    group.add_argument("--layers", nargs="+", type=int, default=[2, 3])
    group.add_argument("--output-dir", required=True)
    group.add_argument("--resume", help="checkpoint to continue from")
    return parser.parse_args()


def main():
    args = parse()
    print(os.environ["WANDB_API_KEY"], open("corpus/train.jsonl").readline(), open("vocab.txt").read())
    for step in range(3):
        torch.save({}, os.path.join(args.output_dir, f"ckpt-{step}.pt"))


if __name__ == "__main__":
    main()
'''

HF = """
from dataclasses import dataclass, field
from typing import List, Literal, Optional

from transformers import HfArgumentParser, Trainer, TrainingArguments


@dataclass
class ModelArguments:
    model_name: str = field(metadata={"help": "Model to start from"})
    revision: Optional[str] = field(default=None, metadata={"help": "Which version of it"})
    attention: Literal["sdpa", "eager"] = "sdpa"


@dataclass
class DataArguments(ModelArguments):
    files: List[str] = field(default_factory=list)
    max_length: int = 512


def main():
    arguments, training = HfArgumentParser((DataArguments, TrainingArguments)).parse_args_into_dataclasses()
    Trainer(args=training).train(resume_from_checkpoint=training.resume_from_checkpoint)


if __name__ == "__main__":
    main()
"""

NO_ARGUMENTS = """
import torch

OUT = "models"
for step in range(3):
    torch.save({}, f"{OUT}/step_{step}.pt")
"""

LIGHTNING = """
import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint


def main():
    L.Trainer(callbacks=[ModelCheckpoint(dirpath="weights", save_top_k=2)]).fit(None)


if __name__ == "__main__":
    main()
"""

TORCHRUN = """
import argparse
import os

import torch.distributed as dist


def main(args):
    dist.init_process_group("gloo")
    print(int(os.environ["LOCAL_RANK"]), args.epochs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--local-rank", type=int)
    parser.add_argument("--epochs", type=int, default=10)
    main(parser.parse_args())
"""

SCRIPTS = {"argparse": ARGPARSE, "hf": HF, "no arguments": NO_ARGUMENTS, "lightning": LIGHTNING, "torchrun": TORCHRUN}
