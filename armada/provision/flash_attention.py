"""Choose an environment's flash-attn: a matching wheel, a build on the host, or none, with the reason.

The order of `attention: auto` is hub kernel, wheel, SDPA. The payload fetches hub kernels at run time. A wheel has to
be part of the environment, so it is chosen here from the releases of Dao-AILab/flash-attention. Nothing is compiled
unless a profile asks for it, because that takes hours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from armada.protocol.environment import FlashAttention as FlashAttentionRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.config.profiles import Profile
    from armada.protocol.facts import Hardware

RELEASES_URL = "https://github.com/Dao-AILab/flash-attention/releases/download"
BUILT_VERSION = "2.8.3.post2"
"""The newest source release; those older than 2.8.3 do not support torch 2.8."""

_OLDEST_CAPABILITY = 8.0  # flash-attn 2 has no code for GPUs before Ampere


@dataclass(frozen=True, slots=True)
class Release:
    """The versions that one release has wheels for.

    Attributes:
        version: The version of flash-attn, which is its tag without the `v`.
        torch: Versions of torch.
        cuda: Major versions of CUDA.
        python: Minor versions of Python 3.
        glibc: The oldest glibc that can load them: that of the build machine.
    """

    version: str
    torch: tuple[str, ...]
    cuda: tuple[int, ...]
    python: tuple[int, ...]
    glibc: tuple[int, int]


# From the matrices in .github/workflows/publish.yml at each tag. The wheels are built on Ubuntu 22.04. Newest first.
RELEASES: tuple[Release, ...] = (
    Release("2.8.3", ("2.4", "2.5", "2.6", "2.7", "2.8"), (12,), (9, 10, 11, 12, 13), (2, 35)),
    Release("2.7.4.post1", ("2.2", "2.3", "2.4", "2.5", "2.6"), (12,), (9, 10, 11, 12, 13), (2, 31)),
)


@dataclass(frozen=True, slots=True)
class FlashAttention:
    """The flash-attn that the environment gets in addition to its package list.

    Attributes:
        mode: `wheel`, `build` or `none`.
        url: The wheel's URL, with `{python}` for the tag (`cp312`) that only the host knows.
        version: The version to build.
        capabilities: The compute capabilities to build for, such as `8.6`.
        required: Whether the environment is refused without it.
        why: The reason, as a sentence for the user.
    """

    mode: Literal["wheel", "build", "none"]
    why: str
    url: str | None = None
    version: str | None = None
    capabilities: tuple[str, ...] = ()
    required: bool = False

    @property
    def request(self) -> FlashAttentionRequest | None:
        """The request for the agent; None if there is nothing to do."""
        if self.mode == "none":
            return None
        return FlashAttentionRequest(
            mode=self.mode,
            url=self.url,
            version=self.version,
            capabilities=self.capabilities,
            required=self.required,
        )


def choose_flash_attention(profile: Profile, hardware: Hardware, cuda: int | None) -> FlashAttention:
    """Decide for one profile on one host.

    Args:
        profile: Says what is wanted, and which torch.
        hardware: The host's hardware.
        cuda: Major version of the CUDA that torch is built for; None on CPUs.
    """
    wanted = profile.environment.flash_attn
    capabilities = tuple(sorted({gpu.compute_capability for gpu in hardware.gpus if gpu.compute_capability}))
    if not hardware.gpus or not profile.gpus.count:
        return FlashAttention("none", "there are no GPUs")
    if wanted == "none":
        return FlashAttention("none", "the profile's environment.flash_attn is none")
    if wanted == "auto" and profile.train.attention not in {"auto", "flash_attention_2"}:
        return FlashAttention("none", f"the profile's attention is {profile.train.attention}")
    old = [text for text in capabilities if _number(text) < _OLDEST_CAPABILITY]
    if old:
        return FlashAttention("none", f"flash-attn needs compute capability 8.0, and the GPUs have {old[0]}")
    if wanted == "build":
        return FlashAttention(
            "build", f"flash-attn {BUILT_VERSION} is built on the host", version=BUILT_VERSION,
            capabilities=capabilities, required=True,
        )  # fmt: skip
    torch = profile.environment.torch
    if cuda is None:
        return FlashAttention(
            "none", f"it is unknown which CUDA torch {torch} was built for", required=wanted == "wheel"
        )
    found, why = find_wheel(torch, cuda, hardware.glibc, hardware.machine, RELEASES)
    if found is None:
        return FlashAttention("none", why, required=wanted == "wheel")
    base = profile.environment.flash_attn_url or RELEASES_URL
    name = wheel_name(found.version, torch, cuda, hardware.machine)
    return FlashAttention(
        "wheel", why, url=f"{base.rstrip('/')}/v{found.version}/{name}", version=found.version,
        capabilities=capabilities, required=wanted == "wheel",
    )  # fmt: skip


def find_wheel(
    torch: str, cuda: int, glibc: str | None, machine: str, releases: Sequence[Release]
) -> tuple[Release | None, str]:
    """Find the newest release with a wheel that fits, or the reason why there is none."""
    short = _short(torch)
    if machine != "x86_64":
        return None, f"flash-attn has no wheels for {machine}"
    for_torch = [release for release in releases if short in release.torch]
    if not for_torch:
        versions = sorted({version for release in releases for version in release.torch}, key=_parts)
        return None, f"flash-attn has no wheel for torch {short}: its releases know {versions[0]} to {versions[-1]}"
    for_cuda = [release for release in for_torch if cuda in release.cuda]
    if not for_cuda:
        majors = sorted({major for release in for_torch for major in release.cuda})
        known = ", ".join(map(str, majors))
        return None, f"flash-attn has wheels for torch {short} with CUDA {known}, and this one is for {cuda}"
    if glibc is None:
        return None, "flash-attn's wheels need glibc, and this host has another C library"
    fitting = [release for release in for_cuda if _parts(glibc) >= list(release.glibc)]
    if not fitting:
        needed = ".".join(map(str, min(release.glibc for release in for_cuda)))
        return None, f"flash-attn's wheels for torch {short} need glibc {needed}, and this host has {glibc}"
    return fitting[0], f"flash-attn {fitting[0].version} for torch {short} and CUDA {cuda}"


def wheel_name(version: str, torch: str, cuda: int, machine: str) -> str:
    """Return a wheel's file name. Torch uses the new C++ ABI since 2.7, and in its build for CUDA 12.6 since 2.6."""
    is_new = _parts(_short(torch)) >= [2, 7] or (_short(torch) == "2.6" and torch.endswith("+cu126"))
    abi = "TRUE" if is_new else "FALSE"
    return f"flash_attn-{version}+cu{cuda}torch{_short(torch)}cxx11abi{abi}-{{python}}-{{python}}-linux_{machine}.whl"


def _short(version: str) -> str:
    return ".".join(version.partition("+")[0].split(".")[:2])


def _parts(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return _OLDEST_CAPABILITY  # the driver does not report it: the payload finds out
