"""Examine a Python environment that the user made on this host. Nothing in it is changed, and none of its packages is imported."""

import json
import os
import re
import secrets
import subprocess
from typing import Any, Dict, List, Optional

from armada_agent.errors import AgentError
from armada_agent.foundation import files, parameters
from armada_agent.foundation.session import Call
from armada_agent.host import setup_lines, trust
from armada_agent.provision import uv

_PATIENCE_S = 60.0  # the first start of a Python on a cluster's file system takes this long
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,100}")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_MOST_SHOWN = 20
_ROOTS = [
    os.path.join("~", name) for name in ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", "conda")
]
_ROOTS += [os.path.join("/opt", name) for name in ("conda", "miniconda3", "miniforge3")]
# A folder that remains without its package has no origin and would be imported as a namespace package.
_ASK = r"""
import sys
sys.path[:] = [place for place in sys.path if place]
import importlib.util, json
def version(name):
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return None
    try:
        from importlib.metadata import version
        return str(version(name))
    except Exception:
        return ""
def lacks(name):
    try:
        return importlib.util.find_spec(name) is None
    except Exception:
        return False
asked = json.load(sys.stdin)
found = {name: version(name) for name in asked["packages"]}
missing = [name for name in asked["modules"] if lacks(name)]
print("\n" + sys.argv[1] + json.dumps({"version": "%d.%d.%d" % sys.version_info[:3], "packages": found, "missing": missing}))
"""


def examine(_call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Return an environment's path, its Python version, and which of some packages it has.

    Raises:
        AgentError: `environment`: it is missing, its Python does not answer, or another user could change it.
    """
    packages = parameters.sequence(params, "packages")
    modules = parameters.sequence(params, "modules") if "modules" in params else []
    if not all(isinstance(name, str) and _MODULE.fullmatch(name) for name in packages + modules):
        raise AgentError("bad_request", "`packages` and `modules` must be names of modules")
    setup_lines.apply()
    folder = _find_conda(params["conda"]) if params.get("conda") is not None else _find_folder(params)
    python = _find_python(folder)
    trust.require_foreign(folder)
    told = _ask(python, packages, modules)
    versions = told.get("packages")
    found = versions if isinstance(versions, dict) else {}
    return {
        "path": folder,
        "python": python,
        "version": told["version"],
        "is_conda": os.path.isdir(os.path.join(folder, "conda-meta")),
        "packages": {name: _line(found.get(name)) for name in packages},
        "missing": [name for name in modules if name in _listed(told.get("missing"))],
    }


def _listed(value: Any) -> List[Any]:
    return value if isinstance(value, list) else []


def _line(value: Any) -> Optional[str]:
    return " ".join(value.split())[:60] if isinstance(value, str) else None


def _find_folder(params: Dict[str, Any]) -> str:
    named = parameters.text(params, "path")
    path = os.path.expanduser(named)
    if not os.path.isabs(path):
        raise AgentError("bad_request", "%.300r is not an absolute path" % named)
    path = os.path.normpath(path)
    if os.path.isdir(path):
        return path
    if os.path.exists(path):
        hint = "name the environment's folder, the one that has bin/python in it"
        raise AgentError("environment", "%s is not a folder" % path, hint)
    raise AgentError(
        "environment", "there is no folder %s on this host" % path, "`existing:` is a path on the host, not at home"
    )


def _find_conda(name: Any) -> str:
    """Find a conda environment by its name, in the places where conda records and keeps them."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise AgentError("bad_request", "%.100r is not the name of an environment of conda's" % (name,))
    known = _list_conda()
    found = sorted(path for path, called in known.items() if called == name)
    if len(found) == 1:
        return found[0]
    if found:
        message = "conda has several environments called %s here: %s" % (name, ", ".join(found[:_MOST_SHOWN]))
        raise AgentError("environment", message, "write existing: PATH")
    names = sorted(set(known.values()))[:_MOST_SHOWN]
    what = "conda has no environment called %s here" % name
    hint = "known: %s" % ", ".join(names) if names else "conda is not where it usually is; write existing: PATH"
    raise AgentError("environment", what, hint)


def _list_conda() -> Dict[str, str]:
    """Return conda's environments: names by real path."""
    roots = [os.environ.get("MAMBA_ROOT_PREFIX", ""), os.environ.get("CONDA_ROOT", "")] + _ROOTS
    program = os.environ.get("CONDA_EXE", "")
    roots += [os.path.dirname(os.path.dirname(program))] if program else []
    roots = [os.path.expanduser(path) for path in roots if path]
    shelves = [os.path.join(path, "envs") for path in roots + [os.path.expanduser("~/.conda")]]
    for variable in ("CONDA_ENVS_PATH", "CONDA_ENVS_DIRS"):
        shelves += [path for path in os.environ.get(variable, "").split(os.pathsep) if path]
    places = dict.fromkeys(roots, "base")
    for shelf in shelves:
        places.update({os.path.join(shelf, name): name for name in _entries(shelf)})
    for line in files.read_text(os.path.expanduser("~/.conda/environments.txt")).splitlines():
        path = line.strip()
        if os.path.isabs(path) and path not in places:
            places[path] = os.path.basename(path)
    there = {os.path.realpath(path): name for path, name in places.items() if _is_conda(path)}
    return {path: name for path, name in there.items() if _NAME.fullmatch(name)}


def _entries(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _is_conda(path: str) -> bool:
    return os.path.isdir(os.path.join(path, "conda-meta"))


def _find_python(folder: str) -> str:
    for name in ("python", "python3"):
        path = os.path.join(folder, "bin", name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    path = os.path.join(folder, "bin", "python")
    if os.path.islink(path) and not os.path.exists(path):
        message = "%s leads to %s, which is not there: the Python it was made with is gone"
        raise AgentError("environment", message % (path, os.readlink(path)), "make the environment again")
    hint = "name a folder that `python -m venv`, uv or conda made"
    raise AgentError("environment", "there is no Python in %s: it has no bin/python" % folder, hint)


def _ask(python: str, packages: List[str], modules: List[str]) -> Dict[str, Any]:
    mark = "armada-" + secrets.token_hex(16)
    cleaned = uv.clean_environment(os.environ)
    environment = {name: value for name, value in cleaned.items() if not name.startswith(("PYTHON", "PIP_"))}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    try:
        child = subprocess.Popen(
            [python, "-c", _ASK, mark],
            env=environment,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise AgentError("environment", "%s cannot be started: %s" % (python, error.strerror))
    with child:
        try:
            asked = json.dumps({"packages": packages, "modules": modules}).encode("ascii")
            out, err = child.communicate(asked, timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            raise AgentError("environment", "%s did not say its version within %.0f s" % (python, _PATIENCE_S))
    said = out.decode("utf-8", "replace").rpartition("\n" + mark)[2].strip()
    try:
        told = json.loads(said) if mark.encode() in out else None
    except ValueError:
        told = None
    if not isinstance(told, dict) or not _VERSION.fullmatch(str(told.get("version"))):
        words = " ".join(err.decode("utf-8", "replace").split())[-600:]
        raise AgentError(
            "environment", "%s is no Python 3 that works (exit code %d): %s" % (python, child.returncode, words)
        )
    return told
