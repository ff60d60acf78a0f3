"""Controllers of batch systems that are down or frozen: asked once, for a short time, and named."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from armada_agent.engines import engine, htcondor, htcondor_schedd, slurm, slurm_controller
from armada_agent.engines.engine import EngineError, Handed
from armada_agent.foundation import exchange
from armada_agent.host import job_variables
from armada_agent.paths import RunPaths

from tests.waiting import eventually

DOWN = "Slurmctld(primary) at ctl is DOWN\n*****************************************\n"
UP = "Slurmctld(primary) at ctl is UP\n"
# Notes each call, and answers with what the test put beside it; without that it never does, as where a port swallows all.
PROGRAM = """#!/bin/sh
echo "$@" >> {folder}/{name}.calls
[ -e {folder}/{name}.out ] || exec sleep 600
cat {folder}/{name}.out
exit $(cat {folder}/{name}.code)
"""


class Programs:
    """Stand-ins for a batch system's programs, which do not answer before a test says what."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("squeue", "sbatch", "scancel", "scontrol", "sinfo", "condor_q", "condor_rm", "condor_status"):
            (folder / name).write_text(PROGRAM.format(folder=folder, name=name))
            (folder / name).chmod(0o755)

    def say(self, name: str, text: str, code: int = 0) -> None:
        (self.folder / f"{name}.code").write_text(str(code))
        (self.folder / f"{name}.out").write_text(text)

    def answer_late(self, name: str, text: str, *, after: str) -> None:
        """Have a program answer once another was called."""
        waiting = f"while [ ! -e {self.folder}/{after}.calls ]; do sleep 0.05; done"
        (self.folder / name).write_text(f"#!/bin/sh\necho >> {self.folder}/{name}.calls\n{waiting}\nprintf '{text}'\n")

    def asked(self) -> list[str]:
        """Which programs were called how often, as `name count`."""
        calls = {file.stem: len(file.read_text().splitlines()) for file in self.folder.glob("*.calls")}
        return [f"{name} {calls[name]}" for name in sorted(calls)]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    for module, name in ((engine, "_SOON_S"), (slurm_controller, "_PING_S"), (htcondor_schedd, "PATIENCE_S")):
        monkeypatch.setattr(module, name, 0.3)
    return Programs(folder)


@pytest.fixture
def handed(tmp_path: Path) -> Handed:
    return Handed(RunPaths(str(tmp_path / "root"), "a-1"), 1, {"job_id": "11", "time": 1.0})


@pytest.mark.parametrize("code", [0, 1])
def test_a_slurm_controller_that_is_down_is_asked_once_and_named(programs: Programs, handed: Handed, code: int) -> None:
    programs.say("scontrol", DOWN, code=code)
    words = "the Slurm controller does not answer: squeue did not answer within 0 s; Slurmctld(primary) at ctl is DOWN"
    assert slurm.look(handed, 0.01)["error"] == words
    assert slurm.look(handed, 0.01)["error"] == words
    with pytest.raises(EngineError) as explained:
        slurm.explain(handed)
    assert explained.value.message == words
    assert programs.asked() == ["scontrol 1", "squeue 1"]


def test_a_launch_asks_a_slurm_controller_that_is_down_one_thing(programs: Programs) -> None:
    programs.say("scontrol", DOWN)
    with pytest.raises(
        EngineError, match=r"the Slurm controller does not answer: .* Slurmctld.primary. at ctl"
    ) as down:
        slurm.check("#!/bin/sh\n")
    assert not down.value.refused
    assert programs.asked() == ["sbatch 1", "scontrol 1"]
    programs.say("sbatch", "allocation failure: Unable to contact slurm controller (connect failure)\n", code=1)
    with pytest.raises(EngineError, match=r"the Slurm controller does not answer: sbatch: allocation failure: Unable"):
        slurm.check("#!/bin/sh\n")
    assert programs.asked() == ["sbatch 2", "scontrol 1"]


def test_nothing_is_submitted_to_a_slurm_controller_that_is_down(programs: Programs, handed: Handed) -> None:
    programs.say("scontrol", DOWN, code=1)
    programs.say("sbatch", "7\n")
    with pytest.raises(EngineError, match=r"so nothing was submitted: Slurmctld.primary. at ctl is DOWN") as down:
        slurm.submit(handed, 0)
    assert down.value.refused
    assert programs.asked() == ["scontrol 1"]


def test_sbatch_is_not_asked_where_the_job_variables_cannot_be_recorded(
    programs: Programs, handed: Handed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(job_variables, "of_submission", full)
    programs.say("scontrol", UP)
    programs.say("sbatch", "7\n")
    with pytest.raises(EngineError, match=r"could not be recorded: .*No space left on device") as refused:
        slurm.submit(handed, 0)
    assert refused.value.refused
    assert programs.asked() == ["scontrol 1"]


def test_a_slurm_controller_whose_ping_is_late_is_given_the_job(programs: Programs, handed: Handed) -> None:
    Path(handed.paths.folder).mkdir(parents=True)
    programs.say("sbatch", "7\n")
    assert slurm.submit(handed, 0) == "7"
    assert programs.asked() == ["sbatch 1", "scontrol 1"]


def test_a_frozen_slurm_controller_is_given_up_after_two_short_questions(programs: Programs, handed: Handed) -> None:
    with pytest.raises(EngineError, match=r"the Slurm controller does not answer: .*scontrol ping got no answer"):
        slurm.check("#!/bin/sh\n")
    with pytest.raises(EngineError, match="scontrol ping got no answer"):
        slurm.cancel(handed, {"state": "running"}, 5.0)
    assert programs.asked() == ["sbatch 1", "scontrol 3"]  # one question, and twice whether it is up


def test_a_controller_that_is_back_is_asked_again(
    programs: Programs, handed: Handed, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs.say("scontrol", DOWN)
    slurm.look(handed, 15.0)
    programs.say("scontrol", UP)
    programs.say("squeue", "N/A|Resources\n")
    monkeypatch.setattr(slurm_controller, "_REMEMBERED_S", 0.0)
    assert "waiting for nodes to become free" in slurm.explain(handed)


@pytest.mark.parametrize("ping", [UP, DOWN.replace("****", UP), "sh: ping: what?\n", ""])
def test_a_controller_that_is_only_slow_is_waited_for(programs: Programs, handed: Handed, ping: str) -> None:
    programs.say("scontrol", ping, code=1)
    programs.answer_late("squeue", "11|RUNNING|None|n1|armada.a-1.1\n", after="scontrol")
    seen = slurm.look(handed, 15.0)
    assert (seen["state"], seen["error"]) == ("running", None)
    assert programs.asked() == ["scontrol 1", "squeue 1"]


def test_a_refusal_of_a_controller_that_seems_down_stays_a_refusal(programs: Programs) -> None:
    programs.say("scontrol", DOWN)
    programs.say("sbatch", "sbatch: error: invalid partition specified: nope\n", code=1)
    with pytest.raises(EngineError, match="invalid partition") as refused:
        slurm.check("#!/bin/sh\n")
    assert refused.value.refused


def test_a_frozen_schedd_is_asked_one_thing_by_each_command(programs: Programs, handed: Handed) -> None:
    asks: tuple[Callable[[], object], ...] = (
        lambda: htcondor.check("universe = vanilla\nqueue\n"),
        lambda: htcondor.explain(handed),
        htcondor.describe_queue,
        lambda: htcondor.look_up(handed),
    )
    for number, ask in enumerate(asks, 1):
        with pytest.raises(EngineError, match=r"HTCondor's queue \(the schedd\) does not answer: condor_q did not"):
            ask()
        assert programs.asked() == [f"condor_q {number}"]


def test_a_schedd_that_is_down_is_named_in_a_line(programs: Programs, handed: Handed) -> None:
    programs.say("condor_q", "Error: Can't find address for schedd c\n\nExtra Info: You probably saw this …\n", code=1)
    with pytest.raises(EngineError) as down:
        htcondor.explain(handed)
    words = "HTCondor's queue (the schedd) does not answer: condor_q: Error: Can't find address for schedd c"
    assert down.value.message == words


def test_a_program_that_prints_without_end_is_ended(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "LIMIT", 3 << 20)
    (programs.folder / "squeue").write_text("#!/bin/sh\nyes '11|RUNNING|None|n1|armada.a-1.1'\n")
    with pytest.raises(EngineError, match="squeue printed more than 3 MB"):
        engine.run_tool(["squeue"])


def test_a_wrapper_that_does_not_answer_leaves_no_program_behind(programs: Programs, tmp_path: Path) -> None:
    wrapped = f"#!/bin/sh\nsleep 601 & echo $! > {tmp_path}/pid\nwait\n"
    (programs.folder / "squeue").write_text(wrapped)
    with pytest.raises(EngineError, match="squeue did not answer"):
        engine.run_tool(["squeue"], timeout_s=0.5)
    stat = Path("/proc") / (tmp_path / "pid").read_text().strip() / "stat"
    assert eventually(lambda: not stat.exists() or ") Z" in stat.read_text())


@pytest.mark.parametrize("size", [0, 3_000_000])
def test_a_long_job_file_reaches_a_program_that_answers_while_it_reads(programs: Programs, size: int) -> None:
    (programs.folder / "sbatch").write_text("#!/bin/sh\ncat\n")
    assert len(engine.run_tool(["sbatch"], stdin=b"x" * size)) == size
    (programs.folder / "sbatch").write_text("#!/bin/sh\nexec true\n")  # reads nothing of it
    assert engine.run_tool(["sbatch"], stdin=b"x" * size) == ""
