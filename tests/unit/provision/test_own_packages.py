"""An experiment's own requirements, on top of what its profile pins and its task needs."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from armada.config.documents import Place
from armada.config.profiles import Profile, load_profile
from armada.config.requirements import Requirement, read_line
from armada.errors import ConfigError
from armada.paths import HomePaths
from armada.protocol.facts import GpuKind, Hardware
from armada.provision.environment_key import environment_key, profile_packages, requirements_text
from armada.provision.own_packages import Needs, own_packages

if TYPE_CHECKING:
    from pathlib import Path

CPU = Hardware("x86_64")
GPU = Hardware("x86_64", gpus=(GpuKind("NVIDIA RTX A6000", "8.6"),))


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    made = HomePaths(tmp_path / "config", tmp_path / "state")
    made.make()
    return made


@pytest.fixture
def cpu(home: HomePaths) -> Profile:
    return load_profile("cpu", home)


def lines(*texts: str, limits: tuple[str, ...] = ()) -> tuple[Requirement, ...]:
    asked = [read_line(text, Place(None, number)) for number, text in enumerate(texts, 1)]
    return (*asked, *(read_line(text, Place(None, 99), is_constraint=True) for text in limits))


def listed(profile: Profile, needs: Needs, *texts: str) -> list[str]:
    return own_packages(profile, CPU, lines(*texts), needs).requirements.splitlines()


def test_a_command_gets_what_it_lists_and_torch_only_if_it_wants_it(cpu: Profile) -> None:
    packages = own_packages(cpu, CPU, lines("einops", "torch>=2"), "nothing")
    assert packages.requirements == "einops\ntorch>=2\n"
    assert packages.constraints == "torch==2.13.0\n"
    assert (packages.optional, packages.flash_attn) == (None, None)


def test_a_script_gets_torch_and_what_starts_it_beside_its_own(cpu: Profile) -> None:
    assert listed(cpu, "launcher", "transformers==4.44.0") == [
        "torch==2.13.0",
        "accelerate==1.15.0",
        "transformers==4.44.0",
    ]
    assert listed(cpu, "launcher", "Accelerate[testing]>=1") == ["torch==2.13.0", "Accelerate[testing]>=1"]


def test_a_training_keeps_all_that_its_profile_pins(home: HomePaths) -> None:
    profile = load_profile("a6000-8x", home)
    base, own = profile_packages(profile, GPU), own_packages(profile, GPU, lines("einops"), "payload")
    assert own.requirements == base.requirements + "einops\n"
    assert (own.optional, own.flash_attn) == (base.optional, base.flash_attn)


@pytest.mark.parametrize(
    "text",
    [
        "torch",
        "torch>=2.1",
        "torch==2.13.*",
        "torch~=2.13.0",
        "torch==2.4; sys_platform == 'win32'",
        "torchvision==0.20",
    ],
)
def test_what_the_profiles_torch_fulfils_is_taken(cpu: Profile, text: str) -> None:
    assert listed(cpu, "nothing", text)


@pytest.mark.parametrize("text", ["torch==2.4.0", "torch<2.13", "Torch!=2.13.0", "torch @ https://x.org/torch.whl"])
@pytest.mark.parametrize("needs", ["nothing", "launcher", "payload"])
def test_a_line_that_contradicts_the_profiles_torch_is_refused_with_both_places(
    cpu: Profile, text: str, needs: Needs
) -> None:
    line = read_line(text, Place(cpu.origin, 7))
    with pytest.raises(ConfigError, match=r"contradicts torch==2\.13\.0, which profile cpu pins") as caught:
        own_packages(cpu, CPU, (line,), needs)
    assert caught.value.line == 7
    assert f"({cpu.places['environment.torch']})" in caught.value.message
    assert "`environment.torch`" in (caught.value.hint or "")


def test_a_limit_that_contradicts_the_profiles_torch_is_refused_too(cpu: Profile) -> None:
    with pytest.raises(ConfigError, match="torch<2 contradicts"):
        own_packages(cpu, CPU, lines("einops", limits=("torch<2",)), "nothing")


def test_a_training_refuses_another_version_of_what_its_profile_pins(cpu: Profile) -> None:
    with pytest.raises(ConfigError, match=r"trl<1 contradicts trl==1.16.0, .*train.txt:\d+") as caught:
        own_packages(cpu, CPU, lines("trl<1"), "payload")
    assert "`task: script` can take others" in (caught.value.hint or "")
    assert listed(cpu, "launcher", "trl<1")


def test_a_profile_without_accelerate_gets_one_for_a_script(home: HomePaths) -> None:
    (home.profiles).mkdir(parents=True, exist_ok=True)
    (home.profiles / "bare.yaml").write_text("extends: cpu\nenvironment: {requirements: []}\n")
    assert listed(load_profile("bare", home), "launcher", "six") == ["torch==2.13.0", "accelerate", "six"]


def test_the_key_covers_what_is_asked_for_and_not_its_order(cpu: Profile) -> None:
    def key(needs: Needs, own: tuple[Requirement, ...]) -> str:
        return environment_key(cpu, CPU, own_packages(cpu, CPU, own, needs))

    known = {environment_key(cpu, CPU)}
    known |= {key(needs, lines("einops")) for needs in ("nothing", "launcher", "payload")}
    known |= {key("nothing", lines("einops==0.8")), key("nothing", lines("einops", limits=("six<2",)))}
    assert len(known) == 6
    assert key("nothing", lines("a", "b")) == key("nothing", lines("b", "a"))
    assert key("nothing", lines("a >= 1")) == key("nothing", lines("a>=1"))


@pytest.mark.parametrize("name", ["cpu", "a6000-8x"])
def test_the_keys_of_profiles_are_what_they_were(home: HomePaths, name: str) -> None:
    """Hosts have built environments under these names; the formula stands here a second time."""
    profile = load_profile(name, home)
    wanted = profile.environment
    made_of: dict[str, object] = {
        "requirements": sorted(requirements_text(profile).splitlines()),
        "python": wanted.python,
        "machine": "x86_64",
        "gpus": name != "cpu",
        "torch_index": wanted.torch_index,
    }
    if name != "cpu":
        made_of["optional"] = sorted(wanted.optional)
    digest = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:12]
    assert environment_key(profile, GPU) == f"{'cpu' if name == 'cpu' else 'cu130'}-{digest}"
