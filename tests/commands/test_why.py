"""`armada why`: one page about a run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
from typing import TYPE_CHECKING, Any

from tests.conftest import eventually

if TYPE_CHECKING:
    from tests.conftest import Armada

HOSTILE = "\x1b]52;c;aGk=\x07[red]\u202e"
TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
ModuleNotFoundError: No module named 'flash_attn'"""


def run_of(armada: Armada, script: str, **changes: Any) -> str:
    armada.run("launch", "--host", "local", armada.command("sh", "-c", script, **changes), "--follow")
    run_id: str = armada.json("ps", "--all")[0]["run_id"]
    return run_id


def page(armada: Armada, run_id: str) -> str:
    done = armada.run("why", run_id)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_failed_run_has_its_cause_exit_last_lines_and_what_to_do_next_on_one_page(armada: Armada) -> None:
    script = f"echo begin; cat >&2 <<'E'\n{TRACEBACK}\nE\nexit 1"
    run_id = run_of(armada, script, retries=2)
    shown = page(armada, run_id)
    assert "failed: missing_module" in shown.splitlines()[0]
    for line in (
        "  cause      a module or library is missing: ModuleNotFoundError: No module named 'flash_attn'",
        "  because    its supervisor wrote the end",
        "  exit       code 1",
        "  last lines",
        "    ModuleNotFoundError: No module named 'flash_attn'",
        "  checkpoint none was saved",
        "  retries    0 of 2 used of `retries`, for runs lost with their host or supervisor; this failure counts for neither",
        f"               armada logs {run_id} --tail 200",
        f"               armada resume {run_id}",
    ):
        assert line in shown.splitlines(), shown
    assert "armada launch --host local " in shown
    told = armada.json("why", run_id)
    assert (told["exit_code"], told["signal"], told["retries"]) == (1, None, {"used": 0, "allowed": 2})
    assert told["lines"][-1].startswith("ModuleNotFoundError")
    assert f"armada resume {run_id}" in [step["command"] for step in told["next"]]


def test_a_killed_job_has_its_signal_and_an_exit_without_words_its_code(armada: Armada) -> None:
    run_id = run_of(armada, "echo step 1; kill -9 $$")
    assert "  exit       signal 9 (SIGKILL)" in page(armada, run_id)
    assert armada.json("why", run_id)["signal"] == 9
    run_id = run_of(armada, "exit 137")
    assert "failed: signal_SIGKILL" in page(armada, run_id)
    assert "  exit       code 137" in page(armada, run_id)


def test_the_page_needs_no_host_once_the_run_has_ended(armada: Armada) -> None:
    run_id = run_of(armada, "echo 'curl: (6) Could not resolve host: data' >&2; exit 6")
    armada.local_runs.rename(armada.local_runs.with_name("away"))
    shown = page(armada, run_id)
    assert "  cause      a server could not be reached: curl: (6) Could not resolve host: data" in shown
    assert "    curl: (6) Could not resolve host: data" in shown
    assert "armada doctor local" in shown


def test_a_run_that_its_hosts_budget_stopped_leads_to_that_budget(armada: Armada) -> None:
    run_id = run_of(armada, "exit 1")
    with contextlib.closing(sqlite3.connect(armada.folder / "home" / "state" / "armada.db")) as store, store:
        told = "local has cost 1.06 EUR, and its budget is 0.50 EUR"
        store.execute("UPDATE runs SET reason = 'budget', message = ?", (told,))
    shown = page(armada, run_id)
    assert f"  cause      {told}" in shown
    assert "    armada hosts set local --budget MONEY" in shown
    assert "once more" not in shown


def test_checkpoints_taken_and_not_taken_are_listed(armada: Armada) -> None:
    # The first is taken while the job waits for that, the second comes too late.
    taken = "while ! ls ../outbox/*/MANIFEST.json >/dev/null 2>&1; do sleep 0.1; done"
    script = f"mkdir out; echo a > out/step-1.pt; {taken}; echo b > out/step-2.pt; exit 3"
    run_id = run_of(armada, script, checkpoint={"pattern": "out/step-*.pt", "quiet_s": 5}, resume=["{checkpoint}"])
    shown = page(armada, run_id)
    assert "  checkpoint checkpoint-1, 2 B, " in shown
    assert (
        "             out/step-2.pt was still being written to less than 5 s before the job ended: it is not taken"
        in shown
    )
    assert "resume it from step 1:" in shown


def test_hostile_output_is_inert_on_the_page(armada: Armada) -> None:
    run_id = run_of(armada, f"printf '%s' '{HOSTILE}' >&2; printf '%s' '{HOSTILE}'; exit 4")
    shown = page(armada, run_id)
    assert "�]52;c;aGk=�[red]�" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_a_stopped_job_is_said_to_be_stopped_with_what_lets_it_run(armada: Armada) -> None:
    armada.run("launch", "--host", "local", armada.command("sleep", "600"))
    run_id = armada.json("ps")[0]["run_id"]
    eventually(lambda: armada.json("ps")[0]["state"] == "running")
    record = json.loads((armada.local_runs / run_id / "attempts/1/run.json").read_text())
    pid = record["process"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: armada.json("why", run_id)["stopped"] == [pid])
        shown = page(armada, run_id)
        assert "SIGSTOP has stopped 1 of its processes" in shown
        assert f"  stopped    these processes are stopped by SIGSTOP: {pid}" in shown
        assert f"               kill -CONT {pid}" in shown
    finally:
        os.kill(pid, signal.SIGCONT)
        armada.run("stop", run_id, "--grace", "0")
    assert "killed_by_user" in page(armada, run_id)


def test_a_failure_that_nobody_recorded_has_the_end_of_the_log_while_its_host_answers(armada: Armada) -> None:
    run_id = run_of(armada, "echo the last word; exit 3")
    (store,) = (armada.folder / "home").rglob("*.db")
    with contextlib.closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DELETE FROM events WHERE kind = 'failure'")
    assert "    the last word" in page(armada, run_id)
    armada.local_runs.rename(armada.local_runs.with_name("away"))
    shown = page(armada, run_id)
    assert "  exit       code 3" in shown
    assert "last lines" not in shown
