from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from armada_agent.runs.beside_work import is_ours

from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import PayloadRun, chats, make_training, write_jsonl

StartedRun = Callable[..., PayloadRun]
_OF_TESTS = frozenset(("casts.json", "fake.py", "program.py"))
"""What tests put into the folder of a run."""


@pytest.fixture(scope="session")
def payload_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interpreter]:
    python = os.environ.get("ARMADA_PAYLOAD_PYTHON")
    if not python:
        pytest.skip("ARMADA_PAYLOAD_PYTHON names no interpreter with torch")
    path = shutil.which(python) or pytest.fail(f"ARMADA_PAYLOAD_PYTHON is {python}, which is no program")
    interpreter = Interpreter(path, tmp_path_factory.mktemp("python"))
    yield interpreter
    interpreter.close()


@pytest.fixture(scope="session")
def chat_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("data")
    return write_jsonl(folder / "train.jsonl", chats(64)), write_jsonl(folder / "eval.jsonl", chats(13))


@pytest.fixture
def make_run(payload_python: Interpreter, tmp_path: Path) -> Iterator[StartedRun]:
    """Make a run's folder from a training specification. What the payload leaves in it is known to the agent as armada's."""
    made = []

    def make(training: dict[str, Any], name: str = "run") -> PayloadRun:
        made.append(tmp_path / name)
        return PayloadRun(tmp_path / name, payload_python, training).prepare()

    yield make
    names = {each.name for folder in made if folder.is_dir() for each in folder.iterdir()} - _OF_TESTS
    assert [name for name in sorted(names) if not is_ours(name, of_task=True)] == []


@pytest.fixture(scope="session")
def undisturbed(
    payload_python: Interpreter, chat_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> PayloadRun:
    """One process under accelerate, 12 steps of 4 samples × 2 accumulations, to the end; eight steps are an epoch."""
    train = {"max_steps": 12, "log_every_steps": 2}
    training = make_training(*chat_files, train=train, checkpoint={"every_steps": 4, "keep_last": 2})
    run = PayloadRun(tmp_path_factory.mktemp("undisturbed") / "run", payload_python, training).prepare()
    run.train(launcher=True)
    return run
