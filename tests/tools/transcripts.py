"""Write the commands and their output into docs/tutorial/own-script.md, from a real run: `make transcripts`.

The page is prose with blocks of `console`. The commands in them are run in their order, against a real sshd that stands
for a fresh box, and each block gets what they print. What differs from run to run (addresses, folders, ids, times) is
replaced; lines of progress and of logs are left out. `differences` compares two runs, whatever their numbers are.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.commands.typed import typed
from tests.conftest import Armada
from tests.payload.own_training import kill_job
from tests.ssh_server import SshServer, ssh_server
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial" / "own-script.md"
EXAMPLE = ROOT / "examples" / "own-script"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^`([\w.-]+)`\n\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRESS = re.compile(
    r" (step|queued|running|loading|preparing|succeeded|failed|pull|export) .*| provision  (?!environment|files).*"
)
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_RUN = re.compile(r"\bown-script-[a-z0-9]{6}\b")
_ADDRESS, _PORT = "203.0.113.7", 50022
_LONGEST_S = 600.0
_ANSWER = " [y/N] "


def commands(page: str) -> list[list[str]]:
    """Return the lines that each block of a page begins with `$`, or with `#` for what happens on the box."""
    return [re.findall(r"^[$#] .*$", block, re.MULTILINE) for block in _BLOCK.findall(page)]


def filled(page: str, outputs: list[str]) -> str:
    """Return a page with other blocks."""
    following = iter(outputs)
    return _BLOCK.sub(lambda _: f"```console\n{next(following)}```", page)


def differences(page: str, other: str) -> list[str]:
    """Compare two pages line by line, whatever the numbers in them are."""
    pairs = zip(page.splitlines(), other.splitlines(), strict=False)
    found = [f"{one}\n{two}" for one, two in pairs if _shape(one) != _shape(two)]
    return found or ([] if page.count("\n") == other.count("\n") else ["one has more lines"])


def _shape(line: str) -> str:
    """Return a line with N for each number or duration, whatever the widths of columns are."""
    line = re.sub(r"\b[0-9a-f]{8,}\b|\d[\d.,]*(e-?\d+)?( [kMG]?B| [smh]\b)?", "N", line)
    return re.sub(r"\s+", " ", line).replace("N N", "N")


class Lesson:
    """The reader of the page, at home, and the box.

    Args:
        folder: Gets the home, the project and the box.
        server: The box's sshd.
        page: The page, whose files the reader writes.
        python: Loads the export.
    """

    def __init__(self, folder: Path, server: SshServer, page: str, python: str) -> None:
        self._server = server
        self._python = python
        self._project = folder / "own-script"
        shutil.copytree(EXAMPLE, self._project, ignore=shutil.ignore_patterns("*.yaml", "data"))
        shutil.copytree(EXAMPLE / "data", folder / "data")
        for name, text in _FILE.findall(page):
            (self._project / name).write_text(text)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ARMADA_", "WANDB_", "HF_"))}
        own = {"ARMADA_HOME": str(folder / "home"), "COLUMNS": "120", "ARMADA_NO_DAEMON": "1"}
        self._armada = Armada(self._project, kept | own | {"SSH_AUTH_SOCK": ""})
        self._folder = folder

    def block(self, lines: list[str]) -> str:
        """Run the commands of one block and return them with what they print."""
        return "".join(self._told(line) for line in lines)

    def _told(self, line: str) -> str:
        if line.startswith("# "):
            self._kill_job()
            return f"{line}\n"
        words = shlex.split(line.removeprefix("$ "))
        if words[0] == "python":
            done = subprocess.run(
                [self._python, *words[1:]], cwd=self._project, capture_output=True, text=True, check=True
            )
            return f"{line}\n{done.stdout}"
        if words[1] == "ps":
            eventually(lambda: self._shows("loss"), "a loss")
        _, out, err = typed(self._armada, "y", *(self._real(word) for word in words[1:]), timeout_s=_LONGEST_S)
        return f"{line}\n" + "".join(f"{each}\n" for each in self._shown(out + err))

    def _kill_job(self) -> None:
        """Kill the training once its first checkpoint lies in the outbox."""
        eventually(lambda: self._shows("checkpoints"), "a checkpoint")
        kill_job(self._server.home / ".armada" / "runs" / self._shows("run_id"))
        eventually(lambda: self._shows("state") == "failed", "the end")

    def _shows(self, key: str) -> Any:
        """Return what `armada show` says of the run."""
        return json.loads(self._armada.run("show", "own-script", "--json", process=True).stdout)[key]

    def _real(self, word: str) -> str:
        """Return a word of the page as this machine has it."""
        line = f"ssh -p {self._server.port} -i {self._server.identity} {getpass.getuser()}@127.0.0.1"
        return word.replace(f"ssh -p {_PORT} root@{_ADDRESS}", line)

    def _shown(self, text: str) -> Iterator[str]:
        """Yield the lines that readers see, with their addresses and folders."""
        for here, there in self._names():
            text = text.replace(here, there)
        text = _FINGERPRINT.sub("SHA256:MHc5TbTPWgzSdo4NFDaQAPcmOfP3FrdTqyYcC6ZwHlc", text)
        text = _RUN.sub("own-script-7k3f9d", text.replace(_ANSWER, f"{_ANSWER}y\n"))
        is_log = False
        for line in text.splitlines():
            if line.startswith("    ") and is_log:
                continue
            is_log = line == "  last lines"
            if is_log:
                yield f"{line} …"
            elif not _PROGRESS.fullmatch(line):
                yield line.rstrip()

    def _names(self) -> Iterator[tuple[str, str]]:
        yield str(self._folder / "home" / "state"), "~/.local/share/armada"
        yield str(self._folder / "home" / "config"), "~/.config/armada"
        yield str(self._server.home), "/root"
        yield str(self._folder), "~"
        yield str(self._server.port), str(_PORT)
        yield "127.0.0.1", _ADDRESS
        yield f"{getpass.getuser()}@", "root@"
        yield socket.gethostname(), "box"


def give_python(server: SshServer) -> None:
    """Give the box what a rented one has: python3 with pip, and the package indexes that pip uses here."""
    (server.bin / "python3").symlink_to(Path(sys.executable).resolve())
    for place in (Path.home() / ".config" / "pip" / "pip.conf", Path.home() / ".pip" / "pip.conf"):
        if place.exists():
            own = server.home / place.relative_to(Path.home())
            own.parent.mkdir(parents=True)
            own.write_bytes(place.read_bytes())


def tell(page: str, folder: Path, python: str, say: Callable[[str], None] = print) -> str:
    """Run the commands of a page.

    Args:
        page: The page.
        folder: An empty folder.
        python: An interpreter with transformers, which loads the export.
        say: Receives each block.

    Returns:
        The page with what they print.
    """
    outputs = []
    with ssh_server(folder / "box") as server:
        give_python(server)
        lesson = Lesson(folder, server, page, python)
        for lines in commands(page):
            outputs.append(lesson.block(lines))
            say(outputs[-1])
    return filled(page, outputs)


def main() -> None:
    python = os.environ.get("ARMADA_PAYLOAD_PYTHON") or str(ROOT / ".venv-payload" / "bin" / "python")
    with tempfile.TemporaryDirectory() as folder:
        told = tell(PAGE.read_text("utf-8"), Path(folder), python)
    PAGE.write_text(told, "utf-8")


if __name__ == "__main__":
    main()
