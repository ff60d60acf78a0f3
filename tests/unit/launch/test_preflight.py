from __future__ import annotations

import pytest

from armada.config.hosts import Host
from armada.launch.checks import SchedulerAnswer
from armada.launch.preflight import _engine  # the only one of the checks that words a batch system's answer

CLUSTER = Host(name="c", ssh="me@login", scheduler="slurm")


@pytest.mark.parametrize(
    ("answer", "outcome", "said"),
    [
        (SchedulerAnswer(refusal="no such node"), "fail", "slurm would never run this: no such node"),
        (
            SchedulerAnswer(wait="n1 is drained"),
            "warn",
            "cannot start this now, and nobody knows for how long: n1 is drained",
        ),
        (SchedulerAnswer(starts_in_s=7200.0), "ok", "slurm takes the job file, and expects to start it in 2 h 00 m"),
        (SchedulerAnswer(starts_in_s=5.0), "ok", "slurm takes the job file"),
        (SchedulerAnswer(), "ok", "slurm takes the job file"),
    ],
)
def test_what_may_change_is_a_warning_and_what_never_can_run_is_refused(
    answer: SchedulerAnswer, outcome: str, said: str
) -> None:
    check = _engine(CLUSTER, answer)
    assert (check.code, check.outcome) == ("ARM012", outcome)
    assert said in check.message
