from __future__ import annotations

from pathlib import Path

import pytest
from armada_train.bench.health import measure_disk

from armada.config.profiles import Profile, load_profile
from armada.launch.bench.health import judge, verdict
from armada.paths import HomePaths


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return load_profile("a100-80gb", HomePaths(tmp_path / "config", tmp_path / "state"))


def test_a_machine_that_gives_what_it_should_is_healthy(profile: Profile) -> None:
    figures = judge({"flops": {0: 260e12, 1: 255e12}, "memory_bytes_per_s": {0: 1.8e12, 1: 1.79e12}}, profile)
    assert not any(each.is_slow for each in figures)
    assert "GPU 1: matrix products 255 TFLOP/s, 82% of the profile's 312 TFLOP/s" in [each.said for each in figures]
    assert verdict(figures) == "healthy: nothing is slower than it should be"


def test_a_slow_gpu_a_slow_sibling_and_a_slow_disk_are_named(profile: Profile) -> None:
    measured = {
        "flops": {0: 280e12, 1: 240e12},
        "memory_bytes_per_s": {0: 0.9e12},
        "disk_write_bytes_per_s": {0: 30e6},
    }
    figures = judge(measured, profile)
    slow = [each.said for each in figures if each.is_slow]
    assert [said.partition(" ")[0] for said in slow] == ["GPU", "GPU", "writing"]
    assert "at least 252 TFLOP/s" in slow[0], "nine tenths of the faster one"
    assert "47% of the profile's 1.9 TB/s: slower than it should be, at least 1.5 TB/s" in slow[1]
    assert verdict(figures) == "slower than it should be in 3 of 4 figures"


def test_without_a_reference_nothing_is_judged() -> None:
    figures = judge({"flops": {0: 1e12}, "cpu_flops": {0: 1e10}}, None)
    assert [each.is_slow for each in figures] == [False, False]
    assert "the profile does not say what it should be" in figures[0].said
    assert verdict(figures) == "not known: there is nothing to compare its figures with"
    assert judge({}, None) == []


def test_the_disk_is_measured_and_left_as_it_was(tmp_path: Path) -> None:
    found = measure_disk(tmp_path, 8 << 20)
    assert min(found.values()) > 0
    assert list(tmp_path.iterdir()) == []
