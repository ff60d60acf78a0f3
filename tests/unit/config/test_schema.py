"""JSON Schemas for editors say what armada's own models say: the same files are right, and the same shapes are wrong."""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from pydantic import BaseModel, ValidationError

from armada.cli.config import KINDS
from armada.config.documents import read_document
from armada.config.hosts import Host, HostsFile
from armada.config.profiles import Profile
from armada.config.schema import FILES, schema_of
from armada.config.settings import PROBLEM
from armada.config.tasks.command import Command
from armada.config.tasks.script import Script
from armada.config.tasks.sft import Sft

TREE = Path(__file__).parents[3]
PAGES = [TREE / "README.md", *sorted((TREE / "docs").rglob("*.md"))]
EXAMPLES = sorted((TREE / "examples").glob("*/*.yaml"))
PROFILES = sorted((TREE / "profiles").glob("[!_]*.yaml"))  # what others extend is no profile

# Keys of every sort at once, so that each is broken below.
EVERYTHING = """
name: all of it
task: sft
model: {tiny: {layers: 2}}
code: .
data:
  train: [{path: a.jsonl, weight: 2}, {hub: me/set, split: train, revision: abc}]
  eval: [{path: b.jsonl}]
train: {global_batch_size: 8, micro_batch_size: auto, epochs: 1.5, warmup_steps: 0.1, neftune_alpha: 5, long_samples: split, compile: true}
lora: {r: 8, init: pissa, target_modules: [q_proj], dropout: 0.1}
start_from: {run: a-b, checkpoint: best, optimizer: moments}
checkpoint: {every_steps: 5, quiet_s: 1}
resume: {accept_changes: true}
evaluation: {samples: 2}
resources: {gpus: all, memory: 64G, time_limit: 24h}
tracking: {wandb: off, project: p}
secrets: [TOKEN]
env: {NCCL_DEBUG_LEVEL: 1, A: b}
environment: {requirements: pyproject.toml, extras: [a], groups: [b]}
stop_grace_s: 5
sync: {every: 5m, keep_home: {last: 2}, include_optimizer: last, bwlimit: 20M, window: "22:00-07:00", streams: 4, outputs: ["a/**"]}
"""
SCRIPT = """
name: a script
task: script
script: a.py
code: .
arguments: [--x]
checkpoint: {pattern: "out/*"}
resume: [--resume, "{checkpoint}"]
environment: {existing: ~/venv}
"""
COMMAND = """
name: a command
task: command
command: [torchrun, a.py]
resources: {gpus: 2, cpus: 4}
secrets: [TOKEN]
setup: [module load cuda/12.4]
environment: {requirements: [einops, "transformers>=4.44"]}
"""
HOSTS = """
bwlimit: 50M
hosts:
  desk: {ssh: me@desk, root: /x, price_per_hour: 1, internet: true, quota: [saldo], scheduler: slurm, identity: ~/.ssh/id,
         slurm: {partition: gpu, time_limit: 4h, lines: ["#SBATCH --exclusive"], setup: [module load x], exclude: [n1], gpus: gres}}
  pool: {ssh: pool, scheduler: htcondor, htcondor: {getenv: [HF_HOME], universe: docker, image: a/b:1, max_retries: 2}}
  local:
"""
PROFILE = """
gpus: {count: 2, model: A, memory_gb: 24, peak_tflops: 71}
match: [A]
train: {micro_batch_size: 2, precision: bf16, activation_checkpointing: true}
environment: {torch: 2.13.0, requirements: train.txt, packages: [a==1], flash_attn: none, torch_index: "https://a.org/simple"}
accelerate: {fsdp_config: {a: 1}}
env: {A: "1"}
"""
WRONG: list[Any] = ["text", "", 5, -7, 2.5, True, None, [], {}, [5], ["text"], {"nobody_knows": 1}]


made = functools.cache(schema_of)
"""Each schema once: making one takes half a second."""


@functools.cache
def validator(kind: str) -> Draft7Validator:
    schema = made(kind)
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)


def read(text: str, folder: Path) -> dict[str, Any]:
    file = folder / "file.yaml"
    file.write_text(text)
    return read_document(file).data


@pytest.mark.parametrize("kind", KINDS)
def test_the_kept_schemas_are_current(kind: str) -> None:
    kept = TREE / "docs" / "schemas" / f"{kind}.schema.json"
    assert json.loads(kept.read_text("utf-8")) == made(kind), f"armada config schema {kind} > {kept}"


def test_every_kind_of_file_has_one() -> None:
    assert set(KINDS) == set(FILES)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_is_right(file: Path) -> None:
    assert [error.message for error in validator("experiment").iter_errors(read_document(file).data)] == []


@pytest.mark.parametrize("file", PROFILES, ids=lambda file: file.stem)
def test_every_bundled_profile_is_right(file: Path) -> None:
    assert [error.message for error in validator("profile").iter_errors(read_document(file).data)] == []


def test_every_example_of_the_documentation_is_right(tmp_path: Path) -> None:
    seen = []
    for page in PAGES:
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            data = read(block, tmp_path)
            if "urls" in data:
                continue  # notifications.yaml
            kind = "hosts" if "hosts" in data else "profile" if {"extends", "gpus"} & set(data) else "experiment"
            schema = copy.copy(made(kind))
            if kind == "experiment" and "task" not in data:
                schema["required"] = []  # a part of one
            errors = [
                f"{page.name}: {error.json_path}: {error.message}"
                for error in Draft7Validator(schema).iter_errors(data)
            ]
            assert errors == []
            seen.append(kind)
    assert {"hosts", "profile", "experiment"} <= set(seen)


def wrong_shape(model: type[BaseModel], data: Any, given: dict[str, Any]) -> bool | None:
    """None where armada takes it; else whether its shape is what is wrong, rather than what it means."""
    try:
        model.model_validate({**data, **given}, context={"folder": Path("/")})
    except ValidationError as failure:
        return any(error["type"] not in {PROBLEM, "value_error"} for error in failure.errors())
    return None


def ways(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if above:
        yield above
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from ways(item, (*above, key))


def spoilt(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The document with one thing of it replaced, taken away, or put beside it."""
    for way in ways(data):
        for wrong in (*WRONG, "taken away", "put beside"):
            new = copy.deepcopy(data)
            container: Any = new
            for part in way[:-1]:
                container = container[part]
            if wrong == "taken away":
                del container[way[-1]]
            elif wrong == "put beside":
                if not isinstance(container[way[-1]], dict):
                    continue
                container[way[-1]]["nobody_knows"] = 1
            else:
                container[way[-1]] = wrong
            yield f"{'.'.join(map(str, way))} = {wrong!r}", new


@pytest.mark.parametrize(
    ("kind", "model", "text", "given"),
    [
        ("experiment", Sft, EVERYTHING, {}),
        ("experiment", Script, SCRIPT, {}),
        ("experiment", Command, COMMAND, {}),
        ("profile", Profile, PROFILE, {"name": "p"}),
    ],
    ids=["sft", "script", "command", "profile"],
)
def test_what_armada_refuses_for_its_shape_the_schema_refuses_and_what_it_takes_it_takes(
    tmp_path: Path, kind: str, model: type[BaseModel], text: str, given: dict[str, Any]
) -> None:
    data, schema = read(text, tmp_path), validator(kind)
    assert wrong_shape(model, data, given) is None
    assert schema.is_valid(data)
    disagreements, refused = [], 0
    for what, new in spoilt(data):
        verdict, right = wrong_shape(model, new, given), schema.is_valid(new)
        refused += bool(verdict)
        if (verdict is True and right) or (verdict is None and not right):
            disagreements.append(f"{what}: armada {'takes' if verdict is None else 'refuses'} it, the schema does not")
    assert disagreements == []
    assert refused > 80


def test_editors_are_told_which_keys_a_task_has() -> None:
    schema, command = validator("experiment"), {"name": "c", "task": "command", "command": ["a"]}
    assert schema.is_valid(command)
    assert schema.is_valid({**command, "model": None})  # what says nothing hinders nobody
    assert not schema.is_valid({**command, "model": "a/b"})
    assert not schema.is_valid({**command, "task": "script"})
    assert not schema.is_valid({"name": "t", "task": "sft", "model": "a/b"})


def test_hosts_are_refused_alike(tmp_path: Path) -> None:
    data, schema = read(HOSTS, tmp_path), validator("hosts")
    assert wrong_shape(HostsFile, data, {}) is None
    assert [error.message for error in schema.iter_errors(data)] == []
    disagreements, refused = [], 0
    for name in ("desk", "pool"):
        for what, new in spoilt(data["hosts"][name]):
            verdict, right = wrong_shape(Host, new, {"name": name}), schema.is_valid({"hosts": {name: new}})
            refused += bool(verdict)
            if (verdict is True and right) or (verdict is None and not right):
                disagreements.append(
                    f"{what}: armada {'takes' if verdict is None else 'refuses'} it, the schema does not"
                )
    assert disagreements == []
    assert refused > 80
    assert not schema.is_valid({"hosts": {"-x": {"ssh": "a"}}})
    assert not schema.is_valid({"hosts": {"a": {"ssh": "a", "name": "a"}}})
    assert not validator("project").is_valid({"bwlimit": "50M"})


def test_a_profile_that_extends_another_says_only_what_differs() -> None:
    schema = validator("profile")
    assert schema.is_valid({"extends": "cpu", "train": {"micro_batch_size": 3}})
    assert not schema.is_valid({"train": {"micro_batch_size": 3}})
    assert not schema.is_valid({"extends": "cpu", "train": {"micro_batch": 3}})


def test_texts_under_fields_are_shown_by_editors() -> None:
    train = made("experiment")["$defs"]["Train"]["properties"]
    assert train["global_batch_size"]["description"].startswith("Samples per optimizer step")
    slurm = made("hosts")["$defs"]["SlurmSettings"]["properties"]
    assert slurm["time_limit"]["description"] == "For runs whose experiment names none."
