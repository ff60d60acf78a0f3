"""Environments for hosts that reach no package index: built on this machine, and sent to one with a root of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands.task_box import configure
from tests.conftest import Armada
from tests.package_index import build_wheel
from tests.ssh_server import SshServer

TORCH = "2.13.0"
MODULE = "import sys\n\n\ndef main():\n    print('tiny of', sys.prefix)\n"
NOWHERE = "export PIP_INDEX_URL=http://127.0.0.1:9/simple UV_HTTP_RETRIES=0"


@pytest.fixture
def cut_off(armada: Armada) -> Armada:
    """An armada whose `local` has a package index, and whose host `cut` has none."""
    index = armada.folder / "index"
    build_wheel(index, "torch", TORCH, modules={"torch/__init__.py": MODULE, "torch/lib.txt": "x" * 300_000})
    build_wheel(index, "tiny", "1.0", needs=["torch"], modules={"tiny.py": MODULE})
    armada.env.update({"PIP_INDEX_URL": f"file://{index}", "PIP_CONFIG_FILE": "/dev/null"})
    armada.env["PATH"] = f"{Path(sys.executable).parent}:{armada.env['PATH']}"  # where uv is
    config = armada.folder / "home" / "config"
    (config / "profiles").mkdir(parents=True)
    (config / "profiles" / "bare.yaml").write_text(f"extends: cpu\nenvironment: {{torch: {TORCH}, requirements: []}}\n")
    write_hosts(armada)
    return armada


def write_hosts(armada: Armada, **more: Any) -> None:
    cut = {"local": True, "root": str(armada.folder / "cut root"), "setup": [NOWHERE], "profile": "bare", **more}
    (armada.folder / "home/config/hosts.yaml").write_text(json.dumps({"hosts": {"cut": cut}}))


def environments(root: Path) -> list[Path]:
    return sorted(path for path in (root / "envs").iterdir() if path.is_dir())


def cut_root(armada: Armada) -> Path:
    return armada.folder / "cut root"


def local_root(armada: Armada) -> Path:
    return armada.folder / "home" / "state" / "local"


def test_a_host_without_an_index_gets_the_environment_that_another_one_builds(cut_off: Armada) -> None:
    done = cut_off.json("hosts", "provision", "cut", "--from", "local")
    assert (done["host"], done["outcome"]) == ("cut", "built")
    (there,), (here,) = environments(cut_root(cut_off)), environments(local_root(cut_off))
    assert there.name == here.name == done["environment"]
    shutil.rmtree(here)  # nothing there leads back here
    said = subprocess.run([there / "bin/torch"], capture_output=True, text=True, check=True)
    assert said.stdout == f"tiny of {there}\n"
    ready = json.loads((there / "READY").read_text())
    assert (ready["key"], ready["freeze"]) == (there.name, f"torch=={TORCH}")
    written = [path for path in there.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in written if str(here).encode() in path.read_bytes()]
    checked = subprocess.run(
        [Path(sys.executable).with_name("uv"), "pip", "check", "--python", there / "bin/python"], check=False
    )
    assert checked.returncode == 0
    assert not (cut_root(cut_off) / "envs" / f".new-{there.name}").exists()


def test_a_launch_has_its_own_requirements_built_on_the_host_that_hosts_yaml_names(cut_off: Armada) -> None:
    write_hosts(cut_off, environments_from="local")
    cut_off.command("tiny", environment={"requirements": ["tiny"]})
    planned = cut_off.run("launch", "--host", "cut", "exp.yaml", "--dry-run")
    assert "to be built from your requirements on local, and sent from there" in planned.stdout
    done = cut_off.run("launch", "--host", "cut", "exp.yaml", "--follow")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "from local" in done.stdout
    assert "unpacked in" in done.stdout
    (there,) = environments(cut_root(cut_off))
    (run,) = cut_off.json("ps")
    assert (cut_root(cut_off) / "runs" / run["run_id"] / "output.log").read_text() == f"tiny of {there}\n"


def test_a_failed_build_names_the_host_that_has_the_environment(cut_off: Armada) -> None:
    assert cut_off.run("hosts", "provision", "local", "--profile", "bare").returncode == 0
    failed = cut_off.run("hosts", "provision", "cut")
    assert failed.returncode == 5
    assert "Failed to fetch" in failed.stderr
    assert "local has this environment; `armada hosts set cut --environments-from local` has it sent" in failed.stderr


@pytest.mark.parametrize(
    ("words", "rc", "said"),
    [
        (["provision", "cut", "--from", "nowhere"], 7, "no host is called 'nowhere'"),
        (["provision", "cut", "--from", "cut"], 2, "cut cannot send environments to itself"),
        (["provision", "cut", "uv", "--from", "local"], 2, "--from says where the environment comes from"),
        (["set", "cut", "--environments-from", "nowhere"], 7, "no host is called 'nowhere'"),
        (["set", "cut", "--environments-from", "cut"], 2, "environments_from: names this host itself"),
    ],
)
def test_a_wrong_source_is_said_before_anything_is_built(cut_off: Armada, words: list[str], rc: int, said: str) -> None:
    refused = cut_off.run("hosts", *words)
    assert said in refused.stderr
    assert refused.returncode == rc
    assert not cut_root(cut_off).exists()
    assert not (local_root(cut_off) / "envs").exists()


def test_hosts_set_writes_the_source_and_takes_it_back(cut_off: Armada) -> None:
    assert cut_off.run("hosts", "set", "cut", "--environments-from", "local").returncode == 0
    assert "environments_from: local" in (cut_off.folder / "home/config/hosts.yaml").read_text()
    assert cut_off.run("hosts", "set", "cut", "--unset", "environments-from").returncode == 0
    assert "environments_from" not in (cut_off.folder / "home/config/hosts.yaml").read_text()


def test_hosts_that_share_a_root_send_nothing(cut_off: Armada) -> None:
    write_hosts(cut_off, root=str(local_root(cut_off)))
    done = cut_off.run("hosts", "provision", "cut", "--from", "local")
    assert done.returncode == 0, done.stderr
    assert "every file verified" not in done.stdout
    assert len(environments(local_root(cut_off))) == 1


def test_over_ssh_a_box_without_uv_pip_and_index_runs_what_this_machine_built(
    cut_off: Armada, server: SshServer
) -> None:
    server.program("python3", f'exec "{sys.executable}" "$@"')
    configure(cut_off, server, environments_from="local", profile="bare")
    assert cut_off.run("hosts", "trust", "box", "--yes").returncode == 0
    done = cut_off.run("hosts", "provision", "box")
    assert done.returncode == 0, done.stderr
    (there,) = environments(server.home / ".armada")
    said = subprocess.run([there / "bin/torch"], capture_output=True, text=True, check=True)
    assert said.stdout == f"tiny of {there}\n"
