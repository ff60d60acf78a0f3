"""`armada exec`, `ssh` and `forward` for a run on a cluster's worker; tests/fleet/test_workers.py has real clusters."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from armada.monitor.worker import parse_worker
from armada.transport.forwarding import parse_ports
from tests.commands.test_access import HOSTILE
from tests.conftest import Armada, eventually
from tests.fleet.typist import Typist

PROGRAMS = {
    "sbatch": """\
for word; do
  case $word in --job-name=*) echo "${word#--job-name=}" > FOLDER/name;; *.sbatch) script=$word;; esac
done
[ -n "$script" ] || exit 0
SLURM_JOB_ID=11 setsid bash $script 1 > /dev/null 2>&1 &
echo 11
""",
    "squeue": """[ ! -e FOLDER/name ] || echo "11|$(cat FOLDER/state)|None|$(cat FOLDER/node)|$(cat FOLDER/name)"\n""",
    "scontrol": "echo 'MinJobAge               = 300 sec'\n",
    "srun": """\
echo "$@" >> FOLDER/srun.calls
while [ "${1#-}" != "$1" ]; do shift; done
ON_WORKER=1 SLURM_JOB_ID=11 exec "$@"
""",
}


@pytest.fixture
def programs(armada: Armada) -> Iterator[Path]:
    """A cluster whose login node and worker are this machine, with stand-ins for Slurm's programs."""
    folder = armada.folder / "slurm"
    folder.mkdir()
    for name, script in PROGRAMS.items():
        (folder / name).write_text("#!/bin/sh\n" + script.replace("FOLDER", str(folder)))
        (folder / name).chmod(0o755)
    (folder / "state").write_text("RUNNING")
    (folder / "node").write_text("n1")
    armada.env["PATH"] = f"{folder}:{os.environ['PATH']}"
    file = armada.folder / "home" / "config" / "hosts.yaml"
    file.parent.mkdir(parents=True)
    settings = {"scheduler": "slurm", "slurm": {"poll": "1s"}}
    file.write_text(json.dumps({"hosts": {"local": settings}}))
    yield folder
    (folder / "state").write_text("COMPLETED")


@pytest.fixture
def run_id(armada: Armada, programs: Path) -> Iterator[str]:
    """A run whose job runs."""
    experiment = armada.command("sh", "-c", "touch begun; while [ ! -e go ]; do sleep 0.05; done", env={"MINE": "a b"})
    found = str(armada.json("launch", "--host", "local", experiment)["run_id"])
    work = armada.local_runs / found / "work"
    eventually((work / "begun").exists)
    yield found
    (work / "go").touch()
    armada.await_end(found)


def test_words_reach_the_worker_and_folder_and_environment_are_the_runs(
    armada: Armada, programs: Path, run_id: str
) -> None:
    show = "import json, os, sys; print(json.dumps([os.getcwd(), os.environ['MINE'], sys.argv[1:], os.environ['SLURM_JOB_ID']]))"
    done = armada.run("exec", run_id, "--", sys.executable, "-c", show, *HOSTILE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [str(armada.local_runs / run_id / "work"), "a b", HOSTILE, "11"]
    assert (programs / "srun.calls").read_text().count("--jobid=11 --overlap") == 1
    with Typist(armada, "ssh", run_id) as person:
        person.waits_for(f"work folder of {run_id} on local")
        person.types("echo here: $PWD $SLURM_JOB_ID; exit 3")
        person.waits_for(f"here: {armada.local_runs / run_id / 'work'} 11")
        assert person.status() == 3
    assert "--pty" in (programs / "srun.calls").read_text()


def test_the_login_node_is_used_where_it_is_asked_for(armada: Armada, programs: Path, run_id: str) -> None:
    done = armada.run("exec", "--login-node", run_id, "--", "sh", "-c", "echo ${SLURM_JOB_ID:-none}")
    assert (done.returncode, done.stdout) == (0, "none\n"), done.stderr
    assert not (programs / "srun.calls").exists()


def test_a_workers_port_is_the_workers_as_the_scheduler_names_it(armada: Armada, programs: Path, run_id: str) -> None:
    refused = armada.run("forward", run_id, "6006")
    assert refused.returncode == 2
    assert "the ports of worker n1 are reachable already" in refused.stderr
    assert "http://n1:6006" in refused.stderr
    for node in ("n[1-2]", "-oProxyCommand=touch x", "a b", "n1:22"):
        (programs / "node").write_text(node)
        said = f"names no single worker of {run_id}: {node!r}"
        # The queue's last answer counts for a second.
        eventually(functools.partial(_is_refused_with, armada, run_id, said))


def _is_refused_with(armada: Armada, run_id: str, said: str) -> bool:
    refused = armada.run("forward", run_id, "6006")
    return refused.returncode == 8 and said in refused.stderr


def test_a_waiting_jobs_ports_are_nowhere(armada: Armada, programs: Path, run_id: str) -> None:
    (armada.local_runs / run_id / "work" / "go").touch()
    armada.await_end(run_id)
    refused = armada.run("forward", run_id, "6006:8006")
    assert refused.returncode == 8
    assert f"{run_id} has ended, or was not submitted yet, so it has no worker now" in refused.stderr
    assert f"armada forward --login-node {run_id} 6006:8006" in refused.stderr
    done = armada.run("exec", run_id, "--", "pwd")
    assert (done.returncode, done.stdout) == (0, f"{armada.local_runs / run_id / 'work'}\n")
    assert done.stderr == f"armada: {run_id} has ended, so it has no worker; this is the login node\n"


def test_a_cluster_whose_login_node_is_this_machine_is_not_to_be_destroyed(armada: Armada, run_id: str) -> None:
    (armada.local_runs / run_id / "work" / "go").touch()
    armada.await_end(run_id)
    before = armada.run("hosts", "release", "local", "--dry-run")
    assert before.returncode == 8
    here = "local is this machine, where home is"  # `nothing of yours is needed there` would be false, too
    assert f"{here}; not everything is at home: a wipe would lose everything marked ✗; armada" in before.stdout
    done = armada.run("hosts", "release", "local", "--drain", "--ignore-work")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == f"{here}: nothing waits there to come home"
    assert armada.json("hosts", "release", "local", "--ignore-work")["scheduler"] == "slurm"


@pytest.mark.parametrize(
    ("node", "address"),
    [
        ("n1", "n1"),
        ("slot1_2@gpu7.example.org", "gpu7.example.org"),
        ("<10.0.0.7:9618?addrs=10.0.0.7-9618>", "10.0.0.7"),
        ("n[1-2]", None),
        ("n1,n2", None),
        ("", None),
        ("-oProxyCommand=x", None),
        ("slot1@-x", None),
        ("n1:22", None),
    ],
)
def test_only_one_plain_name_is_a_workers_address(node: str, address: str | None) -> None:
    assert parse_worker(node) == address


def test_a_port_of_a_worker_leads_through_the_login_node() -> None:
    assert replace(parse_ports("6006:8006"), machine="n1").option == "127.0.0.1:8006:n1:6006"
