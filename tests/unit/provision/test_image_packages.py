"""Which images suit the bundled trainer, by the versions that their Python tells."""

from __future__ import annotations

import pytest

from armada.errors import ProvisionFailed
from armada.provision.image_packages import ImageNeeds, release

TESTED = {"torch": "2.13.0", "trl": "1.16.0", "liger_kernel": None}
GOOD: dict[str, str | None] = {"torch": "2.13.0+cu130", "trl": "1.16.2", "liger_kernel": "0.1"}
NEEDS = ImageNeeds(TESTED)


def refusal(needs: ImageNeeds, found: dict[str, str | None], python: str = "3.12.1") -> ProvisionFailed:
    with pytest.raises(ProvisionFailed) as refused:
        needs.check("x:1", python, found, "desk")
    assert refused.value.host == "desk"
    return refused.value


def test_an_image_with_the_tested_releases_suits() -> None:
    assert NEEDS.check("x:1", "3.11.2", GOOD, "desk") == []
    assert NEEDS.check("x:1", "3.12.1", GOOD | {"torch": "2.13.0a0+nv26.10"}, "desk") == []


def test_a_newer_release_is_told_and_not_refused() -> None:
    (told,) = NEEDS.check("x:1", "3.12.1", GOOD | {"trl": "1.20.0"}, "desk")
    assert told == "trl 1.20.0 in the image is newer than 1.16.0, which the trainer is tested with"


@pytest.mark.parametrize(
    ("changes", "said", "line"),
    [
        ({"trl": None}, "it has no trl", '"trl>=1.16,<2"'),
        ({"torch": None, "trl": None}, "it has no torch and trl", '"torch>=2.13,<3" "trl>=1.16,<2"'),
        ({"torch": "2.4.0"}, "torch 2.4.0 is too old (2.13 or newer, below 3)", '"torch>=2.13,<3"'),
        ({"trl": "2.0.0"}, "trl 2.0.0 is too new (1.16 or newer, below 2)", '"trl>=1.16,<2"'),
        ({"trl": "nan"}, "the version of its trl cannot be read (nan)", '"trl>=1.16,<2"'),
        ({"liger_kernel": None}, "it has no liger_kernel", '"liger_kernel"'),
    ],
)
def test_what_does_not_fit_is_named_with_what_would(changes: dict[str, str | None], said: str, line: str) -> None:
    error = refusal(NEEDS, GOOD | changes)
    assert error.message == f"the image x:1 does not suit the bundled trainer: {said}"
    assert f"RUN python3 -m pip install {line}`" in (error.hint or "")


def test_a_torch_for_cpus_does_not_suit_a_run_with_gpus() -> None:
    found = GOOD | {"torch": "2.13.0+cpu"}
    assert NEEDS.check("x:1", "3.12.1", found, "desk") == []
    error = refusal(ImageNeeds(TESTED, needs_gpus=True), found)
    assert "torch 2.13.0+cpu is built for CPUs alone, and this run has GPUs" in error.message


def test_one_package_of_a_group_is_enough() -> None:
    needs = ImageNeeds(TESTED, one_of=(("flash_attn", "kernels"),))
    assert needs.asked == ("torch", "trl", "liger_kernel", "flash_attn", "kernels")
    assert needs.check("x:1", "3.12.1", GOOD | {"flash_attn": None, "kernels": "0.18"}, "desk") == []
    assert "it has neither flash_attn nor kernels" in refusal(needs, GOOD).message


@pytest.mark.parametrize("python", ["3.10.14", "2.7", "", "\x1b[2J"])
def test_a_python_that_finds_the_projects_modules_first_is_refused(python: str) -> None:
    error = refusal(NEEDS, GOOD, python)
    assert "the bundled trainer needs 3.11 or newer" in error.message
    assert "\x1b" not in error.message


def test_hostile_versions_are_no_versions() -> None:
    assert release("9" * 50) == ()
    assert release("1!2.3.4rc1") == (2, 3, 4)
    assert release(None) == release("abc") == ()
    error = refusal(NEEDS, GOOD | {"trl": "\x1b[31mred\n" * 50})
    assert "\x1b" not in error.message
    assert "\n" not in error.message
