"""Decide whether a job with an unrecorded end may have succeeded. If so, only a person may run it again.

| what is known of a job without an exit code                                | it may have succeeded |
|----------------------------------------------------------------------------|-----------------------|
| it announces its checkpoints, and announced its final one                  | yes                   |
| it announces its checkpoints, and its final one is missing                 | no                    |
| a script or command, and its host was rebooted under its living supervisor | no                    |
| a script or command, and its supervisor died before it                     | yes                   |
"""

OUTLIVED_S = 30.0
"""Seconds: three times the interval at which a living supervisor writes telemetry."""


def may_have_succeeded(announces: bool, has_final: bool, rebooted: bool, outlived: bool) -> bool:
    """Judge a job whose supervisor and processes are gone and whose exit was not recorded.

    Args:
        announces: The job is armada's own training, which announces its final checkpoint before it succeeds.
        has_final: Its final checkpoint exists.
        rebooted: Its host was rebooted since.
        outlived: It was seen alive after its supervisor's last sign of life.
    """
    if announces:
        return has_final
    return outlived or not rebooted


def outlived(job_s: float, supervisor_s: float) -> bool:
    """Tell whether a job continued without its supervisor.

    Args:
        job_s: When the job last wrote to its log, unix time by the file system.
        supervisor_s: When its supervisor last wrote its telemetry, by the same clock; what it wrote earlier may have
            been dated by a clock that was set back since.
    """
    return job_s > supervisor_s + OUTLIVED_S
