"""What a form shows of an experiment that cannot be launched."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.faulty_form import Faulty, read_faulty
from armada.config.form import Setting
from armada.errors import ConfigError
from tests.unit.config.experiments import COMMAND, SFT, refused

WRONG = SFT.replace("max_steps: 200", "max_steps: many, lr_schedular: cosine") + "lora: {r: 0}\ntrian: {seed: 1}\n"


def faulty(project: Path, text: str, *changes: str) -> Faulty:
    return read_faulty(project / "e.yaml", changes, refused(project, text, *changes))


def by_key(found: Faulty) -> dict[str, Setting]:
    return {setting.key: setting for setting in found.settings}


def test_each_fault_names_its_setting_with_the_sentence_of_the_loader_and_the_line(project: Path) -> None:
    found = faulty(project, WRONG)
    assert [(each.key, each.where, each.line) for each in found.faults] == [
        ("train.max_steps", "e.yaml:5", 5),
        ("train.lr_schedular", "e.yaml:5", 5),
        ("lora.r", "e.yaml:6", 6),
        ("trian", "e.yaml:7", 7),
    ]
    assert found.faults[0].message == "`train.max_steps` must be a whole number, not 'many'"
    assert found.faults[3].hint == "did you mean `train`?"


def test_all_settings_that_can_be_read_are_listed_with_what_they_may_be(project: Path) -> None:
    settings = by_key(faulty(project, WRONG, "train.seed=7"))
    assert (settings["train.max_steps"].value, settings["train.max_steps"].origin) == ("many", f"{project}/e.yaml:5")
    assert settings["train.seed"].origin == "--set train.seed=7"
    about = settings["train.max_steps"].about
    assert about is not None
    assert about.kind == "integer ≥ 1"
    assert settings["data.train[0].path"].override == "data.train.0.path"
    assert settings["train.lr_scheduler"].value == "cosine", "the default, as nothing is written"
    assert settings["resources.gpus"].value is None, "its section is not written"
    assert settings["trian.seed"].override is None, "no value makes an unknown key right"
    assert settings["train.lr_schedular"].override is None


def test_an_unknown_key_has_the_change_that_takes_it_out(project: Path) -> None:
    text = WRONG.replace("weight: 1.0", "wieght: 1.0") + '"a.b": 1\n'
    found = faulty(project, text, "nmae=x")
    assert {each.message.split("`")[1]: each.removal for each in found.faults if each.removal} == {
        "train.lr_schedular": "train.lr_schedular=!unset",
        "trian": "trian=!unset",
        "data.train[0].wieght": "data.train.0.wieght=!unset",
    }, "no change can name `a.b`, and `u` takes the change `nmae` back"
    assert any("a.b" in each.message for each in found.faults)
    rest = faulty(project, text, *(each.removal for each in found.faults if each.removal))
    assert [each.message.split("`")[1] for each in rest.faults] == ["train.max_steps", "lora.r", "a.b"]
    assert not {"trian", "trian.seed", "train.lr_schedular"} & set(by_key(rest))


def test_an_unknown_task_can_be_chosen(project: Path) -> None:
    found = faulty(project, COMMAND.replace("task: command", "task: comand"))
    settings = by_key(found)
    about = settings["task"].about
    assert about is not None
    assert "command" in about.choices
    assert settings["command"].value == '[sh, "-c", "echo hi"]'
    assert [each.key for each in found.faults] == ["task"]


def test_a_missing_key_is_wrong_where_it_would_be(project: Path) -> None:
    found = faulty(project, SFT.replace("name: qwen-lora\n", "").replace("path: data/train.jsonl, ", ""))
    assert {each.key for each in found.faults} == {"name", "data.train[0]"}
    assert by_key(found)["name"].override == "name"


def test_a_file_that_is_not_there_belongs_to_the_setting_that_names_it(project: Path) -> None:
    (fault,) = faulty(project, SFT.replace("eval.jsonl", "evil.jsonl")).faults
    assert (fault.key, fault.where) == ("data.eval[0].path", "e.yaml:4")
    assert "there is no file" in fault.message


def test_a_change_that_cannot_be_put_there_is_a_fault_and_its_value_is_not_shown(project: Path) -> None:
    found = faulty(project, COMMAND, "name.a=b", "env.HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789")
    assert [(each.key, each.where) for each in found.faults] == [
        ("name", "--set name.a"),
        ("env", "--set env.HF_TOKEN"),
    ]
    assert not any("hf_abc" in f"{each.where}{each.message}{each.hint}" for each in found.faults)


@pytest.mark.parametrize("text", ["a: [", "- a\n", "name: a\nname: b\n"])
def test_what_is_not_yaml_has_no_form(project: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        faulty(project, text)
