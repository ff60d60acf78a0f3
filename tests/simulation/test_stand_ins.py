"""Whatever takes a thing's place in a simulated world takes it everywhere, whichever module was imported first."""

from __future__ import annotations

import importlib
import pkgutil
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import armada_agent

from tests.simulation.world import World


def agents_modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(armada_agent.__path__, "armada_agent.")
    names = [each.name for each in found if not each.name.endswith("__main__")]
    return [importlib.import_module(name) for name in names]


def whole(module: Any, name: str) -> bool:
    """Whether it is the agent's own function: a class or module of Python's is replaced in the one that is named, on purpose."""
    real = getattr(module, name)
    return callable(real) and getattr(real, "__module__", "").startswith("armada_agent")


def test_no_module_of_the_agent_keeps_what_a_world_replaces(tmp_path: Path) -> None:
    modules = agents_modules()
    world = World(tmp_path)
    replaced = [(module, name) for module, name, _ in world.stand_ins() if whole(module, name)]
    assert "scan" in {name for _, name in replaced}
    kept = [
        f"{other.__name__} imports {key} of {getattr(module, '__name__', module)} by name"
        for module, name in [*replaced, (time, "time")]
        for other in modules
        if other is not module
        for key, value in vars(other).items()
        if value is getattr(module, name)
    ]
    assert kept == []
