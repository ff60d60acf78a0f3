"""Judge what a machine gives against what such a machine should give. Asks no host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.foundation.validation import finite
from armada.store import metrics
from armada.units import amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from armada.config.profiles import Profile
    from armada.store.database import Database

_PREFIX = "health/"
_NAMES = (
    "flops", "memory_bytes_per_s", "cpu_flops", "cpu_memory_bytes_per_s", "all_reduce_bytes_per_s", "disk_write_bytes_per_s",
    "disk_read_bytes_per_s",
)  # fmt: skip

MATMUL_SHARE = 0.6
"""Of the peak: large products in 16 bits reach 65 to 90 % of it on GPUs that are cool, idle and not limited in power."""

MEMORY_SHARE = 0.75
"""Of the bandwidth: copies reach 85 to 93 % of it."""

SIBLING_SHARE = 0.9
"""Of the fastest GPU of the machine: one that is slower is too hot, held back, or used by somebody else."""

DISK_BYTES_PER_S = 100e6
"""Below it, a checkpoint of 10 GB keeps GPUs waiting for longer than 100 s."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure.

    Attributes:
        name: `flops`, `memory_bytes_per_s`, and so on.
        number: Of the GPU; 0 for what the machine has once.
        value: In FLOP or bytes a second.
        expected: What it should be at least; None where nothing says it.
        share: Of the reference; None without one.
        said: The figure and its verdict, in words.
    """

    name: str
    number: int
    value: float
    expected: float | None
    share: float | None
    said: str

    @property
    def is_slow(self) -> bool:
        return self.expected is not None and self.value < self.expected

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "number": self.number,
            "value": self.value,
            "expected": self.expected,
            "share": self.share,
            "slow": self.is_slow,
            "said": self.said,
        }


def read_figures(database: Database, run_id: str) -> dict[str, dict[int, float]]:
    """Return what a machine was measured to give, by name and GPU."""
    found = {}
    for name in _NAMES:
        curve = metrics.curve(database, run_id, _PREFIX + name)
        found[name] = {number: value for number, told in curve if (value := finite(told)) is not None and value > 0}
    return found


def judge(measured: Mapping[str, Mapping[int, float]], profile: Profile | None) -> list[Figure]:
    """Compare the figures with the profile's, with those of sibling GPUs, and with what training needs."""
    gpus = profile.gpus if profile is not None else None
    peak = gpus.peak_tflops * 1e12 if gpus is not None and gpus.peak_tflops else None
    bandwidth = gpus.bandwidth_gb_s * 1e9 if gpus is not None and gpus.bandwidth_gb_s else None
    return [
        *_of_gpus("flops", measured, "matrix products", peak, MATMUL_SHARE),
        *_of_gpus("memory_bytes_per_s", measured, "memory", bandwidth, MEMORY_SHARE),
        *_plain("cpu_flops", measured, "matrix products of the CPUs", None),
        *_plain("cpu_memory_bytes_per_s", measured, "memory of the CPUs", None),
        *_plain("all_reduce_bytes_per_s", measured, "all-reduce between the GPUs", None),
        *_plain("disk_write_bytes_per_s", measured, "writing to the disk", DISK_BYTES_PER_S),
        *_plain("disk_read_bytes_per_s", measured, "reading from the disk", DISK_BYTES_PER_S),
    ]


def _of_gpus(
    name: str, measured: Mapping[str, Mapping[int, float]], what: str, reference: float | None, least: float
) -> Iterator[Figure]:
    values = measured.get(name, {})
    fastest = max(values.values(), default=0.0)
    for number, value in sorted(values.items()):
        expected = [SIBLING_SHARE * fastest] if len(values) > 1 else []
        expected += [least * reference] if reference is not None else []
        share = value / reference if reference is not None else None
        of = f", {share:.0%} of the profile's {_shown(name, reference)}" if share is not None and reference else ""
        verdict = ""
        if expected and value < max(expected):
            verdict = f": slower than it should be, at least {_shown(name, max(expected))}"
        elif not expected:
            verdict = ": the profile does not say what it should be"
        said = f"GPU {number}: {what} {_shown(name, value)}{of}{verdict}"
        yield Figure(name, number, value, max(expected, default=None), share, said)


def _plain(
    name: str, measured: Mapping[str, Mapping[int, float]], what: str, expected: float | None
) -> Iterator[Figure]:
    for value in list(measured.get(name, {}).values())[:1]:
        verdict = ": nothing says what it should be" if expected is None else ""
        if expected is not None and value < expected:
            verdict = f": slower than it should be, at least {_shown(name, expected)}"
        yield Figure(name, 0, value, expected, None, f"{what} {_shown(name, value)}{verdict}")


def verdict(figures: list[Figure]) -> str:
    """Say in a sentence whether the machine is healthy."""
    slow = [each for each in figures if each.is_slow]
    if slow:
        return f"slower than it should be in {len(slow)} of {len(figures)} figures"
    if not any(each.expected is not None for each in figures):
        return "not known: there is nothing to compare its figures with"
    unknown = sum(each.expected is None for each in figures)
    if unknown:
        return f"healthy as far as known: of {unknown} of {len(figures)} figures nothing says what they should be"
    return "healthy: nothing is slower than it should be"


def _shown(name: str, value: float) -> str:
    return f"{value / 1e12:,.3g} TFLOP/s" if name.endswith("flops") else f"{amount(value)}/s"
