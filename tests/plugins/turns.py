"""Who runs what, and when: tests that need a cluster to themselves run one after the other, and block nobody.

`@pytest.mark.xdist_group("slurm")` says that a test fills, stops or freezes that cluster. All tests of a group go to one worker in a
row; every other test is free. (pytest-xdist's own `--dist loadgroup` writes groups into node ids, which pytest 9.2 no longer takes.)

Tests on hosts mostly wait, trainings mostly compute. As many workers as there are cores compute, always the same ones, and each takes
a file of trainings as a whole: torch is loaded, and a training that several tests look at is made, once for all of them. The others
wait; what is short comes last, so that all workers end at about the same time.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdist.remote import Producer  # type: ignore[import-untyped]
    from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

_WAITING, _COMPUTING = ("tests/fleet/",), ("tests/payload/",)
_GROUPS_FILE = "armada_groups"


class Turns(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Hands out groups first, then what waits and files of what computes side by side, then the rest."""

    def __init__(self, config: pytest.Config, log: Producer | None, groups_file: Path) -> None:
        super().__init__(config, log)
        self._groups_file = groups_file
        self._groups: dict[str, str] = {}
        self._computing: set[WorkerController] = set()
        self._cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def schedule(self) -> None:
        if self.collection is None:
            with contextlib.suppress(FileNotFoundError):  # nothing could be collected; pytest says why
                self._groups = json.loads(self._groups_file.read_text())
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._groups.get(nodeid) or (nodeid.partition("::")[0] if nodeid.startswith(_COMPUTING) else nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        units: dict[str, dict[str, bool]] = self.workqueue
        may_compute = node in self._computing or len(self._computing) < self._cores
        chosen = choose(units, may_compute=may_compute)
        if chosen.startswith(_COMPUTING):
            self._computing.add(node)
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node: WorkerController) -> str | None:
        self._computing.discard(node)
        return super().remove_node(node)  # type: ignore[no-any-return]  # it has no types


def choose(units: Mapping[str, Mapping[str, bool]], *, may_compute: bool) -> str:
    """The next unit: a group (the largest first), or one of the kind that the worker is there for."""
    groups = [unit for unit in units if "::" not in unit and not unit.startswith(_COMPUTING)]
    if groups:
        return max(groups, key=lambda unit: len(units[unit]))
    computing = next((unit for unit in units if unit.startswith(_COMPUTING)), None)
    if computing is not None and may_compute:
        return computing
    others = [unit for unit in units if not unit.startswith(_COMPUTING)]
    waiting = next((unit for unit in others if unit.startswith(_WAITING)), None)
    return waiting or next(iter(others), None) or computing or ""


class Controller:
    """The part of the process that hands tests out."""

    def __init__(self) -> None:
        self._groups_file = Path(tempfile.mkdtemp(prefix="armada-tests-")) / "groups.json"

    def pytest_configure_node(self, node: WorkerController) -> None:
        node.workerinput[_GROUPS_FILE] = str(self._groups_file)

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Producer) -> Turns:
        return Turns(config, log, self._groups_file)

    def pytest_unconfigure(self) -> None:
        self._groups_file.unlink(missing_ok=True)
        self._groups_file.parent.rmdir()


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Controller())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tell the controller, which collects nothing itself, which tests belong together."""
    given: dict[str, Any] = getattr(config, "workerinput", {})
    if given.get("workerid") == "gw0":
        Path(given[_GROUPS_FILE]).write_text(json.dumps(groups_of(items)))


def groups_of(items: list[pytest.Item]) -> dict[str, str]:
    """Map the node id of each test in a group to it."""
    marks = {item.nodeid: item.get_closest_marker("xdist_group") for item in items}
    return {nodeid: str(mark.args[0]) for nodeid, mark in marks.items() if mark is not None}
