"""The environments of the bundled GPU profiles, resolved for the machines they are for, without installing anything.

By uv, and by this machine's own pip configuration, as on a host. What its package index lacks is a skip with the reason.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from armada_agent.provision.environment import compose_environment

from armada.config.profiles import list_profiles, load_profile
from armada.paths import HomePaths
from armada.provision.environment_key import requirements_text

NOWHERE = HomePaths(Path("/nowhere"), Path("/nowhere"))
GPU_PROFILES = {
    requirements_text(profile): name
    for name in (*list_profiles(NOWHERE), "a100-80gb-8x")
    if (profile := load_profile(name, NOWHERE)).gpus.count
}
"""One for each list of requirements: uv asks for 20 s."""
UV = Path(sys.executable).with_name("uv")


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """With uv's cache in it, which all test processes share."""
    own = tmp_path_factory.getbasetemp()
    shared = (own if worker_id == "master" else own.parent) / "resolve"
    shared.mkdir(exist_ok=True)
    return shared


def resolve(folder: Path, requirements: str, python: str, *, lacking: str = r"(?!)") -> dict[str, str]:
    """Resolve for Linux on x86_64 with glibc 2.28: name and version of everything that would be installed.

    Args:
        folder: To work in.
        requirements: A list.
        python: Its version.
        lacking: What this machine's index may lack, as a pattern of uv's words; anything else missing is a failure.
    """
    listed = Path(tempfile.mkdtemp(dir=folder)) / "requirements.in"
    listed.write_text(requirements)
    environment = compose_environment(str(folder), os.environ, sys.prefix)
    argv = [str(UV), "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python-version", python]
    done = subprocess.run(
        [*argv, "--python-platform", "x86_64-manylinux_2_28", str(listed)],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    if done.returncode:
        offline = r"[Ff]ailed to fetch|dns error|[Cc]onnection|timed out"
        if re.search(f"{offline}|{lacking}", done.stderr):
            pytest.skip(f"the package index here cannot answer: {' '.join(done.stderr.split())[:300]}")
        pytest.fail(done.stderr)
    pairs = (line.partition("==") for line in done.stdout.splitlines() if "==" in line)
    return {name: version.partition(" ")[0] for name, _, version in pairs}


@pytest.mark.parametrize("python", ["3.12", "3.13"])
@pytest.mark.parametrize("name", GPU_PROFILES.values())
@pytest.mark.takes_long("uv asks the package indexes for everything that a CUDA environment is made of")
def test_the_environment_of_a_gpu_profile_resolves_for_its_platform(name: str, python: str, folder: Path) -> None:
    text = requirements_text(load_profile(name, NOWHERE))
    found = resolve(folder, text, python)
    pinned = dict(re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;]+)", text, re.MULTILINE))
    assert {"torch", "wandb", "liger-kernel", "bitsandbytes", "trl", "peft", "accelerate"} <= set(pinned)
    assert {package: version for package, version in found.items() if package in pinned} == {
        package: version for package, version in pinned.items() if package in found
    }
    # Beyond the pins come only the CUDA libraries, whose versions torch itself pins.
    beyond = set(found) - set(pinned)
    assert {package for package in beyond if not package.startswith(("nvidia-", "cuda-", "triton"))} == set()
    if not beyond:
        pytest.skip("the package index here has torch for CPUs only")
    assert "nvidia-nccl-cu13" in beyond


@pytest.mark.takes_long("uv asks the package indexes")
def test_the_optional_kernels_fit_the_pinned_transformers(folder: Path) -> None:
    profile = load_profile("a100-80gb-8x", NOWHERE)
    (kernels,) = [line for line in profile.environment.optional if line.startswith("kernels==")]
    text = f"{requirements_text(profile)}{kernels}\n"
    pinned = next(line for line in text.splitlines() if line.startswith("transformers=="))
    text += pinned.replace("==", "[kernels]==")
    found = resolve(folder, text, "3.12", lacking="there is no version of kernels")
    assert found["kernels"] == kernels.partition("==")[2]


def test_every_gpu_profile_names_kernels_or_a_wheel() -> None:
    for name in list_profiles(NOWHERE):
        profile = load_profile(name, NOWHERE)
        if (profile.gpus.compute_capability or 0) < 8.0:  # the CPUs, and GPUs that have no flash attention
            continue
        environment = profile.environment
        assert any(line.startswith("kernels==") for line in environment.optional) or environment.flash_attn == "wheel"
