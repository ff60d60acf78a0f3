"""Evaluation sets with names: how they are written, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.compare.unreproduced import sources_of
from tests.unit.config.experiments import COMMAND, SFT, load, load_sft, refused

EVAL = "eval: [{path: data/eval.jsonl}]"


def named(sets: str) -> str:
    assert EVAL in SFT
    return SFT.replace(EVAL, f"eval: {sets}")


def test_a_list_is_one_set_and_a_mapping_is_several_by_name(project: Path) -> None:
    single = load_sft(project, SFT).data
    assert {name: len(sources) for name, sources in single.eval_sets.items()} == {"": 1}
    data = load_sft(
        project, named("{math: {path: data/eval.jsonl}, code: [{path: data/train.jsonl}, {hub: a/b}]}")
    ).data
    assert {name: [source.hub for source in sources] for name, sources in data.eval_sets.items()} == {
        "math": [None],
        "code": [None, "a/b"],
    }
    assert [path.name for path in data.paths] == ["train.jsonl", "eval.jsonl"]
    assert not data.is_local
    assert load_sft(project, named("{}")).data.eval_sets == {}


def test_what_is_recorded_of_them_names_every_source(project: Path) -> None:
    data = load_sft(project, named("{math: {path: data/eval.jsonl}, code: [{hub: a/b}]}")).data
    recorded = sources_of(data.model_dump(mode="json"))
    assert [(source["path"] or source["hub"]).rpartition("/")[2] for source in recorded] == [
        "train.jsonl",
        "eval.jsonl",
        "b",
    ]


def test_a_file_of_a_named_set_is_sent_with_a_command_too(project: Path) -> None:
    text = COMMAND + "data: {train: [{path: data/train.jsonl}], eval: {math: {path: data/eval.jsonl}}}\n"
    data = load(project, text).data
    assert data is not None
    assert len(data.paths) == 2


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ("{path: data/eval.jsonl}", "`data.eval` must be a list of sources, or a mapping of names to them"),
        ("{ma-th: {path: data/eval.jsonl}}", "'ma-th' cannot name an evaluation set"),
        ("{math: []}", "`data.eval.math` names no source"),
        ("{math: {pth: x}}", "unknown key `data.eval.math.pth`"),
        ("{math: {path: data/evl.jsonl}}", "`data.eval.math.path`: there is no file"),
        ("{math: [{path: data/eval.jsonl, weight: 2}]}", "`data.eval.math[0].weight` has no effect"),
        ("{math: {hook: 'rows:make'}}", "`data.eval.math` cannot be a hook"),
    ],
)
def test_what_is_wrong_with_a_set_is_said_with_its_line(project: Path, sets: str, said: str) -> None:
    error = refused(project, named(sets))
    assert said in str(error)
    assert error.line == 4
