"""Run a user's own program on the worker of a run's job: a step inside the job, started from the login node.

The batch system's own tool opens the way: `srun` or `condor_ssh_to_job`. What it is told are constants, the job's id,
and digits: HTCondor has a shell on the worker read the command.
"""

import base64
import json
import os
import re
import signal
import subprocess
import sys
from typing import IO, Any, Dict, List, Mapping, Optional, cast

from armada_agent.engines import engine as engines
from armada_agent.errors import AgentError
from armada_agent.foundation import files, parameters
from armada_agent.paths import RunPaths
from armada_agent.runs.observation import Evidence

_PYTHON = 'python3 -I -c "import sys;exec(bytes.fromhex(sys.argv[1]).decode())"'
_PROGRAM = """\
import json, sys
asked = json.loads(%r)
sys.stderr.write(asked["begun"])
sys.stderr.flush()
sys.path.insert(0, asked["agent"])
from armada_agent.runs.shell import enter
sys.exit(enter(asked))
"""
_JOB_ID = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_OF_BATCH_SYSTEM = ("SLURM_", "SRUN_", "SBATCH_", "_CONDOR_TOOL")  # a user's own settings for its tools
_OWN_VARIABLES = ("SLURM_", "_CONDOR_")
_BEGUN = "@@ARMADA begun on the worker\n"
_OF_A_PROGRAMS_END = re.compile(rb"srun: error: \S+: task 0: |Connection to \S+ closed\.\r?\n?\Z")
_KNOWN = (_BEGUN.encode(), b"srun: error: ", b"Connection to ")
_KEPT = 2000


class RefusedError(Exception):
    """The batch system's tool did not begin the program; its own words are on standard error already."""


def enter(asked: Dict[str, Any], paths: RunPaths) -> Optional[int]:
    """Run the requested program on the worker of the run's job.

    Args:
        asked: As for `shell.enter`; in `worker`, the shell lines that a worker needs first (`setup`), and whether the
            program gets a terminal (`terminal`).
        paths: The run's files.

    Returns:
        The program's exit code; None if no job of the run runs now, which standard error then says.

    Raises:
        AgentError: `scheduler`: the batch system did not answer, has no such tool, or refused.
    """
    evidence = Evidence(paths)
    absence = explain_absence(evidence)
    if absence is not None:
        sys.stderr.write("armada: %s; this is the login node\n" % absence)
        return None
    kind = str((evidence.settings or {}).get("kind"))
    job_id = _read_job_id(evidence)
    if not _JOB_ID.fullmatch(job_id):
        raise AgentError("scheduler", "the job of %s has no id that can be used: %.60r" % (paths.run_id, job_id))
    worker: Dict[str, Any] = asked["worker"]
    terminal = worker.get("terminal") is True
    line = _compose_line(asked, worker)
    # HTCondor joins its words for the user's login shell on the worker, which may be csh or fish; Slurm starts them.
    argv = compose_words(kind, job_id, terminal) + (["sh -c '%s'" % line] if kind == "htcondor" else ["sh", "-c", line])
    try:
        return _carry(argv, terminal)
    except FileNotFoundError:
        message = "%s is not on the login node, so the worker of %s cannot be entered" % (argv[0], paths.run_id)
        raise AgentError("scheduler", message + "; --login-node runs the program here")
    except RefusedError as error:
        raise AgentError("scheduler", _explain_refusal(argv[0], job_id, str(error)))


def _read_job_id(evidence: Evidence) -> str:
    """Return the id that a job's tools take. Slurm's srun takes no id such as `100_3`, only the number which that job has."""
    handed = evidence.handed
    if handed.place is None or "_" not in handed.job_id:
        return handed.job_id
    taken = files.read_json(handed.file("taken.json")) or {}
    return str(taken.get("raw_id"))


def explain_absence(evidence: Evidence) -> Optional[str]:
    """Return why the newest job of a run has no worker now; None if it has one."""
    run_id = evidence.handed.paths.run_id
    if evidence.has_ended:
        return "%s has ended, so it has no worker" % run_id
    if evidence.job is None:
        return "%s was not submitted yet, so it has no worker" % run_id
    if evidence.settings is None:
        return "%s has no batch system's job, so it has no worker" % run_id
    status = evidence.scheduler_status or {}
    words = {
        engines.PENDING: "waits in the queue",
        engines.HELD: "is held in the queue",
        engines.ENDING: "is ending",
        engines.ENDED: "has ended",
        engines.GONE: "is no longer known to the batch system",
    }
    state = status.get("state")
    if state == engines.RUNNING:
        return None
    why = status.get("detail") or status.get("message") or status.get("error")
    said = words.get(str(state), "is in a state that is not known now")
    return "the job of %s %s%s, so it has no worker" % (run_id, said, " (%s)" % why if why else "")


def compose_words(kind: str, job_id: str, terminal: bool) -> List[str]:
    """Return the command that runs further words inside a job."""
    if kind == "slurm":
        # Without --exact a step may use every core of its job; without --overlap it waits until the job has ended.
        words = ["srun", "--jobid=" + job_id, "--overlap", "--nodes=1", "--ntasks=1", "--mpi=none"]
        return words + (["--pty"] if terminal else [])
    return ["condor_ssh_to_job", "-ssh", "ssh -t" if terminal else "ssh -T", job_id]


def own_variables(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return what the batch system tells a program on the worker: its own variables, and the GPUs of the job."""
    found = {name: value for name, value in environment.items() if name.startswith(_OWN_VARIABLES)}
    gpus = engines.allotted_gpus(dict(environment))
    return dict(found, CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=",".join(gpus)) if gpus else found


def _compose_line(asked: Dict[str, Any], worker: Dict[str, Any]) -> str:
    """Return a line for sh that calls `shell.enter` on the worker: constants, and digits that no shell changes."""
    setup = [line for line in worker.get("setup") or [] if parameters.is_text(line)]
    inner = {name: value for name, value in asked.items() if name != "worker"}
    inner.update(on_worker=True, setup=setup, begun="" if worker.get("terminal") is True else _BEGUN)
    digits = (_PROGRAM % json.dumps(inner)).encode("ascii").hex()
    line = "exec %s %s" % (_PYTHON, digits)
    if setup:
        # python3 itself may come from a module, and only login shells have module commands.
        script = '{ %s\n} >&2\nexec %s "$1"' % ("\n".join(setup), _PYTHON)
        packed = base64.b64encode(script.encode("utf-8", "surrogateescape")).decode("ascii")
        unpack = 'exec bash -lc "$(echo %s | base64 -d)" bash %s' % (packed, digits)
        line = "command -v python3 >/dev/null || %s; %s" % (unpack, line)
    return line


def _carry(argv: List[str], terminal: bool) -> int:
    """Run a tool with this process's standard streams. What it says of its own is passed on, less what armada asked it.

    Raises:
        RefusedError: It ended without having begun the program.
    """
    given = {name: value for name, value in os.environ.items() if not name.startswith(_OF_BATCH_SYSTEM)}
    if "SLURM_CONF" in os.environ:
        given["SLURM_CONF"] = os.environ["SLURM_CONF"]
    before = signal.signal(signal.SIGINT, lambda *_: None) if terminal else None
    try:
        with subprocess.Popen(argv, env=given, cwd="/", stderr=subprocess.PIPE) as child:
            words = Words()
            told = cast("IO[bytes]", child.stderr).fileno()
            while True:
                block = os.read(told, 65536)
                _write(words.take(block))
                if not block:
                    break
            _write(words.rest())
            status = child.wait()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT  # the tool got it, too
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    # With a terminal the program's words, and so the mark, are on standard output.
    if status and not words.begun and (not terminal or words.said.strip()):
        raise RefusedError(words.said.decode("utf-8", "replace"))
    return status if status >= 0 else 128 - status


class Words:
    """Separates armada's mark, and a tool's note that a program failed, from what else is on its standard error.

    Attributes:
        begun: The program has begun on the worker.
        said: What was passed on.
    """

    def __init__(self) -> None:
        self.begun = False
        self.said = b""
        self._kept = b""
        self._within_line = False

    def take(self, block: bytes) -> bytes:
        """Return what of the bytes so far is to be passed on. A line that may be a known one is kept until its end."""
        lines = (self._kept + block).splitlines(True)
        self._kept = b""
        passed = b""
        for line in lines:
            whole = line.endswith(b"\n")
            if not whole and not self._within_line and any(k.startswith(line) or line.startswith(k) for k in _KNOWN):
                self._kept = line
                break
            passed += line if self._within_line else self._judge(line)
            self._within_line = not whole
        return self._note(passed)

    def rest(self) -> bytes:
        """Return what was kept, at the end."""
        kept, self._kept = self._kept, b""
        return self._note(self._judge(kept))

    def _judge(self, line: bytes) -> bytes:
        if line == _BEGUN.encode():
            self.begun = True
            return b""
        return b"" if _OF_A_PROGRAMS_END.match(line) else line

    def _note(self, passed: bytes) -> bytes:
        self.said = (self.said + passed)[-_KEPT:]
        return passed


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(2, data) :]


def _explain_refusal(tool: str, job_id: str, said: str) -> str:
    why = "what %s said is above" % tool
    if "--overlap" in said:
        why = "this Slurm is older than 20.11, whose srun has no --overlap"
    return "job %s could not be entered on its worker: %s; --login-node runs the program on the login node" % (
        job_id,
        why,
    )
