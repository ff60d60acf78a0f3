from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from armada.config.profiles import Profile, load_profile
from armada.errors import ConfigError
from armada.paths import HomePaths
from armada.protocol.facts import GpuKind, Hardware
from armada.provision.environment_key import cuda_major, environment_key
from armada.provision.flash_attention import RELEASES, FlashAttention, choose_flash_attention, find_wheel, wheel_name

HOST = Hardware("x86_64", "2.39", (GpuKind("NVIDIA RTX A6000", "8.6"),) * 2)


@pytest.fixture
def home(tmp_path: Any) -> HomePaths:
    made = HomePaths(tmp_path / "config", tmp_path / "state")
    made.make()
    made.profiles.mkdir(parents=True)
    return made


def profile(home: HomePaths, environment: str = "{}", base: str = "a6000-8x", train: str = "{}") -> Profile:
    (home.profiles / "mine.yaml").write_text(f"extends: {base}\nenvironment: {environment}\ntrain: {train}\n")
    return load_profile("mine", home)


def choose(chosen: Profile, **changes: Any) -> FlashAttention:
    host = dataclasses.replace(HOST, **changes)
    return choose_flash_attention(chosen, host, cuda_major(chosen, host))


# Names of files that the releases really have.
@pytest.mark.parametrize(
    ("version", "torch", "cuda", "name"),
    [
        ("2.8.3", "2.8.0", 12, "flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-{0}-{0}-linux_x86_64.whl"),
        ("2.7.4.post1", "2.6.0+cu124", 12, "flash_attn-2.7.4.post1+cu12torch2.6cxx11abiFALSE-{0}-{0}-linux_x86_64.whl"),
        ("2.8.3", "2.7.1+cu128", 12, "flash_attn-2.8.3+cu12torch2.7cxx11abiTRUE-{0}-{0}-linux_x86_64.whl"),
        ("2.8.3", "2.6.0+cu126", 12, "flash_attn-2.8.3+cu12torch2.6cxx11abiTRUE-{0}-{0}-linux_x86_64.whl"),
    ],
)
def test_wheels_are_named_as_the_releases_name_them(version: str, torch: str, cuda: int, name: str) -> None:
    assert wheel_name(version, torch, cuda, "x86_64") == name.format("{python}")


@pytest.mark.parametrize(
    ("torch", "cuda", "glibc", "machine", "found", "why"),
    [
        ("2.8.0+cu128", 12, "2.39", "x86_64", "2.8.3", "flash-attn 2.8.3 for torch 2.8 and CUDA 12"),
        ("2.5.1+cu124", 12, "2.31", "x86_64", "2.7.4.post1", "flash-attn 2.7.4.post1 for torch 2.5"),
        ("2.13.0", 13, "2.39", "x86_64", None, "no wheel for torch 2.13: its releases know 2.2 to 2.8"),
        ("2.8.0+cu130", 13, "2.39", "x86_64", None, "wheels for torch 2.8 with CUDA 12, and this one is for 13"),
        ("2.8.0+cu128", 12, "2.31", "x86_64", None, "need glibc 2.35, and this host has 2.31"),
        ("2.8.0+cu128", 12, "2.9", "x86_64", None, "need glibc 2.35, and this host has 2.9"),
        ("2.8.0+cu128", 12, None, "x86_64", None, "another C library"),
        ("2.8.0+cu128", 12, "2.39", "aarch64", None, "no wheels for aarch64"),
    ],
)
def test_a_wheel_must_fit_torch_cuda_glibc_and_machine(
    torch: str, cuda: int, glibc: str | None, machine: str, found: str | None, why: str
) -> None:
    release, sentence = find_wheel(torch, cuda, glibc, machine, RELEASES)
    assert (release.version if release else None) == found
    assert why in sentence


def test_the_bundled_profiles_get_none_and_are_told_why(home: HomePaths) -> None:
    chosen = choose(load_profile("a6000-8x", home))
    assert (chosen.mode, chosen.required, chosen.request) == ("none", False, None)
    assert "torch 2.13" in chosen.why


def test_a_wheel_that_fits_is_added_under_a_key_of_its_own(home: HomePaths) -> None:
    mine = profile(home, "{torch: 2.8.0+cu128}")
    chosen = choose(mine)
    assert (chosen.mode, chosen.required) == ("wheel", False)
    assert chosen.url == (
        "https://github.com/Dao-AILab/flash-attention/releases/download/v2.8.3/"
        "flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-{python}-{python}-linux_x86_64.whl"
    )
    without = profile(home, "{torch: 2.8.0+cu128, flash_attn: none}")
    assert choose(without).mode == "none"
    keys = {
        environment_key(mine, HOST),
        environment_key(without, HOST),
        environment_key(mine, dataclasses.replace(HOST, glibc="2.31")),
    }
    assert len(keys) == 2
    mirrored = profile(home, "{torch: 2.8.0+cu128, flash_attn_url: 'https://mirror.example/fa/'}")
    assert (choose(mirrored).url or "").startswith("https://mirror.example/fa/v2.8.3/flash_attn-2.8.3+cu12")


def test_building_happens_only_when_asked_and_for_the_gpus_there(home: HomePaths) -> None:
    chosen = choose(profile(home, "{flash_attn: build}"))
    assert (chosen.mode, chosen.required, chosen.capabilities) == ("build", True, ("8.6",))
    assert chosen.request is not None
    assert chosen.request.version == "2.8.3.post2"


@pytest.mark.parametrize(
    ("environment", "train", "changes", "why"),
    [
        ("{torch: 2.8.0+cu128}", "{attention: sdpa}", {}, "the profile's attention is sdpa"),
        ("{torch: 2.8.0+cu128}", "{}", {"gpus": ()}, "there are no GPUs"),
        ("{torch: 2.99.0}", "{}", {}, "it is unknown which CUDA torch 2.99.0 was built for"),
        (
            "{torch: 2.8.0+cu128}", "{}", {"gpus": (GpuKind("Tesla T4", "7.5"),)},
            "needs compute capability 8.0, and the GPUs have 7.5",
        ),
    ],
)  # fmt: skip
def test_where_it_would_be_of_no_use_there_is_none(
    home: HomePaths, environment: str, train: str, changes: dict[str, Any], why: str
) -> None:
    chosen = choose(profile(home, environment, train=train), **changes)
    assert chosen.mode == "none"
    assert why in chosen.why


def test_a_wheel_that_is_required_and_is_not_there_is_marked_so(home: HomePaths) -> None:
    chosen = choose(profile(home, "{flash_attn: wheel}"))
    assert (chosen.mode, chosen.required) == ("none", True)


@pytest.mark.parametrize("wrong", ["flash_attn: yes", "flash_attn_url: 'http://x/'", "optional: [kernels]"])
def test_what_a_profile_says_wrongly_is_refused(home: HomePaths, wrong: str) -> None:
    with pytest.raises(ConfigError):
        profile(home, "{" + wrong + "}")
