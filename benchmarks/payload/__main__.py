"""The payload against `trl sft` of the same TRL, with equal settings, on CPU.

    python benchmarks/payload --python VENV/bin/python pairs [--rounds 7]
    python benchmarks/payload --python VENV/bin/python lengths [--seeds 3]
    python benchmarks/payload --python VENV/bin/python tasks [--tasks dpo,kto,grpo] [--rounds 3] [--calls]

`pairs`: both train the same model on the same rows in the same order; a round runs each once, one after the other and in
turn first, so that a busy machine slows both. Time is when a line arrives: the first step's, and from there to the last
one's; as processor time the same is shown too, which other people's work on the machine moves less. Memory is the most that
any one process of either held. Aims: tokens/s ≥ 0.97×, time to the first step ≤ 1.05×, peak memory ≤ 1.05×.

`lengths`: samples whose lengths lie 1 : 10 apart, once as they come (what `trl sft` does, and what the payload does
unasked), once grouped by length, once packed with as many tokens a step. One epoch, so that all train on equally many
tokens; the loss is that of 64 other samples, token by token. Aim: ≥ 1.5× tokens/s, at a loss within the spread of seeds.

`tasks`: the same pairs against `trl dpo`, `trl kto` and `trl grpo`, with every weight trained. The largest difference of the
losses that both logged is shown beside; TRL prints four digits. `--calls` counts the Python calls of a step instead, which a
busy machine does not change. Aims: equal losses, steps/s ≥ 0.95×.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import pstats
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ACCELERATE = """\
compute_environment: LOCAL_MACHINE
distributed_type: "NO"
use_cpu: true
debug: false
num_machines: 1
num_processes: 1
machine_rank: 0
main_training_function: main
mixed_precision: "no"
enable_cpu_affinity: false
"""
PAIR_STEPS, PAIR_LOG = 120, 20
PAIR_TINY = {"hidden_size": 192, "layers": 4, "heads": 4, "kv_heads": 2, "intermediate_size": 512, "vocab_size": 560}
LONG_TINY = {"hidden_size": 256, "layers": 4, "heads": 4, "kv_heads": 2, "intermediate_size": 704, "vocab_size": 560}
WORDS = [f"{a}{b}" for a in ("ka", "lo", "mi", "ne", "su", "ta") for b in ("ra", "pe", "shi", "do", "gu")]


@dataclass
class Outcome:
    """One training: seconds to its first step and from there to its last, and the most memory one of its processes held."""

    first_s: float
    rest_s: float
    rest_cpu_s: float
    peak_bytes: int


def sentence(rng: random.Random, words: int) -> str:
    """A text with some order in it, so that there is something to learn."""
    at = rng.randrange(len(WORDS))
    said = []
    for _ in range(words):
        at = (3 * at + 7 + rng.randrange(3)) % len(WORDS)
        said.append(WORDS[at])
    return " ".join(said)


def write_rows(path: Path, rng: random.Random, count: int, shortest: int, longest: int) -> Path:
    """Chats whose answers have a number of words drawn evenly on a logarithmic scale: short ones are common, as they are."""
    with path.open("w") as file:
        for _ in range(count):
            words = round(shortest * (longest / shortest) ** rng.random())
            turns = [
                {"role": "user", "content": sentence(rng, 4)},
                {"role": "assistant", "content": sentence(rng, words)},
            ]
            file.write(json.dumps({"messages": turns}) + "\n")
    return path


def make_spec(run: Path, training: dict[str, Any]) -> list[str]:
    """Lay a run's folder out as armada does, and give the payload's command line."""
    (run / "work").mkdir(parents=True)
    (run / "accelerate.yaml").write_text(ACCELERATE)
    (run / "spec.json").write_text(json.dumps({"format": 1, "training": training}))
    config, spec = str(run / "accelerate.yaml"), str(run / "spec.json")
    return ["-m", "armada_train.launch", "--config_file", config, "--spec", spec]


def training_section(model: dict[str, Any], rows: Path, **changes: Any) -> dict[str, Any]:
    section: dict[str, Any] = {
        "model": model,
        "data": {"train": [{"path": str(rows)}], "eval": []},
        "batch": {"global": 8, "micro": 4, "accumulation": 2, "processes": 1},
        "train": {
            "max_steps": PAIR_STEPS,
            "epochs": None,
            "max_length": 256,
            "learning_rate": 1e-3,
            "lr_scheduler": "linear",
            "seed": 5,
            "log_every_steps": PAIR_LOG,
        },
        "lora": {"r": 8, "alpha": 16, "dropout": 0.0, "dora": False, "rslora": True, "target_modules": "all-linear"},
        "precision": "fp32",
        "device": "cpu",
        "checkpoint": {"every_steps": 1_000_000, "keep_last": 1},
        "tracking": {"wandb": "off", "project": None, "name": "benchmark", "id": "benchmark"},
    }
    for key, value in changes.items():
        section[key] = (
            {**section[key], **value} if isinstance(value, dict) and isinstance(section[key], dict) else value
        )
    return section


def trl_arguments(model: Path, data: Path, out: Path) -> list[str]:
    """The same training in `trl sft`'s words."""
    words: dict[str, Any] = {
        "model_name_or_path": model,
        "dataset_name": data,
        "output_dir": out,
        "dtype": "float32",
        "bf16": False,
        "use_cpu": True,
        "max_length": 256,
        "assistant_only_loss": True,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "max_steps": PAIR_STEPS,
        "learning_rate": 1e-3,
        "lr_scheduler_type": "linear",
        "seed": 5,
        "data_seed": 5,
        "logging_steps": PAIR_LOG,
        "logging_first_step": True,
        "disable_tqdm": True,
        "gradient_checkpointing": False,
        "save_strategy": "steps",
        "save_steps": PAIR_STEPS,
        "eval_strategy": "no",
        "report_to": "none",
        "use_peft": True,
        "lora_r": 8,
        "lora_alpha": 16,
        "lora_dropout": 0.0,
        "use_rslora": True,
        "lora_target_modules": "all-linear",
        "lora_task_type": "CAUSAL_LM",
    }
    return [text for key, value in words.items() for text in (f"--{key}", str(value))]


def train(python: str, argv: list[str], cwd: Path, log: Path, *, lines: int | None = None) -> Outcome:
    """Run a training and note when its lines about the first and the last step arrive; `lines` is how many must come."""
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    env |= {
        "PYTHONPATH": str(ROOT / "remote_payload"),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HOME": str(cwd / "hf"),  # an empty cache: nobody finds what the last round tokenised
        "CUDA_VISIBLE_DEVICES": "",
    }
    seen: list[tuple[float, float]] = []
    started = time.perf_counter()
    with log.open("w") as kept:
        process = subprocess.Popen(
            [python, *argv], cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            kept.write(line)
            if line.startswith(("{'loss'", "step ")) and "eval loss" not in line:
                seen.append((time.perf_counter() - started, cpu_s(process.pid)))
    _, status, used = os.wait4(process.pid, 0)
    if status or len(seen) != (lines or len(seen)):
        tail = "".join(log.read_text().splitlines(keepends=True)[-15:])
        sys.exit(f"{tail}{' '.join(argv[:3])} ended with {status} after {len(seen)} of {lines} lines")
    (first_s, first_cpu_s), (last_s, last_cpu_s) = seen[0], seen[-1]
    return Outcome(first_s, last_s - first_s, last_cpu_s - first_cpu_s, used.ru_maxrss * 1024)


def cpu_s(pid: int) -> float:
    """Processor time of a process and of all that came from it and still live."""
    times: dict[int, tuple[int, int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        times[int(stat.parent.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    family, size = {pid}, 0
    while len(family) > size:
        size = len(family)
        family |= {child for child, (parent, _) in times.items() if parent in family}
    return sum(times[member][1] for member in family if member in times) / os.sysconf("SC_CLK_TCK")


def middle(ratios: list[float]) -> str:
    """The median, and the interval that holds it in 95 of 100 such series (by the order of its values)."""
    ordered = sorted(ratios)
    low = max(0, round(len(ordered) / 2 - 0.98 * len(ordered) ** 0.5) - 1)
    return f"{statistics.median(ordered):.3f}× ({ordered[low]:.3f}–{ordered[-1 - low]:.3f})"


def run_pairs(python: str, folder: Path, rounds: int) -> None:
    data = folder / "data"
    data.mkdir()
    rows = write_rows(data / "train.jsonl", random.Random(1), 512, 10, 40)
    model = folder / "model"
    made = training_section({"tiny": PAIR_TINY}, rows, train={"max_steps": 1})
    train(python, make_spec(folder / "making", made), folder, folder / "making.log", lines=1)
    shutil.copytree(folder / "making" / "model", model)
    logged = 1 + PAIR_STEPS // PAIR_LOG
    ours: list[Outcome] = []
    theirs: list[Outcome] = []
    for number in range(rounds):
        for is_ours in (True, False) if number % 2 else (False, True):
            place = folder / f"{number}-{'armada' if is_ours else 'trl'}"
            log = folder / f"{place.name}.log"
            if is_ours:
                argv = make_spec(place, training_section({"path": str(model)}, rows))
                ours.append(train(python, argv, place / "work", log, lines=logged))
            else:
                place.mkdir()
                argv = [str(Path(python).with_name("trl")), "sft", *trl_arguments(model, data, place / "out")]
                theirs.append(train(python, argv, place, log, lines=logged))
        a, b = ours[-1], theirs[-1]
        print(
            f"round {number + 1}: tokens/s {b.rest_s / a.rest_s:.3f}× (of processor time {b.rest_cpu_s / a.rest_cpu_s:.3f}×)  "
            f"first step {a.first_s:.1f} s / {b.first_s:.1f} s  "
            f"memory {a.peak_bytes / 1e6:.0f} MB / {b.peak_bytes / 1e6:.0f} MB",
            flush=True,
        )
    pairs = list(zip(ours, theirs, strict=True))
    print(f"tokens/s            {middle([b.rest_s / a.rest_s for a, b in pairs])}   aim ≥ 0.97×")
    print(f"  of processor time {middle([b.rest_cpu_s / a.rest_cpu_s for a, b in pairs])}")
    print(f"time to first step  {middle([a.first_s / b.first_s for a, b in pairs])}   aim ≤ 1.05×")
    print(f"peak memory         {middle([a.peak_bytes / b.peak_bytes for a, b in pairs])}   aim ≤ 1.05×")


JUDGE = """
def letters(completions, **_):
    return [text.count("a") / 4 - abs(len(text) - 40) / 40 for text in completions]
"""
# KTOTrainer takes rows in the order of the file: this writes them in the order in which any other trainer draws them.
ORDER = """
import sys, torch, transformers
rows = open(sys.argv[1]).read().splitlines()
one = transformers.LlamaConfig(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, vocab_size=8)
arguments = transformers.TrainingArguments(
    output_dir=sys.argv[2] + ".out", per_device_train_batch_size=4, seed=5, data_seed=5, use_cpu=True
)
trainer = transformers.Trainer(
    model=transformers.LlamaForCausalLM(one), args=arguments, train_dataset=[{"input_ids": [at]} for at in range(len(rows))],
    data_collator=lambda batch: {"input_ids": torch.tensor([row["input_ids"] for row in batch])},
)
drawn = [int(at) for batch in trainer.get_train_dataloader() for at in batch["input_ids"].flatten()]
open(sys.argv[2], "w").write("".join(rows[at] + "\\n" for at in drawn))
"""
TASK_STEPS = {"dpo": 40, "kto": 40, "grpo": 20}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "dpo": {"name": "dpo", "beta": 0.1},
    "kto": {"name": "kto", "beta": 0.1},
    "grpo": {
        "name": "grpo",
        "rewards": [{"function": "judges:letters"}],
        "num_generations": 4,
        "max_completion_length": 24,
        "beta": 0.04,
    },
}


def write_task(path: Path, task: str, rng: random.Random, count: int) -> Path:
    """Pairs, answers judged one by one, or prompts alone."""
    with path.open("w") as file:
        for at in range(count):
            row: dict[str, Any] = {"prompt": sentence(rng, 4) + " "}
            if task == "dpo":
                row |= {"chosen": sentence(rng, rng.randint(8, 24)), "rejected": sentence(rng, rng.randint(8, 24))}
            elif task == "kto":
                row |= {"completion": sentence(rng, rng.randint(8, 24)), "label": at % 3 != 0}
            file.write(json.dumps(row) + "\n")
    return path


def task_arguments(task: str, model: Path, data: Path, out: Path) -> list[str]:
    """The same training of a task in the words of TRL's own script."""
    own: dict[str, Any] = {"max_length": 256, "beta": OBJECTIVES[task]["beta"]}
    if task == "grpo":
        own = {
            "reward_funcs": "judges.letters",
            "num_generations": 4,
            "max_completion_length": 24,
            "beta": OBJECTIVES[task]["beta"],
        }
    plain = trl_arguments(model, data, out)
    words = dict(zip(plain[::2], plain[1::2], strict=True))
    dropped = ("--max_length", "--assistant_only_loss", "--use_peft", "--use_rslora")
    words = {key: value for key, value in words.items() if key not in dropped and not key.startswith("--lora_")}
    steps = TASK_STEPS[task]
    more = {"max_steps": steps, "save_steps": steps, "logging_steps": steps // 4, **own}
    words |= {f"--{key}": str(value) for key, value in more.items()}
    return [text for pair in words.items() for text in pair]


def logged_losses(place: Path, log: Path) -> dict[int, float]:
    """The losses that a training of ours or of TRL's logged, by their order."""
    metrics = place / "metrics.jsonl"
    if metrics.exists():
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        return dict(enumerate(line["loss"] for line in lines if line["kind"] == "train"))
    found = [ast.literal_eval(line) for line in log.read_text().splitlines() if line.startswith("{'loss'")]
    return dict(enumerate(float(line["loss"]) for line in found))


def lay_out_task(python: str, folder: Path, task: str) -> tuple[Path, Path, dict[str, Any]]:
    """Make the model and the rows of a task, and return them (the rows as TRL takes them) with our specification."""
    folder.mkdir()
    data = folder / "data"
    data.mkdir()
    rows = write_task(folder / "rows.jsonl", task, random.Random(1), 8 * TASK_STEPS[task])
    if task == "kto":
        subprocess.run([python, "-c", ORDER, str(rows), str(data / "train.jsonl")], check=True, capture_output=True)
    else:
        shutil.copy(rows, data / "train.jsonl")
    chats = write_rows(folder / "chats.jsonl", random.Random(1), 512, 10, 40)
    made = training_section({"tiny": PAIR_TINY}, chats, train={"max_steps": 1})
    train(python, make_spec(folder / "making", made), folder, folder / "making.log", lines=1)
    model = shutil.copytree(folder / "making" / "model", folder / "model")
    section = training_section({"path": str(model)}, rows, lora=None)
    section["objective"] = OBJECTIVES[task]
    return model, data, section


def count_calls(python: str, folder: Path, task: str) -> None:
    """Count the Python calls of a step, as the difference between a training of 12 steps and one of 4."""
    model, data, section = lay_out_task(python, folder, task)
    counted: dict[tuple[bool, int], int] = {}
    for is_ours, steps in ((True, 4), (True, 12), (False, 4), (False, 12)):
        place = folder / f"{'armada' if is_ours else 'trl'}-{steps}"
        section["train"] |= {"max_steps": steps, "log_every_steps": 4, "lr_scheduler": "constant"}
        if is_ours:
            make_spec(place, section)
            argv, cwd = ["-m", "armada_train", "--spec", str(place / "spec.json")], place / "work"
        else:
            place.mkdir()
            argv, cwd = ["-m", f"trl.scripts.{task}", *task_arguments(task, model, data, place / "out")], place
            for key, value in (("max_steps", steps), ("logging_steps", 4), ("lr_scheduler_type", "constant")):
                argv[argv.index(f"--{key}") + 1] = str(value)
        (cwd / "judges.py").write_text(JUDGE)
        profile = folder / f"{place.name}.prof"
        train(python, ["-m", "cProfile", "-o", str(profile), *argv], cwd, folder / f"{place.name}.log")
        counted[is_ours, steps] = getattr(pstats.Stats(str(profile)), "total_calls")  # noqa: B009  # its stubs lack it
    ours, theirs = (counted[is_ours, 12] - counted[is_ours, 4] for is_ours in (True, False))
    print(f"{task:5} Python calls a step {ours / theirs:.3f}× ({ours / 8:,.0f}, TRL {theirs / 8:,.0f})", flush=True)


def run_task(python: str, folder: Path, task: str, rounds: int) -> None:
    model, data, section = lay_out_task(python, folder, task)
    steps = TASK_STEPS[task]
    section["train"] |= {"max_steps": steps, "log_every_steps": steps // 4}
    pairs: list[dict[bool, Outcome]] = []
    apart = 0.0
    for number in range(rounds):
        found: dict[bool, Outcome] = {}
        losses: dict[bool, dict[int, float]] = {}
        for is_ours in (True, False) if number % 2 else (False, True):
            place = folder / f"{number}-{'armada' if is_ours else 'trl'}"
            log = folder / f"{place.name}.log"
            argv = make_spec(place, section) if is_ours else [str(Path(python).with_name("trl")), task]
            if not is_ours:
                place.mkdir()
                argv += task_arguments(task, model, data, place / "out")
            cwd = place / "work" if is_ours else place
            (cwd / "judges.py").write_text(JUDGE)
            found[is_ours] = train(python, argv, cwd, log, lines=5)
            losses[is_ours] = logged_losses(place, log)
        apart = max(apart, *(abs(losses[True][at] - loss) for at, loss in losses[False].items()))
        pairs.append(found)
    rates = [each[False].rest_s / each[True].rest_s for each in pairs]
    cpu = [each[False].rest_cpu_s / each[True].rest_cpu_s for each in pairs]
    print(f"{task:5} steps/s {middle(rates)}, of processor time {middle(cpu)}   aim ≥ 0.95×")
    print(f"      losses at most {apart:.1e} apart (TRL prints 4 digits)", flush=True)


def run_lengths(python: str, folder: Path, seeds: int) -> None:
    rows = write_rows(folder / "train.jsonl", random.Random(1), 768, 12, 120)
    others = write_rows(folder / "eval.jsonl", random.Random(2), 64, 12, 120)
    plain = {"global": 16, "micro": 8, "accumulation": 2, "processes": 1}
    # A full row holds about four samples of these lengths: 4 of them are as many tokens as 16 samples.
    packed = {"global": 4, "micro": 2, "accumulation": 2, "processes": 1}
    ways: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "as they come": (plain, {}),
        "grouped by length": (plain, {"group_by_length": True}),
        "packed": (packed, {"packing": True}),
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for seed in range(5, 5 + seeds):
        for name, (batch, switches) in ways.items():
            place = folder / f"{seed}-{name.replace(' ', '-')}"
            section = training_section(
                {"tiny": LONG_TINY},
                rows,
                data={"eval": [{"path": str(others)}]},
                batch=batch,
                train={
                    **switches,
                    "max_steps": None,
                    "epochs": 1,
                    "max_length": 288,
                    "seed": seed,
                    "log_every_steps": 8,
                    "warmup_steps": 0.1,
                },
                lora=None,
            )
            outcome = train(python, make_spec(place, section), place / "work", folder / f"{place.name}.log")
            lines = [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]
            steps = [line for line in lines if line["kind"] == "train"]
            tokens = steps[-1]["num_tokens"] - steps[0]["num_tokens"]
            last = lines[-1]
            last |= {"rate": tokens / outcome.rest_s, "cpu_rate": tokens / outcome.rest_cpu_s}
            found[name].append(last)
            print(
                f"seed {seed}, {name:17}: {last['rate']:6.0f} tokens/s ({last['cpu_rate']:.0f} of processor time) over "
                f"{last['train_tokens']:,} tokens, eval loss {last['eval_loss_before']:.4f} → {last['eval_loss_after']:.4f}",
                flush=True,
            )
    usual = [line["eval_loss_after"] for line in found["as they come"]]
    print(f"\nloss as they come: {min(usual):.4f}–{max(usual):.4f}")
    for name in list(ways)[1:]:
        pairs = list(zip(found[name], found["as they come"], strict=True))
        rates = [[mine[rate] / base[rate] for mine, base in pairs] for rate in ("rate", "cpu_rate")]
        losses = [line["eval_loss_after"] for line in found[name]]
        print(f"{name:17}  tokens/s {middle(rates[0])}, of processor time {middle(rates[1])}   aim ≥ 1.5×")
        print(f"{'':17}  loss {min(losses):.4f}–{max(losses):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="of an environment with the payload's packages")
    parser.add_argument("what", choices=["pairs", "lengths", "tasks"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--calls", action="store_true", help="of `tasks`: count calls instead of time")
    parser.add_argument("--tasks", default=",".join(OBJECTIVES), help="of `tasks`")
    given = parser.parse_args()
    python = str(Path(given.python).absolute())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        if given.what == "pairs":
            run_pairs(python, Path(name), given.rounds)
        elif given.what == "tasks":
            for task in given.tasks.split(","):
                if given.calls:
                    count_calls(python, Path(name) / task, task)
                else:
                    run_task(python, Path(name) / task, task, given.rounds)
        else:
            run_lengths(python, Path(name), given.seeds)


if __name__ == "__main__":
    main()
