"""Whether a job that nobody saw end may have succeeded."""

from __future__ import annotations

import pytest
from armada_agent.verdicts.doubt import OUTLIVED_S, may_have_succeeded, outlived


@pytest.mark.parametrize("rebooted", [False, True])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(("has_final", "judged"), [(False, False), (True, True), (None, True)])
def test_a_training_may_have_succeeded_if_it_announced_its_final_checkpoint_or_one_cannot_be_read(
    has_final: bool | None, judged: bool, rebooted: bool, alone: bool
) -> None:
    assert may_have_succeeded(True, has_final, rebooted, alone) is judged


@pytest.mark.parametrize(
    ("rebooted", "alone", "judged"),
    [(True, False, False), (True, True, True), (False, False, True), (False, True, True)],
)
def test_a_script_may_have_succeeded_unless_a_restart_ended_it_with_its_supervisor(
    rebooted: bool, alone: bool, judged: bool
) -> None:
    assert may_have_succeeded(False, False, rebooted, alone) is judged


def test_a_job_has_outlived_its_supervisor_when_it_wrote_later_than_a_living_one_would_be_silent() -> None:
    assert not outlived(OUTLIVED_S, 0.0)
    assert outlived(OUTLIVED_S + 0.1, 0.0)
