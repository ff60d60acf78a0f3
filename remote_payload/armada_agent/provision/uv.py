"""Find uv on this host, or install it into the root's tools folder from the host's own package index."""

import os
import re
import shutil
import subprocess
import sys
from typing import Callable, Dict, List, Mapping, Optional, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.foundation.session import Children
from armada_agent.host import trust
from armada_agent.provision import pip_configuration

_OLDEST = (0, 5)  # the first that reads UV_DEFAULT_INDEX and UV_INDEX
_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")
_MACHINES = {"x86_64": "manylinux2014_x86_64", "aarch64": "manylinux2014_aarch64"}
Say = Callable[[str], None]


def find(root: str) -> Optional[str]:
    """Find a uv that works and is new enough.

    Raises:
        AgentError: `environment`: another user could have changed the one below the root.
    """
    trust.require_program(own_path(root), root)
    candidates = [shutil.which("uv")]
    candidates += [os.path.expanduser(path) for path in ("~/.local/bin/uv", "~/.cargo/bin/uv")]
    candidates.append(own_path(root))
    return next((path for path in candidates if path and os.access(path, os.X_OK) and _works(path)), None)


def own_path(root: str) -> str:
    return os.path.join(root, "tools", "uv", "bin", "uv")


def obtain(root: str, children: Children, say: Say) -> str:
    """Find uv, or install it below the root.

    Raises:
        AgentError: `environment`: neither pip nor venv works.
    """
    found = find(root)
    if found:
        return found
    tools = os.path.join(root, "tools")
    os.makedirs(tools, mode=0o700, exist_ok=True)
    with files.locked(os.path.join(tools, ".uv.lock")):
        found = find(root)  # another process may have installed it while this one waited
        if found:
            return found
        say("uv is not on this host: installing it into %s" % os.path.dirname(os.path.dirname(own_path(root))))
        return _install(root, tools, children)


def clean_environment(environment: Mapping[str, str]) -> Dict[str, str]:
    """Remove variables that would redirect package downloads, or Python itself."""
    cleaned = {name: value for name, value in environment.items() if name not in _FOREIGN}
    cleaned.update(
        PIP_USER="0",
        PIP_REQUIRE_VIRTUALENV="0",
        PIP_NO_INPUT="1",
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        PYTHONNOUSERSITE="1",
    )
    return cleaned


def _works(path: str) -> bool:
    try:
        said = subprocess.check_output(
            [path, "--version"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return False
    version = re.match(r"uv (\d+)\.(\d+)", said.decode("utf-8", "replace"))
    return version is not None and (int(version.group(1)), int(version.group(2))) >= _OLDEST


def _install(root: str, tools: str, children: Children) -> str:
    staged = os.path.join(tools, os.path.basename(files.temporary_name("uv")))
    said: List[str] = []
    try:
        for preparation, command in _pips(staged + ".venv"):
            if _run(preparation, children, said) and _try_pip(command, staged, children, said):
                target = os.path.dirname(os.path.dirname(own_path(root)))
                shutil.rmtree(target, ignore_errors=True)  # a uv that does not work, or is too old
                os.rename(staged, target)
                return own_path(root)
    finally:
        shutil.rmtree(staged, ignore_errors=True)  # exists only after a failure
        shutil.rmtree(staged + ".venv", ignore_errors=True)
    words = pip_configuration.hide_passwords("\n".join(said[-20:]))
    hint = "install python3-pip or python3-venv on the host, or put uv into ~/.local/bin there"
    raise AgentError("environment", "uv could not be installed with this host's Python:\n%s" % words, hint)


def _pips(venv: str) -> List[Tuple[List[str], List[str]]]:
    """Return ways to run pip: for each, a command that must succeed first, and the pip command."""
    python = sys.executable or "python3"
    ways = [([python, "-m", "pip", "--version"], [python, "-m", "pip"])]
    ways += [([path, "--version"], [path]) for path in map(shutil.which, ("pip3", "pip")) if path]
    own = os.path.join(venv, "bin", "python")
    ways.append(([python, "-m", "venv", venv], [own, "-m", "pip"]))
    if sys.version_info < (3, 8):
        # pip 18, part of Python 3.6, supports neither today's platforms nor another Python's wheels; pip 21 supports
        # both.
        ways.append(([own, "-m", "pip", "install", "--upgrade", "pip<22"], [own, "-m", "pip"]))
    return ways


def _try_pip(pip: List[str], staged: str, children: Children, said: List[str]) -> bool:
    install = pip + ["install", "--target", staged, "--only-binary=:all:", "--upgrade", "uv>=0.5"]
    ways = [install]
    platform = _MACHINES.get(os.uname().machine)
    if platform:
        # An old pip on an old Python rejects every wheel of uv, although uv is a program and needs neither.
        ways.append(
            install + ["--no-deps", "--ignore-requires-python", "--python-version", "3.11", "--platform", platform]
        )
    for way in ways:
        shutil.rmtree(staged, ignore_errors=True)  # from the previous way
        if _run(way, children, said) and _works(os.path.join(staged, "bin", "uv")):
            return True
    return False


def _run(argv: List[str], children: Children, said: List[str]) -> bool:
    try:
        return children.run(argv, clean_environment(os.environ), said.append) == 0
    except OSError as error:
        said.append(str(error))
        return False
