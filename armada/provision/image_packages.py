"""What the bundled trainer needs of the Python in an image: which packages, and in which releases."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import ProvisionFailed
from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_RELEASE = re.compile(r"v?(?:\d{1,6}!)?(\d{1,9}(?:\.\d{1,9}){0,5})(?!\d)")
_FOR_CPUS = "+cpu"
_OLDEST_PYTHON = (3, 11)
"""An older one ignores PYTHONSAFEPATH: a project's own datasets.py would stand in for the library of that name."""


@dataclass(frozen=True, slots=True)
class ImageNeeds:
    """The packages of a training by the bundled trainer.

    A release fits if it is at least the tested one, counted to the second number, and has the same first number.

    Attributes:
        tested: Each package with the release that it is tested with; None where any release will do.
        one_of: Groups of packages of which one is enough.
        needs_gpus: Whether torch must be built for GPUs.
    """

    tested: Mapping[str, str | None]
    one_of: tuple[tuple[str, ...], ...] = ()
    needs_gpus: bool = False

    @property
    def asked(self) -> tuple[str, ...]:
        """The packages whose versions the host is asked for."""
        return tuple(dict.fromkeys([*self.tested, *(name for group in self.one_of for name in group)]))

    def check(self, image: str, python: str, found: Mapping[str, str | None], host: str) -> list[str]:
        """Compare an image with what is needed.

        Args:
            image: Its name, for the error.
            python: The version of its Python.
            found: The version of each package that was asked for; None where it is missing.
            host: The name of the host.

        Returns:
            A sentence for each release that is newer than the tested one.

        Raises:
            ProvisionFailed: A package is missing or has a release that does not fit.
        """
        if release(python) < _OLDEST_PYTHON:
            oldest = ".".join(map(str, _OLDEST_PYTHON))
            raise ProvisionFailed(
                f"the image {image} has Python {sanitize_line(python, 20)}; the bundled trainer needs {oldest} or newer",
                hint=f"name an image with Python {oldest} or newer, or run your own trainer by `task: script`",
                host=host,
            )
        missing = [name for name in self.tested if found.get(name) is None]
        wrong = list(self._wrong(found))
        if missing or wrong:
            needed = [*(_requirement(name, self.tested[name]) for name in missing), *(line for _, line in wrong)]
            lines = " ".join(f'"{line}"' for line in needed)
            sentences = [*([f"it has no {_listed(missing)}"] if missing else []), *(said for said, _ in wrong)]
            raise ProvisionFailed(
                f"the image {image} does not suit the bundled trainer: " + "; ".join(sentences),
                hint=f"build an image from it with `RUN python3 -m pip install {lines}` and name that one; "
                "`podman save` and `podman load` (or docker's) take it to a host without internet",
                host=host,
            )
        return [
            f"{name} {sanitize_line(found.get(name), 40)} in the image is newer than {tested}, which the trainer is tested with"
            for name, tested in self.tested.items()
            if tested is not None and release(found.get(name))[:2] > release(tested)[:2]
        ]

    def _wrong(self, found: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with packages that are there, or with a group, and the requirement that would be right."""
        for name, tested in self.tested.items():
            there = found.get(name)
            shown = sanitize_line(there or "", 40)
            if there is None:
                continue
            if not release(there):
                yield f"the version of its {name} cannot be read ({shown})", _requirement(name, tested)
            elif tested is not None and release(there)[:2] < release(tested)[:2]:
                yield f"{name} {shown} is too old ({_span(tested)})", _requirement(name, tested)
            elif tested is not None and release(there)[0] > release(tested)[0]:
                yield f"{name} {shown} is too new ({_span(tested)})", _requirement(name, tested)
            elif name == "torch" and self.needs_gpus and there.endswith(_FOR_CPUS):
                yield f"torch {shown} is built for CPUs alone, and this run has GPUs", _requirement(name, tested)
        for group in self.one_of:
            if all(found.get(name) is None for name in group):
                yield f"it has neither {' nor '.join(group)}", group[0]


def release(version: str | None) -> tuple[int, ...]:
    """Return the numbers of a version, without what follows them: 2.13.0a0+nv26.10 is (2, 13, 0). Empty if it has none."""
    found = _RELEASE.match(version or "")
    return tuple(map(int, found[1].split("."))) if found else ()


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _bounds(tested: str) -> tuple[str, int]:
    numbers = release(tested)
    return ".".join(map(str, numbers[:2])), numbers[0] + 1


def _span(tested: str) -> str:
    oldest, limit = _bounds(tested)
    return f"{oldest} or newer, below {limit}"


def _requirement(name: str, tested: str | None) -> str:
    if tested is None:
        return name
    oldest, limit = _bounds(tested)
    return f"{name}>={oldest},<{limit}"
