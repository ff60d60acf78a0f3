"""Put an experiment's own requirements on top of what its profile pins and its task needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from armada.provision.environment_key import Packages, profile_packages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from armada.config.profiles import Profile
    from armada.config.requirements import Requirement
    from armada.protocol.facts import Hardware

Needs = Literal["payload", "launcher", "nothing"]
"""What a task needs of its environment: all that the profile pins, torch and accelerate alone, or nothing."""

_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;]+)")
_LAUNCHER = "accelerate"


@dataclass(frozen=True, slots=True)
class _Pin:
    """A version that the profile pins, and where it says so."""

    text: str
    version: str
    where: str


def own_packages(profile: Profile, hardware: Hardware, lines: tuple[Requirement, ...], needs: Needs) -> Packages:
    """List the packages of an environment that an experiment describes.

    The profile's torch holds for all of them, because it decides which CUDA the host gets.

    Args:
        profile: Whose torch, and whose pins.
        hardware: Of the machine that it is for.
        lines: The experiment's own.
        needs: What its task needs.

    Raises:
        ConfigError: A line of the experiment and one of the profile exclude each other; it names both places.
    """
    base = profile_packages(profile, hardware)
    pins = dict(_pins(profile))
    held = pins if needs == "payload" else {"torch": pins["torch"]}
    for line in lines:
        if line.name in held:
            _refuse_contradiction(line, held[line.name], profile, needs)
    asked = [line.text for line in lines if not line.is_constraint]
    needed = {
        "payload": base.requirements.splitlines(),
        "launcher": [pins["torch"].text, *_launcher(pins, lines)],
        "nothing": [],
    }[needs]
    held_to = [pins["torch"].text, *(line.text for line in lines if line.is_constraint)]
    return Packages(
        requirements=_text([*needed, *asked]),
        constraints=_text(held_to),
        optional=base.optional if needs == "payload" else None,
        flash_attn=base.flash_attn if needs == "payload" else None,
        is_own=True,
    )


def pinned_versions(profile: Profile) -> dict[str, str]:
    """Return the version of each package that a profile pins, by the package's normalized name."""
    return {name: pin.version for name, pin in _pins(profile)}


def _launcher(pins: dict[str, _Pin], lines: tuple[Requirement, ...]) -> list[str]:
    """What starts a script; the version that the experiment names counts."""
    if any(line.name == _LAUNCHER and not line.is_constraint for line in lines):
        return []
    return [pins[_LAUNCHER].text if _LAUNCHER in pins else _LAUNCHER]


def _pins(profile: Profile) -> Iterator[tuple[str, _Pin]]:
    """Yield the versions that a profile pins, by the package's normalized name."""
    environment, places = profile.environment, profile.places
    for file in profile.requirement_files:
        for number, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            yield from _pin(text, f"{file}:{number}")
    for index, text in enumerate(environment.packages):
        yield from _pin(text, places.get(f"environment.packages[{index}]", profile.name))
    torch = f"torch=={environment.torch}"
    yield "torch", _Pin(torch, environment.torch, places.get("environment.torch", profile.name))


def _pin(text: str, where: str) -> Iterator[tuple[str, _Pin]]:
    found = _PINNED.match(text)
    if found:
        yield re.sub(r"[-_.]+", "-", found[1]).lower(), _Pin(text.partition(" #")[0].strip(), found[2], where)


def _refuse_contradiction(line: Requirement, pin: _Pin, profile: Profile, needs: Needs) -> None:
    """Refuse a line that no environment with the profile's pin fulfils; what holds for some machines alone is left to uv."""
    parsed = line.parsed
    if parsed.marker is not None:
        return
    if parsed.url is None and parsed.specifier.contains(pin.version, prereleases=True):
        return
    hint = "take the version out, or use a profile of your own with another `environment.torch`"
    if needs == "payload" and line.name != "torch":
        hint = "`task: sft` keeps to the versions that its profile pins; `task: script` can take others"
    raise line.place.error(f"{line.text} contradicts {pin.text}, which profile {profile.name} pins ({pin.where})", hint)


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))
