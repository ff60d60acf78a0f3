"""Choose the profile for a host by its GPUs: one that fits, or one derived from what the host says of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.config.derived_profiles import derive_profile
from armada.config.profiles import list_profiles, load_profile
from armada.errors import NotFound
from armada.paths import bundled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.config.profiles import Profile
    from armada.paths import HomePaths
    from armada.protocol.facts import GpuKind

_LEAST_SHARE = 0.9
"""Of the memory that a profile names: ECC and drivers take up to 7 % of it (T4, L40S)."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """A profile that does not fit, and why, as part of a sentence."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The profile for a host's GPUs, and why the others do not fit."""

    profile: Profile
    others: tuple[Unfit, ...] = ()


def choose_profile(gpus: Sequence[GpuKind], home: HomePaths) -> Choice:
    """Choose the profile for a host that names none, by the GPUs that its agent found.

    The user's own profiles come before the bundled ones, and then those that are for fewer numbers of GPUs. If none fits,
    one is derived.

    Args:
        gpus: Of the host.
        home: Whose profiles.

    Raises:
        NotFound: Several of the user's profiles fit; the message lists them.
        ConfigError: A profile's file is wrong.
    """
    if not gpus:
        return Choice(load_profile("cpu", home))
    fitting: list[Profile] = []
    alike: list[Profile] = []
    others: list[Unfit] = []
    for name in list_profiles(home):
        if (why := _why_at_a_glance(name, gpus, home)) is not None:
            others.append(Unfit(name, why))
            continue
        profile = load_profile(name, home)
        why = why_another_kind(profile, gpus)
        if why is None:
            alike.append(profile)
            why = _why_another_number(profile, len(gpus))
        if why is None:
            fitting.append(profile)
        else:
            others.append(Unfit(name, why))
    if not fitting:
        return Choice(derive_profile(gpus, min(alike, key=_rank, default=None), home), tuple(others))
    best = [profile for profile in fitting if _rank(profile) == min(map(_rank, fitting))]
    if len(best) > 1:
        known = ", ".join(profile.name for profile in best)
        raise NotFound(
            f"several profiles fit {describe(gpus)}: {known}", hint="set `profile:` for the host in hosts.yaml"
        )
    others += [
        Unfit(profile.name, f"it fits too, but {best[0].name} comes first") for profile in fitting if profile != best[0]
    ]
    return Choice(best[0], tuple(sorted(others, key=lambda other: other.name)))


def describe(gpus: Sequence[GpuKind]) -> str:
    """Name a host's GPUs: `8 × NVIDIA RTX A6000`."""
    counts: dict[str, int] = {}
    for gpu in gpus:
        counts[gpu.name] = counts.get(gpu.name, 0) + 1
    return " and ".join(f"{count} × {name}" for name, count in counts.items())


def bundled_match(name: str) -> tuple[str, ...]:
    """Read `match` of a bundled profile, or of the one it extends, from the lines of its file: YAML takes 5 ms a file."""
    text = bundled("profiles", f"{name}.yaml").read_text(encoding="utf-8")
    if found := re.search(r"^match: \[([^\]]+)\]", text, re.MULTILINE):
        return tuple(part.strip() for part in found[1].split(","))
    parent = re.search(r"^extends: ([\w.-]+)$", text, re.MULTILINE)
    return bundled_match(parent[1]) if parent else ()


def _why_at_a_glance(name: str, gpus: Sequence[GpuKind], home: HomePaths) -> str | None:
    """Say why a bundled profile does not fit, where its `match` alone tells; None where it has to be loaded."""
    if (home.profiles / f"{name}.yaml").exists():
        return None
    match = bundled_match(name)
    return _why_another_name(match, gpus) if match else None


def _why_another_name(match: Sequence[str], gpus: Sequence[GpuKind]) -> str | None:
    for gpu in gpus:
        if not any(part.lower() in gpu.name.lower() for part in match):
            return f"it is for {' or '.join(match)}, not {gpu.name}"
    return None


def why_another_kind(profile: Profile, gpus: Sequence[GpuKind]) -> str | None:
    """Say why a profile is for GPUs of another kind; None if it is for these."""
    if not profile.gpus.count:
        return "it is for machines without GPUs"
    if not profile.match:
        return "it has no `match`, so it is used only where it is named"
    if (why := _why_another_name(profile.match, gpus)) is not None:
        return why
    for gpu in gpus:
        variant = next((part for part in profile.unless if part.lower() in gpu.name.lower()), None)
        if variant is not None:
            return f"it is not for GPUs with {variant} in their name"
        # In a profile of their own, users say which GPUs they mean.
        if not profile.is_own and (why := _why_less(profile, gpu)):
            return why
    return None


def _why_less(profile: Profile, gpu: GpuKind) -> str | None:
    if gpu.slices:
        return f"it is for whole GPUs, and {gpu.name} is divided into MIG slices"
    wanted, there = profile.gpus.memory_gb, gpu.memory_bytes
    if wanted is None or there is None or there >= wanted * 2**30 * _LEAST_SHARE:
        return None
    return f"it is for GPUs with {wanted:g} GB, and this {gpu.name} has {there / 2**30:.3g}"


def _why_another_number(profile: Profile, there: int) -> str | None:
    if profile.gpus.fewest <= there <= profile.gpus.count:
        return None
    return f"it is for {profile.gpus.span} of these GPUs, and there are {there}"


def _rank(profile: Profile) -> tuple[bool, int]:
    return not profile.is_own, profile.gpus.count - profile.gpus.fewest
