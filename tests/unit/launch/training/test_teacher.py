"""A distillation's teacher is compared with its student before anything starts, and counted."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from armada.config.experiments import load_experiment
from armada.config.tasks.distill import Distill
from armada.config.training import TinyModel
from armada.errors import ConfigError, PreflightRefused
from armada.launch.estimates.memory import TrainingShape, estimate_memory
from armada.launch.estimates.parameters import count_parameters
from armada.launch.estimates.speed import flops_per_token
from armada.launch.training.model_facts import ModelFacts, tiny_model
from armada.launch.training.teacher import check_tokens, refuse_fewer_words

WORDS = {"a": 0, "b": 1, "c": 2}


def write_tokens(folder: Path, words: object, added: dict[str, int] | None = None) -> None:
    folder.mkdir(exist_ok=True)
    marks = [{"content": token, "id": number} for token, number in (added or {}).items()]
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": words}, "added_tokens": marks}))


def load(folder: Path) -> Distill:
    (folder / "d.jsonl").write_text("{}\n")
    for name in ("student", "teacher"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "e.yaml").write_text(
        "name: e\ntask: distill\nmodel: ./student\ndata: {train: [{path: d.jsonl}]}\n"
        "train: {global_batch_size: 4, max_steps: 3}\ndistill:\n  teacher: ./teacher\n"
    )
    found = load_experiment(folder / "e.yaml")
    assert isinstance(found, Distill)
    return found


@pytest.mark.parametrize(
    ("words", "added", "said"),
    [
        ({"a": 0, "b": 2, "c": 1}, {}, "'b', token 1 of the student, is 2 there"),
        ({"a": 0, "b": 1}, {}, "'c', token 2 of the student, is unknown there"),
        (WORDS, {"<end>": 3}, "its token 3 is '<end>', which the student does not know"),
        ([["a", -1.0], ["c", -2.0], ["b", -3.0]], {}, "'b', token 1 of the student, is 2 there"),
    ],
)
def test_a_teacher_with_another_tokenizer_is_refused_with_its_line(
    tmp_path: Path, words: object, added: dict[str, int], said: str
) -> None:
    write_tokens(tmp_path / "student", WORDS)
    write_tokens(tmp_path / "teacher", words, added)
    with pytest.raises(ConfigError) as caught:
        check_tokens(load(tmp_path))
    assert caught.value.message.startswith(
        f"{tmp_path / 'e.yaml'}:7: `distill.teacher` {tmp_path / 'teacher'} has another"
    )
    assert caught.value.message.endswith(said)


@pytest.mark.parametrize("broken", ["{", "[]", '{"model": 5}', '{"model": {"vocab": [5]}}', '{"model": {"vocab": {}}}'])
def test_a_tokenizer_that_home_cannot_read_is_left_to_the_host(tmp_path: Path, broken: str) -> None:
    write_tokens(tmp_path / "student", WORDS)
    settings = load(tmp_path)
    check_tokens(settings)  # the teacher has none yet
    write_tokens(tmp_path / "teacher", WORDS)
    check_tokens(settings)
    (tmp_path / "teacher" / "tokenizer.json").write_text(broken)
    if broken.endswith("{}}}"):
        with pytest.raises(ConfigError):
            check_tokens(settings)
    else:
        check_tokens(settings)


def test_a_teacher_with_fewer_words_than_the_student_is_refused_with_its_line(tmp_path: Path) -> None:
    settings = load(tmp_path)
    small, large = (tiny_model(TinyModel(vocab_size=words)) for words in (500, 600))
    refuse_fewer_words(settings, small, large)
    refuse_fewer_words(settings, large, ModelFacts())
    with pytest.raises(PreflightRefused, match=r"e.yaml:7: `distill.teacher` .* has 500 words, and the student 600"):
        refuse_fewer_words(settings, large, small)


def test_the_payload_is_told_where_the_host_has_the_teacher(tmp_path: Path) -> None:
    settings = load(tmp_path)
    folder = str(tmp_path / "teacher")
    assert settings.companions == {folder: "distill.teacher"}
    assert settings.objective_section({folder: "/host/models/ab12"})["teacher"] == {"path": "/host/models/ab12"}


@pytest.mark.parametrize("method", ["full", "lora"])
def test_a_teacher_costs_its_weights_and_a_forward_pass_but_no_optimizer(method: str) -> None:
    student, teacher = (tiny_model(TinyModel(hidden_size=size)).shape for size in (128, 512))
    assert student is not None
    assert teacher is not None
    alone = TrainingShape(method=method, micro_batch=1, length=16)  # type: ignore[arg-type]  # one of the two
    taught = dataclasses.replace(alone, teacher=teacher)
    before, after = estimate_memory(student, alone), estimate_memory(student, taught)
    more = {term.name: term.size_bytes for term in after.terms}
    assert more["teacher model"] == 2 * count_parameters(teacher)
    assert after.certain_bytes - before.certain_bytes == more["teacher model"]
    assert after.total_bytes - before.total_bytes == more["teacher model"] + more["teacher's forward pass"]
    multiplied = count_parameters(teacher) - teacher.vocabulary * teacher.hidden  # its embeddings are looked up
    attention = 4 * teacher.layers * teacher.attention * 16
    assert flops_per_token(student, taught, 16) - flops_per_token(student, alone, 16) == 2 * multiplied + attention
