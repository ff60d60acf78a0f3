"""A distillation's plan sends its teacher, or names it to the host, and counts it; the host's answers are given here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from armada.errors import PreflightRefused
from tests.unit.launch.plans.test_plans import A100, CLUSTER, SFT, Answers, Resolve, resolve, training_of

__all__ = ["resolve"]  # the fixture

SHAPE = {"model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14}
SHAPE |= {"num_key_value_heads": 2, "intermediate_size": 4864}
DISTILL = SFT.replace("task: sft", "task: distill").replace("Qwen/Qwen2.5-0.5B", "a/student")
WORDS = {"a/student": 1000, "a/teacher": 1064, "a/small": 900}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub whose models differ in their vocabularies."""
    before = Answers.said

    def said(session: Answers, method: str, params: dict[str, Any], /, **rest: Any) -> dict[str, Any]:
        found = before(session, method, params, **rest)
        if method != "model.find":
            return found
        return found | {"config": json.dumps({**SHAPE, "vocab_size": WORDS[params["repo"]]})}

    monkeypatch.setattr(Answers, "said", said)


@pytest.mark.usefixtures("hub")
def test_a_teacher_of_the_hub_is_counted_and_refused_if_its_words_are_fewer(resolve: Resolve) -> None:
    text = DISTILL + "distill:\n  teacher: "
    plan = resolve(text + "a/teacher", A100, gpus=8)
    assert plan.memory is not None
    assert {"teacher model", "teacher's forward pass"} <= {term.name for term in plan.memory.terms}
    assert training_of(plan)["objective"]["teacher"] == {"path": "a/teacher"}
    with pytest.raises(
        PreflightRefused, match=r"e\.yaml:7: `distill\.teacher` a/small has 900 words, and the student 1000"
    ):
        resolve(text + "a/small", A100, gpus=8)
    with pytest.raises(
        PreflightRefused, match=r"e\.yaml:7: `distill\.teacher` is a/teacher of the hub, and runs on hpc"
    ):
        resolve(text + "a/teacher", CLUSTER)


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("only_prepare", [False, True])
def test_a_teacher_of_home_is_sent_once(resolve: Resolve, tmp_path: Path, only_prepare: bool) -> None:
    (tmp_path / "teacher").mkdir()
    (tmp_path / "teacher" / "config.json").write_text(json.dumps({**SHAPE, "vocab_size": 1000}))
    plan = resolve(DISTILL + "distill: {teacher: ./teacher}\n", A100, gpus=8, only_prepare=only_prepare)
    (sent,) = (content for content in plan.contents if content.kind == "models")
    assert training_of(plan)["objective"]["teacher"] == {"path": f"/root/.armada/models/{sent.sha}"}
