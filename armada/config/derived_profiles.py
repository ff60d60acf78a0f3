"""Derive a profile from what a host says of its GPUs, for hosts that no profile fits.

What it says is careful: one row at once, bf16 only where the compute capability is known to have it, the least memory of
all GPUs. It is made as text, which is what `armada profiles detect --save` writes, and then read as any profile is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.config.gpu_models import find_model
from armada.config.profiles import DERIVED, OLDEST_BF16, load_derived
from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.config.profiles import Profile
    from armada.paths import HomePaths
    from armada.protocol.facts import GpuKind

ORIGIN = "the host's GPUs"
"""Where the keys of a derived profile come from, as `config show` prints it."""

_GIB = 2**30
_LEAST_BYTES, _MOST_BYTES = _GIB // 2, 1024 * _GIB
"""Outside of it, a GPU's memory is taken as unknown. The largest of 2026 has 288 GB."""

_OLDEST_TORCH = 7.5
"""Compute capability from which the pinned torch runs: CUDA 13 has no code for older GPUs."""

_CAPABILITY = re.compile(r"[1-9]\d?\.\d", re.ASCII)
_SLICE = re.compile(r"(\d{1,4})gb", re.ASCII | re.IGNORECASE)
_SLUG_LENGTH = 40


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is known of a kind of GPU; None: not known. `shown` names it as a person would."""

    name: str
    shown: str
    memory_gb: float | None
    capability: float | None
    peak_tflops: float | None = None
    source: str = ""


def derive_profile(gpus: Sequence[GpuKind], alike: Profile | None, home: HomePaths) -> Profile:
    """Derive a profile for GPUs that none fits.

    Args:
        gpus: Of the host, at least one.
        alike: A profile for this kind of GPU, but for another number of them.
        home: Whose profiles it may extend.

    Raises:
        ConfigError: The profile that it extends is wrong.
    """
    sliced = [gpu for gpu in gpus if gpu.slices]
    kinds = list(dict.fromkeys(_kind(gpu) for gpu in sliced or gpus))
    # CUDA shows a process one slice, however many there are and of whatever number of GPUs.
    count = 1 if sliced else len(gpus)
    smallest = min(kinds, key=lambda kind: (kind.memory_gb is not None, kind.memory_gb or 0, kind.capability or 0))
    is_mixed = len({kind.shown for kind in kinds}) > 1
    if alike is not None:
        text = _extending(alike, count, smallest)
        notes = [f"profile {alike.name} is for {alike.gpus.span} of these GPUs, and its settings are used"]
    else:
        text = _described(count, kinds, smallest)
        notes = [*_notes(kinds, smallest, is_mixed=is_mixed), *(_slice_notes(sliced))]
    slug = re.sub(r"[^a-z0-9]+", "-", smallest.shown.lower().removeprefix("nvidia "))[:_SLUG_LENGTH].strip("-")
    name = f"{DERIVED}{'mixed-' if is_mixed else ''}{count}x-{slug or 'gpu'}"
    return load_derived(name, text, home, ORIGIN, tuple(notes))


def is_plausible_memory(size_bytes: float | None) -> bool:
    """Whether a GPU can have so much memory."""
    return size_bytes is not None and _LEAST_BYTES <= size_bytes <= _MOST_BYTES


def _kind(gpu: GpuKind) -> _Kind:
    """Take what a host says of a GPU, as far as it can be true."""
    name = sanitize_line(gpu.name, 100).strip() or "GPU"
    found = _CAPABILITY.fullmatch(gpu.compute_capability or "")
    capability = float(found[0]) if found else None
    if gpu.slices:
        slices = sorted(gpu.slices, key=lambda each: (_slice_gb(each) or 0, each))
        return _Kind(name, sanitize_line(f"{name} {slices[0]}", 130), _slice_gb(slices[0]), capability)
    memory_gb = _rounded(gpu.memory_bytes)
    known = find_model(name)
    if known is None:
        return _Kind(name, name, memory_gb, capability)
    return _Kind(name, name, memory_gb, capability or known.compute_capability, known.peak_tflops, known.source)


def _rounded(size_bytes: float | None) -> float | None:
    return round(size_bytes / _GIB, 1) if size_bytes is not None and is_plausible_memory(size_bytes) else None


def _slice_gb(name: str) -> float | None:
    found = _SLICE.search(name)
    return _rounded(int(found[1]) * _GIB) if found else None


def _least(values: Sequence[float | None]) -> float | None:
    """Return the least; None if one of them is not known."""
    known = [value for value in values if value is not None]
    return min(known) if len(known) == len(values) else None


def _notes(kinds: Sequence[_Kind], smallest: _Kind, *, is_mixed: bool) -> list[str]:
    notes = []
    capability = _least([kind.capability for kind in kinds])
    if is_mixed:
        shown = " and ".join(sorted({kind.shown for kind in kinds}))
        notes.append(f"the GPUs are of several kinds, {shown}: all are taken for the smallest, {smallest.shown}")
    if smallest.memory_gb is None:
        notes.append(f"the host does not say how much memory {smallest.shown} has, or an amount that cannot be")
    if capability is None:
        notes.append("the host does not say the compute capability, so precision is fp16")
    elif capability < _OLDEST_TORCH:
        notes.append(
            f"torch of the bundled environments is built for CUDA 13, which has no code for compute capability "
            f"{capability}: choose another build with `environment.torch` in a profile of your own"
        )
    return notes


def _slice_notes(sliced: Sequence[GpuKind]) -> list[str]:
    if not sliced:
        return []
    shown = sorted({sanitize_line(each, 40) for gpu in sliced for each in gpu.slices})
    listed = ", ".join(shown[:8]) + (" …" if len(shown) > 8 else "")
    return [f"GPUs are divided into MIG slices ({listed}): a process can use one of them, so a run takes one"]


def _extending(alike: Profile, count: int, kind: _Kind) -> str:
    return (
        f"# Derived by armada: profile {alike.name}, for another number of GPUs.\n"
        f"description: {_quoted(f'{count} × {kind.shown}, derived from the GPUs of a host')}\n"
        f"extends: {_quoted(alike.name)}\n"
        f"gpus: {{count: {count}, least: null}}\n"
    )


def _described(count: int, kinds: Sequence[_Kind], smallest: _Kind) -> str:
    capability = _least([kind.capability for kind in kinds])
    peak = _least([kind.peak_tflops for kind in kinds])
    has_bf16 = capability is not None and capability >= OLDEST_BF16
    lines = [
        "# Derived by armada from what nvidia-smi says on a host. Nothing in it is measured.",
        f"description: {_quoted(f'{count} × {smallest.shown}, derived from the GPUs of a host')}",
        "extends: _gpu",
        "gpus:",
        f"  count: {count}",
        "  least: 1",
        f"  model: {_quoted(smallest.shown)}",
        f"  memory_gb: {smallest.memory_gb:g}  # as nvidia-smi says"
        if smallest.memory_gb is not None
        else "  # memory_gb is needed, and the host does not say it",
    ]
    if capability is not None:
        lines.append(f"  compute_capability: {capability}")
    if peak is not None:
        lines.append(f"  peak_tflops: {peak:g}  # {next(kind.source for kind in kinds if kind.peak_tflops == peak)}")
    names = list(dict.fromkeys(kind.name for kind in kinds))
    lines += [
        f"match: [{', '.join(map(_quoted, names))}]",
        "train:",
        "  micro_batch_size: 1  # careful: raise it when a run has shown how much memory is left",
        f"  precision: {'bf16' if has_bf16 else 'fp16'}  # bf16 needs compute capability 8.0",
    ]
    if not has_bf16:
        lines += [
            "  attention: sdpa  # so does flash attention 2",
            "environment:",
            "  optional: []",
            "  flash_attn: none",
        ]
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    """JSON, which YAML includes: no name can become anything but text."""
    return json.dumps(text)
