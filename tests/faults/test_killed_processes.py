"""kill -9 of the supervisor and of the agent at random instants: one start at most, and a record that says what became of it.

The process at home is killed in tests/commands/test_interruption.py.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from armada_agent.foundation import process_identity

from armada.config.hosts import Host
from armada.errors import ArmadaError
from armada.monitor.observe import observe
from armada.paths import HomePaths
from armada.rpc.session import HostSession
from armada.store import runs
from armada.store.database import Database
from tests import moments
from tests.chance import dice
from tests.conftest import Armada
from tests.faults.test_floods import creation
from tests.waiting import eventually

KILLS = moments.times(4)
JOB = "echo start >> starts; until [ -e go ]; do sleep 0.05; done; exit 3"


def arguments() -> Iterator[tuple[int, list[str]]]:
    """(pid, argv) of every process that can be seen."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended while we looked
            yield int(folder.name), (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")


def kill(chosen: Callable[[list[str]], bool], *, alone: Path | None = None) -> int:
    """Kill -9 the processes with such arguments; how many there were.

    Args:
        chosen: Which arguments.
        alone: job.json of the submission whose supervisor is meant: not its guardian, nor who started that and is about to end,
            nor its job, which has the same arguments for a moment.
    """
    found = [pid for pid, argv in arguments() if chosen(argv)]
    if alone is not None and alone.exists():
        meant = json.loads(alone.read_text())["supervisor"]["pid"]
        found = [pid for pid in found if pid == meant]
    elif alone is not None:  # it has no job yet, and is the youngest
        parents = {pid: stat.parent for pid in found if (stat := process_identity.read_stat(pid)) is not None}
        found = [pid for pid in parents if parents[pid] in found and pid not in parents.values()]
    for pid in found:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself
            os.kill(pid, signal.SIGKILL)
    return len(found)


@pytest.mark.fault(
    "kill -9 of the supervisor at random instants",
    "never_started without a start, supervisor_lost or its exit with one; no process of the run is left",
)
@pytest.mark.parametrize("alone", [False, True], ids=["with its guardian", "alone"])
@pytest.mark.takes_long("what a killed supervisor left is looked for until nothing of it lives, once for every kill")
def test_a_supervisor_killed_at_any_instant_leaves_a_true_record(
    tmp_path: Path, record_property: Callable[[str, object], None], alone: bool
) -> None:
    chance = dice(11)
    home = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    home.make()
    host = Host(name="local", local=True, root=str(tmp_path / "root"))
    run_ids = [f"kill-{number:06}" for number in range(KILLS)]
    killed = 0

    def supervises(argv: list[str]) -> bool:
        return "supervise" in argv and str(tmp_path / "root") in argv and run_id in argv

    with HostSession(host, home) as session, Database(home.store) as database, ThreadPoolExecutor(1) as pool:
        for number, run_id in enumerate(run_ids):
            folder = tmp_path / "root" / "runs" / run_id
            steps: list[Callable[[], object]] = [
                lambda: any(supervises(argv) for _, argv in arguments()),
                (folder / "attempts" / "1").exists,
                (folder / "attempts" / "1" / "run.json").exists,
                (folder / "work" / "starts").exists,
            ]
            runs.insert(database, run_id=run_id, name="kill", host="local", task="command", experiment=None, spec={})
            question = creation(run_id, "sh", "-c", JOB)
            asked = pool.submit(session.call, "run.create", question, timeout_s=60.0)
            eventually(steps[number % len(steps)])
            threading.Event().wait(chance.uniform(0.0, moments.LATER_S))
            killed += kill(supervises, alone=folder / "submissions" / "1" / "job.json" if alone else None) > 0
            (folder / "work").mkdir(exist_ok=True)
            (folder / "work" / "go").touch()
            try:
                asked.result()
            except ArmadaError:
                session.call("run.create", question)  # nobody had taken it up: asking again is safe

        def ended() -> bool:
            observe(database, session, [run for run in runs.every(database) if not run.ended])
            return all(run.ended for run in runs.every(database))

        eventually(ended)
        found = {run.run_id: run for run in runs.every(database)}
    reasons: dict[str, int] = {}
    for run_id, run in found.items():
        marks = tmp_path / "root" / "runs" / run_id / "work" / "starts"
        starts = marks.read_text().count("start") if marks.exists() else 0
        reasons[str(run.reason)] = reasons.get(str(run.reason), 0) + 1
        assert run.state == "failed", run
        assert run.reason in {"never_started", "exit_3", *([] if alone else ["supervisor_lost"])}, run
        assert starts <= (run.reason != "never_started"), run
        assert starts == 1 or run.reason != "exit_3", run
    eventually(lambda: not [argv for _, argv in arguments() if str(tmp_path / "root") in argv])
    assert killed >= KILLS // (4 if alone else 2)
    record_property("times", KILLS)
    record_property("seen", ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items())))


def end_agents(pid: int) -> None:
    for agent in children(pid):
        with contextlib.suppress(ProcessLookupError):  # it ended by itself
            os.kill(agent, signal.SIGKILL)


def children(pid: int) -> list[int]:
    try:
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return []  # it ended


@pytest.mark.fault(
    "kill -9 of the agent at random instants of a launch",
    "the launch asks again or says that nothing was started; one start for each run that succeeded",
)
def test_an_agent_killed_at_any_instant_of_a_launch_starts_one_job_at_most(
    armada: Armada, record_property: Callable[[str, object], None]
) -> None:
    chance = dice(12)
    marks = armada.folder / "starts"
    marks.mkdir()
    codes: list[int] = []
    killed = 0
    for number in range(KILLS):
        steps = moments.of_a_launch(armada)[1:]
        experiment = armada.command("sh", "-c", f"echo start >> {marks / str(number)}", name=f"cut-{number}")
        launch = armada.start("launch", "--host", "local", experiment)
        eventually(lambda launch=launch: children(launch.pid) or launch.poll() is not None)  # type: ignore[misc]
        end = functools.partial(end_agents, launch.pid)
        killed += moments.end_after(launch, steps[number % len(steps)], end, chance)
        _, err = launch.communicate()
        assert "Traceback" not in err
        codes.append(launch.returncode)
    assert set(codes) <= {0, 4, 5, 9}, codes
    eventually(lambda: not {"queued", "running", "submitted"} & {run["state"] for run in armada.json("ps")})
    found = {run["name"]: run for run in armada.json("ps")}
    for number, code in enumerate(codes):
        mark = marks / str(number)
        starts = mark.read_text().count("start") if mark.exists() else 0
        run = found.get(f"cut-{number}")
        assert starts == int(run is not None and run["state"] == "succeeded"), (number, code, run)
        assert starts == 1 or code != 0, (number, run)
    assert killed
    record_property("times", KILLS)
    record_property("seen", f"{codes.count(0)} launched all the same, {KILLS - codes.count(0)} said so")


# What the payload does when it saves, in a job that goes on after its supervisor was killed, and then ends.
SAVER = r"""
import json, os, time
run = os.environ["ARMADA_RUN_DIR"]
for step in (10, 20):
    while not os.path.exists("save-%d" % step):
        time.sleep(0.02)
    part = os.path.join(run, "outbox", ".part-%d" % step)
    os.makedirs(part)
    open(os.path.join(part, "model.bin"), "wb").write(b"%d" % step * 1000)
    json.dump({"step": step, "time": time.time()}, open(os.path.join(part, ".announce.json"), "w"))
    os.rename(part, os.path.join(run, "outbox", ".new-%d" % step))
"""


@pytest.mark.fault(
    "kill -9 of the supervisor before a checkpoint is hashed",
    "it is hashed without it and comes home, verified, while the job goes on and when it has ended",
)
def test_checkpoints_of_a_killed_supervisor_come_home(armada: Armada) -> None:
    armada.write("saver.py", SAVER)
    experiment = armada.command("python3", str(armada.folder / "saver.py"))
    run_id = armada.json("launch", "--host", "local", experiment)["run_id"]
    assert eventually(lambda: kill(lambda argv: "supervise" in argv and run_id in argv)) == 2  # with its guardian
    folder = armada.local_runs / run_id
    work = folder / "work"
    home = armada.folder / "home" / "state" / "runs" / run_id / "checkpoints"

    def published() -> list[str]:
        return sorted(path.name for path in home.glob("checkpoint-*"))

    (work / "save-10").touch()
    eventually((folder / "outbox" / ".new-10").exists)
    pulled = armada.run("pull", run_id)
    assert pulled.returncode == 0, pulled.stderr
    assert published() == ["checkpoint-10"]
    (work / "save-20").touch()
    eventually(lambda: armada.json("show", run_id)["state"] == "failed")
    assert armada.json("show", run_id)["reason"] == "supervisor_lost"
    refused = armada.run("hosts", "release", "local", "--dry-run")
    assert refused.returncode == 8, refused.stdout
    assert "1 checkpoint announced and still being hashed" in refused.stdout
    pulled = armada.run("pull", run_id)
    assert pulled.returncode == 0, pulled.stderr
    assert published() == ["checkpoint-10", "checkpoint-20"]
