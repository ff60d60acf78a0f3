"""What an audit of the first release found, on a real SSH host: each finding ends rightly today.

`python -m tests.tools.audit_findings --checkout PATH` shows how each ended then. Those about batch systems are in
test_batch.py and test_batch_faults.py.
"""

from __future__ import annotations

import pytest

from tests.fleet.conftest import Fleet
from tests.tools.audit_findings.runs import FINDINGS as OF_RUNS
from tests.tools.audit_findings.stage import stage
from tests.tools.audit_findings.sync import FINDINGS as OF_SYNC

FINDINGS = OF_SYNC | OF_RUNS
SLOW = {
    "copied home": "nine checkpoints are saved and synced, by two homes in turn",
    "resume": "checkpoints must be quiet for five seconds, twice over, while nobody watches them",
    "retry": "a daemon must have seen the end of the run, and brought its checkpoints home",
    "retry, no guardian": "a daemon must not have started the run again, however often it looked",
    "snapshot, reboot": "a machine that was restarted is believed once it showed less for two minutes",
}
LONG = frozenset({"snapshot, reboot"})


def _marks(name: str) -> list[pytest.MarkDecorator]:
    slow = [pytest.mark.takes_long(SLOW[name])] if name in SLOW else []
    return slow + [pytest.mark.long] * (name in LONG)


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in FINDINGS])
def test_a_finding_of_the_audit_ends_rightly(fleet: Fleet, name: str) -> None:
    with stage(None, host=True, fleet=fleet) as made:
        ending = FINDINGS[name](made)
    assert not ending.is_wrong, f"{ending.said}\n{ending.truth}"
