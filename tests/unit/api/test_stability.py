"""The names and signatures of `armada.api` are stable: scripts and notebooks of users call them."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys

import pytest

from armada import api

METHODS = {
    "checkpoints": "(self, run: 'Run | str') -> 'list[Checkpoint]'",
    "compare": "(self, *runs: 'Run | str', names: 'Iterable[str]' = ()) -> 'Comparison'",
    "costs": "(self, *, hosts: 'Iterable[str]' = (), weeks: 'int' = 8) -> 'Costs'",
    "history": "(self, *, limit: 'int' = 100) -> 'list[Operation]'",
    "hosts": "(self) -> 'list[str]'",
    "launch": (
        "(self, experiment: 'Path | str', *, host: 'str', name: 'str | None' = None, profile: 'str | None' = None, "
        "changes: 'Iterable[str]' = (), daemon: 'bool' = True) -> 'Run'"
    ),
    "log": "(self, run: 'Run | str', *, lines: 'int' = 100) -> 'str'",
    "metrics": "(self, *runs: 'Run | str', names: 'Iterable[str]' = ()) -> 'Metrics'",
    "plan": (
        "(self, experiment: 'Path | str', *, hosts: 'Iterable[str]' = (), profile: 'str | None' = None, "
        "changes: 'Iterable[str]' = ()) -> 'list[HostPlan]'"
    ),
    "release": "(self, host: 'str', *, ignore_work: 'bool' = False) -> 'ReleaseCheck'",
    "run": "(self, run: 'Run | str', *, refresh: 'bool' = True) -> 'Run'",
    "runs": (
        "(self, where: 'str' = '', *, host: 'str | None' = None, state: 'str | None' = None, group: 'str | None' = None, "
        "tag: 'str | None' = None) -> 'list[Run]'"
    ),
    "stop": "(self, run: 'Run | str', *, grace_s: 'float | None' = None) -> 'Run'",
    "sync": "(self, *runs: 'Run | str') -> 'list[SyncResult]'",
    "wait": (
        "(self, run: 'Run | str', *, timeout_s: 'float | None' = None, check: 'bool' = False, "
        "changed: 'Callable[[Run], None] | None' = None) -> 'Run'"
    ),
}
"""A name goes, or a signature changes, only with a new major version. New optional arguments come last."""

VALUES = {
    "Checkpoint": "run_id step digest size_bytes path on_host",
    "Comparison": "runs settings",
    "Costs": "hosts weeks runs sweeps total week notes",
    "HostCosts": "host since until cost runs unused idle idle_s unknown_s gpu_hours",
    "HostPlan": "host outcome problems warnings gpus profile hours cost wait_s",
    "Operation": "kind run_id host command by state message started_at ended_at",
    "Point": "run step time metric value",
    "ReleaseCheck": "host safe items local",
    "ReleaseItem": "run_id what lost hint",
    "Run": (
        "run_id name host task state reason message ended step total_steps loss tokens_per_s exit_code group tags "
        "created_at started_at ended_at observed_at unreachable_since"
    ),
    "RunCosts": "run_id host state sweep seconds gpu_hours cost unknown_s forecast assumed",
    "RunMetrics": "run last best seconds cost tokens",
    "Setting": "key values",
    "SweepCosts": "sweep runs gpu_hours cost",
    "SyncResult": "run_id published pending problems final kept",
}
"""New fields come last."""

ERRORS = {
    "ArmadaError", "ConfigError", "Conflict", "HostUnreachable", "NotFound", "OutcomeUnknown", "PreflightRefused",
    "ProvisionFailed", "RunFailed", "UsageError",
}  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert set(api.__all__) == {"Armada", "Metrics", *VALUES, *ERRORS}


def test_the_methods_have_these_signatures() -> None:
    found = {name: str(inspect.signature(each)) for name, each in vars(api.Armada).items() if not name.startswith("_")}
    assert found == METHODS
    opening = "(home: 'Path | str | None' = None, *, project: 'Path | str | None' = None) -> 'None'"
    assert str(inspect.signature(api.Armada)) == opening


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_frozen_and_has_these_fields(name: str) -> None:
    kind = getattr(api, name)
    assert [each.name for each in dataclasses.fields(kind)] == VALUES[name].split()
    assert kind.__dataclass_params__.frozen


@pytest.mark.parametrize("name", VALUES)
def test_every_field_is_documented(name: str) -> None:
    documented = inspect.getdoc(getattr(api, name)) or ""
    assert [field for field in VALUES[name].split() if f"\n    {field}: " not in documented] == []


@pytest.mark.parametrize("name", METHODS)
def test_every_argument_is_documented(name: str) -> None:
    method = getattr(api.Armada, name)
    documented = inspect.getdoc(method) or ""
    arguments = [each for each in inspect.signature(method).parameters if each not in ("self", "run", "runs", "host")]
    assert [each for each in arguments if f"{each}: " not in documented and f"`{each}`" not in documented] == []


def test_the_import_is_light() -> None:
    heavy = ("torch", "pandas", "pydantic", "fabric", "paramiko", "textual", "sqlite3", "mcp", "numpy")
    code = f"import sys, armada.api; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
