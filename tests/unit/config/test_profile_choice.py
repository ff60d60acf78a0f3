"""Which profile a host gets by what it says of its GPUs, true or not."""

from __future__ import annotations

import re
from itertools import product

import pytest

from armada.config.documents import parse_document
from armada.config.gpu_models import MODELS, find_model
from armada.config.profile_choice import bundled_match, choose_profile
from armada.config.profiles import DERIVED, Profile, list_profiles, load_profile
from armada.errors import ConfigError, NotFound
from armada.launch.estimates.memory import MemoryEstimate, TrainingShape, estimate_memory
from armada.launch.estimates.shape import ModelShape
from armada.paths import HomePaths, bundled
from armada.protocol.facts import GpuKind

GIB = 2**30
BUNDLED = sorted(file.stem for file in bundled("profiles").glob("[!_]*.yaml"))

SMI = {
    # What nvidia-smi prints: name, memory.total in MiB, compute_cap.
    "rtx3090": ("NVIDIA GeForce RTX 3090", 24576, "8.6"),
    "rtx4090": ("NVIDIA GeForce RTX 4090", 24564, "8.9"),
    "rtx5090": ("NVIDIA GeForce RTX 5090", 32607, "12.0"),
    "a6000": ("NVIDIA RTX A6000", 46068, "8.6"),
    "l40s": ("NVIDIA L40S", 46068, "8.9"),
    "t4": ("Tesla T4", 15360, "7.5"),
    "a100-40gb": ("NVIDIA A100-PCIE-40GB", 40536, "8.0"),
    "a100-80gb": ("NVIDIA A100 80GB PCIe", 81920, "8.0"),
    "h100": ("NVIDIA H100 80GB HBM3", 81559, "9.0"),
    "h100-pcie": ("NVIDIA H100 PCIe", 81559, "9.0"),
    "h200": ("NVIDIA H200", 143771, "9.0"),
}


def write(home: HomePaths, name: str, text: str) -> None:
    home.profiles.mkdir(exist_ok=True)
    (home.profiles / f"{name}.yaml").write_text(text)


def kind(name: str, gib: float | None = 24, capability: str | None = "8.6", *slices: str) -> GpuKind:
    return GpuKind(name, capability, None if gib is None else gib * GIB, slices)


def chosen(home: HomePaths, *gpus: GpuKind) -> Profile:
    return choose_profile(gpus, home).profile


def by_name(home: HomePaths, *names: str) -> str:
    return chosen(home, *map(GpuKind, names)).name


@pytest.mark.parametrize(
    ("names", "profile"),
    [
        ((), "cpu"),
        (("NVIDIA GeForce RTX 3090",) * 2, "rtx3090-2x"),
        (("NVIDIA RTX A6000",) * 8, "a6000-8x"),
        (("NVIDIA A100-SXM4-80GB",) * 8, "a100-80gb-8x"),
        (("NVIDIA A100 80GB PCIe",) * 8, "a100-80gb-8x"),
        (("NVIDIA RTX A6000",) * 4, "a6000"),
    ],
)
def test_a_profile_is_chosen_by_the_gpus(home: HomePaths, names: tuple[str, ...], profile: str) -> None:
    assert by_name(home, *names) == profile


@pytest.mark.parametrize(("name", "count"), [*product(SMI, (1, 3, 4)), ("h200", 8), ("l40s", 8), ("t4", 8)])
def test_one_profile_serves_one_to_eight_of_a_gpu(home: HomePaths, name: str, count: int) -> None:
    model, mib, capability = SMI[name]
    profile = chosen(home, *[GpuKind(model, capability, mib * 2**20)] * count)
    assert profile.name == name
    assert profile.derived is None
    assert profile.gpus.compute_capability == float(capability)


def test_every_bundled_profile_of_gpus_is_in_the_table_above() -> None:
    assert set(SMI) | {"cpu", "rtx3090-2x", "a6000-8x", "a100-80gb-8x"} == set(BUNDLED)


def test_the_quick_answer_about_bundled_profiles_is_the_file_s(home: HomePaths) -> None:
    assert {name: bundled_match(name) for name in BUNDLED} == {name: load_profile(name, home).match for name in BUNDLED}


SEVENS = (
    ModelShape("llama", 32, 4096, 32, 32, 128, 11008, 11008, 32000, tied=False),  # Llama 2 7B
    ModelShape("mistral", 32, 4096, 32, 8, 128, 14336, 14336, 32768, tied=False),  # Mistral 7B v0.3
    ModelShape("qwen2", 28, 3584, 28, 4, 128, 18944, 18944, 152064, tied=False, attention_bias=True),  # Qwen 2.5 7B
)
THREE = ModelShape("qwen2", 36, 2048, 16, 2, 128, 11008, 11008, 151936, tied=True, attention_bias=True)  # Qwen 2.5 3B


def lora(shape: ModelShape, profile: Profile, micro_batch: int) -> MemoryEstimate:
    training = TrainingShape(
        "lora", micro_batch, 2048,
        precision=profile.train.precision, activation_checkpointing=profile.train.activation_checkpointing,
        accumulates=True, processes=8,
    )  # fmt: skip
    return estimate_memory(shape, training)


@pytest.mark.parametrize("name", [name for name in BUNDLED if name != "cpu"])
def test_the_micro_batch_fits_by_the_estimate_for_lora_on_7b_at_2048(home: HomePaths, name: str) -> None:
    profile = load_profile(name, home)
    assert profile.gpus.memory_gb is not None
    there = profile.gpus.memory_gb * GIB * 0.92  # less what ECC and the driver take
    shapes = SEVENS if name != "t4" else (THREE,)
    for shape in shapes:
        assert lora(shape, profile, profile.train.micro_batch_size).high_bytes <= there
    if name == "t4":  # as its file says
        assert all(lora(shape, profile, 1).total_bytes > there for shape in SEVENS)


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        (kind("NVIDIA GeForce RTX 4090 Laptop GPU", 16), "Laptop"),
        (kind("NVIDIA GeForce RTX 4090 D"), "4090 D"),
        (kind("NVIDIA H200 NVL", 140), "NVL"),
        (kind("NVIDIA GeForce RTX 4090", 12), "it is for GPUs with 24 GB, and this NVIDIA GeForce RTX 4090 has 12"),
    ],
)
def test_a_variant_is_another_gpu(home: HomePaths, gpu: GpuKind, why: str) -> None:
    choice = choose_profile([gpu], home)
    assert choice.profile.name.startswith(DERIVED)
    assert any(why in other.why for other in choice.others)


def test_every_other_profile_has_its_reason(home: HomePaths) -> None:
    write(home, "unmatched", "extends: a6000\nmatch: []\n")
    others = {each.name: each.why for each in choose_profile([kind("NVIDIA RTX A6000", 48)] * 8, home).others}
    assert set(others) == {*BUNDLED, "unmatched"} - {"a6000-8x"}
    assert others["cpu"] == "it is for machines without GPUs"
    assert others["h200"] == "it is for NVIDIA H200, not NVIDIA RTX A6000"
    assert others["a6000"] == "it fits too, but a6000-8x comes first"
    assert "it has no `match`" in others["unmatched"]
    four = {each.name: each.why for each in choose_profile([kind("NVIDIA RTX A6000", 48)] * 4, home).others}
    assert four["a6000-8x"] == "it is for 8 of these GPUs, and there are 4"


def test_the_users_profile_wins_where_two_fit(home: HomePaths) -> None:
    write(home, "mine", "extends: a6000-8x\n")
    assert by_name(home, *["NVIDIA RTX A6000"] * 8) == "mine"
    write(home, "other", "extends: a6000-8x\n")
    with pytest.raises(NotFound, match="several profiles fit"):
        by_name(home, *["NVIDIA RTX A6000"] * 8)
    write(home, "any", "extends: a6000\n")
    assert by_name(home, *["NVIDIA RTX A6000"] * 3) == "any"  # the user's, which serves any number


def test_a_users_match_counts_as_written_whatever_the_memory(home: HomePaths) -> None:
    write(home, "modified", "extends: rtx4090\ngpus: {memory_gb: 48}\nmatch: [RTX 4090 D]\nunless: []\n")
    assert chosen(home, kind("NVIDIA GeForce RTX 4090 D", 24)).name == "modified"


def test_a_users_file_of_a_bundled_name_is_the_one_that_is_asked(home: HomePaths) -> None:
    write(home, "t4", "extends: t4\nmatch: [My GPU]\n")
    assert chosen(home, kind("My GPU")).name == "t4"
    write(home, "t4", "extends: t4\nmatsch: [My GPU]\n")
    with pytest.raises(ConfigError, match="unknown key"):
        chosen(home, kind("NVIDIA RTX A6000", 48))


def test_without_a_fitting_profile_one_is_derived(home: HomePaths) -> None:
    profile = chosen(home, *[kind("Tesla V100-SXM2-16GB", 16, "7.0")] * 2)
    assert profile.name == "derived:2x-tesla-v100-sxm2-16gb"
    assert (profile.gpus.count, profile.gpus.fewest, profile.gpus.memory_gb) == (2, 1, 16)
    assert (profile.gpus.peak_tflops, profile.gpus.compute_capability) == (125, 7.0)
    assert (profile.train.precision, profile.train.attention, profile.train.micro_batch_size) == ("fp16", "sdpa", 1)
    assert profile.environment.flash_attn == "none"
    assert profile.match == ("Tesla V100-SXM2-16GB",)
    assert profile.requirement_files
    assert profile.origin is None
    assert profile.places["train.precision"] == "the host's GPUs"
    assert profile.places["environment.torch"].startswith(str(bundled("profiles", "_gpu.yaml")))
    assert "CUDA 13" in profile.notes[0]
    ada = chosen(home, kind("NVIDIA RTX 4000 SFF Ada Generation", 20, "8.9"))
    assert (ada.train.precision, ada.train.attention, ada.gpus.peak_tflops) == ("bf16", "auto", None)
    assert ada.notes == ()


def test_what_is_derived_can_be_saved_and_then_fits(home: HomePaths) -> None:
    gpus = [kind("NVIDIA RTX 4000 SFF Ada Generation", 20, "8.9")] * 2
    derived = chosen(home, *gpus)
    assert derived.derived is not None
    write(home, "sff", derived.derived)
    saved = chosen(home, *gpus)
    assert saved.name == "sff"
    assert saved.model_dump(exclude={"name"}) == derived.model_dump(exclude={"name"})


def test_more_gpus_of_a_known_kind_get_its_profile_s_settings(home: HomePaths) -> None:
    profile = chosen(home, *[kind("NVIDIA A100-SXM4-40GB", 40, "8.0")] * 16)
    assert (profile.name, profile.extends) == ("derived:16x-nvidia-a100-sxm4-40gb".replace("nvidia-", ""), "a100-40gb")
    assert (profile.gpus.count, profile.gpus.fewest, profile.train.micro_batch_size) == (16, 16, 8)
    assert profile.notes == ("profile a100-40gb is for 1-8 of these GPUs, and its settings are used",)
    write(home, "two", "extends: a100-40gb\ngpus: {count: 2, least: null}\ntrain: {micro_batch_size: 4}\n")
    assert chosen(home, *[kind("NVIDIA A100-SXM4-40GB", 40, "8.0")] * 16).extends == "two"


def test_mixed_gpus_are_taken_for_the_smallest(home: HomePaths) -> None:
    a6000, turing = kind("NVIDIA RTX A6000", 48), kind("NVIDIA GeForce RTX 2080 Ti", 11, "7.5")
    profile = chosen(home, a6000, turing, a6000)
    assert profile.name == "derived:mixed-3x-geforce-rtx-2080-ti"
    assert (profile.gpus.count, profile.gpus.memory_gb, profile.train.precision) == (3, 11, "fp16")
    assert profile.gpus.compute_capability == 7.5
    (note,) = profile.notes
    assert "several kinds, NVIDIA GeForce RTX 2080 Ti and NVIDIA RTX A6000: all are taken for the smallest" in note
    # The larger memory with the older chip: the least of each counts.
    both = chosen(home, kind("NVIDIA GeForce RTX 4060", 8, "8.9"), kind("Quadro RTX 8000", 48, "7.5"))
    assert (both.gpus.memory_gb, both.train.precision, both.gpus.peak_tflops) == (8, "fp16", None)


def test_a_slice_of_a_gpu_is_not_the_gpu(home: HomePaths) -> None:
    divided = kind("NVIDIA A100-SXM4-80GB", 80, "8.0", "MIG 3g.40gb", "MIG 1g.10gb")
    profile = chosen(home, divided, divided)
    assert profile.name == "derived:1x-a100-sxm4-80gb-mig-1g-10gb"
    assert (profile.gpus.count, profile.gpus.memory_gb, profile.gpus.peak_tflops) == (1, 10, None)
    assert "divided into MIG slices (MIG 1g.10gb, MIG 3g.40gb)" in profile.notes[0]
    odd = chosen(home, kind("NVIDIA A100-SXM4-80GB", 80, "8.0", "MIG \x1b[31m", "MIG 9g.99999999gb"))
    assert odd.gpus.memory_gb is None
    assert "\x1b" not in "".join([odd.name, odd.derived or "", *odd.notes])


@pytest.mark.parametrize("size", [None, 0, 1, -5e9, float("nan"), float("inf"), 1e30, 2**53])
def test_memory_that_cannot_be_is_not_known(home: HomePaths, size: float | None) -> None:
    profile = chosen(home, GpuKind("NVIDIA GB10", "12.1", size))
    assert profile.gpus.memory_gb is None
    assert "does not say how much memory NVIDIA GB10 has" in profile.notes[0]
    assert "memory_gb is needed" in (profile.derived or "")


@pytest.mark.parametrize("capability", [None, "", "8", "eight", "nan", "1e9", "-8.0", "0.0", "٨.٠", "8.0\n", "999.9"])
def test_a_capability_that_is_not_known_means_fp16(home: HomePaths, capability: str | None) -> None:
    profile = chosen(home, kind("Some GPU", 24, capability))
    assert (profile.gpus.compute_capability, profile.train.precision) == (None, "fp16")
    assert "compute capability" in profile.notes[0]


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "x" * 5000,
        "a\nextends: cpu\ngpus: {count: 0}",
        '", match: [RTX',
        "*anchor",
        "!!python/object:os.system",
        "\x1b[31mred\x1b[0m\x00\x85\u2028",
        "[bold]GPU[/bold]",
        "../../etc/passwd",
        "数\U0001f600",
        "# comment",
    ],
)
def test_a_hostile_name_stays_a_name(home: HomePaths, name: str) -> None:
    profile = chosen(home, kind(name))
    assert re.fullmatch(r"derived:1x-[a-z0-9-]{1,40}", profile.name)
    assert profile.extends == "_gpu"
    assert profile.gpus.count == 1
    assert (profile.derived or "").isascii()
    assert "\x1b" not in (profile.gpus.model or "")
    data = parse_document(profile.derived or "", home.profiles / "x.yaml").data
    assert set(data) == {"description", "extends", "gpus", "match", "train"}


def test_a_thousand_gpus_are_a_number(home: HomePaths) -> None:
    assert chosen(home, *[kind(f"GPU {number}") for number in range(1000)]).gpus.count == 1000


def test_no_file_is_looked_for_by_the_name_of_a_derived_profile(home: HomePaths) -> None:
    with pytest.raises(NotFound) as refused:
        load_profile("derived:1x-some-gpu", home)
    assert "armada profiles detect" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L40S", None),
        ("NVIDIA A100-SXM-64GB", "A100"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA GeForce RTX 2080 Ti", "RTX 2080 Ti"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA RTX A4000", None),
    ],
)
def test_a_gpu_is_known_by_whole_words(name: str, part: str | None) -> None:
    found = find_model(name)
    assert (found.part if found else None) == part


def test_every_known_gpu_has_a_source() -> None:
    assert all(model.source and model.peak_tflops < 3000 for model in MODELS)
    assert len({model.part for model in MODELS}) == len(MODELS)


def test_the_profiles_are_listed_once(home: HomePaths) -> None:
    assert list_profiles(home) == BUNDLED
