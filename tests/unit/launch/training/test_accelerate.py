from __future__ import annotations

from typing import Any

import pytest
from ruamel.yaml import YAML

from armada.config.profiles import ACCELERATE_KEYS
from armada.errors import PreflightRefused
from armada.launch.training.accelerate import launch_environment, render_accelerate

FROM = "profile mine (mine.yaml)"


def read(text: str) -> dict[str, Any]:
    """As accelerate does: by the rules of YAML 1.1."""
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)
    loaded = yaml.load(text)
    assert isinstance(loaded, dict)
    return loaded


def render(processes: int = 2, device: Any = "cuda", precision: Any = "bf16", **extras: Any) -> dict[str, Any]:
    return read(
        render_accelerate(processes=processes, device=device, precision=precision, extras=extras, extras_from=FROM)
    )


@pytest.mark.parametrize(("processes", "kind"), [(1, "NO"), (2, "MULTI_GPU"), (8, "MULTI_GPU")])
@pytest.mark.parametrize(("device", "use_cpu"), [("cpu", True), ("cuda", False)])
@pytest.mark.parametrize(("precision", "word"), [("bf16", "bf16"), ("fp16", "fp16"), ("fp32", "no")])
def test_everything_the_plan_decides_is_written(
    processes: int, kind: str, device: str, use_cpu: bool, precision: str, word: str
) -> None:
    assert render(processes, device, precision) == {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": kind,
        "num_machines": 1,
        "machine_rank": 0,
        "num_processes": processes,
        "mixed_precision": word,
        "use_cpu": use_cpu,
        "gpu_ids": "all",
        "main_process_port": 0,
    }


def test_every_key_is_one_accelerate_knows() -> None:
    assert set(render()) <= ACCELERATE_KEYS


def test_extras_are_added_as_they_are() -> None:
    extras: dict[str, Any] = {
        "fsdp_config": {"fsdp_version": 1, "a": "no", "b": 1e-5, "c": None, "d": "x: 'y'\n# z"},
        "enable_cpu_affinity": True,
    }
    rendered = render(distributed_type="FSDP", **extras)
    assert {key: rendered[key] for key in extras} == extras


def test_the_same_value_twice_is_no_quarrel() -> None:
    assert render(num_processes=2, mixed_precision="bf16") == render()


@pytest.mark.parametrize(
    ("extras", "places"),
    [
        ({"num_processes": 4}, ("accelerate.num_processes to 4", "`resources` of the experiment", "makes it 2")),
        (
            {"mixed_precision": "fp16"},
            ("accelerate.mixed_precision to 'fp16'", "`train.precision` of the profile", "'bf16'"),
        ),
        ({"main_process_port": 29500}, ("accelerate.main_process_port", "free port")),
        ({"gpu_ids": "0,1"}, ("accelerate.gpu_ids", "supervisor")),
        ({"use_cpu": True}, ("accelerate.use_cpu to true", "makes it false")),
        ({"num_machines": 2}, ("accelerate.num_machines", "one machine")),
        ({"distributed_type": "MULTI_CPU"}, ("accelerate.distributed_type to 'MULTI_CPU'", "MULTI_GPU")),
        (
            {"deepspeed_config": {"gradient_accumulation_steps": 4}},
            ("gradient_accumulation_steps", "global_batch_size"),
        ),
        ({"deepspeed_config": {"gradient_clipping": 1.0}}, ("gradient_clipping", "max_grad_norm")),
        (
            {"fsdp_config": {"fsdp_activation_checkpointing": True}},
            ("fsdp_activation_checkpointing", "train.activation_checkpointing"),
        ),
    ],
)
def test_an_extra_that_says_something_else_is_refused_naming_both_places(
    extras: dict[str, Any], places: tuple[str, ...]
) -> None:
    with pytest.raises(PreflightRefused) as refused:
        render(**extras)
    assert refused.value.message.startswith(FROM)
    assert all(place in refused.value.message for place in places)


def test_fsdp_says_which_version_and_is_refused_on_cpus() -> None:
    assert render(distributed_type="FSDP")["fsdp_config"] == {"fsdp_version": 2}
    with pytest.raises(PreflightRefused, match="has no effect on CPUs"):
        render(device="cpu", distributed_type="FSDP")


@pytest.mark.parametrize(("processes", "cpus", "threads"), [(1, 4, "4"), (2, 4, "2"), (8, 4, "1")])
def test_processes_share_the_cores(processes: int, cpus: int, threads: str) -> None:
    made = launch_environment(processes=processes, device="cpu", cpu_count=cpus)
    assert made["OMP_NUM_THREADS"] == threads
    assert launch_environment(processes=processes, device="cuda", cpu_count=cpus) == {}


def test_runs_that_share_cpus_do_not_starve_each_other_by_threads_that_spin() -> None:
    assert launch_environment(processes=1, device="cpu", cpu_count=2)["OMP_WAIT_POLICY"] == "PASSIVE"
