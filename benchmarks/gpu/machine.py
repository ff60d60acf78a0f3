"""Say what this Python and this machine have, as one line of JSON: `python -m benchmarks.gpu.machine [--tiny]`.

It runs in the Python that trains, because only that one knows its packages and what its torch sees.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

SHOWN = (
    "torch",
    "transformers",
    "trl",
    "accelerate",
    "peft",
    "datasets",
    "triton",
    "bitsandbytes",
    "liger-kernel",
    "torchao",
    "flash-attn",
    "flash-attn-3",
    "kernels",
)
NEEDED = ("torch", "transformers", "trl", "accelerate", "peft", "datasets")
"""Without them no check can run."""
HOME_NEEDS = ("fabric", "paramiko", "pydantic", "packaging", "platformdirs", "jinja2", "ruamel.yaml")


class NoGpuError(RuntimeError):
    """There is no GPU that the kit can use; the message says why."""


def versions(names: tuple[str, ...] = SHOWN) -> dict[str, str]:
    """Return the versions of those packages that are there."""
    found = {}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def describe(*, tiny: bool) -> dict[str, Any]:
    """Describe the machine.

    Args:
        tiny: Without a GPU.

    Raises:
        NoGpuError: There is none, or torch does not see it.
    """
    about: dict[str, Any] = {
        "python": platform.python_version(),
        "packages": versions(),
        "missing": [name for name in NEEDED if not versions((name,))],
        "missing_home": [name for name in HOME_NEEDS if not versions((name,))],
        "gpu": None,
    }
    return about if tiny else about | _describe_gpu()


def _describe_gpu() -> dict[str, Any]:
    from armada_agent.host.gpus import GpuError, list_gpus, list_slices, list_users

    try:
        gpus, busy = list_gpus(), {uuid for uuid, _ in list_users()}
        slices = list_slices()
    except GpuError as error:
        raise NoGpuError(str(error)) from error
    if not gpus:
        raise NoGpuError("nvidia-smi lists no GPU")
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    if chosen:
        named = [gpu for gpu in gpus if chosen == str(gpu["index"]) or str(gpu["uuid"]).startswith(chosen)]
        if not named:
            raise NoGpuError(f"CUDA_VISIBLE_DEVICES names {chosen!r}, which nvidia-smi does not list")
    else:
        named = [gpu for gpu in gpus if gpu["uuid"] not in busy] or gpus
    gpu = named[0]
    os.environ.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=str(gpu["index"]))
    import torch

    if not torch.cuda.is_available():
        raise NoGpuError(f"torch {torch.__version__} of {sys.executable} sees no GPU; nvidia-smi lists {gpu['name']}")
    memory = torch.cuda.get_device_properties(0).total_memory
    return {
        "gpu": gpu["name"],
        "index": gpu["index"],
        "uuid": gpu["uuid"],
        "driver": gpu["driver_version"],
        "memory_bytes": memory,
        "capability": gpu["compute_capability"] or "{}.{}".format(*torch.cuda.get_device_capability(0)),
        "slices": slices.get(gpu["uuid"], []),
        **_choose_profile(gpu, slices.get(gpu["uuid"], [])),
    }


def _choose_profile(gpu: dict[str, Any], slices: list[str]) -> dict[str, Any]:
    """Ask armada for the profile of one such GPU, and for the GPU's peak."""
    try:
        from armada.config.profile_choice import choose_profile
        from armada.paths import HomePaths
        from armada.protocol.facts import GpuKind
    except ImportError as error:  # home's packages are missing; `missing_home` names them
        return {"profile": None, "peak_flops": None, "profile_why": str(error)}
    kind = GpuKind(gpu["name"], gpu["compute_capability"], gpu["memory_total_bytes"], tuple(slices))
    with tempfile.TemporaryDirectory() as folder:
        profile = choose_profile((kind,), HomePaths(Path(folder) / "config", Path(folder) / "state")).profile
    return {"profile": profile.name, "peak_flops": profile.peak_flops}


def main() -> int:
    try:
        about = describe(tiny="--tiny" in sys.argv[1:])
    except NoGpuError as error:
        about = {"error": str(error)}
    except Exception as error:  # whatever a driver or a library says is one sentence to the runner
        about = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(about))
    return 0


if __name__ == "__main__":
    sys.exit(main())
