from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from armada import agent_archive
from tests.agent.conversation import Conversation, Host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def find_interpreters() -> dict[str, str]:
    """Map version to path, for every Python 3.6 to 3.13 on this machine."""
    candidates = [shutil.which(f"python3.{minor}") for minor in range(6, 14)]
    candidates += [str(path) for path in Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python3")]
    found = {f"3.{sys.version_info.minor}": sys.executable}
    for candidate in filter(None, candidates):
        with contextlib.suppress(OSError, subprocess.SubprocessError):  # a pyenv shim without a version behind it
            said = subprocess.run([candidate, "-V"], capture_output=True, text=True, check=True, timeout=20).stdout
            if version := re.match(r"Python (3\.\d+)\.", said):
                found.setdefault(version[1], candidate)
    return {version: found[version] for version in sorted(found, key=lambda text: int(text[2:]))}


INTERPRETERS = find_interpreters()


@pytest.fixture(params=list(INTERPRETERS))
def python(request: pytest.FixtureRequest) -> str:
    """Each interpreter in turn."""
    return INTERPRETERS[request.param]


@pytest.fixture(params=sorted({min(INTERPRETERS, key=lambda v: int(v[2:])), f"3.{sys.version_info.minor}"}))
def some_python(request: pytest.FixtureRequest) -> str:
    """The oldest interpreter and our own, for what takes long and hardly depends on it."""
    return INTERPRETERS[request.param]


@pytest.fixture(scope="session")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    content, sha256 = agent_archive.build()
    path = tmp_path_factory.mktemp("agent") / f"{sha256}.pyz"
    path.write_bytes(content)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A host's root folder, whose processes are all gone after the test."""
    folder = tmp_path / "root"
    folder.mkdir(mode=0o700)
    yield folder
    end_all(folder)


@pytest.fixture
def converse(agent: Path, root: Path) -> Iterator[Callable[..., Conversation]]:
    """Start conversations that end with the test."""
    begun: list[Conversation] = []

    def begin(python: str = sys.executable, **options: object) -> Conversation:
        begun.append(Conversation(python, agent, root, **options))  # type: ignore[arg-type]  # checked by Conversation
        return begun[-1]

    yield begin
    for conversation in begun:
        conversation.process.kill()
        conversation.process.wait()


@pytest.fixture
def host(converse: Callable[..., Conversation], python: str) -> Host:
    return Host(converse(python))


@pytest.fixture
def some_host(converse: Callable[..., Conversation], some_python: str) -> Host:
    return Host(converse(some_python))


@pytest.fixture
def this_host(converse: Callable[..., Conversation]) -> Host:
    return Host(converse())


def end_all(root: Path) -> None:
    """Kill supervisors and jobs of one root: each has it in its command line or its environment."""
    mark = str(root).encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            if mark in said and int(entry.name) != os.getpid() and (b"ARMADA_" in said):
                os.kill(int(entry.name), signal.SIGKILL)
