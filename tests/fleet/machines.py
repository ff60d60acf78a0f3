"""A fleet of real hosts on one Linux machine, for tests: OpenSSH, HTCondor and Slurm on loopback.

Each host has its own root file system (an overlay), process tree, host name and SSH server, made with namespaces; nothing
leaves 127.0.0.0/8. Needs root, openssh-server and rsync; the Slurm hosts need slurm-wlm and munge; HTCondor and the older and newer
Slurm need trees of other Debians, which `fleet base` makes with mmdebstrap (once, two minutes).

    fleet base [NAME ...]      make those trees: trixie (HTCondor, Slurm 24.11 with accounting), bullseye (Slurm 20.11)
    fleet up [NAME ...]        start hosts (by default those without a scheduler) and wait until they answer
    fleet probe                start the hosts with batch systems and see whether those answer
    fleet ls                   say which hosts are up
    fleet ssh-config           print an ssh_config(5) file for them
    fleet exec NAME CMD ...    run a command inside a host as root, not over SSH
    fleet rekey NAME           give a host another host key, as a reinstalled machine has
    fleet reboot NAME          kill every process of a host, then start it on the same disk
    fleet freeze|thaw NAME     stop and continue every process of a host (it hangs, TCP stays up)
    fleet kill NAME            kill every process of a host; its disk stays
    fleet wipe NAME            forget a killed host's disk
    fleet down                 stop everything and forget every disk

Hosts that `fleet up` started stay until `fleet down`; those that tests started go with the last test process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

STATE = Path(os.environ.get("FLEET_STATE", "/run/armada-fleet"))
CACHE = Path(os.environ.get("FLEET_CACHE", "/var/cache/armada-fleet"))
DISK_MB = int(os.environ.get("FLEET_DISK_MB", "40000"))
MIRROR = os.environ.get("FLEET_MIRROR", "http://deb.debian.org/debian")
IMAGE = CACHE / f"{STATE.name}.ext4"
HERE = Path(__file__).resolve().parent

_PLAIN = ("openssh-server", "rsync", "iproute2", "ca-certificates", "procps", "python3", "python3-venv")
_FOREIGN_PYTHON = ("libsqlite3-0", "libffi8", "libreadline8t64", "libbz2-1.0", "liblzma5", "libssl3t64")
TREES = {
    "trixie": (*_PLAIN, *_FOREIGN_PYTHON, "minicondor", "slurm-wlm", "slurmdbd", "munge", "mariadb-server"),
    "bullseye": (*_PLAIN, "slurm-wlm", "munge"),
}
"""Other Debians whose batch systems this machine's own has not got, and what is in them."""

_TREE_OF = {"condor": "trixie", "slurm-24": "trixie", "slurm-20": "bullseye"}


@dataclass(frozen=True, slots=True)
class Machine:
    """One host of the fleet; `gpus` is MODEL:COUNT:MEMORY_MIB for its stand-in of nvidia-smi."""

    name: str
    address: str
    port: int
    user: str
    role: str
    gpus: str
    owner: str = ""

    @property
    def place(self) -> Path:
        return STATE / (f"{self.name}.{self.owner}" if self.owner else self.name)

    @property
    def root(self) -> Path:
        """Its root folder, as seen from inside its mount namespace."""
        return self.place / "root"

    @property
    def target(self) -> str:
        return f"{self.user}@{self.address}:{self.port}"


WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")


def _own(name: str, network: str, port: int, user: str, role: str, gpus: str) -> Machine:
    """A host that each test process has for itself, at an address of its own: tests reboot, freeze and rekey it."""
    number = int(WORKER.removeprefix("gw")) + 2 if WORKER else 1
    return Machine(name, f"{network}.{number}", port, user, role, gpus, WORKER)


MACHINES = {
    machine.name: machine
    for machine in (
        Machine("workstation", "127.0.1.1", 22, "researcher", "plain", "NVIDIA GeForce RTX 3090:2:24576"),
        Machine("a100-1", "127.0.1.2", 50022, "root", "plain", "NVIDIA A100-SXM4-80GB:8:81920"),
        _own("a100-2", "127.0.2", 50022, "root", "plain", "NVIDIA A100-SXM4-80GB:8:81920"),
        Machine("condor", "127.0.1.4", 22, "researcher", "condor", "NVIDIA RTX A6000:4:49140"),
        Machine("slurm", "127.0.1.5", 22, "researcher", "slurm", "NVIDIA A100-SXM-64GB:4:65536"),
        Machine("slurm-2", "127.0.1.6", 22, "researcher", "slurm-node", "NVIDIA A100-SXM-64GB:4:65536"),
        Machine("slurm-24", "127.0.1.8", 22, "researcher", "slurm-24", "none:0:0"),
        Machine("slurm-20", "127.0.1.9", 22, "researcher", "slurm-20", "none:0:0"),
        Machine("bare", "127.0.1.7", 22, "researcher", "bare", "none:0:0"),  # neither python3 nor rsync
        _own("bare-2", "127.0.3", 22, "researcher", "bare", "none:0:0"),  # a test gives it a python3
    )
}
WITHOUT_SCHEDULER = [machine for machine in MACHINES.values() if machine.role in {"plain", "bare"}]
IDENTITY = STATE / "id_ed25519"


def why_not() -> str | None:
    """Say what keeps the fleet from running on this machine, or None."""
    if sys.platform != "linux":
        return "it needs Linux namespaces"
    if os.geteuid() != 0:
        return "it needs root"
    missing = [tool for tool in ("ssh", "rsync", "unshare", "nsenter", "mkfs.ext4") if shutil.which(tool) is None]
    if not Path("/usr/sbin/sshd").exists():
        missing.append("sshd (openssh-server)")
    if missing:
        return f"not installed: {', '.join(missing)}"
    probe = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        return "this machine lets root make no namespaces or mounts (an unprivileged container?)"
    if (
        "overlay" not in Path("/proc/filesystems").read_text()
        and subprocess.run(["modprobe", "overlay"], capture_output=True, check=False).returncode
    ):
        return "the kernel has no overlay file system"
    return None


def why_not_host(machine: Machine) -> str | None:
    """Say what keeps one host of a fleet that can run from running, or None."""
    if machine.role in _TREE_OF:
        tree = _TREE_OF[machine.role]
        return (
            None if _is_whole(tree) else f"no tree of Debian {tree}; `tests/fleet/fleet base` makes it with mmdebstrap"
        )
    needed = ("slurmctld", "slurmd", "sbatch", "munged") if machine.role.startswith("slurm") else ()
    missing = [tool for tool in needed if shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    return f"not installed: {', '.join(missing)} (slurm-wlm, munge)" if missing else None


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """One process at a time starts and stops hosts."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{STATE.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def start(machines: Sequence[Machine]) -> None:
    """Start hosts that are not up, and wait until all of them answer."""
    with locked():
        _mount_state()
        for machine in machines:
            if first_pid(machine) is None:
                _boot(machine)
        for machine in machines:
            _wait_until_up(machine)


def probe() -> str | None:
    """Say why the batch systems of the fleet do not run on this machine, or None; the hosts stay up."""
    questions = {
        "slurm": "sinfo --noheader --format=%T",
        "slurm-24": "sinfo --noheader --format=%T",
        "slurm-20": "sinfo --noheader --format=%T",
        "condor": "condor_status -autoformat State",
    }
    for name, question in questions.items():
        machine = MACHINES[name]
        if reason := why_not_host(machine):
            return f"{name}: {reason}"
        deadline = time.monotonic() + 120
        start([machine])
        while not _says_ready(machine, question):
            if time.monotonic() > deadline:
                return f"{name}: `{question}` names nothing that is ready"
            time.sleep(0.5)
    return None


def _says_ready(machine: Machine, question: str) -> bool:
    try:
        said = execute(machine, ["su", "-s", "/bin/sh", machine.user, "-c", f"{question} 2>/dev/null"]).decode()
    except subprocess.CalledProcessError:
        return False
    return any(word in said for word in ("idle", "mix", "alloc", "Unclaimed"))


def kill(machine: Machine) -> None:
    """Kill every process of a host."""
    _kill(machine.place)


def _kill(place: Path) -> None:
    pid = _first_pid(place)
    if pid is None:
        return
    os.kill(pid, signal.SIGKILL)  # a PID namespace dies with its first process
    while _first_pid(place) is not None:
        time.sleep(0.02)
    (place / "pid").unlink(missing_ok=True)


def reboot(machine: Machine) -> None:
    kill(machine)
    start([machine])


def rekey(machine: Machine) -> None:
    """Replace a host's key; sshd starts anew with it, sessions go on."""
    key = "/etc/ssh/ssh_host_ed25519_key"
    before = shown_key(machine)
    execute(machine, ["sh", "-c", f"rm -f {key} {key}.pub && ssh-keygen -q -t ed25519 -N '' -f {key}"])
    os.kill(first_pid(machine) or 0, signal.SIGHUP)
    _poll(lambda: shown_key(machine) not in {before, ""}, f"{machine.name} shows no new key")


def execute(machine: Machine, argv: Sequence[str], *, stdin: bytes = b"") -> bytes:
    """Run a command inside a host as root, not over SSH, and return what it printed.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    return subprocess.run([*_enter(machine), *argv], input=stdin, stdout=subprocess.PIPE, check=True).stdout


def send(machine: Machine, what: signal.Signals) -> None:
    """Send a signal to every process of a host."""
    pid = first_pid(machine)
    for member in _tree(pid) if pid is not None else []:
        with contextlib.suppress(ProcessLookupError):  # it ended while we were counting
            os.kill(member, what)


@contextlib.contextmanager
def used() -> Iterator[None]:
    """Keep hosts up while this process uses them; they go with the last that does, unless `fleet up` started them.

    Each process holds a shared lock. Whoever gets the exclusive one afterwards is the last.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{STATE.name}.users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(users, fcntl.LOCK_UN)
            with contextlib.suppress(BlockingIOError):  # another process still uses them
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not (STATE / "kept").exists():
                    down()


def down() -> None:
    """Stop every host and forget every disk."""
    with locked():
        for place in STATE.glob("*/pid"):
            _kill(place.parent)
        if STATE.is_mount():
            subprocess.run(["umount", "-l", str(STATE)], check=True)
        IMAGE.unlink(missing_ok=True)


def first_pid(machine: Machine) -> int | None:
    """The host's first process, seen from outside; None where the host is down."""
    return _first_pid(machine.place)


def _first_pid(place: Path) -> int | None:
    try:
        outer = int((place / "pid").read_text())
        if "unshare" not in Path(f"/proc/{outer}/comm").read_text():
            return None
        return int(Path(f"/proc/{outer}/task/{outer}/children").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def ssh_config() -> str:
    """An ssh_config(5) file for the whole fleet."""
    lines = [
        f"Host {' '.join(MACHINES)}",
        f"  IdentityFile {IDENTITY}",
        "  IdentitiesOnly yes",
        f"  UserKnownHostsFile {STATE / 'known_hosts'}",
        "  StrictHostKeyChecking accept-new",
        "",
    ]
    for machine in MACHINES.values():
        lines += [f"Host {machine.name}", f"  HostName {machine.address}", f"  Port {machine.port}"]
        lines += [f"  User {machine.user}", ""]
    return "\n".join(lines)


def make_base(names: Sequence[str] = tuple(TREES)) -> None:
    """Make the trees of other Debians that are not there yet, or were made for other packages, side by side."""
    if shutil.which("mmdebstrap") is None and not all(map(_is_whole, names)):
        raise SystemExit("fleet: not installed: mmdebstrap")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "trees.lock").open("w") as lock, ThreadPoolExecutor() as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second `fleet base` waits, and finds them made
        list(pool.map(_make_tree, (name for name in names if not _is_whole(name))))


def _is_whole(tree: str) -> bool:
    made_of = CACHE / tree / "etc/fleet-packages"
    return made_of.exists() and made_of.read_text() == " ".join(TREES[tree])


def _make_tree(name: str) -> None:
    whole = CACHE / name
    part = whole.with_name(f"{name}.part")
    for leftover in (part, whole):
        shutil.rmtree(leftover, ignore_errors=True)
    # Nobody reads manuals there, and a tree that a power cut leaves half made is made anew.
    unread = [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("doc", "man", "info", "locale", "lintian")]
    options = ["--quiet", "--mode=root", "--variant=minbase", "--dpkgopt=force-unsafe-io", *unread]
    options += ['--aptopt=Acquire::Retries "3"', f"--include={','.join(TREES[name])}"]
    _run("mmdebstrap", *options, name, str(part), MIRROR)
    (part / "etc/fleet-packages").write_text(" ".join(TREES[name]))
    part.rename(whole)


def _run(*argv: str, **environment: str) -> None:
    subprocess.run(argv, check=True, env={**os.environ, **environment})


def _mount_state() -> None:
    """Mount a file system of our own: an overlay's upper layer must not lie inside its lower one, which is /."""
    STATE.mkdir(parents=True, exist_ok=True)
    if not STATE.is_mount():
        IMAGE.unlink(missing_ok=True)
        with IMAGE.open("wb") as image:
            image.truncate(DISK_MB << 20)  # sparse: it takes what the hosts write
        _run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=1", str(IMAGE))
        _run("mount", "-o", "loop,noatime", str(IMAGE), str(STATE))
    if not IDENTITY.exists():
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(IDENTITY))


def _boot(machine: Machine) -> None:
    lower = CACHE / _TREE_OF[machine.role] if machine.role in _TREE_OF else Path("/")
    if reason := why_not_host(machine):
        raise SystemExit(f"fleet: {machine.name} cannot run: {reason}")
    machine.place.mkdir(exist_ok=True)
    namespaces = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]
    details = [machine.name, str(lower), machine.address, str(machine.port), machine.user, machine.role, machine.gpus]
    details.append(str(machine.place))
    with (machine.place / "console.log").open("ab") as log:
        outer = subprocess.Popen(
            [*namespaces, "bash", str(HERE / "boot.sh"), *details],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "FLEET_STATE": str(STATE)},
        )
    (machine.place / "pid").write_text(str(outer.pid))
    outer.returncode = 0  # it is meant to outlive us, which Popen would otherwise complain about


def _wait_until_up(machine: Machine) -> None:
    log = machine.place / "console.log"
    _poll(lambda: _greets(machine), f"{machine.name} did not start; see {log}")


def _greets(machine: Machine) -> bool:
    try:
        with socket.create_connection((machine.address, machine.port), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def shown_key(machine: Machine, algorithm: str = "ed25519") -> str:
    """What a host shows to whoever asks for a kind of key, as a line of known_hosts; empty where it has none."""
    scan = ["ssh-keyscan", "-t", algorithm, "-p", str(machine.port), machine.address]
    return subprocess.run(scan, capture_output=True, text=True, check=False).stdout


def _poll(condition: Callable[[], bool], failure: str, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"fleet: {failure}")
        time.sleep(0.05)


def _enter(machine: Machine) -> list[str]:
    pid = first_pid(machine)
    if pid is None:
        raise SystemExit(f"fleet: {machine.name} is not up")
    return ["nsenter", "-t", str(pid), "-m", "-p", "-u", "-i", "chroot", str(machine.root)]


def _tree(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(member for child in children for member in _tree(int(child)))]


def main(argv: Sequence[str]) -> int:
    """Run the command line."""
    verb, rest = (argv[0], argv[1:]) if argv else ("--help", [])
    if verb == "exec":
        os.execvp("nsenter", [*_enter(MACHINES[rest[0]]), *rest[1:]])
    chosen = [MACHINES[name] for name in rest] if verb != "base" else []
    if verb == "up":
        start(chosen or WITHOUT_SCHEDULER)
        (STATE / "kept").touch()
    elif verb == "ls":
        for machine in MACHINES.values():
            print(f"{machine.name:12} {machine.target:28} {'up' if first_pid(machine) else 'down'}")
    elif verb == "ssh-config":
        print(ssh_config())
    elif verb == "base":
        make_base(rest or tuple(TREES))
    elif verb == "probe":
        if reason := why_not() or probe():
            print(f"fleet: no batch systems here: {reason}")
            return 1
    elif verb == "down":
        down()
    elif verb in _VERBS:
        for machine in chosen:
            _VERBS[verb](machine)
    else:
        print(__doc__)
        return 0 if verb in {"-h", "--help"} else 2
    return 0


_VERBS: dict[str, Callable[[Machine], None]] = {
    "rekey": rekey,
    "reboot": reboot,
    "kill": kill,
    "freeze": lambda machine: send(machine, signal.SIGSTOP),
    "thaw": lambda machine: send(machine, signal.SIGCONT),
    "wipe": lambda machine: shutil.rmtree(machine.place, ignore_errors=True),
}
