"""Decide whether a lost run may be restarted automatically, and from where. A job that may have succeeded is not restarted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SILENT = frozenset({"prepare", "bench"})
"""Tasks of armada's own that announce no checkpoint: nothing tells that they succeeded but their exit."""


def resumes_from(spec: Mapping[str, Any], steps: Iterable[int]) -> int | None:
    """Return the step from which the next attempt resumes; None if it starts from the beginning.

    Args:
        spec: The run's plan. A script or command without `resume` in its plan is not given a checkpoint.
        steps: The steps of the checkpoints on its host.
    """
    watch = spec.get("watch")
    if isinstance(watch, Mapping) and not watch.get("resume"):
        return None
    return max(steps, default=None)


def resuming_words(step: int | None) -> str:
    """Describe it: `from step 30`, `from its beginning`."""
    return "from its beginning" if step is None else f"from step {step}"


def announces(spec: Mapping[str, Any]) -> bool:
    """Whether a run's job announces its final checkpoint before it succeeds, as armada's trainings and merges do.

    Args:
        spec: The run's plan.
    """
    return not spec.get("watch") and spec.get("task") not in SILENT


def may_have_succeeded(said: object, reason: str | None, *, is_announcing: bool, rebooted: bool) -> bool:
    """Judge a run that ended without a recorded exit.

    Args:
        said: The host's answer, true or false; any other value if it cannot say, as with an older agent. Only the host
            can check for a final checkpoint, and whether the log was written after the supervisor died.
        reason: Why the run is lost, as home first recorded it.
        is_announcing: The job announces its final checkpoint before it succeeds.
        rebooted: The host was rebooted since the run's supervisor started.
    """
    if reason == "supervisor_lost" and rebooted and not is_announcing:
        return True  # the run was lost before the reboot, so the reboot proves nothing about its end
    return said is not False


def is_copied(launcher: str, home: str, *, is_within: bool) -> bool:
    """Whether a home has only a copy of a run, which may go on in the home that launched it.

    What a copy of a run's folder shows is no evidence: the supervisor of the original writes its end elsewhere.

    Args:
        launcher: The id of the home that launched the run.
        home: The id of the home that asks. A copy of a home gets an id of its own.
        is_within: The run's folder lies within the home, and so is copied with it.
    """
    return is_within and launcher != home
