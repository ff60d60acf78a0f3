"""Wrong words and wrong files: a sentence that says what, where and what would be right; nothing is started."""

from __future__ import annotations

import json
import re

import pytest

from tests.conftest import Armada

SFT = {
    "name": "x",
    "task": "sft",
    "model": {"tiny": {}},
    "data": {"train": [{"path": "train.jsonl"}]},
    "train": {"global_batch_size": 4, "max_steps": 2, "max_length": 64},
}
ROW = json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})


def launch(armada: Armada, text: str, *more: str) -> tuple[int, str]:
    done = armada.run("launch", "--host", "local", armada.write("exp.yaml", text), *more)
    assert armada.json("ps") == []
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\ntask: command\ncomand: [a]\n", ["exp.yaml:3", "comand", "command"]),
        ("name: x\ntask: command\ncommand: ls -l\n", ["exp.yaml:3", "list"]),
        ("name: x\ntask: command\ncommand: [ls\n", ["exp.yaml:"]),
        ("name: 7\ntask: command\ncommand: [ls]\n", ["exp.yaml:1", "name"]),
        ("name: x\ntask: comand\ncommand: [ls]\n", ["exp.yaml:2", "task"]),
        ("", ["exp.yaml"]),
        ("name: x\nname: y\ntask: command\ncommand: [ls]\n", ["exp.yaml:2"]),
    ],
)
def test_a_wrong_experiment_is_said_with_its_line(armada: Armada, text: str, said: list[str]) -> None:
    code, err = launch(armada, text)
    assert code == 2
    assert all(word in err for word in said), err
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [("stop",), ("rm", "--yes"), ("show",), ("tag", "--add", "x")])
def test_an_empty_id_of_a_shell_variable_that_is_not_set_is_no_run(armada: Armada, words: tuple[str, ...]) -> None:
    run_id = armada.json("launch", "--host", "local", armada.command("true"), "--follow")["run_id"]
    done = armada.run(*words, "")
    assert done.returncode == 2
    assert "the run's id is empty" in done.stderr
    assert [run["run_id"] for run in armada.json("ps")] == [run_id]


def test_a_home_with_an_empty_id_is_not_forgotten(armada: Armada) -> None:
    done = armada.run("hosts", "forget-home", "local", "")
    assert done.returncode == 2
    assert "the home's id is empty" in done.stderr


def test_a_file_that_does_not_exist_is_named(armada: Armada) -> None:
    done = armada.run("launch", "--host", "local", "missing.yaml")
    assert done.returncode == 2
    assert "missing.yaml" in done.stderr


def test_an_unknown_host_is_7_and_the_nearest_is_named(armada: Armada) -> None:
    done = armada.run("launch", "--host", "locla", armada.command("true"))
    assert done.returncode == 7
    assert "local" in done.stderr


def test_an_unknown_profile_is_7_and_the_nearest_is_named(armada: Armada) -> None:
    armada.write("train.jsonl", ROW + "\n")
    done = armada.run("launch", "--host", "local", "--profile", "cpus", armada.write("e.yaml", json.dumps(SFT)))
    assert done.returncode == 7
    assert "cpu" in done.stderr


def test_line_17_of_a_dataset_that_is_not_json_is_said_before_anything_starts(armada: Armada) -> None:
    armada.write("train.jsonl", "\n".join([ROW] * 16 + ["{broken"] + [ROW] * 3))
    code, err = launch(armada, json.dumps(SFT))
    assert code == 2
    assert "train.jsonl:17" in err


def test_an_empty_dataset_is_refused(armada: Armada) -> None:
    armada.write("train.jsonl", "")
    code, err = launch(armada, json.dumps(SFT))
    assert code == 2
    assert "train.jsonl" in err


def test_what_only_the_payload_would_refuse_is_refused_before_anything_starts(armada: Armada) -> None:
    armada.write("train.jsonl", ROW + "\n")
    train = {"global_batch_size": 4, "max_steps": 2, "max_length": 64, "kernels": "liger"}
    code, err = launch(armada, json.dumps({**SFT, "train": train}), "--profile", "cpu")
    assert code == 3
    assert re.search(r"ARM015 \S*exp.yaml:\d+: `train.kernels` need GPUs", err), err


def test_a_dataset_that_is_missing_is_refused(armada: Armada) -> None:
    code, err = launch(armada, json.dumps(SFT))
    assert code == 2
    assert "train.jsonl" in err


def test_batch_arithmetic_that_does_not_come_out_names_values_that_do(armada: Armada) -> None:
    armada.write("train.jsonl", ROW + "\n")
    experiment = {**SFT, "train": {**SFT["train"], "global_batch_size": 10, "micro_batch_size": 4}}  # type: ignore[dict-item]
    code, err = launch(armada, json.dumps(experiment))
    assert code == 3
    assert "8" in err
    assert "12" in err


@pytest.mark.parametrize("override", ["train.max_stepz=3", "train.max_steps=soon", "train", "=3", "a.b.c=1"])
def test_a_wrong_override_is_quoted(armada: Armada, override: str) -> None:
    armada.write("train.jsonl", ROW + "\n")
    code, err = launch(armada, json.dumps(SFT), "--set", override)
    assert code == 2
    assert override.partition("=")[0] in err or override in err


@pytest.mark.parametrize(
    "words",
    [
        ["launch"],
        ["fly"],
        ["launch", "x.yaml"],
        ["logs"],
        ["logs", "x", "--tail", "many"],
        ["stop", "x", "--grace", "-1"],
        ["hosts"],
        ["ps", "--jsn"],
    ],
)
def test_wrong_usage_is_2_in_a_sentence(armada: Armada, words: list[str]) -> None:
    done = armada.run(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("armada: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", ["show", "logs", "stop", "rm", "pull"])
def test_a_run_that_does_not_exist_is_7(armada: Armada, verb: str) -> None:
    done = armada.run(verb, "nothing")
    assert done.returncode == 7
    assert "armada ps" in done.stderr


def test_exit_codes_are_explained(armada: Armada) -> None:
    out = armada.run("help", "exit-codes").stdout
    assert [line.split()[0] for line in out.splitlines()] == [*map(str, range(11)), "130"]


def test_a_key_that_no_program_would_log_in_with_is_refused_by_name(armada: Armada) -> None:
    (armada.folder / "id.pub").write_text("ssh-ed25519 AAAA me@desk\n")
    (armada.folder / "id").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    (armada.folder / "id").chmod(0o644)
    for file, words in (("id.pub", "is a public key"), ("id", "others can read (mode 0644)")):
        done = armada.run("hosts", "add", "box", "me@127.0.0.1:1", "--identity", file)
        assert done.returncode == 2
        assert words in done.stderr
    assert "chmod 600 id" in done.stderr


def test_the_same_host_added_again_is_looked_at_again_and_one_elsewhere_must_show_its_key(armada: Armada) -> None:
    config = armada.folder / "home" / "config"
    config.mkdir(parents=True)
    text = json.dumps({"hosts": {"box": {"ssh": "me@127.0.0.1:1", "root": "/scratch"}}})
    (config / "hosts.yaml").write_text(text)
    again = armada.run("hosts", "add", "box", "me@127.0.0.1:1", "--root", "/scratch")
    assert again.returncode == 4
    assert "is already in" in again.stdout
    assert "refuses connections" in again.stdout
    other = armada.run("hosts", "add", "box", "me@127.0.0.1:2", "--yes")
    assert (other.returncode, "refuses connections" in other.stderr) == (4, True)
    assert (config / "hosts.yaml").read_text() == text
    local = armada.run("hosts", "add", "local", "me@127.0.0.1:1")
    assert (local.returncode, "hosts rm" in local.stderr) == (8, False)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["box", "me@h", "--root", "relative"], "--root /scratch/me/armada"),
        (["we ird", "me@h"], "letters, digits"),
        (["box", "me@h", "--price", "-1"], "--price 12.40"),
    ],
)
def test_a_hint_shows_the_word_that_was_wrong(armada: Armada, words: list[str], hint: str) -> None:
    done = armada.run("hosts", "add", *words)
    assert done.returncode == 2
    assert hint in done.stderr
