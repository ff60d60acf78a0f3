"""Compute an environment's list of requirements and the name of its folder on a host."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import ConfigError
from armada.provision.flash_attention import FlashAttention, choose_flash_attention

if TYPE_CHECKING:
    from armada.config.profiles import Profile
    from armada.protocol.facts import Hardware

_PYPI_BUILDS = {"2.13": "cu130"}
"""Which CUDA the wheels of a torch version on PyPI are for (its `cuda-toolkit` requirement: 13.0.3)."""


def requirements_text(profile: Profile) -> str:
    """The pinned list uv gets: torch, the profile's lists without their comments, the user's additions.

    Raises:
        ConfigError: Two of them pin one package differently.
    """
    lines = {"torch": f"torch=={profile.environment.torch}"}
    sources = {"torch": "environment.torch"}
    for file in profile.requirement_files:
        for line in file.read_text(encoding="utf-8").splitlines():
            requirement = line.partition(" #")[0].strip()
            if requirement and not requirement.startswith("#"):
                _add(lines, sources, requirement, str(file), profile)
    for package in profile.environment.packages:
        _add(lines, sources, package, "environment.packages", profile)
    return "".join(f"{line}\n" for line in lines.values())


def has_package(requirements: str, name: str) -> bool:
    """Whether a requirements list asks for a package."""
    return re.search(rf"^{re.escape(name)}(?![\w.-])", requirements, re.MULTILINE | re.IGNORECASE) is not None


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages of an environment.

    Attributes:
        requirements: The list that uv gets.
        constraints: Versions that whatever it installs has to keep to.
        optional: Packages that are skipped where the host's index has them not.
        flash_attn: Which flash-attn; None where nobody chooses one.
        is_own: The list is the experiment's, on top of what its profile and task need.
    """

    requirements: str
    constraints: str | None = None
    optional: str | None = None
    flash_attn: FlashAttention | None = None
    is_own: bool = False


def profile_packages(profile: Profile, hardware: Hardware) -> Packages:
    """The packages of a profile's own environment.

    Raises:
        ConfigError: Its lists pin one package differently.
    """
    flash_attn = choose_flash_attention(profile, hardware, cuda_major(profile, hardware))
    return Packages(requirements_text(profile), optional=optional_text(profile, hardware), flash_attn=flash_attn)


def environment_key(profile: Profile, hardware: Hardware, packages: Packages | None = None) -> str:
    """The name of the environment's folder: another one as soon as anything in it would be another.

    Args:
        profile: Whose environment.
        hardware: Of the machine that it is for.
        packages: What is in it; the profile's own by default.

    Returns:
        `cpu-4f2a9c1b07d3`, `cu130-…`.
    """
    has_gpus = _has_gpus(profile, hardware)
    packages = packages or profile_packages(profile, hardware)
    made_of: dict[str, object] = {
        "requirements": sorted(packages.requirements.splitlines()),
        "python": profile.environment.python,
        "machine": hardware.machine,
        "gpus": has_gpus,
        "torch_index": profile.environment.torch_index,
    }
    # Only where there is any, so that environments without keep the names they were built under.
    if packages.optional:
        made_of["optional"] = sorted(packages.optional.splitlines())
    if packages.flash_attn is not None and packages.flash_attn.request is not None:
        made_of["flash_attn"] = packages.flash_attn.request.model_dump(mode="json")
    if packages.constraints:
        made_of["constraints"] = sorted(packages.constraints.splitlines())
    digest = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
    return f"{_build(profile.environment.torch) if has_gpus else 'cpu'}-{digest[:12]}"


def optional_text(profile: Profile, hardware: Hardware) -> str | None:
    """The pinned packages a host may do without: kernels are for GPUs."""
    if not profile.environment.optional or not _has_gpus(profile, hardware):
        return None
    return "".join(f"{line}\n" for line in profile.environment.optional)


def cuda_major(profile: Profile, hardware: Hardware) -> int | None:
    """The CUDA that the environment's torch is for; None without GPUs, or where it is not known."""
    found = re.match(r"cu(\d{2})", _build(profile.environment.torch))
    return int(found[1]) if found and _has_gpus(profile, hardware) else None


def _has_gpus(profile: Profile, hardware: Hardware) -> bool:
    return bool(hardware.gpus) and profile.gpus.count > 0


def _build(torch: str) -> str:
    version, _, local = torch.partition("+")
    return re.sub(r"[^a-z0-9]", "", local.lower()) or _PYPI_BUILDS.get(".".join(version.split(".")[:2]), "cuda")


def _add(lines: dict[str, str], sources: dict[str, str], requirement: str, source: str, profile: Profile) -> None:
    name = re.sub(r"[-_.]+", "-", re.split(r"[\s=@;\[]", requirement, maxsplit=1)[0]).lower()
    marked = f"{name};{requirement.partition(';')[2].strip()}" if ";" in requirement else name
    known = lines.get(marked)
    if known is not None and known != requirement:
        raise ConfigError(
            f"{requirement} ({source}) and {known} ({sources[marked]}) pin the same package differently",
            path=profile.origin,
            hint="your own list in `requirements/` next to your profiles can pin another version",
        )
    lines[marked] = requirement
    sources[marked] = source
