"""Check the GPUs: how many the host has, and of which kind. A cluster's login node does not show them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from armada.config.gpu_models import find_model
from armada.config.profiles import OLDEST_BF16
from armada.foundation.sanitize import sanitize_line
from armada.launch.checks.check import Answer, fail, ok, warn
from armada.units import counted

if TYPE_CHECKING:
    from armada.config.profiles import Profile
    from armada.launch.checks.subject import Subject
    from armada.protocol.facts import Facts, Gpu


def check_number(subject: Subject) -> Answer | None:
    """Check that the host has as many GPUs as requested."""
    if subject.host.batch is not None:
        return None
    wanted, there = subject.gpus, len(subject.facts.gpus)
    if wanted > there:
        return fail(
            f"{counted(wanted, 'GPU')} {'is' if wanted == 1 else 'are'} requested, but the host has {there}",
            f"--gpus {there}, or another host",
        )
    if wanted > 1 and any(gpu.slices for gpu in subject.facts.gpus):
        return fail(
            f"{wanted} GPUs are requested, but the host's are divided into MIG slices, and a run can use one slice",
            "--gpus 1, or end the division there (nvidia-smi -mig 0)",
        )
    return ok(f"{wanted} of the host's {counted(there, 'GPU')}")


def check_kind(subject: Subject) -> Answer | None:
    """Check that the host's GPUs are of the profile's kind."""
    profile = subject.profile
    if subject.host.batch is not None:
        return None
    if subject.experiment.takes_gpus and subject.host.profile is None and (why := unused_gpus(subject.facts)):
        return warn(why, "launch it on a host with NVIDIA GPUs, or with --profile cpu")
    if profile is not None and profile.derived is not None:
        return _derived(subject.host.name, profile)
    if not subject.gpus or profile is None or not profile.match:
        return ok("the profile names no kind of GPU")
    names = [gpu.name for gpu in subject.facts.gpus]
    strange = [name for name in names if not any(word.lower() in name.lower() for word in profile.match)]
    if strange:
        return warn(
            f"profile {profile.name} is for {' or '.join(profile.match)}; this host has {strange[0]}",
            "micro batch and precision may not fit; choose another profile in hosts.yaml",
        )
    return ok(f"GPUs are what profile {profile.name} is for")


def unused_gpus(facts: Facts) -> str | None:
    """Say which GPUs of a host armada cannot use; None if there are none, or it has others."""
    if facts.gpus:
        return None
    if facts.amd_gpus:
        return (
            f"the host has {counted(facts.amd_gpus, 'AMD GPU')}, which armada does not use: trainings there run on CPUs"
        )
    if facts.gpu_trouble:
        return f"the host's GPUs cannot be used: {sanitize_line(facts.gpu_trouble, 200)}"
    if facts.tools.nvidia_smi:
        return "the host has nvidia-smi, which shows no GPU: there is none, or its driver does not work"
    return None


def _derived(host: str, profile: Profile) -> Answer:
    said = f"; {'; '.join(profile.notes)}" if profile.notes else ""
    return warn(
        f"no profile fits the host's GPUs, so {profile.name} is derived from them: {_settings(profile)}{said}",
        f"armada profiles detect {host} --save NAME makes a profile of it that you can change",
    )


def _settings(profile: Profile) -> str:
    return f"{profile.train.precision}, micro batch {profile.train.micro_batch_size}"


def check_bf16(subject: Subject) -> Answer | None:
    """Check that the GPUs support bf16, if the profile uses it."""
    if subject.host.batch is not None:
        return None
    said = ok(f"precision {subject.precision or 'is left to the command'}")
    if not subject.gpus or subject.precision != "bf16":
        return said
    known = [(gpu.name, _capability(gpu, subject.profile)) for gpu in subject.facts.gpus]
    for name, capability in known:
        if capability is not None and capability < OLDEST_BF16:
            return fail(
                f"bf16 needs compute capability {OLDEST_BF16}; {name} has {capability}",
                "set precision: fp16 in your own profile",
            )
    if unknown := [name for name, capability in known if capability is None]:
        return warn(
            f"it is not known whether {unknown[0]} has bf16: its driver does not tell the compute capability",
            f"if it is below {OLDEST_BF16}, set precision: fp16 in your own profile",
        )
    return said


def _capability(gpu: Gpu, profile: Profile | None) -> float | None:
    """Return a GPU's compute capability as its driver tells it, else as its name does; drivers before 2021 tell none."""
    try:
        told = float(gpu.compute_capability or "")
    except ValueError:
        told = math.nan
    if math.isfinite(told):
        return told
    if profile is not None and any(word.lower() in gpu.name.lower() for word in profile.match):
        return profile.gpus.compute_capability
    model = find_model(gpu.name)
    return None if model is None else model.compute_capability
