from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import PayloadRun, chats, make_training, write_jsonl

StartedRun = Callable[..., PayloadRun]


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
def make_run(payload_python: Interpreter, tmp_path: Path) -> StartedRun:
    """Make a run's folder from a training specification."""

    def make(training: dict[str, Any], name: str = "run") -> PayloadRun:
        return PayloadRun(tmp_path / name, payload_python, training).prepare()

    return make


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
