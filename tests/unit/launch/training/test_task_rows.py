"""Each task takes its own kinds of rows; a wrong row is refused at home with its line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from armada_train.data.places import Place
from armada_train.data.shapes import normalise
from armada_train.specification.objectives import KINDS

from armada.config.data import Data
from armada.errors import ConfigError
from armada.launch.training.dataset import DataFacts, check_data

ASKED = {"role": "user", "content": "a"}
YES, NO = ({"role": "assistant", "content": said} for said in ("yes", "no"))
PAIR = {"prompt": "a", "chosen": "yes", "rejected": "no"}


def check(tmp_path: Path, task: str, *rows: Any) -> DataFacts:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    content = {"train": [{"path": str(file)}]}
    return check_data(Data.model_validate(content, context={"folder": tmp_path}), task)


@pytest.mark.parametrize("task", ["dpo", "reward"])
@pytest.mark.parametrize(
    ("row", "kind"),
    [
        pytest.param(PAIR, "preference", id="texts"),
        pytest.param({"prompt": [ASKED], "chosen": [YES], "rejected": [NO]}, "chat preference", id="chats"),
        pytest.param({"chosen": [ASKED, YES], "rejected": [ASKED, NO]}, "chat preference", id="without a prompt"),
        pytest.param(
            {"prompt": "a", "chosen": [ASKED, YES], "rejected": [ASKED, NO]}, "chat preference", id="prompt twice"
        ),
        pytest.param({"prompt": "a", "chosen": [YES], "rejected": [NO]}, "chat preference", id="prompt as text"),
        pytest.param(
            {
                "chosen": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "yes"}],
                "rejected": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "no"}],
            },
            "chat preference",
            id="ShareGPT",
        ),
    ],
)
def test_pairs_are_known_in_every_form_and_say_the_same(
    tmp_path: Path, task: str, row: dict[str, Any], kind: str
) -> None:
    facts = check(tmp_path, task, row)
    assert (facts.rows, facts.kind) == (1, kind)
    _, found = normalise(row, "here", Counter(), KINDS[task])
    if kind == "chat preference":
        assert found == {"prompt": [ASKED], "chosen": [YES], "rejected": [NO]}


JUDGED = {"prompt": "a", "completion": "yes", "label": True}


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (JUDGED, "unpaired"),
        ({**JUDGED, "label": 0, "source": "x"}, "unpaired"),
        ({"prompt": [ASKED], "completion": [YES], "label": False}, "chat unpaired"),
    ],
)
def test_answers_that_were_judged_one_by_one_are_known(tmp_path: Path, row: dict[str, Any], kind: str) -> None:
    assert check(tmp_path, "kto", row).kind == kind


@pytest.mark.parametrize(
    ("task", "row", "said", "hint"),
    [
        ("kto", {**JUDGED, "label": "good"}, '`label` must be true (a good answer) or false, not "good"', None),
        ("kto", {**JUDGED, "label": 2}, "`label` must be true", None),
        ("kto", {**JUDGED, "label": 1e300}, "`label` must be true", None),
        ("kto", {**JUDGED, "label": [True]}, "`label` must be true", None),
        ("kto", {"prompt": "a", "completion": "b"}, "`label` is missing beside `completion`", "completion and label"),
        ("kto", {"completion": "b", "label": True}, "`prompt` is missing beside `completion`", None),
        ("kto", {**JUDGED, "prompt": [ASKED]}, "must both be text, or both be lists of messages", None),
        ("kto", {**JUDGED, "completion": ""}, "`completion` is empty", None),
        ("kto", {"prompt": [ASKED], "completion": [ASKED], "label": True}, "`completion` has no assistant turn", None),
        ("kto", PAIR, "it needs prompt, completion and label", "`task: dpo` or `task: reward`"),
        ("dpo", {**PAIR, "rejected": "yes"}, "`chosen` and `rejected` are equal", "leave such rows out"),
        ("dpo", {"chosen": [ASKED, YES], "rejected": [ASKED, YES]}, "are equal", "leave such rows out"),
        ("dpo", {"prompt": "a", "chosen": "yes"}, "`rejected` is missing beside `chosen`", "prompt, chosen and"),
        ("reward", {"prompt": "a", "rejected": "yes"}, "`chosen` is missing beside `rejected`", None),
        ("dpo", {"chosen": "yes", "rejected": "no"}, "`prompt` is missing beside `chosen` and `rejected`", None),
        ("dpo", {**PAIR, "chosen": [YES]}, "must both be text, or both be lists of messages", None),
        ("dpo", {**PAIR, "prompt": [ASKED]}, "`prompt` is a list of messages, so", None),
        ("dpo", {**PAIR, "chosen": ""}, "`chosen` is empty", "leave such rows out"),
        ("dpo", {**PAIR, "chosen": 5}, "`chosen` must be text, not 5", None),
        ("dpo", {**PAIR, "chosen": float("nan")}, "NaN is not JSON", None),
        ("dpo", {"chosen": [YES], "rejected": [NO]}, "have no turn in common, and there is no `prompt`", None),
        ("dpo", {"prompt": [ASKED], "chosen": [], "rejected": [NO]}, "must be a filled list of turns", None),
        ("dpo", {"prompt": [ASKED], "chosen": [YES], "rejected": [ASKED]}, "`rejected` has no assistant turn", None),
        ("dpo", {"prompt": {}, "chosen": [YES], "rejected": [NO]}, "`prompt` must be text or a list", None),
        ("dpo", {"text": "a"}, 'the row has "text"; it needs prompt, chosen and rejected', "`task: sft` or `task: pre"),
        ("sft", PAIR, "it needs messages, conversations, prompt and completion, or text", "`task: dpo` or `task: rew"),
        (
            "pretrain",
            {"prompt": "a", "completion": "b"},
            "it needs text",
            "`task: sft` or `task: distill` takes such rows",
        ),
        ("pretrain", {"messages": [ASKED, YES]}, "it needs text", "`task: sft` or `task: distill` takes such rows"),
        ("grpo", {"prompt": " "}, "`prompt` is empty", "leave such rows out"),
        ("grpo", {"prompt": 5}, "`prompt` must be text, not 5", None),
        ("grpo", {"prompt": [ASKED, YES]}, "`prompt` ends with a turn of assistant", "leave the answer out"),
        ("grpo", {"messages": [ASKED, YES]}, "`messages` ends with a turn of assistant", "leave the answer out"),
        ("grpo", {"messages": [ASKED], "tools": [{"name": "f"}]}, "`tools` cannot be offered", None),
        (
            "grpo",
            {"text": "a"},
            'the row has "text"; it needs prompt (or messages that end',
            "`task: sft` or `task: pre",
        ),
        ("sft", {"question": "a"}, "it needs messages", "`columns:` below"),
    ],
)
def test_a_row_that_the_task_cannot_use_is_refused_with_its_line(
    tmp_path: Path, task: str, row: dict[str, Any], said: str, hint: str | None
) -> None:
    good = {"sft": {"text": "a"}, "pretrain": {"text": "a"}, "kto": JUDGED, "grpo": {"prompt": "a"}}.get(task, PAIR)
    with pytest.raises(ConfigError) as caught:
        check(tmp_path, task, good, row)
    assert said in caught.value.message
    assert caught.value.line == 2
    assert hint is None or hint in (caught.value.hint or "")


def test_pairs_of_texts_and_of_chats_are_not_mixed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has chat preference, but earlier ones have preference"):
        check(tmp_path, "dpo", PAIR, {"prompt": [ASKED], "chosen": [YES], "rejected": [NO]})


def test_keys_that_nothing_uses_are_no_reason_to_refuse(tmp_path: Path) -> None:
    assert check(tmp_path, "dpo", {**PAIR, "score": 4, "source": "x"}).rows == 1
    assert check(tmp_path, "pretrain", {"text": "a", "messages": [ASKED]}).kind == "text"


@pytest.mark.parametrize(
    ("row", "kind", "columns"),
    [
        ({"prompt": "a", "answer": 5, "of": {"x": [1]}}, "prompt", {"answer": 5, "of": {"x": [1]}}),
        ({"messages": [ASKED], "answer": "b"}, "chat prompt", {"answer": "b"}),
        ({"conversations": [{"from": "human", "value": "a"}], "system": "s"}, "chat prompt", {}),
        ({"prompt": [ASKED], "completion": "b", "completions": 1, "environment": "x"}, "chat prompt", {}),
    ],
    ids=["text", "chat", "ShareGPT", "names that mean something else"],
)
def test_a_prompt_keeps_its_columns_for_who_judges(
    tmp_path: Path, row: dict[str, Any], kind: str, columns: dict[str, Any]
) -> None:
    assert check(tmp_path, "grpo", row).kind == kind
    ignored: Counter[str] = Counter()
    _, read = normalise(row, Place(Path("/host/data/p.jsonl"), 3), ignored, KINDS["grpo"])
    assert read["columns"] == columns
    assert read["at"] == "p.jsonl:3"
    assert set(ignored) == row.keys() & {"completion", "completions", "environment"}
