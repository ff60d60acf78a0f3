"""What a training by the bundled trainer needs of an image, from its settings and from what its profile pins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.launch.training.bundled_payload import payload_module
from armada.provision.image_packages import ImageNeeds, release
from armada.provision.own_packages import pinned_versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from armada.config.profiles import Profile

PYTHON = "python3"
"""The Python of an image, looked for on the image's own PATH."""

_ALWAYS = ("torch", "transformers", "trl", "accelerate", "datasets")
_FLASH = ("flash_attn", "kernels")


def training_needs(section: Mapping[str, object] | None, profile: Profile, *, gpus: int) -> ImageNeeds:
    """Return what a training needs of its image.

    Args:
        section: spec["training"], as JSON; None if only its data is prepared. Of settings that the payload refuses
            nothing more is asked: a check says so.
        profile: Names the tested releases.
        gpus: Of the run.
    """
    if section is None:
        return image_needs(profile)
    try:
        parsed = payload_module("specification.section").Section(section, "training")
        training = payload_module("specification.parser").parse_training(parsed)
        more = [str(name) for name in payload_module("training.libraries").needed_packages(training)]
    except payload_module("failure").PayloadFailure:
        more = []
    flash = (_FLASH,) if profile.train.attention == "flash_attention_2" else ()
    return image_needs(profile, more, one_of=flash, gpus=gpus)


def image_needs(
    profile: Profile, more: Iterable[str] = (), *, one_of: tuple[tuple[str, ...], ...] = (), gpus: int = 0
) -> ImageNeeds:
    """Return what the bundled trainer needs of an image, whatever it does there.

    Args:
        profile: Names the tested releases.
        more: Packages beyond the common ones.
        one_of: Groups of packages of which one is enough.
        gpus: Of the run.
    """
    pins = pinned_versions(profile)
    tested = {name: _readable(pins.get(name.replace("_", "-"))) for name in (*_ALWAYS, *more)}
    return ImageNeeds(tested, one_of, needs_gpus=gpus > 0)


def _readable(version: str | None) -> str | None:
    return version if release(version) else None
