"""`armada profiles`: what there is, what is wrong with it, and which one a host's GPUs get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from armada.cli.shapes import SHAPES, schema_of
from tests.conftest import Armada

NVIDIA_SMI = """#!/bin/sh
case "$1" in
  --query-gpu=index,uuid,*) cat "{folder}/inventory";;
  -L) cat "{folder}/list";;
esac
"""


def put_gpus(armada: Armada, *rows: str, slices: str = "") -> None:
    """Give this machine GPUs: `name, MiB, utilization, compute_cap` as nvidia-smi prints them."""
    folder = armada.folder / "bin"
    folder.mkdir(exist_ok=True)
    lines = []
    for index, row in enumerate(rows):
        name, mib, utilization, capability = row.rsplit(", ", 3)
        lines.append(f'{index}, GPU-{index}, "{name}", {mib}, 3, {utilization}, 580.159.03, {capability}\n')
    (folder / "inventory").write_text("".join(lines))
    (folder / "list").write_text(slices)
    (folder / "nvidia-smi").write_text(NVIDIA_SMI.format(folder=folder))
    (folder / "nvidia-smi").chmod(0o755)
    armada.env["PATH"] = f"{folder}:{armada.env['PATH']}"


def put_profile(armada: Armada, name: str, text: str) -> Path:
    folder = armada.folder / "home" / "config" / "profiles"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.yaml").write_text(text)
    return folder / f"{name}.yaml"


def told(armada: Armada, *arguments: str, rc: int = 0) -> Any:
    found = armada.json("profiles", *arguments, rc=rc)
    jsonschema.validate(found, schema_of(SHAPES[f"profiles {arguments[0]}"]))
    return found


def test_the_list_has_the_users_and_the_bundled_ones_and_names_the_wrong(armada: Armada) -> None:
    put_profile(armada, "mine", "extends: t4\ngpus: {count: 2, least: null}\n")
    put_profile(armada, "wrong", "extends: t4\ntrain: {micro_batch: 1}\n")
    shown = armada.run("profiles", "ls")
    assert shown.returncode == 0
    (row,) = [line.split() for line in shown.stdout.splitlines() if line.startswith("mine")]
    assert row == ["mine", "2", "Tesla", "T4", "16", "GB", "65", "TFLOPS", "fp16", "user"]
    assert "wrong cannot be used" in shown.stdout
    assert "did you mean `train.micro_batch_size`?" in shown.stdout
    by_name = {each["name"]: each for each in told(armada, "ls")}
    assert by_name["h200"]["gpus"] == {"least": 1, "most": 8, "model": "H200", "memory_gb": 140}
    assert "wrong.yaml:2" in by_name["wrong"]["error"]


def test_show_names_the_line_of_every_key(armada: Armada) -> None:
    mine = put_profile(armada, "mine", "extends: h100-pcie\ntrain:\n  micro_batch_size: 4\n")
    keys = told(armada, "show", "mine")["keys"]
    assert keys["train.micro_batch_size"] == {"value": 4, "origin": f"{mine}:3"}
    assert keys["gpus.peak_tflops"]["origin"].endswith("h100-pcie.yaml:5")
    assert keys["gpus.count"]["origin"].endswith("profiles/h100.yaml:4")
    assert keys["train.precision"]["origin"].endswith("_gpu.yaml:5")
    text = armada.run("profiles", "show", "mine").stdout
    assert any(line.split() == ["train.micro_batch_size", "4", f"{mine}:3"] for line in text.splitlines())
    missing = armada.run("profiles", "show", "mien")
    assert (missing.returncode, "did you mean mine?" in missing.stderr) == (7, True)


def test_validate_says_each_error_with_its_line(armada: Armada) -> None:
    put_profile(armada, "good", "extends: cpu\n")
    put_profile(armada, "bad", "extends: t4\ntrain:\n  precision: bf61\n  micro_batch_size: 0\n")
    assert armada.run("profiles", "validate", "good", "cpu").returncode == 0
    said = armada.run("profiles", "validate")
    assert said.returncode == 2
    assert "✓ good (" in said.stdout
    assert "bad.yaml:3: `train.precision` must be" in said.stdout
    assert "bad.yaml:4: `train.micro_batch_size` must be at least 1" in said.stdout
    found = {each["name"]: each for each in told(armada, "validate", "good", "bad", "no-such", rc=7)}
    assert found["good"]["valid"]
    assert "(did you mean bf16?)\n" in found["bad"]["error"]["message"], "each of several errors has its own remedy"
    assert found["bad"]["error"]["hint"] is None
    assert found["no-such"]["error"]["kind"] == "NotFound"


def test_validate_takes_a_file_anywhere(armada: Armada) -> None:
    armada.write("draft.yaml", "extends: cpu\nenvironment: {packages: [trl==0.1]}\n")
    twice = armada.run("profiles", "validate", "draft.yaml")
    assert (twice.returncode, "pin the same package differently" in twice.stdout) == (2, True)
    armada.write("draft.yaml", "extends: cpu\n")
    assert armada.run("profiles", "validate", "./draft.yaml").stdout.startswith("✓ ./draft.yaml (")
    assert armada.run("profiles", "validate", "nothing.yaml").returncode == 2
    assert armada.run("profiles", "validate", ".").returncode == 7
    assert armada.run("profiles", "validate", "~nobody-here/x.yaml").returncode == 2
    armada.write("odd.yaml", "\x00")
    assert "Traceback" not in armada.run("profiles", "validate", "odd.yaml", "/dev/null", "/").stderr


def test_detect_says_which_profile_fits_and_why_the_others_do_not(armada: Armada) -> None:
    put_gpus(armada, *["NVIDIA GeForce RTX 3090, 24576, 0, 8.6"] * 3)
    said = armada.run("profiles", "detect", "local").stdout
    assert "3 × NVIDIA GeForce RTX 3090, 24 GiB, compute capability 8.6" in said
    assert "✓ profile rtx3090 fits" in said
    assert "it is for 2 of these GPUs, and there are 3" in said
    found = told(armada, "detect", "local", "--save", "mine")
    assert (found["profile"], found["derived"], found["yaml"]) == ("rtx3090", False, None)
    assert {"name": "t4", "why": "it is for Tesla T4, not NVIDIA GeForce RTX 3090"} in found["others"]
    assert told(armada, "detect", "local")["profile"] == "mine"
    again = armada.run("profiles", "detect", "local", "--save", "mine")
    assert (again.returncode, "there is a profile mine already" in again.stderr) == (8, True)


def test_a_profile_with_a_number_for_a_name_is_extended_by_it(armada: Armada) -> None:
    put_gpus(armada, "My GPU, 24576, 0, 8.6")
    put_profile(armada, "1.5", "extends: a6000\nmatch: [My GPU]\n")
    assert told(armada, "detect", "local", "--save", "mine")["profile"] == "1.5"
    assert told(armada, "show", "mine")["keys"]["extends"]["value"] == "1.5"
    assert armada.run("profiles", "validate", "mine").returncode == 0


def test_detect_derives_one_that_can_be_saved_and_launches_use_it(armada: Armada) -> None:
    put_gpus(armada, "Quadro RTX 8000, 46080, 0, 7.5")
    said = armada.run("profiles", "detect", "local").stdout
    assert "✗ no profile fits its GPUs" in said
    assert "derived from its GPUs: derived:1x-quadro-rtx-8000" in said
    assert "  precision: fp16" in said
    checked = armada.run("hosts", "check", "local").stdout
    assert "profile derived:1x-quadro-rtx-8000 (by its GPUs)" in checked
    assert "⚠ no profile fits its GPUs: the settings are derived from them" in checked
    shown = armada.run("config", "show", "--host", "local", "--origin").stdout
    (line,) = [line for line in shown.splitlines() if line.split()[:1] == ["train.precision"]]
    assert line.split(maxsplit=2) == ["train.precision", "'fp16'", "the host's GPUs"]
    plan = armada.json("launch", "--host", "local", "quickstart", "--dry-run", rc=None)
    assert plan["spec"]["profile"] == "derived:1x-quadro-rtx-8000"
    (check,) = [check for check in plan["checks"] if check["code"] == "ARM002"]
    assert (check["outcome"], "is derived from them: fp16, micro batch 1" in check["message"]) == ("warn", True)
    saved = armada.run("profiles", "detect", "local", "--save", "quadro")
    assert saved.stdout.endswith("quadro.yaml: runs there use it from now on\n")
    plan = armada.json("launch", "--host", "local", "quickstart", "--dry-run", rc=None)
    assert plan["spec"]["profile"] == "quadro"


def test_slices_and_several_kinds_are_named(armada: Armada) -> None:
    put_gpus(armada, "NVIDIA A100-SXM4-80GB, 81920, 0, 8.0", "NVIDIA GeForce RTX 3090, 24576, 0, 8.6")
    mixed = told(armada, "detect", "local")
    assert mixed["profile"] == "derived:mixed-2x-geforce-rtx-3090"
    assert any("several kinds" in note for note in mixed["notes"])
    checked = armada.run("hosts", "check", "local").stdout
    assert "1 × NVIDIA A100-SXM4-80GB and 1 × NVIDIA GeForce RTX 3090 (0 in use)" in checked
    assert "⚠ the GPUs are of several kinds" in checked
    listing = "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-0)\n  MIG 2g.20gb     Device  0: (UUID: MIG-1)\n"
    put_gpus(armada, "NVIDIA A100-SXM4-80GB, 81920, [N/A], 8.0", slices=listing)
    sliced = told(armada, "detect", "local")
    assert sliced["profile"] == "derived:1x-a100-sxm4-80gb-mig-2g-20gb"
    assert sliced["gpus"][0]["slices"] == ["MIG 2g.20gb"]


def test_what_the_host_says_is_not_believed(armada: Armada) -> None:
    put_gpus(armada, "\x1b[31m[bold]!!evil\x1b]0;x\x07: *a, 900000000, 0, 1e9")
    for words in (["profiles", "detect", "local"], ["hosts", "check", "local"]):
        done = armada.run(*words)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout + done.stderr
        assert "\x07" not in done.stdout
    assert told(armada, "detect", "local")["derived"]
    refused = armada.run("profiles", "detect", "local", "--save", "mine")
    assert (refused.returncode, "how much memory" in refused.stderr) == (2, True)
    assert not (armada.folder / "home" / "config" / "profiles" / "mine.yaml").exists()


def test_a_machine_without_gpus_gets_the_profile_for_it(armada: Armada) -> None:
    put_gpus(armada)
    found = told(armada, "detect", "local")
    assert (found["profile"], found["gpus"], found["others"]) == ("cpu", [], [])
    assert "nvidia-smi, which shows no GPU" in found["notes"][0]


@pytest.mark.parametrize("name", ["", "../x", "a/b", "_x", "x" * 64, "derived:1x-a", "-x"])
def test_a_name_that_no_profile_can_have_is_refused_before_the_host_is_asked(armada: Armada, name: str) -> None:
    refused = armada.run("profiles", "detect", "local", f"--save={name}")
    assert (refused.returncode, "cannot be the name of a profile" in refused.stderr) == (2, True)


def test_a_cluster_s_login_node_is_not_asked(armada: Armada) -> None:
    config = armada.folder / "home" / "config"
    config.mkdir(parents=True)
    (config / "hosts.yaml").write_text(json.dumps({"hosts": {"hpc": {"ssh": "me@192.0.2.1", "scheduler": "slurm"}}}))
    refused = armada.run("profiles", "detect", "hpc")
    assert (refused.returncode, "does not show which GPUs slurm assigns" in refused.stderr) == (2, True)
