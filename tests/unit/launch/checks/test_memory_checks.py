"""Memory and lengths are checked before a box earns money: what is certain is refused, what is estimated warns."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

import pytest

from armada.config.hosts import Host
from armada.config.profiles import Gpus, Profile
from armada.config.tasks.sft import Sft
from armada.config.training import TinyModel
from armada.launch.checks.check import Check
from armada.launch.checks.memory import estimate_launch
from armada.launch.checks.registry import check_launch
from armada.launch.checks.subject import Subject, Trained
from armada.launch.training.model_facts import ModelFacts, read_folder, read_model, tiny_model
from armada.protocol.spec import BatchSection, TrackingSection, TrainingSection
from armada.provision.environment import Environment
from tests.host_facts import facts
from tests.unit.launch.estimates.test_shapes import COUNTED

DESK = Host(name="desk", ssh="desk")
CLUSTER = Host(name="c", ssh="me@login", scheduler="slurm")
GPU_80 = {"name": "NVIDIA A100-SXM4-80GB", "memory_total_bytes": 81_920 << 20}
GPU_24 = {"name": "NVIDIA GeForce RTX 3090", "memory_total_bytes": 24_576 << 20, "compute_capability": "8.6"}


def config_of(name: str, **changes: Any) -> str:
    return json.dumps({**COUNTED[name]["config"], **changes})


def subject_of(
    model: ModelFacts,
    *,
    gpu: dict[str, Any] | None = None,
    host: Host = DESK,
    profile: Profile | None = None,
    device: Literal["cuda", "cpu"] = "cuda",
    lora: dict[str, object] | None = None,
    checkpoint: dict[str, object] | None = None,
    micro: int = 4,
    processes: int = 1,
    **train: object,
) -> Subject:
    section = TrainingSection.model_construct(
        batch=BatchSection(global_=16, micro=micro, accumulation=1, processes=processes),
        train={"max_length": 2048, "activation_checkpointing": False, **train},
        lora=lora,
        checkpoint=checkpoint or {},
        precision="bf16" if device == "cuda" else "fp32",
        attention="auto",
        device=device,
        tracking=TrackingSection(wandb="off", project=None, name="e", id="e-1"),
    )
    environment = Environment("cuda-0", "3.12", "", None, ready=True)
    experiment = Sft.model_construct(name="e", task="sft", model="acme/m", places={"train.max_length": "e.yaml:7"})
    trained = Trained(section, environment, hub_model="acme/m", facts=model)
    there = facts(gpus=[gpu] if gpu else [])
    gpus = processes if device == "cuda" else 0
    return Subject(experiment, host, profile, there, gpus, processes, trained=trained)


def check(code: str, subject: Subject) -> Check | None:
    return next((found for found in check_launch(subject) if found.code == code), None)


def memory(model: ModelFacts, **more: Any) -> Check:
    found = check("ARM021", subject_of(model, **more))
    assert found is not None
    return found


LLAMA = read_model(config_of("llama-3.1-8b", max_position_embeddings=131_072))
SMALL = read_model(config_of("qwen2.5-0.5b"))


def test_a_copy_of_a_checkpoint_that_the_host_has_no_room_for_is_warned_of() -> None:
    shown = memory(SMALL, gpu=GPU_80, micro=1, checkpoint={"in_background": True})
    assert shown.outcome == "ok"
    assert "a checkpoint that is being written takes 5.52 GiB of the host's memory" in shown.message
    large = {"gpu": {**GPU_80, "memory_total_bytes": 400 << 30}, "micro": 1, "checkpoint": {"in_background": True}}
    refused = memory(LLAMA, **large)  # a copy of 96 GB, on a host with 64 GB
    assert refused.outcome == "warn"
    assert "takes 89.7 GiB of the host's memory, which is 59.6 GiB" in refused.message


def test_a_training_that_fits_says_its_terms() -> None:
    found = memory(SMALL, gpu=GPU_80, micro=1)
    assert found.outcome == "ok"
    assert found.message.startswith("an estimated ")
    assert all(
        word in found.message for word in ("weights", "optimizer 3.68 GiB", " to ", "NVIDIA A100-SXM4-80GB has 80 GiB")
    )


def test_weights_and_optimizer_that_exceed_a_gpu_are_refused_with_what_fits() -> None:
    found = memory(LLAMA, gpu=GPU_80)
    assert found.outcome == "fail"
    assert found.message == (
        "weights and optimizer alone need 89.7 GiB on each GPU, and NVIDIA A100-SXM4-80GB has 80 GiB"
    )
    assert found.hint is not None
    assert "lora: {}" in found.hint


def test_an_estimate_above_a_gpu_warns_and_names_what_would_fit() -> None:
    found = memory(LLAMA, gpu=GPU_24, lora={"r": 16}, micro=4)
    assert found.outcome == "warn"
    assert "RTX 3090 has 24 GiB" in found.message
    assert found.hint is not None
    assert found.hint.startswith("`train: {activation_checkpointing: true}` in the profile (about 2")
    alone = memory(LLAMA, gpu=GPU_24, lora={"r": 16}, micro=2, activation_checkpointing=True, max_length=8192)
    assert alone.hint is not None
    assert alone.hint.startswith("`train.micro_batch_size: 1` (about ")
    both = memory(LLAMA, gpu=GPU_24, lora={"r": 16}, micro=2, max_length=16_384)
    assert both.hint is not None
    assert both.hint.startswith("`lora: {quantize: nf4}` with `train.micro_batch_size: 1` and `train: {activation_ch")


def test_several_processes_are_told_to_divide_the_model_where_that_goes_with_the_rest() -> None:
    def hint(**more: Any) -> str:
        subject = subject_of(LLAMA, gpu=GPU_80, processes=8, micro=1, max_length=1024, **more)
        assert subject.trained is not None
        trained = dataclasses.replace(subject.trained, may_shard="sharding" not in more)
        found = check("ARM021", dataclasses.replace(subject, trained=trained))
        assert found is not None
        return found.hint or ""

    assert hint().startswith("`train.sharding: fsdp` (about ")
    assert hint(sharding="fsdp") == ""  # it fits
    alone = memory(LLAMA, gpu=GPU_80, micro=1, max_length=1024)
    assert "sharding" not in (alone.hint or "")
    small = subject_of(LLAMA, gpu=GPU_24, processes=2, micro=4, max_length=8192, sharding="fsdp", lora={"r": 16})
    found = check("ARM021", small)
    assert found is not None
    assert found.hint
    assert "nf4" not in found.hint  # a base in 4 bits is not divided


def test_a_model_that_nothing_makes_fit_needs_another_host() -> None:
    found = memory(read_model(config_of("mixtral-8x7b")), gpu=GPU_24, lora={"quantize": "nf4"}, micro=1)
    assert (found.outcome, found.hint) == ("fail", "GPUs with more memory, or a smaller model")


def test_a_clusters_gpus_are_those_of_its_profile() -> None:
    profile = Profile.model_construct(name="big", gpus=Gpus(count=8, model="A100", memory_gb=80), match=())
    found = memory(LLAMA, host=CLUSTER, profile=profile)
    assert found.outcome == "fail"
    assert "a GPU of profile big has 80 GiB" in found.message
    unknown = memory(LLAMA, host=CLUSTER)
    assert (unknown.outcome, "how much one has is not known" in unknown.message) == ("ok", True)


def test_without_gpus_only_the_hosts_memory_is_compared_and_nothing_is_refused() -> None:
    found = memory(LLAMA, device="cpu", micro=1)
    assert found.outcome == "warn"
    assert "the host has 59.6 GiB" in found.message
    tiny = memory(tiny_model(TinyModel()), device="cpu")
    assert tiny.outcome == "ok"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('{"model_type": "mamba"}', "memory is not estimated: models of type 'mamba' are not known to it"),
        ("<html>", "memory is not estimated: config.json is not JSON"),
        (config_of("qwen3-8b", hidden_size=-1), "memory is not estimated: hidden_size in its config.json is -1"),
    ],
)
def test_a_model_that_is_not_known_is_not_estimated_and_not_refused(config: str, said: str) -> None:
    found = memory(read_model(config), gpu=GPU_24)
    assert (found.outcome, found.message) == ("ok", said)
    assert estimate_launch(subject_of(read_model(config))) is None


def test_a_folder_without_a_readable_config_is_not_estimated(tmp_path: Path) -> None:
    assert read_folder(tmp_path).problem == "its config.json cannot be read: No such file or directory"
    (tmp_path / "config.json").write_bytes(b"{" + b" " * 100_000_000)
    assert read_folder(tmp_path).problem == "config.json is longer than 1000 kB"


def test_deepspeed_decides_for_itself() -> None:
    subject = subject_of(SMALL, gpu=GPU_80)
    assert subject.trained is not None
    other = dataclasses.replace(subject, trained=dataclasses.replace(subject.trained, is_divided=True))
    found = check("ARM021", other)
    assert found is not None
    assert (found.outcome, "DeepSpeed" in found.message) == ("ok", True)
    assert estimate_launch(other) is None


def test_rows_longer_than_a_hub_models_positions_are_named_with_their_line() -> None:
    found = check("ARM022", subject_of(LLAMA, gpu=GPU_80, max_length=200_000))
    assert found is not None
    assert (found.outcome, found.hint) == ("warn", "train.max_length: 131072")
    assert found.message == (
        "e.yaml:7: `train.max_length` 200000 is more than the 131072 positions of acme/m: "
        "its output may be worse beyond them"
    )
    learned = read_model(config_of("gpt2"))
    ends = check("ARM022", subject_of(learned, gpu=GPU_80))
    assert ends is not None
    assert "rows beyond them end the training" in ends.message
    fits = check("ARM022", subject_of(LLAMA, gpu=GPU_80))
    assert fits is not None
    assert fits.outcome == "ok"
    assert check("ARM022", subject_of(SMALL, gpu=GPU_80)) is None


def test_a_reference_that_does_not_fit_is_refused_and_an_adapter_spares_it() -> None:
    subject = subject_of(LLAMA, gpu=GPU_80, micro=1)
    alone = estimate_launch(subject)
    assert subject.trained is not None
    pair = dataclasses.replace(subject.trained, sequences=2, has_reference=True)
    whole = estimate_launch(dataclasses.replace(subject, trained=pair))
    assert alone is not None
    assert whole is not None
    weights = next(term.size_bytes for term in whole.terms if term.name == "weights")
    assert ("reference model", weights) in {(term.name, term.size_bytes) for term in whole.terms}
    assert whole.certain_bytes == alone.certain_bytes + weights
    assert whole.total_bytes > alone.total_bytes + weights  # two sequences for each row
    refused = check("ARM021", dataclasses.replace(subject, trained=pair))
    assert refused is not None
    assert refused.outcome == "fail"
    assert "`lora: {}`" in (refused.hint or "")


def test_a_teacher_that_does_not_fit_is_refused_and_one_of_unknown_size_is_named() -> None:
    subject = subject_of(LLAMA, gpu=GPU_24, micro=1, lora={"r": 8})
    assert subject.trained is not None
    alone, taught, unknown = (
        check("ARM021", dataclasses.replace(subject, trained=dataclasses.replace(subject.trained, teacher=teacher)))
        for teacher in (None, LLAMA, ModelFacts(problem="the hub was not asked"))
    )
    assert alone is not None
    assert taught is not None
    assert unknown is not None
    assert alone.outcome != "fail"
    assert (taught.outcome, "both models' weights and the optimizer alone need" in taught.message) == ("fail", True)
    assert "without the teacher, whose size is unknown (the hub was not asked), an estimated" in unknown.message
