"""The built wheel, in an empty environment outside the checkout: everything a host needs is inside it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from armada.foundation.extras import DISTRIBUTION, EXTRAS
from tests.conftest import Armada

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(build, check=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_carries_payload_profiles_and_quickstart(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in (
        "remote_payload/armada_agent/rpc/serve.py",
        "remote_payload/armada_train/tasks/train.py",
        "remote_payload/protocol.json",
        "profiles/cpu.yaml",
        "profiles/requirements/train.txt",
        "quickstart/quickstart.yaml",
        "quickstart/data/train.jsonl",
    ):
        assert f"armada/bundled/{name}" in names
    assert "armada_log.py" in names  # so that a script which imports it runs at home, too


def test_the_wheel_says_its_name_its_types_and_its_extras(wheel: Path) -> None:
    built = zipfile.ZipFile(wheel)
    assert "armada/py.typed" in built.namelist()
    (metadata,) = (name for name in built.namelist() if name.endswith(".dist-info/METADATA"))
    said = built.read(metadata).decode()
    assert f"\nName: {DISTRIBUTION}\n" in said
    assert {f"Provides-Extra: {extra}" for extra in EXTRAS} <= set(said.splitlines())
    assert "\nProject-URL: " in said


def use(armada: Armada, argv: list[str], changes: dict[str, str] | None = None) -> None:
    """Do with an installed armada what a new user does first."""
    env = {key: value for key, value in armada.env.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def run(*words: str) -> str:
        done = subprocess.run(
            [*argv, *words],
            cwd=armada.folder,
            env=env | (changes or {}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == os.EX_OK, done.stderr
        return done.stdout

    assert run("--version").startswith("armada ")
    assert "succeeded" in run("launch", "--host", "local", armada.command("true"), "--follow")
    assert "16 samples a step" in run("launch", "--host", "local", "quickstart", "--dry-run")


@pytest.mark.takes_long("builds the wheel and installs it into an environment of its own")
def test_a_wheel_runs_away_from_its_sources(armada: Armada, wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    where = [sys.executable, "-P", "-c", "import armada; print(armada.__file__)"]
    changes = {"PYTHONPATH": str(installed)}
    found = subprocess.run(where, cwd=tmp_path, env=armada.env | changes, capture_output=True, text=True, check=True)
    assert found.stdout.startswith(str(installed))
    use(armada, [sys.executable, "-P", "-m", "armada"], changes)


# The quick suite has the test above: the same wheel, with the dependencies that are here already.
@pytest.mark.long
def test_a_wheel_installs_all_it_needs_into_an_empty_environment(armada: Armada, wheel: Path, tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)], check=True)
    use(armada, [str(python.with_name("armada"))])
