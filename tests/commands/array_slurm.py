"""A stand-in for Slurm that knows arrays: it runs their jobs on this machine, as many at once as the array says.

Links named `sbatch`, `squeue`, `scancel` and `scontrol` start this file; what they know is in the folder of the link.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("sbatch", "squeue", "scancel", "scontrol")
FOLDER = Path(sys.argv[0]).parent


def install(folder: Path, largest: int = 1001) -> None:
    """Put the programs into a folder.

    Args:
        folder: It is made.
        largest: How many jobs an array may have.
    """
    folder.mkdir()
    (folder / "config").write_text(f"MinJobAge = 300 sec\nMaxArraySize = {largest}\n")
    for name in NAMES:
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} -I {__file__} "$0" "$@"\n')
        (folder / name).chmod(0o755)


def make_cluster(folder: Path, env: dict[str, str], **settings: str) -> Path:
    """Make this machine a cluster for the commands of a test; return the folder of its programs.

    Args:
        folder: The test's, with a `home`.
        env: The commands' environment; its PATH is changed.
        settings: More settings of the host `local`.
    """
    programs = folder / "slurm"
    install(programs)
    env["PATH"] = f"{programs}:{os.environ['PATH']}"
    hosts = folder / "home" / "config" / "hosts.yaml"
    hosts.parent.mkdir(parents=True)
    hosts.write_text(json.dumps({"hosts": {"local": {"scheduler": "slurm", "slurm": {"poll": "1s"}, **settings}}}))
    return programs


@contextlib.contextmanager
def changing() -> Iterator[dict[str, Any]]:
    """The jobs by id, with a lock held; what is changed in them is kept."""
    with (FOLDER / "jobs").open("a+") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.seek(0)
        jobs = json.loads(stream.read() or "{}")
        yield jobs
        stream.truncate(0)
        stream.write(json.dumps(jobs))


def sbatch(words: list[str]) -> None:
    """Submit a script, as an array or as one job."""
    if "--test-only" in words:
        sys.stdin.read()
        return
    with (FOLDER / "sbatch.calls").open("a") as stream:
        stream.write(" ".join(words) + "\n")
    if (FOLDER / "refuses").exists():
        sys.exit("sbatch: error: " + (FOLDER / "refuses").read_text())
    options = dict(word.lstrip("-").partition("=")[::2] for word in words if word.startswith("--"))
    script = next(word for word in words if not word.startswith("--"))
    inside = dict(
        line.removeprefix("#SBATCH --").partition("=")[::2]
        for line in Path(script).read_text().splitlines()
        if line.startswith("#SBATCH --")
    )
    options = {**inside, **options}
    tasks, _, limit = options.get("array", "").partition("%")
    with changing() as jobs:
        number = 100 + len({key.partition("_")[0] for key in jobs})
        last = int(tasks.partition("-")[2]) if tasks else -1
        ids = [f"{number}_{index}" for index in range(last + 1)] or [str(number)]
        jobs.update({key: {"name": options["job-name"], "state": "PENDING", "pid": None} for key in ids})
    if os.fork() == 0:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.closerange(3, 256)
        room = threading.Semaphore(int(limit or len(ids)))
        rest = words[words.index(script) :]
        threads = [threading.Thread(target=run, args=(key, rest, options, room)) for key in ids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os._exit(0)
    print(number)


def run(key: str, argv: list[str], options: dict[str, str], room: threading.Semaphore) -> None:
    """Run one job when there is room for it."""
    array, _, index = key.partition("_")
    with room:
        own = {"SLURM_JOB_ID": str(int(array) * 1000 + int(index or 0))}
        own |= {"SLURM_ARRAY_JOB_ID": array, "SLURM_ARRAY_TASK_ID": index} if index else {}
        with changing() as jobs:
            if jobs[key]["state"] != "PENDING":
                return
            with Path(options["output"].replace("%a", index)).open("ab") as log:
                job = subprocess.Popen(
                    ["bash", *argv], cwd=options["chdir"], env={**os.environ, **own}, stdout=log, stderr=log
                )
            jobs[key].update(state="RUNNING", pid=job.pid)
        status = job.wait()
        with changing() as jobs:
            jobs[key].update(state="FAILED" if status else "COMPLETED", pid=None)


def squeue(_words: list[str]) -> None:
    """List all jobs."""
    with changing() as jobs:
        for key, job in jobs.items():
            print(f"{key}|{job['state']}|None|{'n1' if job['pid'] else ''}|{job['name']}")


def scancel(words: list[str]) -> None:
    """Cancel a job that waits; send a signal to one that runs."""
    with changing() as jobs:
        job = jobs[words[-1]]
        if job["state"] == "PENDING":
            job["state"] = "CANCELLED"
        elif job["pid"]:
            os.kill(job["pid"], signal.SIGTERM)


def scontrol(words: list[str]) -> None:
    """Show the configuration, or a job."""
    if words[:2] == ["show", "config"]:
        print((FOLDER / "config").read_text(), end="")
    if words[-3:-1] != ["show", "job"]:
        return
    with changing() as jobs:
        job = jobs.get(words[-1])
    array, _, index = words[-1].partition("_")
    if job is None:
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    place = f"ArrayJobId={array} ArrayTaskId={index} " if index else ""
    print(f"JobId={array} {place}JobName={job['name']} JobState={job['state']} Reason=None NodeList=(null)")


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1]).resolve().parent
    {"sbatch": sbatch, "squeue": squeue, "scancel": scancel, "scontrol": scontrol}[Path(sys.argv[1]).name](sys.argv[2:])
