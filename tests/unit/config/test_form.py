"""The settings of an experiment as a form lists them."""

from __future__ import annotations

from pathlib import Path

from armada.config.form import Setting, differences, settings_of, text_of
from tests.unit.config.experiments import COMMAND, SFT, load


def of(project: Path, text: str, *overrides: str) -> dict[str, Setting]:
    return {setting.key: setting for setting in settings_of(load(project, text, *overrides))}


def test_each_setting_says_its_value_where_it_is_from_and_what_it_may_be(project: Path) -> None:
    found = of(project, SFT, "train.seed=7")
    steps, seed = found["train.max_steps"], found["train.seed"]
    assert (steps.value, steps.origin) == ("200", f"{project / 'e.yaml'}:5")
    assert (seed.value, seed.origin) == ("7", "--set train.seed=7")
    assert steps.about is not None
    assert steps.about.kind == "integer ≥ 1"
    assert steps.about.meaning
    scheduler = found["train.lr_scheduler"].about
    assert scheduler is not None
    assert "cosine" in scheduler.choices
    packing = found["train.packing"].about
    assert packing is not None
    assert packing.choices == ("true", "false")
    assert found["data.train[0].path"].override == "data.train.0.path"
    assert found["train"].value is None
    assert "lora.r" in found, "settings of a part that is not set can be set"
    assert list(found)[:5] == ["name", "task", "model", "model.tiny", "model.tiny.hidden_size"], "in the file's order"


def test_names_that_the_user_gives_are_settings_too(project: Path) -> None:
    found = of(project, COMMAND + "env: {RATE: '1', X_Y: a b}\nfiles: {in/a.txt: https://example.org/a.txt}\n")
    assert found["env.RATE"].value == '"1"'
    assert found["env.X_Y"].value == '"a b"'
    assert found["files.in/a.txt.url"].value == '"https://example.org/a.txt"'
    assert found["env.RATE"].override == "env.RATE"
    assert found["env.RATE"].about is not None
    assert found["env.RATE"].about.kind == "text", "also what looks like a number"
    assert found["files.in/a.txt.url"].override is None, "--set would end the name at its dot"
    assert of(project, COMMAND + "files: {a: https://example.org/a}\n")["files.a.url"].override == "files.a.url"


def test_a_value_is_written_so_that_yaml_reads_it_back(project: Path) -> None:
    for value in ("true", "7", "a: b", "# x", "", " a", "null", "x\x1b[31m", "1e-5", "-x", "ü 日本", 'say "no"'):
        experiment = load(project, COMMAND, f"env.V={text_of(value)}")
        assert experiment.env["V"] == value
    assert text_of({"a": [1, None, True, 0.5]}) == "{a: [1, null, true, 0.5]}"


def test_the_differences_make_an_experiment_what_a_run_was(project: Path) -> None:
    then = load(project, SFT, "train.learning_rate=3e-4", "lora.r=8", "stop_grace_s=5", "env.A=x y")
    recorded = {**then.model_dump(mode="json"), "unknown": 1}
    wanted = differences(recorded, load(project, SFT))
    assert "train.learning_rate=0.0003" in wanted
    assert load(project, SFT, *wanted).model_dump(mode="json") == then.model_dump(mode="json")
    assert differences(load(project, SFT).model_dump(mode="json"), load(project, SFT)) == []
