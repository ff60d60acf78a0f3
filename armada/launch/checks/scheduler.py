"""Ask the host's batch system whether it accepts the job file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.launch.checks.check import Answer, fail, ok, warn
from armada.units import span

if TYPE_CHECKING:
    from armada.launch.checks.subject import Subject

_SOON_S = 60.0


def check_job_file(subject: Subject) -> Answer | None:
    """Check that the batch system could run the job, and when."""
    host, answer = subject.host, subject.scheduler
    if host.batch is None:
        return None
    if answer.refusal is not None:
        return fail(
            f"{host.scheduler} would never run this: {answer.refusal}",
            f"`resources:` of the experiment, or `{host.scheduler}:` of the host",
        )
    if answer.wait is not None:
        return warn(
            f"{host.scheduler} cannot start this now, and gives no time when it can: {answer.wait}",
            f"the job would wait in the queue until that changes; otherwise change `{host.scheduler}:` of the host (its partition, say)",
        )
    when = answer.starts_in_s
    expected = f", and expects to start it in {span(when)}" if when is not None and when >= _SOON_S else ""
    return ok(f"{host.scheduler} accepts the job file{expected}")
