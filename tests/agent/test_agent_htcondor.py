"""HTCondor's event log, as 23.9 wrote it."""

from __future__ import annotations

from typing import Any

import pytest
from armada_agent.engines import htcondor, htcondor_log

SUBMITTED = (
    "000 (003.000.000) 2026-11-20 16:25:34 Job submitted from host: <127.0.0.1:9618?addrs=127.0.0.1-9618>\n...\n"
)
EXECUTING = (
    "001 (003.000.000) 2026-11-20 16:25:39 Job executing on host: <127.0.0.1:9618>\n"
    "\tSlotName: slot1_2@condor\n\tAvailableGPUs = { GPUs_CUDA2,GPUs_CUDA3 }\n\tCpus = 1\n...\n"
)
SIZE = "006 (003.000.000) 2026-11-20 16:25:45 Image size of job updated: 150\n\t5  -  MemoryUsage of job (MB)\n...\n"
EVICTED = "004 (003.000.000) 2026-11-20 16:25:48 Job was evicted.\n\t(0) CPU times\n\t\tUsr 0 00:00:00\n...\n"
REQUEUED = (
    "004 (003.000.000) 2026-11-20 16:25:48 Job was evicted.\n\t(0) Job terminated and was requeued\n"
    "\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Remote Usage\n\t(1) Normal termination (return value 85)\n"
    "\tThe job attribute OnExitRemove expression 'ExitCode =!= 85' evaluated to FALSE\n...\n"
)
HELD = "012 (003.000.000) 2026-11-20 16:25:48 Job was held.\n\tvia condor_hold (by user researcher)\n\tCode 1 Subcode 0\n...\n"
OUT_OF_TIME = (
    "012 (003.000.000) 2026-11-20 16:25:48 Job was held.\n"
    "\tThe job exceeded allowed execute duration of 0+00:01:00\n\tCode 47 Subcode 0\n...\n"
)
RELEASED = "013 (003.000.000) 2026-11-20 16:26:48 Job was released.\n\tvia condor_release (by user researcher)\n...\n"
REMOVED = "009 (003.000.000) 2026-11-20 16:27:08 Job was aborted.\n\tvia condor_rm (by user researcher)\n...\n"
TERMINATED = (
    "005 (003.000.000) 2026-11-20 16:27:08 Job terminated.\n\t(1) Normal termination (return value 1)\n\t\tUsr 0\n...\n"
)
LOST = (
    "024 (003.000.000) 2026-11-20 16:27:08 Job reconnection failed\n"
    "    Job not found at execution machine\n    Can not reconnect to slot1@n, rescheduling job\n...\n"
)


@pytest.mark.parametrize(
    ("log", "state", "reason"),
    [
        (SUBMITTED, "pending", None),
        (SUBMITTED + EXECUTING, "running", None),
        (SUBMITTED + EXECUTING + SIZE, "running", None),
        (SUBMITTED + EXECUTING + EVICTED, "pending", None),
        (SUBMITTED + EXECUTING + EVICTED + EXECUTING, "running", None),
        (SUBMITTED + EXECUTING + REQUEUED, "pending", None),
        (SUBMITTED + EXECUTING + EVICTED + HELD, "held", None),
        (SUBMITTED + EXECUTING + OUT_OF_TIME, "held", "time_limit"),
        (SUBMITTED + HELD + RELEASED, "pending", None),
        (SUBMITTED + EXECUTING + EVICTED + REMOVED, "ended", "removed"),
        (SUBMITTED + EXECUTING + TERMINATED, "ended", "ended_silently"),
        (SUBMITTED + EXECUTING + LOST, "pending", "node_failure"),
        (SUBMITTED + "999 (003.000.000) 2026-11-20 An event of the future\n...\n", "pending", None),
    ],
)
def test_events_tell_the_state(log: str, state: str, reason: str | None) -> None:
    seen = htcondor_log.follow({}, log)
    assert (seen["state"], seen["reason"], seen["job_id"]) == (state, reason, "003.000")


def test_a_log_read_in_pieces_says_the_same() -> None:
    pieces = [SUBMITTED, EXECUTING, SIZE, EVICTED, EXECUTING, TERMINATED]
    seen: dict[str, Any] = {}
    for piece in pieces:
        seen = htcondor_log.follow(seen, piece)
    assert seen == htcondor_log.follow({}, "".join(pieces))


def test_a_job_that_its_supervisor_put_back_has_lost_no_worker() -> None:
    assert "lost its worker" in htcondor_log.follow({}, SUBMITTED + EXECUTING + EVICTED)["message"]
    assert (
        htcondor_log.follow({}, SUBMITTED + EXECUTING + REQUEUED)["message"] is None
    )  # its supervisor's own words stand


def test_a_hold_says_what_to_do() -> None:
    message = htcondor_log.follow({}, SUBMITTED + OUT_OF_TIME)["message"]
    assert "continues from its last checkpoint" in message
    assert "condor_release 003.000" in message


def test_totals_of_condor_q_are_counted() -> None:
    text = (
        "-- Schedd: condor : <127.0.0.1:9618?... @ 11/20/26 16:31:18\n"
        "Total for query: 3 jobs; 0 completed, 0 removed, 1 idle, 1 running, 1 held, 0 suspended \n"
        "Total for all users: 9 jobs; 0 completed, 0 removed, 5 idle, 3 running, 1 held, 0 suspended \n"
    )
    assert htcondor.parse_totals(text) == [
        {"PENDING": 1, "RUNNING": 1, "HELD": 1},
        {"PENDING": 5, "RUNNING": 3, "HELD": 1},
    ]
