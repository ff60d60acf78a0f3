"""A person's own programs on the workers of real Slurm and real HTCondor: `armada exec`, `ssh` and `forward`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.commands.test_access import HOSTILE
from tests.conftest import Armada, eventually
from tests.fleet.batch_hosts import Cluster, add_cluster
from tests.fleet.conftest import Fleet
from tests.fleet.test_access import page
from tests.fleet.typist import Typist
from tests.free_port import kept_free

pytestmark = [pytest.mark.timeout(900)]
SERVE = """
import http.server
server = http.server.HTTPServer(("0.0.0.0", 0), http.server.SimpleHTTPRequestHandler)
open("port", "w").write(str(server.server_port))
server.serve_forever()
"""
SHOW = "import json, os, socket, sys; print(json.dumps([os.getcwd(), dict(os.environ), sys.argv[1:], socket.gethostname()]))"


@pytest.fixture(
    params=[pytest.param(engine, marks=pytest.mark.xdist_group(engine)) for engine in ("slurm", "htcondor")]
)
def cluster(request: pytest.FixtureRequest, armada: Armada, fleet: Fleet) -> Cluster:
    return add_cluster(armada, fleet, request.param)


def begin(cluster: Cluster, *argv: str, **more: Any) -> str:
    resources = {"memory": "200M", **more.pop("resources", {})}
    cluster.armada.command(*argv, resources=resources, **more)
    run_id = cluster.launch()
    cluster.becomes(run_id, "running")
    return run_id


def read(armada: Armada, run_id: str, name: str) -> str:
    """The content of a file of the work folder, as the worker sees it."""
    return armada.run("exec", run_id, "--", "cat", name).stdout.strip()


def test_a_command_runs_on_the_worker_of_the_run(cluster: Cluster) -> None:
    cluster.armada.env["MY_TOKEN"] = "s3cr3t"
    run_id = begin(cluster, "sh", "-c", "hostname > where; sleep 600", env={"MINE": "a b"}, secrets=["MY_TOKEN"])
    try:
        where = eventually(lambda: read(cluster.armada, run_id, "where"))
        done = cluster.armada.run("exec", run_id, "--", "python3", "-c", SHOW, *HOSTILE)
        assert (done.returncode, done.stderr) == (0, "")
        folder, seen, words, host = json.loads(done.stdout)
        assert folder.endswith(f"/runs/{run_id}/work")
        assert (seen["MINE"], words, host) == ("a b", HOSTILE, where)
        assert "MY_TOKEN" not in seen
        ends = cluster.armada.run("exec", run_id, "--", "sh", "-c", "echo words >&2; exit 7")
        assert (ends.returncode, ends.stderr) == (7, "words\n")
    finally:
        cluster.armada.run("stop", run_id, "--grace", "0")
    ended = cluster.armada.run("exec", run_id, "--", "pwd")
    assert ended.returncode == 0
    assert "has ended, so it has no worker; this is the login node" in ended.stderr


def test_a_shell_on_the_worker_sees_its_gpus_and_has_a_terminal(armada: Armada, fleet: Fleet, cluster: Cluster) -> None:
    file = armada.folder / "home" / "config" / "hosts.yaml"
    file.write_text(file.read_text().replace("    profile: cpu\n", ""))
    script = "echo $CUDA_VISIBLE_DEVICES > gpus; sleep 600"
    run_id = begin(cluster, "sh", "-c", script, resources={"gpus": 2, "cpus": 1})
    try:
        gpus = eventually(lambda: read(armada, run_id, "gpus"))
        with Typist(armada, "ssh", run_id) as person:
            person.types("tty && pwd && echo has $CUDA_VISIBLE_DEVICES")
            person.waits_for("/dev/pts/")
            person.waits_for(f"/runs/{run_id}/work")
            person.waits_for(f"has {gpus}")
            person.types("""sh -c "trap 'echo he''ard; exit 0' INT; echo rea''dy; while :; do sleep 0.1; done" """)
            person.waits_for("ready")
            person.presses(b"\x03")
            person.waits_for("heard")
            person.types("exit 3")
            assert person.status() == 3
    finally:
        armada.run("stop", run_id, "--grace", "0")


def test_a_port_of_the_worker_leads_here(cluster: Cluster) -> None:
    run_id = begin(cluster, "python3", "-c", SERVE)
    try:
        remote = eventually(lambda: read(cluster.armada, run_id, "port"))
        with kept_free() as local, Typist(cluster.armada, "forward", run_id, f"{remote}:{local}") as person:
            person.waits_for(f"localhost:{local} is port {remote} of ")
            assert ">port</a>" in str(eventually(lambda: page(local)))
            assert person.interrupts() == 0
    finally:
        cluster.armada.run("stop", run_id, "--grace", "0")


def test_a_waiting_run_says_that_it_has_no_worker(cluster: Cluster) -> None:
    blocker = cluster.occupy()
    try:
        cluster.armada.command("true", resources={"memory": "200M"})
        run_id = cluster.launch()
        cluster.becomes(run_id, "queued")
        done = cluster.armada.run("exec", run_id, "--", "pwd")
        assert done.returncode == 0
        assert "waits in the queue" in done.stderr
        assert cluster.armada.run("forward", run_id, "6006").returncode == 8
    finally:
        cluster.leave(blocker)
