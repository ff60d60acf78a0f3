"""A user's own program on the worker of a run's job, through stand-ins for `srun` and `condor_ssh_to_job`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from armada_agent.runs.worker_shell import Words

from tests.agent.doubted_job import DoubtedJob
from tests.agent.test_agent_htcondor import EXECUTING, SUBMITTED
from tests.commands.test_access import HOSTILE

BOTH = pytest.mark.parametrize("cluster", ["slurm", "htcondor"], indirect=True)
SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]))"
# As the tools do it: Slurm starts the words, HTCondor's ssh hands them to the login shell, joined.
SRUN = """#!/bin/sh
printf '%s\\n' "$*" >> {folder}/srun.calls
while [ "${{1#-}}" != "$1" ]; do shift; done
env -u CUDA_VISIBLE_DEVICES SLURM_JOB_ID=11 CUDA_VISIBLE_DEVICES=0,1 "$@"
code=$?
[ $code = 0 ] || echo "srun: error: n1: task 0: Exited with exit code $code" >&2
exit $code
"""
TO_JOB = """#!/bin/sh
printf '%s\\n' "$*" >> {folder}/condor_ssh_to_job.calls
shift 3
_CONDOR_AssignedGPUs=GPU-1,GPU-2 exec {shell} -c "$*"
"""
ENTER = "import json, sys; sys.path.insert(0, sys.argv[1]); from armada_agent.runs.shell import enter; "
ENTER += "sys.exit(enter(json.load(open(sys.argv[2]))))"


class Entry:
    """Enters the worker of one run's job, as `armada exec` does on the login node."""

    def __init__(self, cluster: DoubtedJob, agent: Path, python: str = sys.executable) -> None:
        self.cluster, self.agent, self.python = cluster, agent, python
        self.tool = "srun" if cluster.engine == "slurm" else "condor_ssh_to_job"
        self.run = Path(cluster.paths.folder)
        Path(cluster.paths.work).mkdir()
        self.put("srun", SRUN)
        self.put("condor_ssh_to_job", TO_JOB.replace("{shell}", "/bin/sh"))
        (cluster.folder / "python3").symlink_to(python)
        self.say_running()

    def put(self, name: str, text: str) -> None:
        (self.cluster.folder / name).write_text(text.format(folder=self.cluster.folder))
        (self.cluster.folder / name).chmod(0o755)

    def say_running(self) -> None:
        self.cluster.say("squeue", "11|RUNNING|None|n1|armada.a-1.1\n")
        self.cluster.log(SUBMITTED + EXECUTING)

    @property
    def calls(self) -> list[str]:
        file = self.cluster.folder / f"{self.tool}.calls"
        return file.read_text().splitlines() if file.exists() else []

    def __call__(self, *words: str, worker: bool = True, **changes: Any) -> subprocess.CompletedProcess[str]:
        asked: dict[str, Any] = {
            "agent": str(self.agent),
            "root": self.cluster.paths.root,
            "run_id": "a-1",
            "setup": [],
            "argv": list(words),
        }
        if worker:
            asked["worker"] = {"setup": [], "terminal": False, **changes}
        file = self.cluster.folder / "asked.json"
        file.write_text(json.dumps(asked))
        return subprocess.run(
            [self.python, "-c", ENTER, str(self.agent), str(file)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            env={**os.environ, "SRUN_CPUS_PER_TASK": "1", "SLURM_EXCLUSIVE": "1"},
        )  # fmt: skip


@pytest.fixture
def entry(cluster: DoubtedJob, unpacked: Path, some_python: str) -> Entry:
    return Entry(cluster, unpacked, some_python)


@pytest.fixture
def here(cluster: DoubtedJob, unpacked: Path) -> Entry:
    return Entry(cluster, unpacked)


@BOTH
def test_words_folder_and_environment_are_the_runs_own(entry: Entry) -> None:
    spec = json.loads((entry.run / "spec.json").read_text())
    spec["job"].update(env={"MINE": "a b"}, secrets=["KEY"])
    (entry.run / "spec.json").write_text(json.dumps(spec))
    done = entry("python3", "-c", SHOW, *HOSTILE)
    assert (done.returncode, done.stderr) == (0, "")
    words, folder, seen = json.loads(done.stdout)
    assert words == HOSTILE
    assert folder == entry.cluster.paths.work
    assert (seen["MINE"], seen["ARMADA_RUN_DIR"]) == ("a b", entry.cluster.paths.folder)
    assert not {"KEY", "ARMADA_RUN_ID", "SRUN_CPUS_PER_TASK", "SLURM_EXCLUSIVE"} & set(seen)
    if entry.cluster.engine == "slurm":
        assert (seen["SLURM_JOB_ID"], seen["CUDA_VISIBLE_DEVICES"]) == ("11", "0,1")
    else:
        assert seen["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"


@BOTH
def test_the_tool_is_told_the_job_and_nothing_of_the_users(here: Entry) -> None:
    assert here("echo", "a secret word", terminal=True).returncode == 0
    (call,) = here.calls
    start = (
        "--jobid=11 --overlap --nodes=1 --ntasks=1 --mpi=none --pty sh -c"
        if here.tool == "srun"
        else "-ssh ssh -t 3.0 sh"
    )
    assert call.startswith(start)
    assert "secret word" not in call


@pytest.mark.parametrize("shell", ["tcsh", "fish", "zsh", "dash", "bash"])
@pytest.mark.parametrize("cluster", ["htcondor"], indirect=True)
def test_any_login_shell_on_the_worker_passes_the_words_on(here: Entry, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    here.put("condor_ssh_to_job", TO_JOB.replace("{shell}", shell))
    done = here("python3", "-c", SHOW, *HOSTILE, setup=["export MORE='it''s'"])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0] == HOSTILE


@BOTH
def test_it_ends_as_the_command_ends(here: Entry) -> None:
    done = here("sh", "-c", "echo words >&2; exit 7")
    assert (done.returncode, done.stderr) == (7, "words\n")
    missing = here("no-such-program")
    assert (missing.returncode, missing.stderr) == (127, "armada: no-such-program is not on this host\n")


@BOTH
def test_a_workers_python_may_come_from_the_setup_lines(here: Entry, tmp_path: Path) -> None:
    (here.cluster.folder / "python3").unlink()
    module = tmp_path / "module"
    module.mkdir()
    (module / "python3").symlink_to(sys.executable)
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("sh", "bash", "base64", "env", "cat"):
        (bare / name).symlink_to(str(shutil.which(name)))
    for name, text in (("srun", SRUN), ("condor_ssh_to_job", TO_JOB.replace("{shell}", "/bin/sh"))):
        here.put(name, text.replace("#!/bin/sh\n", f"#!/bin/sh\nPATH={bare}\n", 1))
    lines = ["echo loaded", f"export PATH={module}:$PATH"]
    done = here("python3", "-c", "print('begun')", setup=lines)
    assert (done.returncode, done.stdout) == (0, "begun\n"), done.stderr


@BOTH
def test_a_job_that_waits_or_has_ended_gets_a_sentence(here: Entry) -> None:
    here.cluster.never_begin()
    here.cluster.say("squeue", "11|PENDING|Resources||armada.a-1.1\n")
    here.cluster.log(SUBMITTED)
    waiting = here("pwd")
    detail = "PENDING" if here.tool == "srun" else "submitted"
    said = f"armada: the job of a-1 waits in the queue ({detail}), so it has no worker; this is the login node\n"
    assert (waiting.returncode, waiting.stdout) == (0, f"{here.cluster.paths.work}\n")
    assert waiting.stderr == said
    here.cluster.say_state(state="succeeded", submission=1, attempt=1, seq=9)
    ended = here("pwd")
    assert ended.stderr == "armada: a-1 has ended, so it has no worker; this is the login node\n"
    assert here.calls == []


@BOTH
def test_a_refusal_is_told_apart_from_a_program_that_fails(here: Entry) -> None:
    words = f"{here.tool}: error: Unable to create step for job 11: Requested nodes are busy"
    here.put(here.tool, f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
    for terminal in (False, True):
        done = here("true", terminal=terminal)
        assert done.returncode == 125
        first, second = done.stderr.splitlines()
        assert first == words
        assert "could not be entered on its worker" in second
        assert "--login-node runs the program on the login node" in second


@BOTH
def test_at_a_terminal_a_program_that_fails_was_not_refused(here: Entry) -> None:
    # The program's own words, and so armada's mark, would be on the terminal.
    closes = {
        "srun": "srun: error: n1: task 0: Exited with exit code 3",
        "condor_ssh_to_job": "Connection to w closed.\r",
    }
    here.put(here.tool, f"#!/bin/sh\necho \"$@\" >> {{folder}}/told\nprintf '{closes[here.tool]}\\n' >&2\nexit 3\n")
    done = here("true", terminal=True)
    assert (done.returncode, done.stderr) == (3, "")
    digits = (here.cluster.folder / "told").read_text().split()[-1].rstrip("'")
    assert "@@ARMADA" not in bytes.fromhex(digits).decode()


@pytest.mark.parametrize("cluster", ["slurm"], indirect=True)
def test_a_slurm_without_overlap_is_named(here: Entry) -> None:
    here.put("srun", "#!/bin/sh\necho \"srun: unrecognized option '--overlap'\" >&2\nexit 1\n")
    done = here("true")
    assert done.returncode == 125
    assert "this Slurm is older than 20.11, whose srun has no --overlap" in done.stderr


@BOTH
def test_a_tool_that_is_not_there_is_named(here: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    (here.cluster.folder / here.tool).unlink()
    monkeypatch.setenv("PATH", str(here.cluster.folder))
    for name in ("cat", "sh"):
        (here.cluster.folder / name).symlink_to(f"/bin/{name}")
    done = here("true")
    assert done.returncode == 125
    assert f"{here.tool} is not on the login node" in done.stderr


@BOTH
def test_a_jobs_id_that_is_none_reaches_no_tool(here: Entry) -> None:
    file = here.run / "submissions/1/job.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"job_id": "--help"}))
    here.cluster.say("squeue", "11|RUNNING|None|n1|armada.a-1.1\n")
    done = here("true")
    assert here.calls == []
    assert "armada: " in done.stderr


def test_armadas_mark_is_found_however_the_bytes_arrive() -> None:
    text = b"hello\n@@ARMADA begun on the worker\nsrun: error: n1: task 0: Exited with exit code 3\nsrun: error: other\nend"
    for size in range(1, len(text)):
        words = Words()
        passed = b"".join(words.take(text[at : at + size]) for at in range(0, len(text), size)) + words.rest()
        assert passed == b"hello\nsrun: error: other\nend"
        assert words.begun
    prompt = Words()
    assert prompt.take(b"Password: ") == b"Password: "
    assert prompt.take(b"srun") == b"srun"
