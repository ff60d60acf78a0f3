"""Tell a later simulation's stories to the core in the current folder: clusters, scripts, two homes. Run by its path.

That simulation was written for a core that knows more. What it asks for and the first release lacks is given here:
constants, and answers that say nothing. None of these decides anything.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from typing import Any

NAMES: dict[str, dict[str, Any]] = {
    "armada.home": {"own": lambda paths: types.SimpleNamespace(id=str(paths.state), as_json=lambda: None)},
    "armada.verdicts": {"__path__": []},
    "armada.verdicts.order": {"LAG_S": 120.0},
    "armada_agent.verdicts": {"__path__": []},
    "armada_agent.verdicts.doubt": {"OUTLIVED_S": 30.0},
    "armada_agent.verdicts.liveness": {"SILENT_S": 180.0, "ALIVE_S": 60.0},
}
GROUPS = ("FOUND", "FOUND_WITH_SCRIPTS", "FOUND_ON_CLUSTERS", "FOUND_ON_CLUSTERS_WITH_SCRIPTS")
CALM = {
    "a direct host": ("direct", "launch save tick look sync log save tick sync end tick look sync release copies look_at_all"),
    "two runs": ("direct", "launch launch:2 save tick save:1 tick sync sync:0:1 stop look:0:1 end tick look sync release"),
    "a script": ("direct", "launch:1 save tick sync stop resume save tick sync end tick look sync copies"),
    "Slurm": ("slurm", "launch start_job tick watch save tick sync end tick watch sync release"),
    "Slurm, and preempted": ("slurm", "launch start_job save tick preempt tick watch start_job tick watch end tick watch sync"),
    "HTCondor": ("htcondor", "launch start_job tick watch save tick sync end tick watch sync"),
}  # fmt: skip
"""Stories in which nothing goes wrong: with any of them broken, the others would show nothing."""
MORE = {
    "a checkpoint's folder is deleted at home": ("direct", "launch save end tick sync delete sync"),
    "a line of one job blinds home to the others": ("direct", "launch launch:2 tick write_nested look_at_all"),
    "its folder is deleted while its job runs": ("direct", "launch tick look hide_run stop"),
}  # fmt: skip


LATER = "a sync while the root is away, of what was deleted at home"
"""A defect that the first release did not have."""


def provide() -> None:
    """Add what the simulation imports and this core does not have."""
    for name, values in NAMES.items():
        module = types.ModuleType(name)
        vars(module).update(values)
        sys.modules[name] = module
    add("armada.store.runs", set_root=lambda *_args, **_options: None)
    add("armada_agent.engines", run_tool_aloud=None)
    add("armada_agent.identity", moment=None)
    add("armada_agent.htcondor", REQUEUE_EXIT_CODE=85)
    processes = importlib.import_module("armada_agent.processes")
    add("armada_agent.processes", ATTEMPT_MARKER=processes.RUN_MARKER)
    supervisor = importlib.import_module("armada_agent.batch").BatchSupervisor
    supervisor.exit_code = property(lambda real: real._journal.state["exit_code"])  # noqa: SLF001


def add(module: str, **values: object) -> None:
    """Set what a module lacks."""
    for name, value in values.items():
        vars(importlib.import_module(module)).setdefault(name, value)


def widen(teller: type[Any]) -> None:
    """Add to a kind of stories what the audit did, and that simulation could not."""

    def do_write_nested(self: Any, one: int, _two: int) -> None:
        folder = self.world.hosts["box"].run_folder(self.run_ids[one])
        with (folder / "metrics.jsonl").open("a") as stream:
            stream.write("[" * 2000 + "]" * 2000 + "\n")

    def do_look_at_all(self: Any, one: int, _two: int) -> None:
        home = self._home(one)
        observe, runs = importlib.import_module("armada.monitor.observe"), importlib.import_module("armada.store.runs")
        with home.store() as database:
            try:
                observe.observe(database, home.session(self.world.hosts["box"]), runs.every(database))
            except RecursionError as error:
                self.world.hold(False, f"home can look at none of {self.run_ids}: {type(error).__name__}")

    def do_hide_run(self: Any, one: int, _two: int) -> None:
        folder = self.world.hosts["box"].run_folder(self.run_ids[one])
        folder.rename(folder.with_name(".deleted"))  # whoever deletes it opens none of its files

    def do_copies(self: Any, one: int, _two: int) -> None:
        home, run_id = self._home(0), self.run_ids[one]
        saved = {each.step for each in self.world.all_saved if each.run_id == run_id}
        there = len(home.published(run_id))
        self.world.hold(there <= len(saved), f"{there} checkpoints are at home of {len(saved)} that {run_id} saved")

    was_stopped = teller.do_stop

    def do_stop(self: Any, one: int, two: int) -> None:
        was_stopped(self, one, two)
        self.world.tick()
        run_id = self.run_ids[two % len(self.run_ids)]
        hidden = (self.world.hosts["box"].root / "runs/.deleted").exists()
        self.world.hold(not (hidden and self.world.alive(run_id)), f"{run_id} was told to stop, and its job goes on")

    for each in (do_write_nested, do_look_at_all, do_hide_run, do_copies, do_stop):
        setattr(teller, each.__name__, each)


def main() -> None:
    """Print a line of JSON for each story: the finding, its words, and the rule that broke."""
    provide()
    stories: Any = importlib.import_module("tests.simulation.stories")
    stories.be_calm = lambda _world: None  # the rules for afterwards ask for what that core could not do
    widen(stories.Teller)
    catalogue = importlib.import_module("tests.simulation.catalogue")

    def tell(words: str, scheduler: str, *, scripts: bool) -> str | None:
        try:
            broke: str | None = catalogue.Telling(catalogue.read(words), scripts, scheduler).outcome()
        except Exception as error:
            return f"could not be told: {type(error).__name__}: {error}"
        return broke

    for name, (scheduler, words) in CALM.items():
        broke = tell(words, scheduler, scripts=words.startswith("launch:1"))
        if broke is not None:
            sys.exit(f"{name}: nothing goes wrong in this story, and {broke}")
    of_old = {story for group in GROUPS for story in getattr(catalogue, group)} - {LATER}
    for name, telling in catalogue.found_once().items():
        if name in of_old:
            words = next(found[name] for group in GROUPS if name in (found := getattr(catalogue, group)))
            print(json.dumps([name, words, tell(words, telling.scheduler, scripts=telling.scripts)]), flush=True)
    for name, (scheduler, words) in MORE.items():
        print(json.dumps([name, words, tell(words, scheduler, scripts=False)]), flush=True)


main()
