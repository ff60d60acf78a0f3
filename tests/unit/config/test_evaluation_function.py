"""`evaluation.function`: what is refused at home, with its line, and what the payload is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.errors import ConfigError
from armada.launch.training.hook import check_hooks
from tests.unit.config.experiments import SFT, load_sft, refused

CODE = f"{SFT}code: .\n"
FUNCTION = f"{CODE}evaluation: {{function: 'judge:exact'}}\n"


def test_the_payload_is_told_of_a_function_only_where_there_is_one(project: Path) -> None:
    assert load_sft(project, SFT).evaluation.as_section() == {"samples": 0, "sample_tokens": 128}
    found = load_sft(project, FUNCTION, "evaluation.timeout=90s", "evaluation.samples=2")
    assert found.evaluation.as_section() == {
        "samples": 2,
        "sample_tokens": 128,
        "function": "judge:exact",
        "prompts": 64,
        "temperature": 0.0,
        "timeout_s": 90.0,
    }


def test_its_metric_may_be_the_best_because_only_its_first_call_tells(project: Path) -> None:
    train = load_sft(project, FUNCTION, "train.best_metric=eval_exact_match").train
    assert train.best_metric is not None
    assert (train.best_by, train.best_metric.goal) == ("eval_exact_match", "max")


def test_a_function_that_the_code_lacks_is_refused_with_its_line(project: Path) -> None:
    (project / "judge.py").write_text("def exact_match(completions): ...\n")
    with pytest.raises(ConfigError) as caught:
        check_hooks(load_sft(project, FUNCTION), ["judge.py"])
    assert "e.yaml:7: `evaluation.function` is judge:exact: judge.py has no exact" in str(caught.value)
    assert caught.value.hint == "did you mean judge:exact_match?"


@pytest.mark.parametrize(
    ("text", "override", "said"),
    [
        (FUNCTION, "evaluation.function=judge", "`evaluation.function` must be `module:function`, not 'judge'"),
        (FUNCTION, "evaluation.timeout=2h", "`evaluation.timeout` must be between 1s and 20m"),
        (CODE, "evaluation.prompts=5", "`evaluation.prompts` belongs to `function`, and there is none"),
        (FUNCTION.replace("code: .\n", ""), "name=x", "`evaluation.function` is judge:exact, which comes from `code`"),
        (FUNCTION, "data.eval=[]", "`evaluation.function` takes its prompts from data.eval, which is empty"),
        (FUNCTION.replace("task: sft", "task: reward"), "name=x", "the model of `task: reward` generates no text"),
    ],
)
def test_what_does_not_go_with_it_is_refused(project: Path, text: str, override: str, said: str) -> None:
    assert said in str(refused(project, text, override))
