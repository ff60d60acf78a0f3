"""What tests of sweeps ask and await."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema

from armada.cli.shapes import SHAPES, schema_of
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.conftest import Armada


def check(printed: Any, shape: str) -> None:
    jsonschema.validate(printed, schema_of(SHAPES[shape]))


def marking(armada: Armada, then: str = "true", name: str = "grid", **more: Any) -> str:
    """An experiment whose cells note that they have started."""
    return armada.command("sh", "-c", f'echo "$X" >> {armada.folder}/starts; {then}', name=name, **more)


def starts(armada: Armada) -> list[str]:
    log = armada.folder / "starts"
    return log.read_text().split() if log.exists() else []


def cells(armada: Armada, sweep: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = armada.json("sweep", "show", sweep)["cells"]
    return found


def await_ends(armada: Armada, sweep: str) -> list[dict[str, Any]]:
    ends = ("succeeded", "failed", "cancelled")

    def ended() -> list[dict[str, Any]] | None:
        found = cells(armada, sweep)
        return found if all(cell["state"] in ends for cell in found) else None

    found = eventually(ended)
    assert found is not None
    return found
