"""Hosts as they are: odd shells, start-up files that talk, read-only homes, no rsync, libraries that break other programs."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from armada.config.hosts import Host
from armada.errors import HostUnreachable, ProvisionFailed
from armada.foundation.progress import TransferProgress
from armada.paths import HomePaths
from armada.provision.content import send, take_stock
from armada.rpc.session import HostSession
from armada.transport import connect
from armada.transport.ssh.handshake import scan
from armada.transport.ssh.host_keys import pin
from armada.transport.ssh.resolve import resolve
from tests.conftest import Armada, eventually
from tests.fleet import machines
from tests.fleet.batch_hosts import add_cluster
from tests.fleet.conftest import NAMES

if TYPE_CHECKING:
    from tests.fleet.conftest import BadLink, Fleet, SshHost
    from tests.fleet.machines import Machine

pytestmark = pytest.mark.timeout(300)
ODD = "a100-2"


def fresh_root(below: str = "/tmp") -> str:  # on the host
    """A folder that no earlier test has used: hosts outlive tests."""
    return f"{below}/odd-{uuid.uuid4().hex}"


@contextmanager
def changed(fleet: Fleet, how: str, back: str, *, stdin: bytes = b"") -> Iterator[Machine]:
    """Have a host to oneself in another condition, and put it back."""
    with fleet.borrow(ODD) as machine:
        try:
            fleet.run(machine.name, how, stdin=stdin)
            yield machine
        finally:
            fleet.run(machine.name, back)


@contextmanager
def session_with(home: HomePaths, machine: Machine, **more: Any) -> Iterator[HostSession]:
    host = Host(name=machine.name, ssh=more.pop("ssh", machine.target), identity=machines.IDENTITY, **more)
    pin(home, host.name, scan(resolve(host), home))
    with closing(HostSession(host, home, patience_s=20.0)) as session:
        yield session


def add(armada: Armada, machine: Machine, *more: str) -> None:
    done = armada.run(
        "hosts", "add", machine.name, machine.target, "--identity", str(machines.IDENTITY), "--yes", *more
    )
    assert done.returncode == 0, done.stdout + done.stderr


def check_that_a_run_with_files_works(armada: Armada, machine: Machine, *more: str) -> dict[str, Any]:
    """Add a host, launch a command whose project travels there, and see its output; the run as `show` tells it."""
    add(armada, machine, *more)
    project = armada.folder / "project"
    project.mkdir()
    (project / "said.txt").write_text("as it was sent")
    for command in (("init", "-q"), ("add", "."), ("-c", "user.email=a@b", "-c", "user.name=a", "commit", "-qm", "x")):
        subprocess.run(["git", *command], cwd=project, check=True, capture_output=True)
    experiment = armada.command("sh", "-c", "cat said.txt; umask", code="project")
    run_id = armada.json("launch", "--host", machine.name, experiment)["run_id"]
    (run,) = eventually(lambda: [r for r in armada.json("ps") if r["state"] in ("succeeded", "failed")])
    said = armada.run("logs", run_id)
    assert (run["state"], "as it was sent" in said.stdout) == ("succeeded", True), said.stdout + said.stderr
    found: dict[str, Any] = run
    return found


def received(fleet: Fleet, machine: Machine, session: HostSession, content: Any) -> str:
    folder = session.paths.content(content.kind, content.sha)
    return fleet.run(machine.name, f"cd '{folder}' && find . -type f | sort | xargs -d '\\n' sha256sum")


@pytest.mark.fault(
    "host without rsync, or with one that is too old or disturbed by its shell",
    "files go as a tar stream through the agent, every hash checked as always",
)
@pytest.mark.parametrize(
    ("how", "back"),
    [
        ("mv /usr/bin/rsync /usr/bin/rsync.away", "mv /usr/bin/rsync.away /usr/bin/rsync"),
        (
            (
                "mv /usr/bin/rsync /usr/bin/rsync.away; "
                "printf '#!/bin/sh\\necho rsync: -s: unknown option >&2; exit 1\\n' > /usr/bin/rsync; chmod 755 /usr/bin/rsync"
            ),
            "mv /usr/bin/rsync.away /usr/bin/rsync",
        ),
        ('echo \'echo {\\"jsonrpc\\": \\"2.0\\"}\' > /root/.bashrc', "rm /root/.bashrc"),
    ],
    ids=["missing", "too old", "a .bashrc that prints"],
)
def test_files_travel_without_rsync_and_arrive_as_they_were(
    fleet: Fleet, home: HomePaths, source: Path, tmp_path: Path, how: str, back: str
) -> None:
    (source / "large").write_bytes(os.urandom(3_000_000))
    content = take_stock("code", source, [*NAMES, "large"])
    seen: list[TransferProgress] = []
    with changed(fleet, how, back) as machine, session_with(home, machine, root=fresh_root()) as session:
        assert send(session, content, seen.append)
        assert session.without_rsync
        said = received(fleet, machine, session, content)
        assert not send(session, content, seen.append)
    for _, _, sha256, _ in content.manifest:
        assert sha256 in said
    assert len(said.splitlines()) == len(content.manifest)
    assert seen[-1].done_bytes == seen[-1].total_bytes == content.size_bytes


@pytest.mark.fault(
    "link reset during a tar stream, and a staged file damaged",
    "it goes on in the middle of the file; what is wrong is found and sent again",
)
def test_a_tar_stream_that_broke_off_goes_on_where_it_was_and_damage_is_found(
    fleet: Fleet, home: HomePaths, tmp_path: Path, bad_link: Callable[..., BadLink]
) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "large").write_bytes(os.urandom(20_000_000))
    (folder / "other").write_bytes(os.urandom(100_000))
    content = take_stock("data", folder, ["large", "other"])
    away = ("mv /usr/bin/rsync /usr/bin/rsync.away", "mv /usr/bin/rsync.away /usr/bin/rsync")
    reset_at: list[int] = []
    began: list[int] = []
    with changed(fleet, *away) as machine:
        link = bad_link(machine, "--mbit", "100")
        root = fresh_root()
        with session_with(home, machine, ssh=f"{machine.user}@127.0.0.1:{link.port}", root=root) as session:

            def watch(seen: TransferProgress) -> None:
                if reset_at and not began and seen.done_bytes < reset_at[0]:
                    began.append(seen.done_bytes)
                if not reset_at and seen.done_bytes > 8_000_000:
                    reset_at.append(seen.done_bytes)
                    link.reset()
                    staging = session.paths.root / content.kind / f".new-{content.sha}" / "other"
                    fleet.run(machine.name, f"head -c 100000 /dev/zero > '{staging}'")

            assert send(session, content, watch)
            said = received(fleet, machine, session, content)
    assert reset_at
    assert began, "nothing had to be sent a second time: the link was not reset in the middle"
    assert began[0] > 1_000_000, "it began anew instead of going on"
    assert all(sha256 in said for _, _, sha256, _ in content.manifest)


def test_a_full_disk_during_a_tar_stream_is_called_that(fleet: Fleet, home: HomePaths, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(os.urandom(8_000_000))
    content = take_stock("data", tmp_path, ["large"])
    root = f"/mnt/small-{os.getpid()}"
    how = f"mv /usr/bin/rsync /usr/bin/rsync.away; mkdir -p {root}; mount -t tmpfs -o size=4m,mode=700 tmpfs {root}"
    back = f"mv /usr/bin/rsync.away /usr/bin/rsync; umount -l {root}"
    with (
        changed(fleet, how, back) as machine,
        session_with(home, machine, root=root) as session,
        pytest.raises(ProvisionFailed, match="No space left"),
    ):
        send(session, content, lambda _: None)


def build_environment(session: HostSession, key: str = "odd-1") -> None:
    """Have an environment built on the host with one package from its own index, and use it."""
    answer = session.call(
        "environment.ensure",
        {"key": key, "python": ">=3.9", "requirements": "six==1.17.0\n", "torch_index": None, "optional": None},
        timeout_s=200,
    )
    assert answer["outcome"] == "built"


RC = "/root/.bashrc"
PRINTS = """echo '{"jsonrpc": "2.0", "id": 1, "result": {"hostname": "evil"}}'; printf '@@ARMADA {"hello": {}}\\n'\n"""
CONDA = """
export CONDA_PREFIX=/opt/conda CONDA_DEFAULT_ENV=base CONDA_SHLVL=1 PYTHONHOME= CONDA_PYTHON_EXE=/opt/conda/bin/python
export PATH=/opt/conda/bin:$PATH
"""
BROKEN = """
mkdir -p /opt/broken && for name in libz.so.1 libssl.so.3 libcrypto.so.3; do echo 'not a library' > /opt/broken/$name; done
echo 'export LD_LIBRARY_PATH=/opt/broken' > /root/.bashrc
"""


@pytest.mark.fault(
    "a host's start-up files print JSON and armada's own mark; csh or fish as login shell; umask 077 or 000",
    "runs, their files and environments work as on any other",
)
@pytest.mark.parametrize(
    ("how", "back"),
    [
        (f"cat > {RC}", f"rm {RC}"),
        ("usermod -s /bin/tcsh root; echo 'echo welcome' > /root/.cshrc", "usermod -s /bin/bash root; rm /root/.cshrc"),
        ("usermod -s /usr/bin/fish root", "usermod -s /bin/bash root"),
        (f"echo umask 077 > {RC}", f"rm {RC}"),
        (f"echo umask 000 > {RC}", f"rm {RC}"),
    ],
    ids=["a .bashrc that prints JSON", "csh", "fish", "umask 077", "umask 000"],
)
def test_odd_shells_change_nothing(armada: Armada, fleet: Fleet, how: str, back: str) -> None:
    for shell in ("/bin/tcsh", "/usr/bin/fish"):
        if shell in how and not Path(shell).exists():
            pytest.skip(f"{shell} is not installed")
    with changed(fleet, how, back, stdin=PRINTS.encode()) as machine:
        run = check_that_a_run_with_files_works(armada, machine, "--root", fresh_root())
        root = armada.json("hosts", "check", machine.name)[0]["root"]
        run_folder = f"{root}/runs/{run['run_id']}"
        modes = fleet.run(
            machine.name, f"stat -c %a {root} {run_folder} {run_folder}/spec.json {run_folder}/output.log"
        )
        assert set(modes.split()) <= {"700", "600"}


@pytest.mark.fault(
    "conda's base active in a start-up file; LD_LIBRARY_PATH with a broken libz and libssl; /tmp noexec",
    "runs work; environments are built with the host's own Python, not conda's",
)
@pytest.mark.parametrize(
    ("how", "back"),
    [
        (
            f"python3 -m venv --without-pip /opt/conda; mkdir /opt/conda/conda-meta; cat > {RC}",
            f"rm -rf /opt/conda {RC}",
        ),
        (BROKEN, f"rm -rf /opt/broken {RC}"),
        ("mount -o remount,noexec /tmp", "mount -o remount,exec /tmp"),
    ],
    ids=["conda base", "broken libraries", "noexec /tmp"],
)
@pytest.mark.takes_long("a whole launch, its checkpoint brought home, and an environment built")
def test_what_start_up_files_and_mounts_do_to_other_programs_does_not_reach_runs(
    armada: Armada, home: HomePaths, fleet: Fleet, tmp_path: Path, how: str, back: str
) -> None:
    root = fresh_root("/root")
    with changed(fleet, how, back, stdin=CONDA.encode()) as machine:
        check_that_a_run_with_files_works(armada, machine, "--root", root)
        with session_with(home, machine, root=root) as session:
            build_environment(session)
            found = fleet.run(
                machine.name, f"{root}/envs/odd-1/bin/python -c 'import six, sys; print(sys.base_prefix)'"
            )
            assert "conda" not in found
        fleet.run(machine.name, f"rm -rf {root}")


@pytest.mark.fault(
    "HOME read-only, or full",
    "said in a sentence with what to do; with `root:` elsewhere everything works",
)
@pytest.mark.parametrize(
    ("how", "back", "says"),
    [
        (
            (
                "rm -rf /tmp/odd-home; mkdir -m 700 /tmp/odd-home && cp -a /root/.ssh /tmp/odd-home/"
                " && mount --bind /tmp/odd-home /root && mount -o remount,bind,ro /root"
            ),
            "umount -l /root",
            "Read-only file system",
        ),
        (
            (
                "mkdir -p /root/.armada; mount -t tmpfs -o size=64k,mode=700 tmpfs /root/.armada; "
                "head -c 1M /dev/zero > /root/.armada/filler 2>/dev/null || true"
            ),
            "umount -l /root/.armada",
            "No space left",
        ),
    ],
    ids=["read-only", "full"],
)
def test_a_home_that_takes_no_files_is_said_and_another_root_works(
    armada: Armada, fleet: Fleet, tmp_path: Path, how: str, back: str, says: str
) -> None:
    with changed(fleet, how, back) as machine:
        refused = armada.run(
            "hosts", "add", machine.name, machine.target, "--identity", str(machines.IDENTITY), "--yes"
        )
        assert refused.returncode == 5, refused.stderr
        assert says in refused.stderr
        assert "root" in refused.stderr.partition("→")[2], "the remedy is another `root`"
        assert armada.run("hosts", "rm", machine.name).returncode == 0
        check_that_a_run_with_files_works(armada, machine, "--root", fresh_root())


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
#define AHEAD 7200
int clock_gettime(clockid_t id, struct timespec *t) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int rc = real(id, t);
  if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) t->tv_sec += AHEAD;
  return rc;
}
int gettimeofday(struct timeval *t, void *z) {
  struct timespec s; clock_gettime(CLOCK_REALTIME, &s);
  t->tv_sec = s.tv_sec; t->tv_usec = s.tv_nsec / 1000; return 0;
}
time_t time(time_t *t) { struct timespec s; clock_gettime(CLOCK_REALTIME, &s); if (t) *t = s.tv_sec; return s.tv_sec; }
"""


@pytest.mark.fault(
    "a host's clock two hours ahead",
    "said before a launch; the run is seen and ends as on any other",
)
@pytest.mark.takes_long("a whole launch, its checkpoint brought home, and a second plan, with a login each")
def test_a_host_whose_clock_is_two_hours_ahead_says_so_and_its_runs_are_seen(
    armada: Armada, fleet: Fleet, tmp_path: Path
) -> None:
    """The host's programs see another time, its kernel does not: file times stay right, as on no real host."""
    (tmp_path / "clock.c").write_text(CLOCK)
    library = tmp_path / "clock.so"
    compiled = ["cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "clock.c"), "-ldl"]
    try:
        subprocess.run(compiled, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no C compiler to make another clock with: {error}")
    how = f"cat > /opt/clock.so; echo 'export LD_PRELOAD=/opt/clock.so' > {RC}"
    with changed(fleet, how, f"rm {RC} /opt/clock.so", stdin=library.read_bytes()) as machine:
        run = check_that_a_run_with_files_works(armada, machine, "--root", fresh_root())
        planned = armada.run("launch", "--host", machine.name, armada.command("true", name="again"), "--dry-run")
        assert "ARM007 the host's clock is" in planned.stdout
        assert "ahead" in planned.stdout
        assert run["state"] == "succeeded"
        shown = armada.run("show", run["run_id"])
        assert "-" not in shown.stdout.partition("ran ")[2][:12], "no negative times"


@pytest.mark.fault(
    "sshd with OpenSSH's default MaxStartups (10:30:100) and MaxSessions (10), twelve armadas at once",
    "all of them are answered",
)
@pytest.mark.takes_long("twelve armadas at once on two cores, each with logins of its own")
def test_many_armadas_at_once_get_through_the_default_limits_of_sshd(armada: Armada, fleet: Fleet) -> None:
    with fleet.borrow(ODD) as machine:
        limits = fleet.run(machine.name, "/usr/sbin/sshd -T").lower()
        assert "maxstartups 10:30:100" in limits
        assert "maxsessions 10\n" in limits
        add(armada, machine)
        running = [armada.start("hosts", "check", machine.name) for _ in range(12)]
        ended = [(process.communicate(timeout=200), process.returncode) for process in running]
        assert [code for _, code in ended] == [0] * 12, ended


MODULES = """
module() {
  [ "$1" = load ] || { echo "module: no $1" >&2; return 1; }
  case $2 in
    cuda/12.4) export CUDA_HOME=/opt/cuda-12.4 PATH=/opt/cuda-12.4/bin:$PATH;;
    old/1.0) echo "ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for '$2'" >&2;;
    *) echo "Lmod has detected the following error: The following module(s) are unknown: \\"$2\\"" >&2; return 1;;
  esac
}
"""
PROFILE_D = "/etc/profile.d/odd-modules.sh"


def with_setup(armada: Armada, host: str, lines: list[str]) -> None:
    file = armada.folder / "home" / "config" / "hosts.yaml"
    kept = [line for line in file.read_text().splitlines() if not line.startswith("    setup:")]
    kept.insert(kept.index(f"  {host}:") + 1, f"    setup: {json.dumps(lines)}")
    file.write_text("\n".join(kept) + "\n")


@pytest.mark.fault(
    "a host that needs `module load` lines before anything, and one of them fails",
    "runs and builds have what they load; a line that fails is named before anything starts",
)
@pytest.mark.takes_long("an environment is built, and each of three lines that fail is met in three ways")
def test_setup_lines_reach_builds_and_runs_and_one_that_fails_is_named(
    armada: Armada, home: HomePaths, fleet: Fleet, tmp_path: Path
) -> None:
    root = fresh_root()
    quoted = "export SAID='it''s \"$HOME\" `id`; $(x)' # a comment"
    with changed(fleet, f"cat > {PROFILE_D}", f"rm {PROFILE_D}", stdin=MODULES.encode()) as machine:
        add(armada, machine, "--root", root)
        with_setup(armada, machine.name, ["module load cuda/12.4", quoted])
        told = armada.command("sh", "-c", 'echo "home $CUDA_HOME said $SAID"; command -v sh')
        run_id = armada.json("launch", "--host", machine.name, told)["run_id"]
        eventually(lambda: armada.json("ps")[0]["state"] == "succeeded")
        assert 'home /opt/cuda-12.4 said its "$HOME" `id`; $(x)' in armada.run("logs", run_id).stdout
        with session_with(home, machine, root=root, setup=("module load cuda/12.4",)) as session:
            build_environment(session)
        for line, words in (
            ("module load nonesuch/9", "unknown"),
            ("module load old/1.0", "Unable to locate"),
            ("exit 3", "ended the shell"),
        ):
            with_setup(armada, machine.name, ["module load cuda/12.4", line])
            refused = armada.run("launch", "--host", machine.name, armada.command("true", name="refused"))
            assert refused.returncode == 3, refused.stderr
            assert f"setup line 2 of this host (`{line}`)" in refused.stderr
            assert words in refused.stderr
            assert "setup line 2" in armada.run("hosts", "check", machine.name).stdout
            with (
                session_with(home, machine, root=root, setup=(line,)) as session,
                pytest.raises(ProvisionFailed, match="setup line 1"),
            ):
                build_environment(session, "odd-2")
        assert len(armada.json("ps")) == 1, "nothing was started"


@pytest.mark.fault(
    "a cluster that needs `module load` lines before anything, and one of them fails on the worker",
    "its tools and its jobs have what they load; the run says which line failed",
)
@pytest.mark.parametrize(
    ("engine", "where", "in_a_job"),
    [
        pytest.param("slurm", ("slurm", "slurm-2"), "SLURM_JOB_ID", marks=pytest.mark.xdist_group("slurm")),
        pytest.param("htcondor", ("condor",), "_CONDOR_SCRATCH_DIR", marks=pytest.mark.xdist_group("htcondor")),
    ],
    ids=["slurm", "htcondor"],
)
@pytest.mark.takes_long("the batch system must start the job")
def test_setup_lines_reach_a_batch_systems_tools_and_its_jobs(
    armada: Armada, fleet: Fleet, engine: str, where: tuple[str, ...], in_a_job: str
) -> None:
    cluster = add_cluster(armada, fleet, engine)
    modules = MODULES.replace("case $2 in", "case $2 in\n    engine) export ODD_LOADED=yes;;")
    for machine in where:
        fleet.run(machine, f"cat > {PROFILE_D}", stdin=modules.encode())
    try:
        with_setup(armada, cluster.host, ["module load engine", "module load cuda/12.4  # for nvcc"])
        armada.command("sh", "-c", "echo $ODD_LOADED $CUDA_HOME", resources={"cpus": 1})
        run_id = cluster.launch()
        cluster.becomes(run_id, "succeeded")
        assert "yes /opt/cuda-12.4" in armada.run("logs", run_id).stdout
        # A line that fails on the worker alone.
        with_setup(armada, cluster.host, ["module load engine", f"[ -z ${in_a_job} ] || module load nonesuch/9"])
        armada.command("true", name="refused", resources={"cpus": 1})
        ended = cluster.becomes(cluster.launch(), "failed")
        assert "setup line 2 of this host failed on the worker" in ended["message"]
        assert "nonesuch/9" in ended["message"]
        # One that fails where one logs in is said before anything is handed over.
        with_setup(armada, cluster.host, ["module load nonesuch/9"])
        armada.command("true", name="refused-here", resources={"cpus": 1})
        assert "setup line 1 of this host (`module load nonesuch/9`)" in cluster.launch(rc=3)
    finally:
        for machine in where:
            fleet.run(machine, f"rm {PROFILE_D}")


def test_a_connection_that_has_no_session_left_says_what_the_limit_is(
    fleet: Fleet, home: HomePaths, known: Callable[..., SshHost]
) -> None:
    with closing(connect(known("workstation"), home)) as transport:
        channels = [transport.open_channel() for _ in range(10)]
        with pytest.raises(HostUnreachable) as caught:
            transport.open_channel()
        assert "MaxSessions" in str(caught.value.hint)
        for channel in channels:
            channel.close()
