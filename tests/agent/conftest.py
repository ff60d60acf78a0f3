from __future__ import annotations

import os
import sys
import zipfile
from operator import itemgetter
from typing import TYPE_CHECKING

import pytest

from armada.rpc import agent_archive
from tests import interpreters
from tests.agent.batch_worker import Worker
from tests.agent.conversation import Conversation, Host
from tests.agent.doubted_job import DoubtedJob
from tests.leftovers import end_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(params=interpreters.chosen().items(), ids=itemgetter(0))
def python(request: pytest.FixtureRequest) -> str:
    """Each interpreter in turn."""
    path: str = request.param[1]
    return path


@pytest.fixture(params=interpreters.ends().items(), ids=itemgetter(0))
def some_python(request: pytest.FixtureRequest) -> str:
    """The oldest interpreter and our own, for what takes long and hardly depends on it."""
    path: str = request.param[1]
    return path


@pytest.fixture(scope="session")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    content, sha256 = agent_archive.build()
    path = tmp_path_factory.mktemp("agent") / f"{sha256}.pyz"
    path.write_bytes(content)
    return path


@pytest.fixture(scope="session")
def unpacked(agent: Path) -> Path:
    """The same as a folder, for each Python to keep bytecode in: an archive is compiled anew by every process of another one."""
    folder = agent.with_suffix("")
    zipfile.ZipFile(agent).extractall(folder)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A host's root folder, whose processes are all gone after the test."""
    folder = tmp_path / "root"
    folder.mkdir(mode=0o700)
    yield folder
    end_all(folder)


@pytest.fixture
def converse(unpacked: Path, root: Path) -> Iterator[Callable[..., Conversation]]:
    """Start conversations that end with the test; of the unpacked agent, unless `code` is the archive that hosts have."""
    begun: list[Conversation] = []

    def begin(python: str = sys.executable, code: Path = unpacked, **options: object) -> Conversation:
        begun.append(Conversation(python, code, root, **options))  # type: ignore[arg-type]  # checked by Conversation
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


@pytest.fixture(scope="module")
def shared_host(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host for tests that leave nothing on it, because all they ask is refused."""
    folder = tmp_path_factory.mktemp("shared") / "root"
    folder.mkdir(mode=0o700)
    conversation = Conversation(sys.executable, unpacked, folder)
    yield Host(conversation)
    conversation.process.kill()
    conversation.process.wait()
    end_all(folder)


@pytest.fixture(params=["slurm"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DoubtedJob]:
    made = DoubtedJob(tmp_path, request.param)
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    yield made
    made.end()


@pytest.fixture
def worker(this_host: Host, agent: Path, tmp_path: Path) -> Iterator[Callable[[str], Worker]]:
    made: list[Worker] = []

    def make(kind: str) -> Worker:
        made.append(Worker(this_host, agent, tmp_path / "worker", kind))
        return made[-1]

    yield make
    for supervisor in [each for one in made for each in one.begun]:
        supervisor.kill()
        supervisor.wait()
