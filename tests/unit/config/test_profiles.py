from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from armada.config.profiles import list_profiles, load_profile, load_profile_file
from armada.errors import ConfigError, NotFound
from armada.paths import HomePaths, bundled

BUNDLED = sorted(file.stem for file in bundled("profiles").glob("[!_]*.yaml"))


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


def test_the_profiles_of_the_first_release_are_as_they_were(home: HomePaths) -> None:
    """hosts.yaml files name them."""
    for name, count, micro in (("rtx3090-2x", 2, 2), ("a6000-8x", 8, 4), ("a100-80gb-8x", 8, 8)):
        profile = load_profile(name, home)
        assert (profile.gpus.count, profile.gpus.fewest, profile.train.micro_batch_size) == (count, count, micro)
        assert (profile.train.precision, profile.train.attention) == ("bf16", "auto")
        assert profile.train.activation_checkpointing
        # A user's own file of that release changed the number alone, and fits exactly that many.
        write(home, "mine", f"extends: {name}\ngpus: {{count: 4}}\n")
        assert (load_profile("mine", home).gpus.fewest, load_profile("mine", home).gpus.count) == (4, 4)


def test_every_figure_of_a_bundled_profile_has_its_source() -> None:
    figure = re.compile(r"^  (memory_gb|peak_tflops|bandwidth_gb_s|compute_capability|micro_batch_size): ")
    found = 0
    for file in bundled("profiles").glob("*.yaml"):
        lines = file.read_text().splitlines()
        for number, text in enumerate(lines):
            if figure.match(text):
                found += 1
                is_peak = "peak_tflops" in text
                above = not is_peak and lines[number - 1].lstrip().startswith("#")
                assert "#" in text or above, f"{file}:{number + 1}"
    assert found > 50


def test_peaks_are_dense_and_with_sums_of_32_bits(home: HomePaths) -> None:
    """What the data sheets and white papers say for BF16 (the T4 has FP16 alone) without sparsity."""
    peaks = {name: load_profile(name, home).gpus.peak_tflops for name in list_profiles(home)}
    assert {name: peak for name, peak in peaks.items() if peak is not None} == {
        "rtx3090": 71,
        "rtx3090-2x": 71,
        "rtx4090": 165.2,
        "rtx5090": 209.5,
        "t4": 65,
        "l40s": 362,
        "a6000": 154.8,
        "a6000-8x": 154.8,
        "a100-40gb": 312,
        "a100-80gb": 312,
        "a100-80gb-8x": 312,
        "h100": 989,
        "h100-pcie": 756,
        "h200": 989,
    }


def test_the_arithmetic_beside_a_figure_comes_out() -> None:
    text = "\n".join(file.read_text() for file in bundled("profiles").glob("*.yaml"))
    cores = r"peak_tflops: ([\d.]+) .*?(\d+) tensor cores × (\d+) FMA × 2 × ([\d.]+) GHz"
    peaks = [tuple(map(float, each)) for each in re.findall(cores, text)]
    assert len(peaks) == 9
    assert all(peak == pytest.approx(count * fma * 2 * ghz / 1000, rel=0.01) for peak, count, fma, ghz in peaks)
    wires = [tuple(map(float, each)) for each in re.findall(r"_gb_s: ([\d.]+) .*: (\d+) bits × ([\d.]+) Gb/s", text)]
    assert len(wires) == 5
    assert all(speed == bits * rate / 8 for speed, bits, rate in wires)


def test_what_others_extend_is_no_profile(home: HomePaths) -> None:
    assert "_gpu" not in list_profiles(home)
    with pytest.raises(NotFound):
        load_profile("_gpu", home)
    write(home, "_ours", "extends: cpu\nenv: {A: '1'}\n")
    write(home, "mine", "extends: _ours\n")
    assert load_profile("mine", home).env == {"A": "1"}
    assert "_ours" not in list_profiles(home)


def test_what_one_load_changes_the_next_does_not_see(home: HomePaths) -> None:
    write(home, "mine", "extends: a6000\ntrain: {micro_batch_size: 1}\n")
    assert load_profile("mine", home).train.micro_batch_size == 1
    assert load_profile("a6000", home).train.micro_batch_size == 8
    assert all("mine.yaml" not in place for place in load_profile("a6000", home).places.values())


def test_a_file_anywhere_is_loaded_as_if_it_were_one_of_the_users(home: HomePaths, tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.yaml"
    file.write_text("extends: cpu\ntrain: {micro_batch_size: 3}\n")
    profile = load_profile_file(file, home)
    assert (profile.name, profile.train.micro_batch_size, profile.origin) == ("elsewhere", 3, file)
    file.write_text("extends: cpu\n\ntrain: {micro_batch: 3}\n")
    with pytest.raises(ConfigError, match="unknown key") as refused:
        load_profile_file(file, home)
    assert (refused.value.path, refused.value.line) == (file, 3)


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
        ("extends: rtx3090\ngpus: {least: 9}\n", 2, "`gpus.least` must be at most `count`, which is 8", None),
        ("extends: a6000-8x\ngpus: {least: 0}\n", 2, "`gpus.least` must be at least 1", None),
        ("extends: t4\ntrain: {precision: bf16}\n", 2, "needs compute capability 8.0", "precision: fp16"),
        ("extends: t4\ntrain: {attention: flash_attention_2}\n", 2, "needs compute capability 8.0", "attention: sdpa"),
        ("extends: t4\ngpus: {compute_capability: 0}\n", 2, "at least 1", None),
        ("extends: t4\ngpus: {compute_capability: .nan}\n", 2, "finite number", None),
        ("extends: cpu\nderived: x\n", 2, "unknown key `derived`", None),
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


def test_importing_the_package_imports_neither_pydantic_nor_yaml() -> None:
    code = "import armada.config, sys; sys.exit('pydantic' in sys.modules or 'ruamel.yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_package_offers_what_the_others_use() -> None:
    import armada.config

    assert armada.config.load_profile is load_profile
    assert armada.config.choose_profile([], HomePaths.from_environment()).profile.name == "cpu"
    with pytest.raises(AttributeError):
        _ = armada.config.nothing
