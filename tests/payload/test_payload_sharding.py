"""FSDP2 on two CPU ranks: the losses of replicas, whole checkpoints, exact resumes."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from armada_train.checkpoints import shards

from armada.config.experiments import load_experiment
from armada.config.profiles import load_profile
from armada.config.tasks.sft import Sft
from armada.launch.plans.training import Training, take_data
from armada.launch.training.batch import Batch
from armada.paths import HomePaths, HostPaths
from armada.provision.environment import Environment
from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import TINY, PayloadRun, chats, make_training, write_jsonl
from tests.payload.test_payload_merge import finish, merge

pytestmark = pytest.mark.payload

STEPS = 6
EXAMPLE = Path(__file__).parents[2] / "examples" / "sharded" / "fsdp.yaml"


def batch_of(processes: int, micro: int = 2) -> dict[str, int]:
    return {"global": 8, "micro": micro, "accumulation": 8 // micro // processes, "processes": processes}


def make(folder: Path, sharding: str = "fsdp", *, lora: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Two ranks; the evaluation's last batch is for one of them alone."""
    folder.mkdir(exist_ok=True)
    rows, evaluation = write_jsonl(folder / "rows.jsonl", chats(32)), write_jsonl(folder / "eval.jsonl", chats(5))
    training = make_training(
        rows,
        evaluation,
        batch=batch_of(2),
        train={"max_steps": STEPS, "sharding": sharding, "eval_every_steps": 3},
        checkpoint={"every_steps": 3, "keep_last": 4},
        evaluation={"samples": 1, "sample_tokens": 4},
        lora=lora or {},
    )
    return training | {"lora": None} if lora is None else training


def continued(straight: PayloadRun, folder: Path, **changes: Any) -> PayloadRun:
    """Return a copy of a run that lost its last checkpoint, about to resume."""
    shutil.copytree(straight.path, folder)
    shutil.rmtree(folder / "checkpoints" / f"checkpoint-{STEPS}")
    training = copy.deepcopy(straight.training)
    training["batch"] = changes.get("batch", training["batch"])
    training["train"] |= {"sharding": changes.get("sharding", training["train"]["sharding"])}
    training["resume"] = {"accept_changes": bool(changes)}
    run = PayloadRun(folder, straight.python, training, attempt=2)
    run.write_spec()
    run.write_accelerate()
    return run


def resumed_losses(run: PayloadRun) -> dict[int, float]:
    return {line["step"]: line["loss"] for line in run.lines("train") if line["attempt"] == 2}


def later(run: PayloadRun) -> dict[int, float]:
    return {step: loss for step, loss in run.losses().items() if step > 3}


@pytest.fixture(scope="module")
def replicas(payload_python: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> PayloadRun:
    folder = tmp_path_factory.mktemp("replicas")
    run = PayloadRun(folder / "run", payload_python, make(folder / "data", "none")).prepare()
    run.train(launcher=True)
    return run


@pytest.fixture(scope="module")
def sharded(payload_python: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> PayloadRun:
    folder = tmp_path_factory.mktemp("sharded")
    run = PayloadRun(folder / "run", payload_python, make(folder / "data")).prepare()
    run.train(launcher=True)
    return run


def test_shards_train_as_replicas_do_and_evaluate_and_answer_alike(replicas: PayloadRun, sharded: PayloadRun) -> None:
    assert sharded.losses() == pytest.approx(replicas.losses(), abs=1e-6)
    evaluated = [{line["step"]: line["eval_loss"] for line in run.lines("eval")} for run in (replicas, sharded)]
    assert sorted(evaluated[1]) == [0, 3, 6]
    assert evaluated[1] == pytest.approx(evaluated[0], abs=1e-6)
    assert [line["eval_tokens"] for line in sharded.lines("eval")] == [
        line["eval_tokens"] for line in replicas.lines("eval")
    ]
    answers = [(run.path / "samples.jsonl").read_text().splitlines() for run in (replicas, sharded)]
    assert [json.loads(line)["generated"] for line in answers[1]] == [json.loads(a)["generated"] for a in answers[0]]


def test_every_ranks_shards_are_announced_with_what_reads_them(sharded: PayloadRun) -> None:
    folder = sharded.path / "outbox" / f".new-{STEPS}"
    listed = json.loads((folder / "shards.json").read_text())
    assert listed["ranks"] == 2
    parts = {"__0_0.distcp", "__1_0.distcp", ".metadata"}
    for name in ("pytorch_model_fsdp_0", "optimizer_0"):
        assert {path.name for path in (folder / name).iterdir()} == parts
    assert set(listed["files"]) == {f"{n}/{part}" for n in ("pytorch_model_fsdp_0", "optimizer_0") for part in parts}
    assert not (folder / "model.safetensors").exists()
    for name in ("config.json", "tokenizer.json", "armada.json", "rng_state_1.pth", "trainer_state.json"):
        assert (folder / name).stat().st_size > 0
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != ".announce.json")
    assert json.loads((folder / ".announce.json").read_text())["size_bytes"] == size


def test_a_resume_on_as_many_ranks_is_exact_to_the_bit(sharded: PayloadRun, tmp_path: Path) -> None:
    run = continued(sharded, tmp_path / "resumed")
    ended = run.train(launcher=True)
    assert "resuming from checkpoint-3" in ended.output
    assert resumed_losses(run) == later(sharded)
    last = Path("checkpoints") / f"checkpoint-{STEPS}"
    for name in ("pytorch_model_fsdp_0/__1_0.distcp", "optimizer_0/__0_0.distcp", "scheduler.pt", "rng_state_1.pth"):
        assert (run.path / last / name).read_bytes() == (sharded.path / last / name).read_bytes(), name
    finished = PayloadRun(run.path, run.python, run.training, attempt=3)
    finished.train(launcher=True)
    assert [line for line in finished.lines("train") if line["attempt"] == 3] == []
    assert finished.summary["eval_loss_after"] == pytest.approx(sharded.summary["eval_loss_after"], abs=1e-6)


OTHERS: dict[str, dict[str, Any]] = {
    "one rank": {"batch": batch_of(1)},
    "four ranks": {"batch": batch_of(4)},
    "replicas": {"sharding": "none"},
}


@pytest.mark.parametrize(
    "how", ["one rank", *(pytest.param(how, marks=pytest.mark.long) for how in ("four ranks", "replicas"))]
)
def test_shards_are_converted_when_told_and_the_change_is_named_when_not(
    how: str, sharded: PayloadRun, tmp_path: Path
) -> None:
    run = continued(sharded, tmp_path / "resumed", **OTHERS[how])
    if how == "one rank":
        run.training["resume"] = {"accept_changes": False}
        run.write_spec()
        ended = run.finish(launcher=True)
        assert ended.code == 2, ended.output
        assert '`train.sharding` was "fsdp" and is "none"' in run.failure["message"]
        assert "`batch.processes` was 2 and is 1" in run.failure["message"]
        assert "resume.accept_changes: true" in run.failure["message"]
        run.training["resume"] = {"accept_changes": True}
        run.write_spec()
    run.train(launcher=True)
    assert resumed_losses(run) == pytest.approx(later(sharded), abs=1e-5)
    assert run.summary["eval_loss_after"] == pytest.approx(sharded.summary["eval_loss_after"], abs=1e-5)


def test_a_whole_checkpoint_is_divided_when_told(replicas: PayloadRun, tmp_path: Path) -> None:
    run = continued(replicas, tmp_path / "resumed", sharding="fsdp")
    ended = run.train(launcher=True)
    assert '`train.sharding` was "none" and is "fsdp"; accepted' in ended.output
    assert resumed_losses(run) == pytest.approx(later(replicas), abs=1e-5)
    assert (run.path / "checkpoints" / f"checkpoint-{STEPS}" / "shards.json").is_file()


@pytest.mark.long  # `test_payload_shards.py` names what is wrong with shards without torch
def test_a_shard_that_is_gone_is_named_and_the_checkpoint_before_it_is_used(
    sharded: PayloadRun, tmp_path: Path
) -> None:
    shutil.copytree(sharded.path, tmp_path / "run")
    run = PayloadRun(tmp_path / "run", sharded.python, sharded.training, attempt=2)
    (run.path / "checkpoints" / f"checkpoint-{STEPS}" / "optimizer_0" / "__1_0.distcp").unlink()
    ended = run.train(launcher=True)
    assert f"checkpoint-{STEPS} is skipped: the shard optimizer_0/__1_0.distcp is missing" in ended.output
    assert resumed_losses(run) == later(sharded)


LORAS: dict[str, dict[str, Any]] = {"lora": {}, "dora": {"dora": True}, "pissa": {"init": "pissa"}}
"""The first with recomputed activations, as on GPUs: FSDP's own wrappers would empty its checkpoints.

`test_payload_divided.py` has an adapter in `make test`.
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", LORAS)
def test_an_adapter_of_divided_weights_is_that_of_whole_ones(kind: str, make_run: Any, tmp_path: Path) -> None:
    trained = []
    for word in ("none", "fsdp"):
        training = make(tmp_path / "data", word, lora=LORAS[kind])
        training["train"]["activation_checkpointing"] = kind == "lora"
        run = make_run(training, word)
        run.train(launcher=True)
        trained.append(run)
    whole, run = trained
    assert run.losses() == pytest.approx(whole.losses(), abs=1e-6)
    assert run.summary["eval_loss_after"] == pytest.approx(whole.summary["eval_loss_after"], abs=1e-6)
    folder = run.path / "outbox" / f".new-{STEPS}"
    assert (folder / "adapter_config.json").is_file()
    script = (
        "import sys; from safetensors.torch import load_file as read; a, b = map(read, sys.argv[1:]); "
        "assert a.keys() == b.keys(); print(max(float((a[n] - b[n]).abs().max()) for n in a))"
    )
    files = [str(r.path / "outbox" / f".new-{STEPS}" / "adapter_model.safetensors") for r in trained]
    compared = run.finish_python("-c", script, *files)
    assert compared.code == 0, compared.output
    assert float(compared.output.splitlines()[-1]) < 1e-4
    if kind == "lora":
        again = continued(run, tmp_path / "resumed")
        again.train(launcher=True)
        assert resumed_losses(again) == later(run)


def test_the_example_trains_on_two_ranks_as_home_plans_it(payload_python: Interpreter, tmp_path: Path) -> None:
    """With the file that home derives for accelerate."""
    experiment = load_experiment(EXAMPLE, ("train.max_steps=2", "checkpoint.every_steps=2"))
    assert isinstance(experiment, Sft)
    planned = Training(
        experiment,
        load_profile("cpu", HomePaths(tmp_path / "config", tmp_path / "state")),
        HostPaths(PurePosixPath("/armada")),
        Environment("key", ">=3.11", "", None, ready=True),
        Batch(16, 8, 1, 2),
        run_id="e-1",
        title="e",
        gpus=0,
        cores=2,
        data=take_data(experiment.data.paths),
    )
    section: dict[str, Any] = json.loads(json.dumps(planned.section().as_json()))
    section |= {"prepared": str(tmp_path / "prepared"), "model": {"tiny": TINY}}
    for split in ("train", "eval"):
        section["data"][split] = [{"path": str(source.path)} for source in getattr(experiment.data, split)]
    run = PayloadRun(tmp_path / "run", payload_python, section).prepare()
    run.accelerate_file.write_text(planned.launch_files()["launch/accelerate.yaml"])
    run.train(launcher=True)
    assert (run.path / "outbox" / ".new-2" / "shards.json").is_file()


JOINED = """
import sys, torch, torch.distributed.checkpoint as dcp
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
wanted = AutoModelForCausalLM.from_config(model.config).float().state_dict()
dcp.load({"model": wanted}, storage_reader=dcp.FileSystemReader(sys.argv[2] + "/pytorch_model_fsdp_0"), no_dist=True)
found = model.state_dict()
print("equal" if all(torch.equal(found[name], wanted[name].to(model.dtype)) for name in wanted) else "other", model.dtype)
"""


def test_joined_shards_are_the_model_that_torch_reads_of_them(sharded: PayloadRun, tmp_path: Path) -> None:
    checkpoint = sharded.path / "outbox" / f".new-{STEPS}"
    for dtype, word in (("auto", "float32"), ("bfloat16", "bfloat16")):
        joined = merge(sharded, STEPS, tmp_path / dtype, sharded=True, rows=[], dtype=dtype)
        code, said = finish(joined)
        assert code == 0, said
        assert joined.summary["dtype"] == word
        folder = joined.path / "outbox" / f".new-{STEPS}"
        compared = joined.finish_python("-c", JOINED, str(folder), str(checkpoint))
        assert compared.output.splitlines()[-1] == f"equal torch.{word}", compared.output
        assert {path.name for path in folder.iterdir()} >= {"config.json", "tokenizer.json", "model.safetensors"}


@pytest.mark.parametrize("how", ["another model's shard", "code in its metadata"])
def test_shards_that_are_not_of_the_checkpoint_are_not_joined(how: str, sharded: PayloadRun, tmp_path: Path) -> None:
    shutil.copytree(sharded.path / "outbox", tmp_path / "run" / "outbox")
    run = PayloadRun(tmp_path / "run", sharded.python, sharded.training)
    folder = run.path / "outbox" / f".new-{STEPS}" / "pytorch_model_fsdp_0"
    if how == "code in its metadata":
        (folder / ".metadata").write_bytes(pickle.dumps(Code(tmp_path / "ran")))
        listing = json.loads((folder.parent / "shards.json").read_text())
        entry = {"size": (folder / ".metadata").stat().st_size, "sample": shards.fingerprint(folder / ".metadata")}
        listing["files"]["pytorch_model_fsdp_0/.metadata"] = entry
        (folder.parent / "shards.json").write_text(json.dumps(listing))
    else:
        content = bytearray((folder / "__1_0.distcp").read_bytes())
        content[len(content) // 2] ^= 1
        (folder / "__1_0.distcp").unlink()
        (folder / "__1_0.distcp").write_bytes(content)
    joined = merge(run, STEPS, tmp_path / "joined", sharded=True, rows=[])
    code, said = finish(joined)
    assert code != 0, said
    assert not (tmp_path / "ran").exists()
    expected = (
        "does not belong there"
        if how == "code in its metadata"
        else "is not the one that this checkpoint was saved with"
    )
    assert expected in joined.failure["message"]


class Code:
    """Runs a program when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.mark}",)


LARGE = """
import json, sys, torch, torch.distributed.checkpoint as dcp
from pathlib import Path
from transformers import AutoModelForCausalLM, Qwen2Config
from armada_train.checkpoints import shards
sizes = dict(vocab_size=int(sys.argv[2]), hidden_size=256, intermediate_size=int(sys.argv[2]), num_hidden_layers=3)
config = Qwen2Config(**sizes, num_attention_heads=2, num_key_value_heads=2, architectures=["Qwen2ForCausalLM"])
with torch.device("meta"):
    shapes = {name: weight.shape for name, weight in AutoModelForCausalLM.from_config(config).state_dict().items()}
folder = Path(sys.argv[1])
dcp.save({"model": {n: torch.full(s, 0.5) for n, s in shapes.items()}}, checkpoint_id=folder / shards.MODEL, no_dist=True)
(folder / shards.OPTIMIZER).mkdir()
config.save_pretrained(folder)
shards.write_listing(folder, 1)
"""


def test_joining_needs_memory_for_the_largest_tensor_and_not_for_the_model(
    sharded: PayloadRun, payload_python: Interpreter, tmp_path: Path
) -> None:
    """Eleven tensors of 32 MiB, each written by one rank: the worst case."""
    checkpoint = tmp_path / "run" / "outbox" / ".new-1"
    checkpoint.mkdir(parents=True)
    largest = (32 << 20) // 4 // 256
    made = payload_python.finish("-c", LARGE, str(checkpoint), str(largest))
    assert made.code == 0, made.output
    whole = sum(path.stat().st_size for path in (checkpoint / shards.MODEL).iterdir())
    assert whole > 11 * (32 << 20)
    peaks = []
    for name, run, step in (
        ("small", sharded, STEPS),
        ("large", PayloadRun(tmp_path / "run", payload_python, sharded.training), 1),
    ):
        joined = merge(run, step, tmp_path / name, sharded=True, rows=[])
        code, said = finish(joined)
        assert code == 0, said
        peaks.append(joined.summary["peak_memory_bytes"])
    grown = peaks[1] - peaks[0]
    print(f"grown by {grown >> 20} MiB")
    assert grown < 2 * (32 << 20), f"{grown >> 20} MiB for {whole >> 20} MiB of weights"


def test_a_head_whose_gradients_would_not_be_added_up_is_refused(make_run: Any, tmp_path: Path) -> None:
    """Refused before torch for `modules_to_save`; here its check is passed over, as a model of another shape would."""
    training = make(tmp_path / "data", lora={"modules_to_save": ["lm_head"]})
    run = make_run(training)
    program = tmp_path / "passed_over.py"
    program.write_text(
        "import runpy, sys\n"
        "from armada_train.specification import parser\n"
        "parser.check_sharding = lambda training: None\n"
        "sys.argv[0] = 'armada_train'\n"
        "runpy.run_module('armada_train', run_name='__main__', alter_sys=True)\n"
    )
    launcher = ("-m", "accelerate.commands.launch", "--config_file", str(run.accelerate_file))
    ended = run.finish_python(*launcher, str(program), "--spec", str(run.spec_file))
    assert ended.code != 0
    assert run.failure["reason"] == "bad_spec", ended.output
    assert "would not add up the gradients of the output head of Qwen2ForCausalLM" in run.failure["message"]


@pytest.mark.long
@pytest.mark.parametrize("changes", [{"packing": True}, {"activation_checkpointing": True}, {"neftune_alpha": 5.0}])
def test_other_settings_train_as_replicas_do(changes: dict[str, Any], make_run: Any, tmp_path: Path) -> None:
    losses = []
    for word in ("none", "fsdp"):
        training = make(tmp_path / "data", word)
        training["train"] |= changes
        run = make_run(training, word)
        run.train(launcher=True)
        losses.append(run.losses())
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)


@pytest.mark.long
def test_two_replicas_of_two_parts_train_as_four_replicas_do(make_run: Any, tmp_path: Path) -> None:
    losses = []
    for word in ("none", "fsdp-hybrid"):
        training = make(tmp_path / "data", word) | {"batch": batch_of(4)}
        run = make_run(training, word)
        run.train(launcher=True)
        losses.append(run.losses())
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)


EMPTIED = """
import torch
from types import SimpleNamespace
from armada_train.model.fit import _check_vocabulary
from armada_train.training.gauges import count_numbers
weight = torch.nn.Parameter(torch.empty(0))
weight.ds_shape, weight.ds_numel = torch.Size([8, 4]), 32
model = SimpleNamespace(get_input_embeddings=lambda: SimpleNamespace(weight=weight))
print(count_numbers(weight), _check_vocabulary(None, model, SimpleNamespace(get_vocab=lambda: {"a": 7}), []))
"""


def test_weights_that_zero_3_holds_elsewhere_count_with_their_own_shape(payload_python: Interpreter) -> None:
    ended = payload_python.finish("-c", EMPTIED)
    assert ended.output.splitlines()[-1] == "32 []", ended.output
