"""A real sshd for the user of the tests, on a port of this machine, whose sessions see only the programs that it is given."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.supervisors import kill_all
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

SSHD = Path("/usr/sbin/sshd")
PROGRAMS = (
    *("sh", "bash", "cat", "chmod", "cksum", "cp", "cut", "date", "dirname", "echo", "env", "false", "grep", "head"),
    *("id", "kill", "ln", "ls", "mkdir", "mktemp", "mv", "printf", "pwd", "readlink", "rm", "rsync", "sleep", "stat"),
    *("seq", "tail", "touch", "tr", "true", "uname", "wc"),
)
"""What a box has; not python3, apt-get, dnf or sudo."""


def why_not() -> str | None:
    """Say what keeps sshd from running here, or None."""
    if sys.platform != "linux":
        return "its box has the programs of a Linux"
    if not SSHD.exists():
        return "there is no sshd (openssh-server)"
    return None


@dataclass
class SshServer:
    """A running sshd.

    Attributes:
        folder: Everything of it: keys, `bin` (the programs of its sessions), `home` (their $HOME; they start in the real one).
    """

    folder: Path
    port: int
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def target(self) -> str:
        return f"{getpass.getuser()}@127.0.0.1:{self.port}"

    @property
    def identity(self) -> Path:
        return self.folder / "id"

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def program(self, name: str, script: str) -> None:
        """Give the box a program: lines for sh."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def start(self) -> None:
        """Start sshd and wait until it listens."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # root's sshd insists; its service makes it, too
        self.bin.mkdir(parents=True)
        self.home.mkdir()
        for name in PROGRAMS:
            found = shutil.which(name)
            if found is not None:
                (self.bin / name).symlink_to(found)
        for key in (self.folder / "host_key", self.identity):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        config = self.folder / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host_key\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self.identity}.pub\nStrictModes no\nPasswordAuthentication no\n"
            f"Subsystem sftp internal-sftp -d {self.home}\nSetEnv PATH={self.bin} HOME={self.home}\n"
        )
        self.restart()

    def restart(self) -> None:
        """Start sshd as it is configured, and wait until it listens."""
        config = self.folder / "sshd_config"
        self.process = subprocess.Popen(
            [str(SSHD), "-D", "-e", "-f", str(config)],
            stdin=subprocess.DEVNULL,
            stderr=(self.folder / "log").open("wb"),
        )
        eventually(self._listens, "sshd")

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def sessions(self) -> list[int]:
        """Return the ids of the processes that serve connections."""
        found = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False)
        return [int(word) for word in found.stdout.split()]

    def cut(self) -> None:
        """Kill what serves connections."""
        kill_all(self.sessions())

    def stop(self) -> None:
        """End it and every connection."""
        self.cut()
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """Run an sshd in a folder."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = int(found.getsockname()[1])
    server = SshServer(folder, port)
    server.start()
    try:
        yield server
    finally:
        server.stop()
