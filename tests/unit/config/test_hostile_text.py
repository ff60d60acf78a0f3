"""Text of any kind in an experiment stays text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from armada.config.documents import yaml_text
from armada.config.experiments import load_experiment
from armada.config.tasks.command import Command
from tests.unit.config.experiments import COMMAND

_hostile = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1).filter(str.strip)


_examples = st.one_of(
    _hostile,
    st.sampled_from(["$(touch x)", "'\"`", "a\nb", "é\u2028\x85", "- a", "# x", "{{}}", "off", "5", "~", "\x1b[31m"]),
)


@settings(deadline=None)
@given(name=_examples, word=_examples, value=_examples, project_name=_examples)
def test_hostile_text_is_literal_everywhere(
    tmp_path_factory: pytest.TempPathFactory, name: str, word: str, value: str, project_name: str
) -> None:
    folder = tmp_path_factory.mktemp("e")
    written = {"name": name, "task": "command", "command": ["x", word], "env": {"A": value}}
    (folder / "c.yaml").write_text(yaml_text(written), encoding="utf-8", newline="")
    experiment = load_experiment(folder / "c.yaml", ())
    assert isinstance(experiment, Command)
    assert (experiment.name, experiment.command, experiment.env) == (name, ("x", word), {"A": value})
    again = type(experiment).model_validate_json(json.dumps(experiment.model_dump(mode="json")))
    assert again.model_dump() == experiment.model_dump()


@settings(deadline=None)
@given(name=_examples)
def test_hostile_text_in_an_override_is_literal(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("e")
    (folder / "c.yaml").write_text(COMMAND)
    assert load_experiment(folder / "c.yaml", [f"name={json.dumps(name)}"]).name == name


@settings(deadline=None)
@given(
    file_name=_hostile.filter(
        lambda t: "/" not in t and t not in {".", ".."} and not t.startswith("~") and len(t.encode()) < 200
    )
)
def test_hostile_file_names_are_literal(tmp_path_factory: pytest.TempPathFactory, file_name: str) -> None:
    folder = tmp_path_factory.mktemp("e")
    (folder / file_name).write_text("{}\n")
    written = {
        "name": "n",
        "task": "sft",
        "model": "a/b",
        "data": {"train": [{"path": file_name}]},
        "train": {"global_batch_size": 1, "max_steps": 1},
    }
    (folder / "the experiment").write_text(yaml_text(written), encoding="utf-8", newline="")
    experiment = load_experiment(folder / "the experiment")
    assert experiment.data
    assert experiment.data.train[0].path == folder / file_name
