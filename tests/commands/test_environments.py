"""Environments of an experiment's own on this machine, from a package index made of files."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Armada
from tests.package_index import build_wheel

TORCH = "2.13.0"
TORCHRUN = "#!/bin/sh\necho torchrun of $VIRTUAL_ENV\n"


@pytest.fixture
def offline(armada: Armada) -> Armada:
    """An armada whose `local` builds environments of a few empty packages."""
    index = armada.folder / "index"
    build_wheel(index, "torch", TORCH, {"torchrun": TORCHRUN})
    build_wheel(index, "einops", "0.8.1", needs=["torch"])
    build_wheel(index, "old", "1.0", needs=["torch<2.5"])
    armada.env.update({"PIP_INDEX_URL": f"file://{index}", "PIP_CONFIG_FILE": "/dev/null"})
    armada.env["PATH"] = f"{Path(sys.executable).parent}:{armada.env['PATH']}"  # where uv is
    profiles = armada.folder / "home" / "config" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "bare.yaml").write_text(f"extends: cpu\nenvironment: {{torch: {TORCH}, requirements: []}}\n")
    return armada


def launch(armada: Armada, *options: str) -> list[str]:
    return ["launch", "--host", "local", "--profile", "bare", "exp.yaml", *options]


def test_a_command_finds_the_programs_of_its_own_requirements(offline: Armada) -> None:
    (offline.folder / "requirements.txt").write_text("einops>=0.8\ntorch\n")
    offline.command("torchrun", environment={"requirements": "requirements.txt"})
    first = offline.run(*launch(offline, "--follow"))
    assert first.returncode == 0, first.stderr
    assert "built in" in first.stdout + first.stderr
    run_id = offline.json("ps")[0]["run_id"]
    folder = offline.local_runs / run_id
    (environment,) = (path for path in (folder.parents[1] / "envs").iterdir() if path.is_dir())
    assert (folder / "output.log").read_text() == f"torchrun of {environment}\n"
    assert (folder / "launch" / "requirements.txt").read_text() == f"# held to torch=={TORCH}\neinops>=0.8\ntorch\n"
    inside = offline.run("exec", run_id, "--", "torchrun")
    assert inside.stdout == f"torchrun of {environment}\n"
    again = offline.run(*launch(offline, "--dry-run"))
    assert "already there, built from your requirements" in again.stdout + again.stderr


def test_what_excludes_the_profiles_torch_ends_the_launch_with_uvs_words(offline: Armada) -> None:
    offline.command("true", environment={"requirements": ["old"]})
    done = offline.run(*launch(offline))
    assert done.returncode == 5
    assert "No solution found" in done.stderr
    assert "old" in done.stderr
    assert f"torch=={TORCH}" in done.stderr
    assert "change a requirement that uv names" in done.stderr
    assert offline.json("ps")[0]["reason"] == "provision_failed"


def test_an_index_that_is_down_ends_the_launch_and_a_later_one_builds_it(offline: Armada) -> None:
    offline.command("torchrun", environment={"requirements": ["torch"]})
    working = offline.env["PIP_INDEX_URL"]
    offline.env.update({"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"})
    down = offline.run(*launch(offline))
    assert down.returncode == 5
    assert "127.0.0.1:9" in down.stderr
    offline.env["PIP_INDEX_URL"] = working
    assert offline.run(*launch(offline, "--follow")).returncode == 0


def test_a_line_that_contradicts_the_profile_starts_nothing(offline: Armada) -> None:
    offline.command("true", environment={"requirements": ["torch==2.4.0"]})
    refused = offline.run(*launch(offline))
    assert refused.returncode == 2
    assert "exp.yaml:1: torch==2.4.0 contradicts torch==2.13.0, which profile bare pins" in refused.stderr
    assert "bare.yaml:2" in refused.stderr
    assert offline.json("ps") == []


def test_a_command_runs_in_an_environment_that_is_there_and_show_names_it(armada: Armada) -> None:
    folder = armada.folder / "mine"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    before = sorted(folder.rglob("*"))
    show = "import os, sys; print(sys.prefix, os.environ['VIRTUAL_ENV'])"
    armada.command("python", "-c", show, environment={"existing": str(folder)})
    done = armada.run("launch", "--host", "local", "exp.yaml", "--follow")
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert f"environment {folder}, yours (Python {platform.python_version()})" in said
    run_id = armada.json("ps")[0]["run_id"]
    assert (armada.local_runs / run_id / "output.log").read_text() == f"{folder} {folder}\n"
    assert f"environment {folder} (yours)" in armada.run("show", run_id).stdout
    assert armada.run("exec", run_id, "--", "python", "-c", show).stdout == f"{folder} {folder}\n"
    assert sorted(folder.rglob("*")) == before


def test_an_environment_that_is_not_there_or_lacks_torch_starts_nothing(armada: Armada) -> None:
    armada.command("true", environment={"existing": "/no/such/venv"})
    gone = armada.run("launch", "--host", "local", "exp.yaml")
    assert gone.returncode == 5
    assert "there is no folder /no/such/venv on this host" in gone.stderr
    folder = armada.folder / "mine"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (armada.folder / "train.py").write_text("")
    asked = {"existing": str(folder)}
    script = {"name": "s", "task": "script", "script": "train.py", "code": ".", "environment": asked}
    armada.write("script.yaml", json.dumps(script))
    lacking = armada.run("launch", "--host", "local", "--profile", "cpu", "script.yaml")
    assert lacking.returncode == 3
    assert f"{folder} has no torch and accelerate, which this task needs" in lacking.stderr
    assert "a script that uses neither can be a `task: command`" in lacking.stderr
    assert armada.json("ps") == []


def test_a_module_that_the_environment_lacks_is_named_before_anything_starts(offline: Armada) -> None:
    project = offline.folder / "code"
    project.mkdir()
    (project / "train.py").write_text("import json, helper\n\nprint('started')\n")
    (project / "helper.py").write_text("import no_such_module\n")
    offline.command("python", "train.py", code="code", environment={"requirements": ["einops"]})
    built = offline.run(*launch(offline))
    assert built.returncode == 5
    assert "the environment lacks what the job imports: no_such_module (helper.py:1)" in built.stderr
    (run,) = offline.json("ps")
    assert (run["state"], run["reason"]) == ("failed", "provision_failed")
    again = offline.run(*launch(offline, "--dry-run"))  # it is built now, so the preflight knows
    assert again.returncode == 3
    assert "✗ ARM020 the environment lacks what the job imports: no_such_module (helper.py:1)" in again.stdout
    (project / "helper.py").write_text("")
    assert offline.run(*launch(offline, "--dry-run")).returncode == 0
