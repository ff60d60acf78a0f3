from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from armada.config.profiles import choose_profile, list_profiles, load_profile
from armada.errors import ConfigError, NotFound
from armada.paths import HomePaths, bundled

BUNDLED = sorted(file.stem for file in bundled("profiles").glob("*.yaml"))


def write(home: HomePaths, name: str, text: str) -> None:
    home.profiles.mkdir(exist_ok=True)
    (home.profiles / f"{name}.yaml").write_text(text)


def test_the_four_real_machines_are_bundled() -> None:
    assert {"cpu", "rtx3090-2x", "a6000-8x", "a100-80gb-8x"} <= set(BUNDLED)


@pytest.mark.parametrize("name", BUNDLED)
def test_every_bundled_profile_loads(home: HomePaths, name: str) -> None:
    profile = load_profile(name, home)
    assert profile.name == name
    assert profile.description
    assert bool(profile.match) == (profile.gpus.count > 0)
    assert profile.requirement_files


@pytest.mark.parametrize(
    "file", sorted(bundled("profiles", "requirements").glob("*.txt")), ids=lambda file: str(file.name)
)
def test_bundled_lists_are_pinned_and_leave_torch_to_the_profile(file: Any) -> None:
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert lines
    for line in lines:
        assert re.fullmatch(r"[a-z0-9-]+==[A-Za-z0-9.]+( ; .+)?", line), line
        assert not re.match(r"torch==|nvidia-|triton", line)
    assert not re.search(r"/(work|tmp|opt|home|root)/", file.read_text())


def test_the_users_profile_comes_before_the_bundled_one(home: HomePaths) -> None:
    write(home, "cpu", "extends: cpu\ndescription: mine\ntrain: {micro_batch_size: 1}\nenv: {A: 1}\n")
    profile = load_profile("cpu", home)
    assert (profile.description, profile.train.micro_batch_size, profile.train.precision) == ("mine", 1, "fp32")
    assert profile.env == {"A": "1"}
    assert profile.origin == home.profiles / "cpu.yaml"
    assert list_profiles(home) == BUNDLED


def test_a_profile_of_gpus_knows_what_an_mfu_is_a_share_of(home: HomePaths) -> None:
    for name in list_profiles(home):
        profile = load_profile(name, home)
        assert (profile.peak_flops is not None) == (profile.gpus.count > 0)
    write(home, "single", "extends: a100-80gb-8x\ntrain: {precision: fp32}\n")
    assert load_profile("single", home).peak_flops is None  # the figure is that of 16 bits
    write(home, "idle", "extends: a100-80gb-8x\ngpus: {peak_tflops: 0}\n")
    with pytest.raises(ConfigError, match=r"`gpus.peak_tflops` must be more than 0") as caught:
        load_profile("idle", home)
    assert caught.value.line == 2


def test_what_is_extended_merges_and_lists_replace(home: HomePaths) -> None:
    write(home, "base", "extends: a6000-8x\naccelerate: {fsdp_config: {a: 1, b: 1}}\n")
    write(home, "mine", "extends: base\nmatch: [RTX 6000 Ada]\naccelerate: {fsdp_config: {b: 2}}\n")
    profile = load_profile("mine", home)
    assert profile.match == ("RTX 6000 Ada",)
    assert profile.accelerate == {"fsdp_config": {"a": 1, "b": 2}}
    assert profile.train.micro_batch_size == 4
    assert profile.extends == "base"


def test_a_list_beside_the_users_profiles_is_found(home: HomePaths) -> None:
    write(home, "mine", "extends: cpu\nenvironment: {requirements: [mine.txt, train.txt], packages: [einops==0.8.0]}\n")
    (home.profiles / "requirements").mkdir()
    (home.profiles / "requirements" / "mine.txt").write_text("six==1.17.0\n")
    profile = load_profile("mine", home)
    assert profile.requirement_files == (
        home.profiles / "requirements" / "mine.txt",
        bundled("profiles", "requirements", "train.txt"),
    )


@pytest.mark.parametrize(
    ("text", "line", "words", "hint"),
    [
        ("extends: cpu\ntrian: {}\n", 2, "unknown key `trian`", "did you mean `train`?"),
        ("extends: cpu\ntrain: {micro_batch: 1}\n", 2, "unknown key", "did you mean `train.micro_batch_size`?"),
        ("extends: cpu\ntrain: {precision: bf61}\n", 2, "must be 'bf16', 'fp16' or 'fp32'", "did you mean bf16?"),
        (
            "extends: cpu\ntrain: {micro_batch_size: '2'}\n",
            2,
            "whole number",
            "leave the quotes out: micro_batch_size: 2",
        ),
        ("extends: cpu\nname: x\n", 2, "unknown key `name`", None),
        ("extends: cpu\nrequirement_files: []\n", 2, "unknown key `requirement_files`", None),
        ("extends: cqu\n", 1, "there is no profile 'cqu'", "did you mean cpu?"),
        ("extends: ../cpu\n", 1, "there is no profile", None),
        ("extends: cpu\ngpus: {count: 2}\n", 2, "needs `model` and `memory_gb`", None),
        ("extends: cpu\ngpus: {model: x, memory_gb: 1}\n", 2, "names a model", None),
        ("extends: cpu\nenvironment: {torch: '>=2'}\n", 2, "one version", None),
        ("extends: cpu\nenvironment: {torch: 2.13}\n", 2, "must be text, not 2.13", None),
        ("extends: cpu\nenvironment: {python: three}\n", 2, "versions of Python", None),
        ("extends: cpu\nenvironment: {packages: [einops]}\n", 2, "must be pinned", None),
        ("extends: cpu\nenvironment: {packages: ['-r /etc/passwd']}\n", 2, "must be pinned", None),
        ('extends: cpu\nenvironment: {packages: ["a==1\\n--index-url=http://x"]}\n', 2, "must be pinned", None),
        (
            "extends: cpu\nenvironment: {requirements: trian.txt}\n",
            2,
            "no list of requirements",
            "did you mean train.txt?",
        ),
        ("extends: cpu\nenvironment: {requirements: ../cpu.yaml}\n", 2, "must be the name of a file", None),
        (
            "extends: cpu\naccelerate: {num_procesess: 1}\n",
            2,
            "not a key of accelerate",
            "did you mean `accelerate.num_processes`?",
        ),
        ("extends: cpu\nenv: {CUDA_VISIBLE_DEVICES: '0'}\n", 2, "set by armada", None),
        ("gpus: {count: 0}\n", 1, "`train` is missing", None),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    home: HomePaths, text: str, line: int, words: str, hint: str | None
) -> None:
    write(home, "mine", text)
    with pytest.raises(ConfigError) as refused:
        load_profile("mine", home)
    assert words in refused.value.message
    assert (refused.value.path, refused.value.line) == (home.profiles / "mine.yaml", line)
    assert hint is None or refused.value.hint == hint


def test_an_error_in_the_extended_file_names_that_file(home: HomePaths) -> None:
    write(home, "base", "extends: cpu\n\ntrain: {micro_batch_size: 0}\n")
    write(home, "mine", "extends: base\ndescription: x\n")
    with pytest.raises(ConfigError, match="at least 1") as refused:
        load_profile("mine", home)
    assert (refused.value.path, refused.value.line) == (home.profiles / "base.yaml", 3)


def test_profiles_in_a_circle_are_refused(home: HomePaths) -> None:
    write(home, "a", "extends: b\n")
    write(home, "b", "extends: a\n")
    with pytest.raises(ConfigError, match="circle"):
        load_profile("a", home)


def test_a_profile_that_extends_only_itself_is_refused(home: HomePaths) -> None:
    write(home, "alone", "extends: alone\n")
    with pytest.raises(ConfigError, match="there is no profile"):
        load_profile("alone", home)


@pytest.mark.parametrize("name", ["cqu", "../cpu", "", "a\0b", "$(touch x)", "requirements/train"])
def test_an_unknown_profile_lists_the_known_ones(home: HomePaths, name: str) -> None:
    with pytest.raises(NotFound) as refused:
        load_profile(name, home)
    assert "cpu" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("names", "profile"),
    [
        ((), "cpu"),
        (("NVIDIA GeForce RTX 3090",) * 2, "rtx3090-2x"),
        (("NVIDIA RTX A6000",) * 8, "a6000-8x"),
        (("NVIDIA A100-SXM4-80GB",) * 8, "a100-80gb-8x"),
        (("NVIDIA A100 80GB PCIe",) * 8, "a100-80gb-8x"),
    ],
)
def test_a_profile_is_chosen_by_the_gpus(home: HomePaths, names: tuple[str, ...], profile: str) -> None:
    assert choose_profile(names, home) == profile


@pytest.mark.parametrize(
    "names",
    [
        ("NVIDIA A100-SXM4-40GB",) * 8,
        ("NVIDIA RTX 6000 Ada Generation",),
        ("NVIDIA RTX A6000", "NVIDIA GeForce RTX 3090"),
    ],
)
def test_without_a_fitting_profile_the_known_ones_are_listed(home: HomePaths, names: tuple[str, ...]) -> None:
    with pytest.raises(NotFound) as refused:
        choose_profile(names, home)
    assert all(name in (refused.value.hint or "") for name in BUNDLED)


def test_another_number_of_the_same_gpus_names_the_profile_to_say(home: HomePaths) -> None:
    with pytest.raises(NotFound, match="for the same GPU there is a6000-8x"):
        choose_profile(["NVIDIA RTX A6000"] * 4, home)


def test_the_users_profile_wins_where_two_fit(home: HomePaths) -> None:
    write(home, "mine", "extends: a6000-8x\n")
    assert choose_profile(["NVIDIA RTX A6000"] * 8, home) == "mine"
    write(home, "other", "extends: a6000-8x\n")
    with pytest.raises(NotFound, match="several profiles fit"):
        choose_profile(["NVIDIA RTX A6000"] * 8, home)


def test_importing_the_package_imports_neither_pydantic_nor_yaml() -> None:
    code = "import armada.config, sys; sys.exit('pydantic' in sys.modules or 'ruamel.yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_package_offers_what_the_others_use() -> None:
    import armada.config

    assert armada.config.load_profile is load_profile
    with pytest.raises(AttributeError):
        _ = armada.config.nothing
