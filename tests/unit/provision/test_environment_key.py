from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from armada.config.hosts import Host
from armada.config.profiles import Profile, load_profile
from armada.errors import ConfigError
from armada.paths import HomePaths
from armada.protocol.facts import GpuKind, Hardware
from armada.protocol.recorded import recorded_facts
from armada.provision.environment_key import environment_key, requirements_text
from armada.provision.state import CONDITIONS, environment_state
from tests.host_facts import facts

CPU = Hardware("x86_64")
GPU = Hardware("x86_64", gpus=(GpuKind("NVIDIA RTX A6000"),))


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    made = HomePaths(tmp_path / "config", tmp_path / "state")
    made.make()
    (made.profiles / "requirements").mkdir(parents=True)
    return made


def profile(home: HomePaths, environment: str = "{}", base: str = "cpu") -> Profile:
    (home.profiles / "mine.yaml").write_text(f"extends: {base}\nenvironment: {environment}\n")
    return load_profile("mine", home)


def test_the_list_is_torch_then_the_profiles_lists_then_its_packages(home: HomePaths) -> None:
    lines = requirements_text(profile(home, "{packages: [einops==0.8.0]}", base="a6000-8x")).splitlines()
    assert lines[0] == "torch==2.13.0"
    assert lines[-1] == "einops==0.8.0"
    assert {"trl==1.16.0", "wandb==0.31.0"} <= set(lines)
    assert not any("#" in line or not line for line in lines)


def test_the_cpu_profile_has_no_tracking(home: HomePaths) -> None:
    assert "wandb" not in requirements_text(load_profile("cpu", home))


def test_keys_say_what_they_are_for(home: HomePaths) -> None:
    assert re.fullmatch(r"cpu-[0-9a-f]{12}", environment_key(load_profile("cpu", home), CPU))
    assert re.fullmatch(r"cpu-[0-9a-f]{12}", environment_key(load_profile("cpu", home), GPU))
    assert re.fullmatch(r"cu130-[0-9a-f]{12}", environment_key(load_profile("a6000-8x", home), GPU))
    assert environment_key(profile(home, "{torch: 2.13.0+cu126}", "a6000-8x"), GPU).startswith("cu126-")
    assert environment_key(profile(home, "{torch: 9.9.9}", "a6000-8x"), GPU).startswith("cuda-")


def test_everything_that_matters_changes_the_key(home: HomePaths) -> None:
    (home.profiles / "requirements" / "mine.txt").write_text("six==1.17.0\n")
    environments = [
        "{}",
        "{torch: 2.12.0}",
        "{python: '>=3.12'}",
        "{packages: [einops==0.8.0]}",
        "{requirements: [train.txt, mine.txt]}",
    ]
    cases = (("cpu", CPU), ("a6000-8x", GPU))
    keys = [
        environment_key(profile(home, environment, base), hardware)
        for environment in environments
        for base, hardware in cases
    ]
    keys += [environment_key(load_profile("cpu", home), Hardware("aarch64"))]
    assert len(set(keys)) == len(environments) * 2 + 1


def test_a_gpu_changes_nothing_for_the_cpu_profile(home: HomePaths) -> None:
    cpu = load_profile("cpu", home)
    assert environment_key(cpu, CPU) == environment_key(cpu, GPU)


def test_what_does_not_matter_leaves_the_key(home: HomePaths) -> None:
    mine = home.profiles / "requirements" / "mine.txt"
    mine.write_text("six==1.17.0\nidna==3.20\n")
    before = environment_key(profile(home, "{requirements: mine.txt}"), CPU)
    mine.write_text("# a comment\nidna==3.20  # why\n\nsix==1.17.0\n")
    assert environment_key(profile(home, "{requirements: mine.txt}"), CPU) == before
    other = facts(hostname="other", glibc=None).hardware
    assert environment_key(profile(home, "{requirements: mine.txt}"), other) == before


@pytest.mark.parametrize("package", ["trl==1.15.0", "torch==2.12.0", "TRL==1.0", "typing_extensions==4.0.0"])
def test_two_pins_of_one_package_are_refused(home: HomePaths, package: str) -> None:
    with pytest.raises(ConfigError, match="pin the same package differently") as refused:
        requirements_text(profile(home, f"{{packages: ['{package}']}}"))
    assert refused.value.path == home.profiles / "mine.yaml"


def test_a_hosts_environment_is_found_among_those_it_says_it_has(home: HomePaths) -> None:
    host = Host(name="box", ssh="root@192.0.2.1", profile="cpu")
    key = environment_key(load_profile("cpu", home), CPU)
    for condition in CONDITIONS:
        found = environment_state(host, CPU, {key: condition}, home)
        assert (found.profile, found.key, found.condition) == ("cpu", key, condition)
    assert environment_state(host, CPU, {}, home).condition == "absent"
    assert environment_state(host, CPU, None, home).condition == "unknown"


@pytest.mark.parametrize("facts", [{}, {"gpus": 7}, {"gpus": [{}]}, {"gpus": [], "machine": [1], "environments": [2]}])
def test_facts_that_make_no_sense_say_nothing_about_the_environment(home: HomePaths, facts: dict[str, Any]) -> None:
    known = recorded_facts(facts)
    found = environment_state(Host(name="box", ssh="root@192.0.2.1"), known.hardware, known.environments, home)
    assert found.condition == "unknown"


def test_a_gpu_that_no_profile_is_for_gets_a_derived_one(home: HomePaths) -> None:
    hardware = Hardware("x86_64", gpus=(GpuKind("Voodoo 2"),))
    host = Host(name="box", ssh="root@192.0.2.1")
    found = environment_state(host, hardware, {}, home)
    assert (found.profile, found.condition, found.trouble) == ("derived:1x-voodoo-2", "absent", None)
    assert any("Voodoo 2" in note for note in found.notes)
    # Its environment is as good as that of any other profile, and is found again by its key.
    assert environment_state(host, hardware, {found.key or "": "ready"}, home).condition == "ready"


def test_profiles_of_one_kind_of_gpu_share_their_environment(home: HomePaths) -> None:
    keys = {environment_key(load_profile(name, home), GPU) for name in ("a6000-8x", "a6000", "h200", "rtx5090")}
    assert len(keys) == 1
