"""Build Python environments with uv, once per key. READY is written last; without it an environment is rebuilt."""

import os
import re
import shlex
import shutil
import socket
import sys
import time
from typing import Any, Dict, List, Mapping, Optional

from armada_agent.errors import AgentError
from armada_agent.foundation import durability, files, parameters
from armada_agent.foundation.session import Call
from armada_agent.host import mounts, setup_lines, trust
from armada_agent.provision import build_claim, environment_folder, flash_attention, pip_configuration, uv

_PYTHON = re.compile(r"[A-Za-z0-9<>=!~*./][A-Za-z0-9<>=!~*., _+@/-]{0,255}")  # a version for uv, not an option
_INDEX = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9._:/~-]{0,300}")
_VERSION = re.compile(r"\d+(\.\d+)+(\.post\d+)?")
_WHEEL = re.compile(r"(https|file)://[A-Za-z0-9._:/~{}+%-]{1,500}\.whl")
_SOURCES = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_FIND_LINKS", "UV_NO_INDEX", "UV_TORCH_BACKEND")
_SHOWN_LINES = 20


def report(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Return for each key whether its environment is `ready`, `building`, `partial` (the build was interrupted) or `absent`.

    Raises:
        AgentError: `environment`: another user could have changed a ready one.
    """
    keys = [environment_folder.checked_key(key) for key in parameters.sequence(params, "keys")]
    conditions = {key: environment_folder.condition(call.root, key) for key in keys}
    for key, condition in conditions.items():
        if condition == "ready":
            trust.require_environment(environment_folder.locate(call.root, key))
    return conditions


def ensure(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Build an environment if it is missing.

    Raises:
        AgentError: `environment`, with the end of uv's output.
    """
    begun = time.monotonic()
    key = environment_folder.checked_key(params.get("key"))
    python = parameters.text(params, "python")
    if not _PYTHON.fullmatch(python):
        raise AgentError("bad_request", "%.100r is not a version of Python" % python)
    requirements = parameters.text(params, "requirements")
    torch_index = params.get("torch_index")
    if torch_index is not None and not (isinstance(torch_index, str) and _INDEX.fullmatch(torch_index)):
        raise AgentError("bad_request", "%.100r is not a package index" % (torch_index,))
    optional = params.get("optional")
    if optional is not None and not parameters.is_text(optional):
        raise AgentError("bad_request", "`optional` must be text without NUL")
    constraints = params.get("constraints")
    if constraints is not None and not parameters.is_text(constraints):
        raise AgentError("bad_request", "`constraints` must be text without NUL")
    wanted = parameters.mapping(params, "flash_attn") if params.get("flash_attn") is not None else None
    if wanted is not None:
        _check_flash_attention(wanted)
    uvs_python = params.get("uvs_python", False)
    if not isinstance(uvs_python, bool):
        raise AgentError("bad_request", "`uvs_python` must be a boolean")
    outcome = "ready"
    setup_lines.apply()
    if environment_folder.status(call.root, key) != "ready":
        with build_claim.hold(call, key) as claim:
            if environment_folder.status(call.root, key) != "ready":
                build = _Build(call, key, claim, torch_index, constraints, uvs_python)
                build.run(python, requirements, optional, wanted)
                outcome = "built"
            shutil.rmtree(
                environment_folder.staging(call.root, key), ignore_errors=True
            )  # from before it could be built
    return describe(call.root, key, outcome, time.monotonic() - begun)


def describe(root: str, key: str, outcome: str, seconds: float) -> Dict[str, Any]:
    """Return the answer about a finished environment.

    Raises:
        AgentError: `environment`: another user could have changed it.
    """
    folder = environment_folder.locate(root, key)
    trust.require_environment(folder)
    ready = environment_folder.read_ready(folder)
    return {
        "outcome": outcome,
        "path": folder,
        "python": environment_folder.python_of(folder),
        "seconds": seconds,
        "freeze": ready.get("freeze"),
        "notes": [note for note in ready.get("notes") or [] if isinstance(note, str)],
    }


def find_python(root: str, key: Any) -> str:
    """Return the path of an environment's interpreter.

    Raises:
        AgentError: `environment`: it is not ready.
    """
    if environment_folder.status(root, environment_folder.checked_key(key)) != "ready":
        raise AgentError(
            "environment", "environment %s is not ready" % key, "launch again; armada then builds it first"
        )
    folder = environment_folder.locate(root, str(key))
    trust.require_environment(folder)
    return environment_folder.python_of(folder)


def compose_environment(
    root: str, surroundings: Mapping[str, str], prefix: str, torch_index: Optional[str] = None
) -> Dict[str, str]:
    """Return the environment variables for uv: the host's own package sources, and caches on the root's file system.

    Args:
        root: The host's root folder.
        surroundings: The agent's own environment variables.
        prefix: `sys.prefix` of the Python whose pip is configured.
        torch_index: The index of torch's build for this machine. It is ignored if the host names its own sources: a
            mirror's owner has already chosen, and the host may not reach any other index.
    """
    environment = uv.clean_environment(surroundings)
    # Users keep their settings elsewhere and link to them.
    options = pip_configuration.read(surroundings, prefix, lambda path: files.read_text(os.path.realpath(path)))
    for name, value in pip_configuration.translate(options, surroundings, os.path.exists).items():
        if name.startswith("UV_"):
            environment.setdefault(name, value)  # an explicit setting of uv takes precedence
        else:
            environment[name] = value
    if torch_index and not any(environment.get(name) for name in _SOURCES):
        environment.update(UV_INDEX=torch_index, UV_INDEX_STRATEGY="unsafe-best-match")
    environment.update(UV_NO_CONFIG="1", UV_NO_PROGRESS="1", NO_COLOR="1")
    environment.setdefault("UV_CACHE_DIR", os.path.join(root, "tools", "uv-cache"))
    environment.setdefault("UV_PYTHON_INSTALL_DIR", os.path.join(root, "tools", "python"))
    return environment


def refuse_others(root: str, key: str) -> None:
    """Refuse to delete an environment that another machine finished, and whose Python only this one lacks.

    Raises:
        AgentError: `environment`.
    """
    folder = environment_folder.locate(root, key)
    ready = environment_folder.read_ready(folder)
    builder = ready.get("built_on")
    if not ready.get("key") or not isinstance(builder, str) or builder == socket.gethostname():
        return
    python = environment_folder.python_of(folder)
    if not os.path.islink(python) or not mounts.is_shared(mounts.find(folder)):
        return
    message = "environment %s was built on %.100s, which shares this root; its Python, %s, is not on this machine"
    hint = "install that Python here, or give this host a `root` of its own; if that machine is gone: rm -rf %s"
    raise AgentError("environment", message % (key, builder, os.readlink(python)), hint % shlex.quote(folder))


class _Build:
    """One attempt to build one environment.

    Args:
        call: The request that it answers.
        key: The environment's key.
        claim: The right to build it.
        torch_index: See `compose_environment`.
        constraints: Versions that all packages must match.
        uvs_python: Use a Python that uv downloads: it works in any folder, and on other hosts.
    """

    def __init__(
        self,
        call: Call,
        key: str,
        claim: build_claim.Claim,
        torch_index: Optional[str],
        constraints: Optional[str] = None,
        uvs_python: bool = False,
    ) -> None:
        self._call = call
        self._key = key
        self._claim = claim
        self._folder = environment_folder.locate(call.root, key)
        self._python = environment_folder.python_of(self._folder)
        self._environment = compose_environment(call.root, os.environ, sys.prefix, torch_index)
        if uvs_python:
            self._environment["UV_PYTHON_PREFERENCE"] = "only-managed"
        self._constraints = constraints

    def run(
        self, python: str, requirements: str, optional: Optional[str], flash_attn: Optional[Dict[str, Any]]
    ) -> None:
        installer = uv.obtain(self._call.root, self._call.session.children, self._call.progress)
        if os.path.isdir(self._folder):
            refuse_others(self._call.root, self._key)
            self._call.progress("removing a half-built environment")
            shutil.rmtree(self._folder)
        self._do([installer, "venv", "--python", python, self._folder])
        install = [installer, "pip", "install", "--python", self._python]
        self._do(install + self._held() + ["--requirements", self._list("requirements.txt", requirements)])
        version = self._do(
            [self._python, "-I", "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"], aloud=False
        )
        notes = []
        if optional:
            notes += self._add_optional(install, optional)
        if flash_attn is not None:
            tag = "cp" + "".join((version[-1] if version else "3.0").split(".")[:2])
            notes.append(flash_attention.install(flash_attn, tag, install, self._do_with, self._call.progress))
        freeze = self._do([installer, "pip", "freeze", "--quiet", "--python", self._python], aloud=False)
        ready = {
            "key": self._key,
            "python": version[-1] if version else None,
            "time": time.time(),
            "freeze": pip_configuration.hide_passwords("\n".join(freeze)),
            "notes": [pip_configuration.hide_passwords(note) for note in notes],
            "built_on": socket.gethostname(),
        }
        self._call.progress("writing the environment to disk")
        durability.fsync_disk(self._folder)  # after a power failure, READY would stand beside empty modules
        self._claim.require()
        files.write_json(os.path.join(self._folder, environment_folder.READY), ready)

    def _add_optional(self, install: List[str], optional: str) -> List[str]:
        """Install optional packages that make trainings faster if the host's index has them; otherwise continue without them."""
        listed = self._list("optional.txt", optional)
        names = ", ".join(line for line in optional.splitlines() if line)
        try:
            # Installed packages keep their pinned versions.
            self._do(
                install + ["--constraints", os.path.join(self._folder, "requirements.txt"), "--requirements", listed]
            )
        except AgentError as error:
            if error.kind == "disk_full":
                raise
            self._call.progress("this host's package index has no %s: the environment is built without it" % names)
            return ["left out because this host's index does not have it: %s" % names]
        return ["optional: %s" % names]

    def _held(self) -> List[str]:
        """Return uv's `--constraints` options. They include the constraints of the host's pip, which an option would replace."""
        if self._constraints is None:
            return []
        held = [self._list("constraints.txt", self._constraints)] + self._environment.get("UV_CONSTRAINT", "").split()
        return [word for path in held for word in ("--constraints", path)]

    def _list(self, name: str, text: str) -> str:
        path = os.path.join(self._folder, name)
        files.write_bytes(path, text.encode("utf-8"))
        return path

    def _do_with(self, argv: List[str], variables: Dict[str, str]) -> List[str]:
        return self._do(argv, variables=variables)

    def _do(self, argv: List[str], aloud: bool = True, variables: Optional[Dict[str, str]] = None) -> List[str]:
        said: List[str] = []

        def take(line: str) -> None:
            if line.strip():
                said.append(pip_configuration.hide_passwords(line))
                if aloud and not line.startswith("Activate with"):
                    self._call.progress(said[-1][:500])

        code = self._call.session.children.run(
            argv, dict(self._environment, **(variables or {})), take, inherit=[self._claim.lock]
        )
        if code:
            raise _explain(argv, code, said)
        return said


def _check_flash_attention(wanted: Dict[str, Any]) -> None:
    url, version = wanted.get("url"), wanted.get("version")
    if wanted.get("mode") not in ("wheel", "build"):
        raise AgentError("bad_request", "`flash_attn.mode` must be wheel or build")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise AgentError("bad_request", "%.100r is not a version of flash-attn" % (version,))
    if wanted["mode"] == "wheel" and not (isinstance(url, str) and _WHEEL.fullmatch(url)):
        raise AgentError("bad_request", "%.100r is not a wheel" % (url,))
    capabilities = wanted.get("capabilities") or []
    if not all(isinstance(item, str) and re.fullmatch(r"\d{1,2}\.\d", item) for item in capabilities):
        raise AgentError("bad_request", "`flash_attn.capabilities` must be compute capabilities, such as 8.6")


def _explain(argv: List[str], code: int, said: List[str]) -> AgentError:
    words = "\n".join(said[-_SHOWN_LINES:])
    hint = None
    if "No space left" in words or "Disk quota" in words:
        return AgentError("disk_full", words, "free space on the host's root folder, then try again")
    if "No solution found" in words:
        hint = "change a requirement that uv names; a version must be on the host's package index, and fit the others"
    if "venv" in argv and "No interpreter found" in words:
        hint = "install that Python on the host, or name another in the profile's environment"
    return AgentError("environment", "%s failed with exit code %d:\n%s" % (" ".join(argv[:3]), code, words), hint)
