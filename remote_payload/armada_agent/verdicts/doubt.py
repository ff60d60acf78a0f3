"""Decide whether a job with an unrecorded end may have succeeded. If so, only a person may run it again.

| what is known of a job without an exit code                                | it may have succeeded |
|----------------------------------------------------------------------------|-----------------------|
| it announces its checkpoints, and announced its final one                  | yes                   |
| it announces its checkpoints, and one that is there cannot be read         | yes                   |
| it announces its checkpoints, and its final one is missing                 | no                    |
| another, and its host was rebooted under its living supervisor             | no                    |
| another, and its supervisor died before it                                 | yes                   |
"""

from typing import Any, Dict, Optional

SILENT = ("prepare", "bench")
"""Tasks of armada's own that announce no checkpoint: nothing tells that they succeeded but their exit."""

OUTLIVED_S = 30.0
"""Seconds: three times the interval at which a living supervisor writes telemetry."""


def announces(spec: Dict[str, Any]) -> bool:
    """Tell from a run's plan whether its job announces a final checkpoint before it succeeds, as armada's trainings and merges do."""
    return not spec.get("watch") and spec.get("task") not in SILENT


def may_have_succeeded(is_announcing: bool, has_final: Optional[bool], rebooted: bool, outlived: bool) -> bool:
    """Judge a job whose supervisor and processes are gone and whose exit was not recorded.

    Args:
        is_announcing: The job announces its final checkpoint before it succeeds.
        has_final: Its final checkpoint exists; None if one that exists may be it, and cannot be read.
        rebooted: Its host was rebooted since.
        outlived: It was seen alive after its supervisor's last sign of life.
    """
    if is_announcing:
        return has_final is not False
    return outlived or not rebooted


def outlived(job_s: float, supervisor_s: float) -> bool:
    """Tell whether a job continued without its supervisor.

    Args:
        job_s: When the job last wrote to its log, unix time by the file system.
        supervisor_s: When its supervisor last wrote its telemetry, by the same clock; what it wrote earlier may have
            been dated by a clock that was set back since.
    """
    return job_s > supervisor_s + OUTLIVED_S
