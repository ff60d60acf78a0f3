"""Settings put into the text of an experiment file: nothing else changes."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from armada.config.documents import parse_document
from armada.config.edited_text import with_overrides
from armada.config.overrides import apply_override
from armada.errors import ConfigError

FILE = Path("exp.yaml")
TEXT = """\
# head
name: demo   # the name
task: sft
model:
  tiny: {layers: 2}  # small

data:
  train:
    - path: a.jsonl   # one
    - {path: b.jsonl}
train:
  learning_rate: 5e-5  # rate
  betas: [0.9, 0.95]
  # end of train
lora:
tags:
  - a
  - b
# tail
setup: |
  one
  two
"""
CASES = {
    "train.learning_rate=1e-4": ["-  learning_rate: 5e-5  # rate", "+  learning_rate: 1e-4  # rate"],
    "name=a, b": ["-name: demo   # the name", "+name: a, b   # the name"],
    'name="x: y # z"': ["-name: demo   # the name", '+name: "x: y # z"   # the name'],
    "train.seed=7": ["+  seed: 7"],
    "model.tiny.layers=3": ["-  tiny: {layers: 2}  # small", "+  tiny: {layers: 3}  # small"],
    "model.tiny.heads=4": ["-  tiny: {layers: 2}  # small", "+  tiny: {layers: 2, heads: 4}  # small"],
    "data.train.0.path=c.jsonl": ["-    - path: a.jsonl   # one", "+    - path: c.jsonl   # one"],
    "data.train.1.weight=2": ["-    - {path: b.jsonl}", "+    - {path: b.jsonl, weight: 2}"],
    "lora.r=8": ["-lora:", "+lora: {r: 8}"],
    "tags=[x]": ["-tags:", "-  - a", "-  - b", "+tags: [x]"],
    "setup=[a]": ["-setup: |", "-  one", "-  two", "+setup: [a]"],
    "evaluation.samples=4": ["+evaluation:", "+  samples: 4"],
    "train.betas.0=0.7": ["-  betas: [0.9, 0.95]", "+  betas: [0.7, 0.95]"],
    "name=": ["-name: demo   # the name", "+name: null   # the name"],
    "name=!unset": ["-name: demo   # the name"],
    "lora=!unset": ["-lora:"],
    "setup=!unset": ["-setup: |", "-  one", "-  two"],
    "tags= !unset ": ["-tags:", "-  - a", "-  - b"],
    "train.learning_rate=!unset": ["-  learning_rate: 5e-5  # rate"],
    "train.betas=!unset": ["-  betas: [0.9, 0.95]"],
    "model.tiny.layers=!unset": ["-  tiny: {layers: 2}  # small", "+  tiny: {}  # small"],
    "model.tiny=!unset": ["-model:", "-  tiny: {layers: 2}  # small", "+model: {}"],
    "data=!unset": ["-data:", "-  train:", "-    - path: a.jsonl   # one", "-    - {path: b.jsonl}"],
}


def changed(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


@pytest.mark.parametrize("override", CASES)
def test_only_the_lines_of_the_setting_change(override: str) -> None:
    assert changed(TEXT, with_overrides(TEXT, FILE, [override])) == CASES[override]


@pytest.mark.parametrize("text", ["", "{name: x}", "a: 1\n", "a:\n", "a: 1  # no end", "\ufeff".strip() + "# only\n"])
def test_what_is_not_there_is_added_at_any_depth(text: str) -> None:
    wanted = ["b.c.d=[1, 'x']", "b.c.e={f: null}"]
    document = parse_document(text, FILE)
    for override in wanted:
        apply_override(document, override)
    assert parse_document(with_overrides(text, FILE, wanted), FILE).data == document.data


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("a: {x: 1, y: 2, z: 3}\n", "a: {x: 1, z: 3}\n"),
        ("a: {x: 1, y: 2}\n", "a: {x: 1}\n"),
        ("a: {y: 2, z: 3}  # c\n", "a: {z: 3}  # c\n"),
        ("a:\n  y: 2\n  # about z\n  z: 3\n", "a:\n  # about z\n  z: 3\n"),
        ("a:\n  x: 1\n  y:\n    deep: [1,\n      2]\n  # end\nb: 1\n", "a:\n  x: 1\n  # end\nb: 1\n"),
        ("a:\n  x: 1\n  y: 2", "a:\n  x: 1\n"),
        ("a:\n  y:\n  z: 3\n", "a:\n  z: 3\n"),
        ("a:\n  y: 2  # gone\n", "a: {}\n"),
    ],
)
def test_a_key_is_taken_out_with_its_lines_and_nothing_else(text: str, after: str) -> None:
    assert with_overrides(text, FILE, ["a.y=!unset"]) == after


def test_the_first_key_of_an_item_is_taken_out_behind_its_dash() -> None:
    text = "a:\n  - y: 2\n    z: 3\n  - y: 4\n"
    assert with_overrides(text, FILE, ["a.0.y=!unset"]) == "a:\n  - z: 3\n  - y: 4\n"
    found = parse_document(with_overrides(text, FILE, ["a.1.y=!unset"]), FILE)
    assert found.data == {"a": [{"y": 2, "z": 3}, {}]}


def test_what_aliases_share_is_not_changed_for_one_of_them() -> None:
    text = "a: &x {b: 1}\nc: *x\n"
    with pytest.raises(ConfigError, match=r"exp.yaml:1: `c\.b` cannot be changed") as failure:
        with_overrides(text, FILE, ["c.b=2"])
    assert "by hand" in str(failure.value.hint)


def test_a_file_that_does_not_parse_is_named_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"exp.yaml:2: not YAML"):
        with_overrides("a: 1\n\tb: 2\n", FILE, ["a=2"])
    with pytest.raises(ConfigError, match="--set a=b: c"):
        with_overrides("a: 1\n", FILE, ["a=b: c"])


def test_three_hundred_keys_keep_their_lines() -> None:
    text = "".join(f"key{number}: {number}  # {number}\n" for number in range(300))
    after = with_overrides(text, FILE, ["key150=x", "key299=y"])
    assert changed(text, after) == [
        "-key150: 150  # 150",
        "+key150: x  # 150",
        "-key299: 299  # 299",
        "+key299: y  # 299",
    ]


def test_lines_keep_their_ends() -> None:
    text = TEXT.replace("\n", "\r\n")
    after = with_overrides(text, FILE, ["train.seed=7", "tags=[x]"])
    assert after == with_overrides(TEXT, FILE, ["train.seed=7", "tags=[x]"]).replace("\n", "\r\n")
