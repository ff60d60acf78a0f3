"""Which GPU is measured, and what the kit knows of it before it starts."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from benchmarks.gpu import machine

IDLE, BUSY = "GPU-11111111-2222-3333-4444-555555555555", "GPU-00000000-2222-3333-4444-555555555555"
SMI = f"""#!/bin/sh
case "$1" in
--query-gpu=*compute_cap)
  echo '0, {BUSY}, NVIDIA H200, 143771, 9000, 97, 580.159.03, 9.0'
  echo '1, {IDLE}, NVIDIA H200, 143771, 0, 0, 580.159.03, 9.0' ;;
--query-compute-apps*) echo '{BUSY}, 4711' ;;
esac
"""


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A stand-in for nvidia-smi with two H200, the first of which is in use, and one for torch's CUDA."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.setenv(name, "")  # what the kit sets is put back
    torch = ModuleType("torch")
    properties = SimpleNamespace(total_memory=150_000_000_000)
    torch.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        is_available=lambda: True,
        get_device_properties=lambda _number: properties,
        get_device_capability=lambda _number: (9, 0),
    )
    torch.__version__ = "2.13.0+cu130"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


def test_the_first_gpu_that_nobody_uses_is_measured_with_armadas_profile(two_gpus: ModuleType) -> None:
    found = machine.describe(tiny=False)
    assert {name: found[name] for name in ("gpu", "index", "uuid", "driver", "capability", "slices")} == {
        "gpu": "NVIDIA H200",
        "index": 1,
        "uuid": IDLE,
        "driver": "580.159.03",
        "capability": "9.0",
        "slices": [],
    }
    assert (found["profile"], found["peak_flops"], found["memory_bytes"]) == ("h200", 989e12, 150_000_000_000)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"


@pytest.mark.parametrize("named", ["0", BUSY, BUSY[:12]])
def test_a_gpu_that_the_user_names_is_measured(
    two_gpus: ModuleType, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"{named},1")
    assert machine.describe(tiny=False)["index"] == 0


def test_what_stands_in_the_way_is_a_sentence(
    two_gpus: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["machine"])

    def said() -> str:
        assert machine.main() == 0
        error: str = json.loads(capsys.readouterr().out)["error"]
        return error

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert said() == "CUDA_VISIBLE_DEVICES names '7', which nvidia-smi does not list"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(two_gpus.cuda, "is_available", lambda: False)
    assert said().endswith("sees no GPU; nvidia-smi lists NVIDIA H200")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert said().startswith("ModuleNotFoundError: ")
