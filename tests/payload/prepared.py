"""The host `local` with its environment at hand: the payload's Python stands in for one that uv would build for minutes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from armada.config.profiles import load_profile
from armada.paths import HomePaths
from armada.protocol.facts import AskFacts
from armada.provision.environment_key import environment_key
from tests.conftest import Armada


def prepare_environment(armada: Armada, python: str, profile: str = "cpu", *, writes_bytecode: bool = False) -> Path:
    """Put a ready environment under the name that a launch on this machine will look for.

    Args:
        armada: The home.
        python: The payload's Python.
        profile: The profile of the runs.
        writes_bytecode: Python writes what it compiles, as on a host. Otherwise not, because its modules are compiled
            already, for all tests.
    """
    facts = armada.json("launch", "--host", "local", armada.command("true"), "--dry-run")
    assert facts["spec"]["gpus"] == 0
    home = HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state")
    from armada.rpc.session import HostSession  # the host is asked as a launch asks it

    with HostSession(local_host(home), home, patience_s=10) as session:
        key = environment_key(load_profile(profile, home), session.call(AskFacts()).hardware)
    folder = armada.local_runs.parent / "envs" / key
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "python"
    without = "" if writes_bytecode else "unset PYTHONPYCACHEPREFIX; export PYTHONDONTWRITEBYTECODE=1\n"
    program.write_text(f'#!/bin/sh\n{without}exec {shlex.quote(python)} "$@"\n')
    program.chmod(0o755)
    (folder / "READY").write_text(json.dumps({"key": key}))
    return folder


def local_host(home: HomePaths) -> Any:
    from armada.config.hosts import load_hosts

    return load_hosts(home, Path.cwd())["local"]


def run_folder(armada: Armada, run_id: str) -> Path:
    return armada.local_runs / run_id


def output(armada: Armada, run_id: str) -> str:
    return (run_folder(armada, run_id) / "output.log").read_text()
