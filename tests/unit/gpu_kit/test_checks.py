"""What the checks make of what a GPU did; the trainings themselves are told."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from benchmarks.gpu.catalogue import CHECKS, FINAL
from benchmarks.gpu.checks import against_trl, facts, launch, measuring, profiling
from benchmarks.gpu.processes import TIMED_OUT
from benchmarks.gpu.workbench import Ended, Failed, Workbench, read_end

GPU = "GPU-11111111-2222-3333-4444-555555555555"
MACHINE = {
    "gpu": "NVIDIA H200",
    "uuid": GPU,
    "index": 0,
    "capability": "9.0",
    "memory_bytes": 150_000_000_000,
    "peak_flops": 989e12,
    "profile": "h200",
    "slices": [],
    "packages": {},
}
PEAK = {"reserved_bytes": 80_000_000_000, "allocated_bytes": 75_000_000_000, "device_bytes": 81_000_000_000}
RESULT = {"tokens_per_s": 15_000.0, "mfu": 0.46, "warmup_s": 9.0, "spread": 0.01, "step_time_s": 0.5}
TrainedAs = Callable[[str, Mapping[str, Any]], Ended]


class ToldBench(Workbench):
    """A bench on an H200 whose trainings are told."""

    told: TrainedAs

    def model(self, shape: str) -> Path:
        return self.shared / f"model-{shape}"

    def need_package(self, module: str, name: str) -> None:
        pass

    def train(self, name: str, section: Mapping[str, Any], **_options: Any) -> Ended:
        return self.told(name, section)


def trained(_name: str, section: Mapping[str, Any]) -> Ended:
    losses = {step: 3 - step / 10 for step in range(1, 31)}
    return Ended(0, 12.0, Path(), {} if section.get("measurement") is None else RESULT, {}, losses, PEAK)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[dict[str, Any], tuple[str, str]]]:
    def run_check(name: str, told: TrainedAs = trained) -> tuple[dict[str, Any], tuple[str, str]]:
        folder = tmp_path / name
        folder.mkdir()
        order = {"name": name, "module": "", "folder": str(folder), "shared": str(tmp_path / "shared"), "tiny": False}
        bench = ToldBench({**order, "home_python": "", "limit_s": 60, "machine": MACHINE})
        bench.told = told
        module = next(check.module for check in CHECKS if check.name == name)
        importlib.import_module(module).run(bench)
        lines = (folder / "cases.jsonl").read_text().splitlines()
        return {case["name"]: case for case in map(json.loads, lines)}, bench.verdict()

    return run_check


RunCheck = Callable[..., tuple[dict[str, Any], tuple[str, str]]]


def test_speed_stands_beside_its_aim_and_memory_beside_the_estimate(run: RunCheck) -> None:
    found, verdict = run("speed-7b")
    assert verdict == ("passed", "")
    first = found["lora 4096"]
    assert first["message"] == "MFU 46.0%, the aim of 45% is met"
    assert first["figures"]["peak_reserved_bytes"] == 80_000_000_000
    assert 0.9 < first["figures"]["estimate_of_peak"] < 1.1
    found, verdict = run("speed-7b-more")
    assert verdict == ("passed", "")
    assert found["lora 8192 recomputed"]["figures"]["recomputes"]
    assert "outside the estimate's ±15%" in found["full 2048"]["message"]
    slow, verdict = run("speed-1.5b")
    assert slow["full 4096"]["message"] == "MFU 46.0%, the aim of 50% is missed"
    assert verdict == ("passed", "")  # a missed aim is a figure


@pytest.mark.parametrize(
    ("slow", "status", "message"),
    [(0, "passed", ""), (20, "failed", "the steps took 7.3 times as long as the median one")],
)
def test_a_kernel_that_is_prepared_for_each_length_is_a_failure(
    run: RunCheck, slow: int, status: str, message: str
) -> None:
    def told(_name: str, section: Mapping[str, Any]) -> Ended:
        folder = Path(section["data"]["train"][0]["path"]).parent
        # The first steps load kernels, whatever their length.
        seconds = [9.0] * 5 + [0.55 if step < slow else 0.03 for step in range(55)]
        lines = [{"kind": "train", "step": step, "step_time_s": taken} for step, taken in enumerate(seconds, 1)]
        (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return Ended(0, 12.0, folder)

    found, verdict = run("lengths", told)
    assert found["varied lengths"]["message"].startswith(message)
    assert found["varied lengths"]["figures"]["slow_steps"] == slow
    assert verdict[0] == status


def test_memory_that_runs_out_is_a_result(run: RunCheck) -> None:
    def out_of_memory(name: str, _section: Mapping[str, Any]) -> Ended:
        return Ended(1, 3.0, Path(), failure={"reason": "oom", "message": "out of memory at micro batch 8"})

    found, verdict = run("speed-0.5b", out_of_memory)
    assert {case["status"] for case in found.values()} == {"oom"}
    assert verdict == ("oom", "")


@pytest.mark.parametrize(
    ("code", "reason", "message", "wrong"),
    [
        (1, "oom", "train.micro_batch_size: 32 with accumulation 2 keeps the global batch of 64", ""),
        (1, "oom", "train.micro_batch_size: 32 with accumulation 1 keeps", "no smaller micro batch"),
        (1, "exception", "CUDA error", "it ended with exit code 1 and 'exception'"),
        (0, None, "", "it ended with exit code 0 and None"),
    ],
)
def test_a_batch_that_does_not_fit_must_end_with_advice(
    run: RunCheck, code: int, reason: str | None, message: str, wrong: str
) -> None:
    def too_large(name: str, section: Mapping[str, Any]) -> Ended:
        failed = Ended(code, 3.0, Path(), failure={"reason": reason, "message": message} if code else {})
        return failed if name == "too-large" else trained(name, section)

    found, verdict = run("oom", too_large)
    assert found["does not fit"]["message"].startswith(wrong or message)
    assert verdict[0] == ("failed" if wrong else "passed")


def test_a_training_that_the_budget_cut_off_is_measured_again(run: RunCheck) -> None:
    def cut_off(_name: str, _section: Mapping[str, Any]) -> Ended:
        return Ended(TIMED_OUT, 29.0, Path(), failure={"reason": "timeout", "message": "it did not end within 29 s"})

    found, verdict = run("compile", cut_off)
    assert found["compiled"]["status"] == "timeout"
    assert verdict == ("timeout", "2 of 2 cases did not end in time")
    assert verdict[0] not in FINAL


def test_padded_rows_are_measured_both_ways(run: RunCheck, tmp_path: Path) -> None:
    found, verdict = run("padding")
    assert verdict == ("passed", "")
    assert found["gain"]["figures"]["speedup"] == 1.0
    assert found["equal losses"]["figures"]["differs"] == 0.0
    (tmp_path / "padding").rename(tmp_path / "before")

    def odd(label: str, section: Mapping[str, Any]) -> Ended:
        ended = trained(label, section)
        is_other = label == "learns-not-masked"
        return Ended(0, 1.0, Path(), ended.result, {}, dict.fromkeys(ended.losses, 7.0)) if is_other else ended

    assert run("padding", odd)[1][0] == "failed"


@pytest.mark.parametrize("name", ["liger", "qlora", "bf16"])
def test_losses_that_differ_are_a_failure_and_equal_ones_are_not(run: RunCheck, name: str, tmp_path: Path) -> None:
    assert run(name)[1] == ("passed", "")
    (tmp_path / name).rename(tmp_path / "before")

    def odd(label: str, section: Mapping[str, Any]) -> Ended:
        ended = trained(label, section)
        is_other = label in ("liger-learns", "qlora", "bf16")
        return Ended(0, 1.0, Path(), ended.result, {}, dict.fromkeys(ended.losses, 7.0)) if is_other else ended

    found, verdict = run(name, odd)
    assert verdict[0] == "failed"
    assert "differ" in next(case["message"] for case in found.values() if case["status"] == "failed")


def test_compile_says_its_gain_and_how_long_it_warmed_up(run: RunCheck) -> None:
    found, verdict = run("compile")
    assert verdict == ("passed", "")
    assert (found["compiled"]["figures"]["warmup_s"], found["gain"]["figures"]) == (9, {"speedup": 1})


def torch_with(**properties: Any) -> ModuleType:
    torch = ModuleType("torch")
    seen = SimpleNamespace(
        **{"uuid": GPU.removeprefix("GPU-"), "total_memory": 150_000_000_000, "major": 9, "minor": 0, **properties}
    )
    torch.cuda = SimpleNamespace(get_device_properties=lambda _number: seen)  # type: ignore[attr-defined]
    torch.version = SimpleNamespace(cuda="13.0")  # type: ignore[attr-defined]
    return torch


@pytest.mark.parametrize(
    ("properties", "wrong"),
    [
        ({}, ""),
        ({"uuid": "another"}, "torch another"),
        ({"total_memory": 80}, "torch 80"),
        ({"minor": 9}, "torch 9.9"),
    ],
)
def test_what_the_driver_says_is_held_against_what_torch_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, properties: dict[str, Any], wrong: str
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f'#!/bin/sh\ncase "$1" in\n--query-gpu=index,uuid*) echo "0, {GPU}, NVIDIA H200, 143771, 0, 0, 580.1, 9.0" ;;\n'
        f'--query-compute-apps*) echo "{GPU}, 4711" ;;\nesac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setitem(sys.modules, "torch", torch_with(**properties))
    order = {
        "name": "facts",
        "module": "",
        "folder": str(tmp_path),
        "shared": "",
        "tiny": False,
        "home_python": "",
        "limit_s": 9,
    }
    bench = Workbench({**order, "machine": MACHINE})
    facts.compare_inventory(bench)
    loads = [{"utilization": 97.0, "memory_used_bytes": 5, "power_w": None, "temperature_c": 50.0}]
    facts.judge_telemetry(bench, loads if not wrong else [{"error": "nvidia-smi: it hangs"}])
    cases = {case["name"]: case for case in map(json.loads, (tmp_path / "cases.jsonl").read_text().splitlines())}
    assert cases["profile"]["figures"] == {"profile": "h200", "peak_tflops": 989}
    if wrong:
        assert wrong in cases["inventory"]["message"]
        assert cases["telemetry"]["message"] == "nvidia-smi: it hangs"
        assert bench.verdict()[0] == "failed"
    else:
        assert cases["telemetry"]["figures"] == {
            "readings": 1,
            "utilization": 97,
            "memory_used_bytes": 5,
            "power_w": None,
            "temperature_c": 50,
        }
        assert cases["users"]["figures"] == {"processes": 1, "shows_this_one": True}
        assert bench.verdict() == ("passed", "")


def test_a_resume_is_judged_where_it_begins_and_where_it_ends(tmp_path: Path) -> None:
    order = {
        "name": "launch",
        "module": "",
        "folder": str(tmp_path),
        "shared": "",
        "tiny": False,
        "home_python": "",
        "limit_s": 9,
    }
    straight = {step: 3 - step / 10 for step in range(1, 21)}
    killed = {step: straight[step] for step in range(1, 15)}
    resumed = {step: straight[step] for step in range(11, 21)}

    def judge(resumed: dict[int, float], state: str = "succeeded") -> dict[str, Any]:
        bench = Workbench({**order, "machine": MACHINE})
        launch.judge(bench, straight, killed, resumed, state)
        case: dict[str, Any] = json.loads((tmp_path / "cases.jsonl").read_text().splitlines()[-1])
        return case

    assert judge(resumed)["figures"] == {
        "resumed_at": 10,
        "killed_at": 14,
        "to_the_bit": True,
        "first_differs": 0,
        "last_differs": 0,
    }
    drifted = judge({**resumed, 15: 1.51, 20: 1.02})
    assert (drifted["status"], drifted["figures"]["to_the_bit"]) == ("passed", False)
    assert "step 11, differs by" in judge({**resumed, 11: 1.95})["message"]
    assert "last loss differs" in judge({**resumed, 20: 1.2})["message"]
    assert judge(straight, "failed")["message"] == "the resumed run is failed"
    assert judge({})["status"] == "failed"


def test_lines_of_trls_log_are_read_and_other_lines_are_not() -> None:
    assert against_trl.read_loss("{'loss': '2.31', 'grad_norm': '1.2', 'epoch': '0.1'}\n") == 2.31
    assert against_trl.read_loss("{'loss': 2.31, 'epoch': 0.1}") == 2.31
    for line in (
        "{'train_runtime': '3', 'loss': '2'}",
        "{'eval_loss': 3}",
        "loss 3",
        "{'loss': ",
        "{'loss': open('x')}",
    ):
        assert against_trl.read_loss(line) is None


def test_what_a_training_left_is_read_however_broken(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("Traceback\nOSError: it is gone\n")
    (tmp_path / "metrics.jsonl").write_text(
        '{"kind": "train", "step": 1, "loss": 2.5}\n{"kind": "train", "step": 2, "loss": "x"}\n{ cut'
    )
    (tmp_path / "peak-1.json").write_text('{"reserved_bytes": 7, "other": "x"}')
    (tmp_path / "peak-2.json").write_text('{"reserved_bytes": 9}')
    (tmp_path / "peak-3.json").write_text("{")
    ended = read_end(tmp_path, 1, 3.0)
    assert (ended.status, ended.message) == ("failed", "exit code 1: OSError: it is gone")
    assert (ended.losses, ended.peak) == ({1: 2.5}, {"reserved_bytes": 9})
    assert read_end(tmp_path, -1000, 3.0).message == "it did not end within 3 s"


def test_a_cell_that_was_not_measured_and_a_machine_without_a_gpu_are_failures(tmp_path: Path) -> None:
    order = {"name": "bench", "module": "", "folder": str(tmp_path), "shared": str(tmp_path), "tiny": False}
    bench = ToldBench({**order, "home_python": "", "limit_s": 60, "machine": MACHINE})
    measured = {"label": "micro_batch_size=2", "status": "measured", "message": None, "tokens_per_s": 9.5, "mfu": None}
    broken = {"label": "micro_batch_size=4", "status": "failed", "message": "CUDA is in use in a forked process"}
    measuring.tell_cells(bench, {"cells": [measured, broken, {"label": "attention=eager", "status": "oom"}]})
    disk = {"name": "disk_read_bytes_per_s", "value": 1.5e9}
    measuring.tell_machine(bench, {"verdict": "healthy", "figures": [{"name": "flops", "value": 7e14}, disk]})
    measuring.tell_machine(bench, {"verdict": "healthy", "figures": [{"name": "cpu_flops", "value": 4e10}, disk]})
    told = [json.loads(line) for line in (tmp_path / "cases.jsonl").read_text().splitlines()]
    assert [(case["status"], case["message"]) for case in told] == [
        ("passed", ""),
        ("failed", "CUDA is in use in a forked process"),
        ("failed", "it is oom"),
        ("passed", "healthy"),
        ("failed", "no figure is a GPU's"),
    ]
    assert told[0]["figures"] == {"tokens_per_s": 9.5}
    assert told[3]["figures"]["flops"] == 7e14


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128>>", "attention"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_7", "attention"),
        ("nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NTN", "products"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "products"),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<4>>", "optimizer"),
        ("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>", "copies"),
        ("Memcpy DtoD (Device -> Device)", "copies"),
        ("_forward_kernel", "losses"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, MeanOps>>", "sums"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::silu_kernel>", "elementwise"),
        ("something new", "others"),
    ],
)
def test_a_kernel_is_counted_by_its_kind(kernel: str, kind: str) -> None:
    assert profiling.kind_of(kernel) == kind


def test_what_no_kernel_took_is_the_gpus_waiting(tmp_path: Path) -> None:
    order = {"name": "profile", "module": "", "folder": str(tmp_path), "shared": str(tmp_path), "tiny": False}
    bench = ToldBench({**order, "home_python": "", "limit_s": 60, "machine": MACHINE})
    kernels = {"nvjet": {"seconds": 0.6, "calls": 9}, "Memcpy DtoD": {"seconds": 0.3, "calls": 4}}
    profiling.tell(bench, "7b lora 4096", {"step_s": 0.5, "steps": 3, "kernels": kernels})
    (told,) = map(json.loads, (tmp_path / "cases.jsonl").read_text().splitlines())
    assert told["message"] == "40.0% nvjet; 20.0% Memcpy DtoD"
    assert {name: told["figures"][name] for name in ("products", "copies", "waits")} == pytest.approx(
        {"products": 0.4, "copies": 0.2, "waits": 0.4}
    )
    with pytest.raises(Failed, match="recorded no kernel"):
        profiling.tell(bench, "nothing", {"step_s": 0.5, "steps": 3, "kernels": {}})
