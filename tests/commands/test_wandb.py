"""From a run that reaches no internet to W&B's records at home, with W&B's own program; its service cannot be reached here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Armada, eventually

LOGS = "import wandb; r = wandb.init(project='p'); [r.log({'loss': 1 / (i + 1)}, step=i) for i in range(3)]; r.finish()"


def offline(armada: Armada) -> None:
    config = armada.folder / "home" / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "hosts.yaml").write_text("hosts: {local: {internet: false}}\n")


def test_what_a_run_logs_offline_comes_home_and_is_named_to_wandb(armada: Armada) -> None:
    pytest.importorskip("wandb", reason="pip install 'armada-gpu[wandb]': real offline records are made with it")
    offline(armada)
    run_id = armada.json("launch", "--host", "local", armada.command(sys.executable, "-c", LOGS))["run_id"]
    eventually(lambda: armada.json("ps")[0]["state"] in ("succeeded", "failed"))
    assert armada.json("ps")[0]["state"] == "succeeded", armada.run("logs", run_id).stdout
    shown = armada.json("show", run_id)
    assert (shown["step"], shown["loss"]) == (2, pytest.approx(1 / 3))  # read from W&B's own file, while it ran
    early = armada.run("wandb", "sync", run_id)
    assert (early.returncode, "are home" in early.stdout) == (0, True)
    assert armada.run("sync", "now", run_id).returncode == 0
    told = armada.json("wandb", "sync", run_id, "--dry-run")
    (folder,) = map(Path, told["home"])
    (records,) = folder.glob("run-*.wandb")
    assert records.stat().st_size > 100
    assert told["command"][-1] == str(folder)
    armada.env.update({"HOME": str(armada.folder), "NETRC": "/dev/null"})
    keyless = armada.run("wandb", "sync", run_id)
    assert keyless.returncode == 2, keyless.stderr
    assert "no key" in keyless.stderr
    assert list(folder.glob("*.synced")) == []


def test_all_records_of_a_script_that_says_tracking_are_uploaded_as_one_run_wherever_they_lie(armada: Armada) -> None:
    folder = "sub/wandb/offline-run-20260101_000000-a"
    script = f"mkdir -p {folder}; echo x > {folder}/run-a.wandb"
    said: list[tuple[dict[str, Any], bool]] = [({"tracking": {"project": "p"}}, True), ({}, False)]
    for tracking, is_one in said:
        launched = armada.json("launch", "--host", "local", armada.command("sh", "-c", script, **tracking), "--follow")
        told = armada.json("wandb", "sync", launched["run_id"], "--dry-run")
        assert [Path(each).name for each in told["home"]] == [Path(folder).name]
        assert (f"--id={launched['run_id']}" in told["command"]) is is_one


def test_wandb_online_is_refused_where_no_run_has_internet(armada: Armada) -> None:
    offline(armada)
    armada.write("train.jsonl", json.dumps({"text": "a"}) + "\n")
    tiny = {
        "tiny": {"hidden_size": 32, "layers": 1, "heads": 1, "kv_heads": 1, "intermediate_size": 64, "vocab_size": 300}
    }
    train = {"global_batch_size": 4, "max_steps": 1, "max_length": 64, "learning_rate": 0.01}
    experiment = {
        "name": "t",
        "task": "sft",
        "model": tiny,
        "data": {"train": [{"path": "train.jsonl"}]},
        "train": train,
    }
    armada.write("exp.yaml", json.dumps({**experiment, "tracking": {"wandb": "online"}}))
    profiles = armada.folder / "home" / "config" / "profiles"
    profiles.mkdir(parents=True)
    own = {"extends": "cpu", "environment": {"packages": ["wandb==0.31.0"]}}
    (profiles / "tracked.yaml").write_text(json.dumps(own))
    words = ("launch", "--host", "local", "exp.yaml", "--dry-run", "--profile")
    refused = armada.run(*words, "tracked")
    assert refused.returncode == 3, refused.stdout + refused.stderr
    assert "ARM013" in refused.stdout + refused.stderr
    lacking = armada.run(*words, "cpu", "--set", "tracking.wandb=offline")
    assert lacking.returncode == 3, lacking.stdout + lacking.stderr
    assert "the profile's environment lacks wandb" in lacking.stdout + lacking.stderr
    spec = armada.run(*words, "tracked", "--set", "tracking.wandb=offline")
    assert spec.returncode == 0, spec.stderr
    assert "armada wandb sync RUN" in spec.stdout
