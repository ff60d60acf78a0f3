"""A real podman and a real docker for tests, with stores of their own, and a small image with a shell and without Python."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import resource
import shutil
import signal
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from armada_agent.foundation import process_identity

from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGE = "localhost/armada-test:1"
_PROGRAMS = ("sh", "sleep", "cat", "id", "env", "touch", "ls", "true")
_CONF = '[containers]\ncgroups = "disabled"\ndefault_ulimits = ["nofile={files}", "nproc={processes}"]\n'
_SHIM = """#!/bin/sh
# Programs in a container need limits that this machine may grant, and one hierarchy of cgroups.
export CONTAINERS_CONF={folder}/containers.conf CONTAINERS_REGISTRIES_CONF={folder}/registries.conf
set -- {program} --root {folder}/store --runroot {folder}/run --storage-driver vfs "$@"
[ -e /sys/fs/cgroup/cgroup.controllers ] && exec "$@"
exec unshare -m sh -c 'umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"' podman "$@"
"""


_DOCKER = """#!/bin/sh
exec {program} --host unix://{folder}/socket "$@"
"""
_DAEMON = (
    *("--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs", "--live-restore"),
    *(
        "--data-root={folder}/data",
        "--exec-root={folder}/exec",
        "--pidfile={folder}/pid",
        "--host=unix://{folder}/socket",
    ),
)


@dataclass(frozen=True)
class ContainerTool:
    """The program, in a folder that a test puts first on PATH."""

    program: Path

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def path(self) -> str:
        return f"{self.program.parent}:{os.environ['PATH']}"

    def __call__(self, *words: str, check: bool = True) -> str:
        done = subprocess.run([self.program, *words], capture_output=True, text=True, check=False)
        assert not check or not done.returncode, done.stderr
        return done.stdout.strip()

    def containers(self) -> list[str]:
        return self("ps", "--all", "--format", "{{.Names}}").split()

    def import_image(self, name: str, tree: Path, *words: str) -> None:
        archive = tree.with_suffix(".tar")
        with tarfile.open(archive, "w") as packed:
            packed.add(tree, ".")
        self("import", *words, str(archive), name)

    def trust(self, registry: str) -> None:
        """Let podman speak HTTP with a registry of this machine, as docker does."""
        if self.name == "podman":
            settings = f'[[registry]]\nlocation = "{registry}"\ninsecure = true\n'
            (self.program.parent.parent / "registries.conf").write_text(settings)

    def clear(self) -> None:
        if names := self.containers():
            self("rm", "--force", *names)

    def start_daemon(self) -> None:
        """Start docker's daemon, and wait for its answer."""
        folder = self.program.parent.parent
        with (folder / "daemon.log").open("ab") as log:
            words = [word.format(folder=folder) for word in _DAEMON]
            daemon = subprocess.Popen(["dockerd", *words], stdout=log, stderr=log, start_new_session=True)
        eventually(lambda: self("info", "--format", "{{.ServerVersion}}", check=False) or daemon.poll() is not None)
        assert daemon.poll() is None, (folder / "daemon.log").read_text()[-2000:]

    def stop_daemon(self) -> None:
        """End docker's daemon; containers run on."""
        pid = int((self.program.parent.parent / "pid").read_text())
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: (stat := process_identity.read_stat(pid)) is None or not stat.is_alive)

    def restart_daemon(self) -> None:
        self.stop_daemon()
        self.start_daemon()


def no_docker() -> str | None:
    """Say why there can be no docker here; None if there can."""
    if os.getuid() or shutil.which("dockerd") is None or shutil.which("docker") is None:
        return "docker is tested where root has dockerd (apt-get install docker.io tini)"
    return None


def no_podman() -> str | None:
    """Say why there can be no podman here; None if there can."""
    if shutil.which("podman") is None:
        return "podman is not installed (apt-get install podman crun catatonit)"
    if os.getuid():
        return "podman is tested as root: without, it needs ids of its own in /etc/subuid"
    return None


@contextlib.contextmanager
def docker(folder: Path) -> Iterator[ContainerTool]:
    """Run a docker daemon whose images and containers lie below a folder, with one image."""
    found = _write(folder / "bin" / "docker", _DOCKER.format(folder=folder, program=shutil.which("docker")))
    found.start_daemon()
    try:
        found.import_image(IMAGE, _tree(folder / "tree"))
        yield found
    finally:
        found.stop_daemon()
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for left in sorted((place for place in mounts if place.startswith(f"{folder}/")), reverse=True):
            subprocess.run(["umount", left], check=True)


def _write(program: Path, text: str) -> ContainerTool:
    program.parent.mkdir(parents=True)
    program.write_text(text)
    program.chmod(0o755)
    return ContainerTool(program)


@contextlib.contextmanager
def podman_or_skip() -> Iterator[ContainerTool]:
    """Make a podman that has run a container, or skip the test with the reason why there is none."""
    if (reason := no_podman()) is not None:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="pod-", dir="/tmp") as folder:  # podman wants at most 50 characters
        found = make_podman(Path(folder) / "p")
        try:
            found("run", "--rm", "--network", "host", "--entrypoint", "true", IMAGE)
        except AssertionError as error:
            pytest.skip(f"podman cannot run a container on this machine: {error}")
        yield found


def make_podman(folder: Path) -> ContainerTool:
    """Make a podman whose images and containers lie below a folder, with one image."""
    folder.mkdir(parents=True)
    limits = {"files": resource.RLIMIT_NOFILE, "processes": resource.RLIMIT_NPROC}
    # podman raises limits to what a machine's root may have; a sandbox's root may not.
    found = {name: "{0}:{0}".format(min(4096, resource.getrlimit(limit)[0] % 2**63)) for name, limit in limits.items()}
    (folder / "containers.conf").write_text(_CONF.format(**found))
    (folder / "registries.conf").write_text("")
    podman = _write(folder / "bin" / "podman", _SHIM.format(folder=folder, program=shutil.which("podman")))
    podman.import_image(IMAGE, _tree(folder / "tree"))
    return podman


def _tree(tree: Path) -> Path:
    """Copy a few programs and what they are linked to."""
    for name in _PROGRAMS:
        _copy(Path(os.path.realpath(str(shutil.which(name)))), tree, f"/bin/{name}")
    for name in ("tmp", "dev", "proc", "sys", "etc", "run"):
        (tree / name).mkdir(exist_ok=True)
    (tree / "inside").write_text("yes")
    return tree


def _copy(program: Path, tree: Path, name: str) -> None:
    for library in {*re.findall(r"(/\S+)", _linked(program))}:
        _put(Path(library), tree / library.lstrip("/"))
    _put(program, tree / name.lstrip("/"))


@functools.cache
def _linked(program: Path) -> str:
    return subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout


def _put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_file() and not target.exists():
        shutil.copy(source, target)
