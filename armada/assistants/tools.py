"""The tools of `armada mcp`. Their docstrings are what an assistant reads of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.assistants.commands import ACTING_S, READING_S, run_command
from armada.assistants.confinement import confine
from armada.errors import UsageError
from armada.foundation.secrets import without_secret_settings

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_RUNS = 200
_MOST_LINES = 2_000
_MOST_POINTS = 1_000


def runs(where: str = "", limit: int = 20) -> object:
    """List runs, newest first: state, step, loss, host, labels.

    Args:
        where: A filter such as `state:failed`, `host:a100*`, `loss<0.4 tag:arc`; empty for all.
        limit: How many at most, up to 200.
    """
    _check("limit", limit, _MOST_RUNS)
    return run_command("ps", ["--all", f"--limit={limit}"], [where] if where.strip() else [], timeout_s=READING_S)


def show(run: str) -> object:
    """Show one run: its state, its settings (spec, without what may be secrets), its checkpoints.

    Args:
        run: The run's id, or the first characters of it.
    """
    answer = run_command("show", [], [run], timeout_s=READING_S)
    result = answer["result"]
    if (
        isinstance(result, dict) and "spec" in result
    ):  # the experiment may stand in a folder that is not the assistant's
        result["spec"] = without_secret_settings(result["spec"])
    return answer


def logs(run: str, lines: int = 100) -> object:
    """Return the last lines of what a run printed.

    Args:
        run: The run's id, or the first characters of it.
        lines: How many, up to 2000.
    """
    _check("lines", lines, _MOST_LINES)
    return run_command("logs", [f"--tail={lines}"], [run], timeout_s=READING_S)


def why(run: str) -> object:
    """Explain why a run failed, stopped or still waits: the evidence, the last lines, and what to do next.

    Args:
        run: The run's id, or the first characters of it.
    """
    return run_command("why", [], [run], timeout_s=READING_S)


def hosts() -> object:
    """List the configured hosts: name, address, scheduler, price. No host is asked."""
    return run_command("hosts ls", [], [], timeout_s=READING_S)


def metrics(run: str, names: list[str] | None = None, points: int = 100) -> object:
    """Return the curves of a run: for each metric, pairs of step and value, thinned evenly; the last point is always there.

    Args:
        run: The run's id, or the first characters of it.
        names: Only these metrics, such as `loss` and `eval_loss`.
        points: How many for each metric at most, up to 1000.
    """
    from armada.api import Armada

    _check("points", points, _MOST_POINTS)
    series: dict[str, list[tuple[int, float]]] = {}
    for point in Armada().metrics(run, names=names or []):
        series.setdefault(point.metric, []).append((point.step, point.value))
    return {"result": {name: _thinned(found, points) for name, found in series.items()}}


def history(limit: int = 20) -> object:
    """List what was started lately (launches, stops, pulls), newest first; `by` is `mcp` for what assistants asked for.

    Args:
        limit: How many at most, up to 200.
    """
    from dataclasses import asdict

    from armada.api import Armada

    _check("limit", limit, _MOST_RUNS)
    return {"result": [asdict(each) for each in Armada().history(limit=limit)]}


def compare(runs: list[str]) -> object:
    """Compare two runs or more: last and best metrics, time, cost, and the settings that differ.

    Args:
        runs: Ids of runs, or their first characters.
    """
    return run_command("compare", [], runs, timeout_s=READING_S)


def costs(hosts: list[str] | None = None, run: str = "") -> object:
    """Show what hosts, weeks, runs and sweeps cost, by currency, what was idle, and forecasts. No host is asked.

    Args:
        hosts: Names of hosts; none for all.
        run: Of the runs, only this one: its id, or the first characters of it.
    """
    options = [f"--host={name}" for name in hosts or []] + ([f"--run={run}"] if run.strip() else [])
    return run_command("costs", options, [], timeout_s=READING_S)


def plan(experiment: str, hosts: list[str] | None = None, changes: list[str] | None = None) -> object:
    """Plan an experiment on hosts, side by side: whether it fits, hours, cost, checks. Nothing is sent or started.

    Args:
        experiment: Path of the experiment file (YAML or JSON) in the folder where you work.
        hosts: Names of hosts; none for all.
        changes: Settings to override, such as `train.learning_rate=1e-5`.
    """
    named = [f"--host={name}" for name in hosts or []]
    path = confine(experiment, changes or ())
    return run_command("plan", [*named, *_changes(changes)], [path], timeout_s=READING_S)


def launch(experiment: str, host: str, changes: list[str] | None = None, name: str | None = None) -> object:
    """Start an experiment on a host. It uses the host's GPUs and may cost money.

    Args:
        experiment: Path of the experiment file (YAML or JSON) in the folder where you work.
        host: Name of the host.
        changes: Settings to override, such as `train.learning_rate=1e-5`.
        name: Name of the run instead of the experiment's.
    """
    options = [f"--host={host}", *_changes(changes), *([f"--name={name}"] if name else [])]
    return run_command("launch", options, [confine(experiment, changes or ())], timeout_s=ACTING_S)


def stop(run: str) -> object:
    """Stop a run, with the grace period of its experiment.

    Args:
        run: The run's id, or the first characters of it.
    """
    return run_command("stop", [], [run], timeout_s=ACTING_S)


def resume(run: str) -> object:
    """Submit a failed or stopped run again; it continues from its last checkpoint.

    Args:
        run: The run's id, or the first characters of it.
    """
    return run_command("resume", [], [run], timeout_s=ACTING_S)


def pull(run: str) -> object:
    """Bring the checkpoints of a run home and verify every byte.

    Args:
        run: The run's id, or the first characters of it.
    """
    return run_command("pull", [], [run], timeout_s=ACTING_S)


READING: tuple[Callable[..., object], ...] = (runs, show, logs, why, hosts, metrics, history, compare, costs, plan)
"""Offered always: they start nothing, delete nothing, and change nothing but what home knows."""

ACTING: dict[str, Callable[..., object]] = {"launch": launch, "stop": stop, "resume": resume, "pull": pull}
"""Offered only if allowed by name. Each is a command that records its operation."""


def _changes(changes: list[str] | None) -> list[str]:
    return [f"--set={change}" for change in changes or []]


def _check(name: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise UsageError(f"{name} is {value}; it must be from 1 to {most:,}")


def _thinned(found: list[tuple[int, float]], most: int) -> list[tuple[int, float]]:
    """Return at most so many points, evenly, with the last."""
    every = -(-len(found) // most)
    return found[::-1][::every][::-1]
