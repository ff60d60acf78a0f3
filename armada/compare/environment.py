"""Compare the packages of two environments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from armada.records.launch_record import KeptEnvironment

_REQUIREMENT = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(.*)", re.DOTALL)
_LONGEST = 300
_MOST_LINES = 20_000

Source = Literal["installed", "requirements"]


@dataclass(frozen=True, slots=True)
class PackageChange:
    """A package that is not the same in both environments; None where it is missing."""

    name: str
    before: str | None
    after: str | None


def lists_of(one: KeptEnvironment, two: KeptEnvironment) -> tuple[Source, dict[str, str], dict[str, str]]:
    """Return which lists can be compared, and both: what is installed if that is known of both, else what was asked for."""
    if one.installed is not None and two.installed is not None:
        return "installed", packages_of(one.installed), packages_of(two.installed)
    return "requirements", packages_of(requirements_of(one)), packages_of(requirements_of(two))


def requirements_of(environment: KeptEnvironment) -> str:
    """Return everything that an environment was asked to have."""
    held = "".join(f"{line}\n" for line in (environment.constraints or "").splitlines())
    return f"{held}{environment.requirements}\n{environment.optional or ''}"


def packages_of(text: str) -> dict[str, str]:
    """Read a list of requirements: versions by normalized name (`typing-extensions`: `4.12`); other sources as written.

    Of a name with several lines, such as one for each version of Python, all count, in whatever order.
    """
    found: dict[str, dict[str, None]] = {}
    for line in text.splitlines()[:_MOST_LINES]:
        plain = line.partition(" #")[0].strip()
        match = _REQUIREMENT.fullmatch(plain)
        if match is None or plain.startswith("#"):
            continue
        name = re.sub(r"[-_.]+", "-", match[1]).lower()
        version = match[2].strip().removeprefix("==").strip()
        versions = found.setdefault(sanitize_line(name, 100), {})
        if version:
            versions[version] = None
    return {name: ", ".join(sorted(versions)) or "any version" for name, versions in found.items()}


def compare_packages(before: dict[str, str], after: dict[str, str]) -> list[PackageChange]:
    """List the packages that were added, removed or changed, by name."""
    names = sorted(before.keys() | after.keys())
    changed = [(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)]
    return [PackageChange(name, _as_shown(one), _as_shown(two)) for name, one, two in changed]


def _as_shown(version: str | None) -> str | None:
    return None if version is None else sanitize_line(version, _LONGEST)
