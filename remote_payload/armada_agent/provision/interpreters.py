"""Ask Pythons what they are, and find one on this host that runs an environment's compiled packages."""

import glob
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from typing import Any, Dict, Iterator, List, Optional

from armada_agent.errors import AgentError
from armada_agent.foundation.session import Call
from armada_agent.provision import uv

_PATIENCE_S = 60.0  # the first start of a Python on a cluster's file system takes this long
_STANDALONE = re.compile(r"(cpython|pypy)-[0-9][0-9A-Za-z.+]{0,40}-linux-[a-z0-9_]{1,40}-(gnu|musl)")
_VERSION = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}")
_PROBE = r"""
import sys, sysconfig, json, os
program = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
print("\n" + sys.argv[1] + json.dumps({"version": "%d.%d.%d" % sys.version_info[:3], "prefix": os.path.realpath(sys.base_prefix),
    "implementation": sys.implementation.name, "abi": str(sysconfig.get_config_var("SOABI") or ""), "program": program}))
"""
_IMPORT = r"""
import importlib, json, sys
asked = json.load(sys.stdin)
def modules_of(name):
    from importlib import metadata
    try:
        found = metadata.distribution(name)
    except Exception:
        return []
    names = (found.read_text("top_level.txt") or "").split()
    for file in found.files or () if not names else ():
        if len(file.parts) == 2 and file.name == "__init__.py":
            names.append(file.parts[0])
        elif len(file.parts) == 1 and file.suffix in (".py", ".so"):
            names.append(file.name.split(".")[0])
    return [each for each in names if each.isidentifier() and not each.startswith("_")][:5]
names = list(asked.get("modules", ()))
for distribution in asked.get("distributions", ()):
    names += modules_of(distribution)
imported, failed = [], {}
for name in dict.fromkeys(names):
    try:
        importlib.import_module(name)
        imported.append(name)
    except BaseException as error:
        failed[name] = ("%s: %s" % (type(error).__name__, error))[:500]
sys.stdout.flush()
print("\n" + sys.argv[1] + json.dumps({"imported": imported, "failed": failed}), flush=True)
"""


class Interpreter:
    """What a Python is. `program` and `prefix` are those of the Python that it was made with, if it is an environment's."""

    def __init__(self, told: Dict[str, Any]) -> None:
        names = ("version", "implementation", "abi", "prefix", "program")
        if not all(isinstance(told.get(name), str) for name in names) or not _VERSION.fullmatch(told["version"]):
            raise ValueError("not an interpreter")
        self.version: str = told["version"]
        self.implementation: str = told["implementation"]
        self.abi: str = told["abi"]
        self.prefix: str = told["prefix"]
        self.program: str = told["program"]

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])

    @property
    def standalone(self) -> Optional[str]:
        """The name of its folder if uv downloaded it (python-build-standalone): such a Python works in any folder."""
        name = os.path.basename(self.prefix)
        return name if is_standalone(name) else None

    def suits(self, other: "Interpreter") -> bool:
        """Return whether packages compiled for one run in the other."""
        mine, its = (each.minor + each.implementation + each.abi for each in (self, other))
        return mine == its


def is_standalone(name: Any) -> bool:
    return isinstance(name, str) and _STANDALONE.fullmatch(name) is not None


def probe(python: str) -> Optional[Interpreter]:
    """Ask a Python what it is. None if it does not start."""
    mark = "armada-" + secrets.token_hex(16)
    try:
        said = subprocess.check_output(
            [python, "-I", "-c", _PROBE, mark],
            env=_surroundings(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
        )
        return Interpreter(json.loads(said.decode("utf-8", "replace").rpartition("\n" + mark)[2]))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def find(root: str, wanted: Interpreter) -> Optional[Interpreter]:
    """Find a Python on this host that suits an environment."""
    for path in _candidates(root, wanted.minor):
        found = probe(path)
        # An environment's Python can be deleted with it: only what it was made with counts.
        if found is not None and found.suits(wanted) and os.access(found.program, os.X_OK):
            return found
    return None


def try_imports(
    call: Call, python: str, asked: Dict[str, List[str]], writes: bool, inherit: List[int]
) -> Dict[str, Any]:
    """Import modules in an environment's Python.

    Args:
        call: The request; the Python ends with its connection.
        python: The environment's Python.
        asked: `modules`, or `distributions` whose modules are meant.
        writes: Whether bytecode is kept, where runs look for it.
        inherit: Descriptors that the Python keeps open.

    Returns:
        In `imported` the modules, in `failed` what the others said.

    Raises:
        AgentError: `environment`: it crashed.
    """
    mark = "armada-" + secrets.token_hex(16)
    environment = _surroundings()
    environment["CUDA_VISIBLE_DEVICES"] = ""  # an import must not take memory of a GPU that a run uses
    # As options, because an isolated Python reads no variables.
    options = ["-X", "pycache_prefix=" + os.path.join(call.root, "tools", "pycache")] if writes else ["-B"]
    said: List[str] = []
    told: List[str] = []

    def take(line: str) -> None:
        (told if line.startswith(mark) else said).append(line)
        del said[:-20]

    code = call.session.children.run(
        [python, "-I"] + options + ["-c", _IMPORT, mark],
        environment,
        take,
        inherit=inherit,
        stdin=json.dumps(asked).encode("ascii"),
    )
    try:
        found = json.loads(told[-1][len(mark) :]) if told else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        message = "%s ended with exit code %d while it imported packages:\n%s"
        raise AgentError("environment", message % (python, code, "\n".join(said)[-3000:]))
    return found


def _surroundings() -> Dict[str, str]:
    cleaned = uv.clean_environment(os.environ)
    return {name: value for name, value in cleaned.items() if not name.startswith(("PYTHON", "PIP_"))}


def _candidates(root: str, minor: str) -> Iterator[str]:
    name = "python" + minor
    patterns = [os.path.join(glob.escape(root), "tools", "python", "*", "bin", name)]
    patterns += [os.path.expanduser("~/.local/share/uv/python/*/bin/" + name)]
    patterns += [os.path.expanduser("~/.pyenv/versions/%s*/bin/%s" % (minor, name))]
    places = [sys.executable, shutil.which(name), shutil.which("python3")]
    places += [os.path.join(folder, name) for folder in ("/usr/bin", "/usr/local/bin", "/opt/python/bin")]
    places += [path for pattern in patterns for path in sorted(glob.glob(pattern), reverse=True)]
    seen = set()
    for path in places:
        if path and os.access(path, os.X_OK) and os.path.realpath(path) not in seen:
            seen.add(os.path.realpath(path))
            yield path
