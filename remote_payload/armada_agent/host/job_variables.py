"""Choose which variables of the supervisor's environment a job sees: the same at every attempt.

The base is a list of names that describe the user and the machine's folders. Their values are recorded when a run is
first submitted, so a retry by the daemon sees the same values as the launch. The variables that the host's `setup:`
exports are added each time. All other variables of the shell that launched the run must be named in its plan (`env:`,
`secrets:`).
"""

import os
import pwd
import re
from typing import Any, Dict, List, Mapping, Optional

from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.paths import RunPaths

_BASE = (
    # user and system
    "HOME USER LOGNAME SHELL PATH LD_LIBRARY_PATH LD_PRELOAD LANG LANGUAGE TZ",
    # folders
    "TMPDIR TMP TEMP XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME SCRATCH WORK PROJECT FAST",
    # network
    "http_proxy https_proxy ftp_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY",
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE",
    # toolkits and caches
    "CUDA_HOME CUDA_PATH ROCM_PATH HF_HOME HF_HUB_CACHE HF_DATASETS_CACHE HF_ENDPOINT HF_HUB_OFFLINE TORCH_HOME",
    # required by `module`
    "MODULEPATH MODULESHOME MODULES_CMD LOADEDMODULES _LMFILES_ BASH_ENV",
)
_NAMES = frozenset(" ".join(_BASE).split())
_PREFIXES = ("LC_", "LMOD_", "_LMOD", "__LMOD", "__MODULES_", "BASH_FUNC_module", "BASH_FUNC_ml%%")
_LOOKS_WANTED = re.compile(
    r"(?:HF|HUGGING_?FACE|TRANSFORMERS|DATASETS|TOKENIZERS|ACCELERATE|DEEPSPEED|DS|WANDB|CUDA|NCCL|GLOO"
    r"|TORCH\w*|PYTORCH|TRITON|OMP|MKL|XFORMERS|BNB|KMP)_\w+|PYTHONPATH|PYTHONHASHSEED|PYTHONWARNINGS"
)
_SET_BY_US = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
_TOOLS = ("SLURM_CONF", "KRB5")  # sbatch itself may need them to reach its controller
_LOGIN_PATH = "/usr/local/bin:/usr/bin:/bin"
_MOST_NAMED = 50
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_names(environment: Dict[str, str]) -> None:
    """Check that every key is a valid name of a variable.

    Raises:
        AgentError: `bad_request`.
    """
    for name in environment:
        if not _VARIABLE.fullmatch(name):
            raise AgentError("bad_request", "%.100r is not the name of a variable" % name)


def is_base(name: str) -> bool:
    """Return whether jobs see the host's own variable of this name."""
    return name in _NAMES or name.startswith(_PREFIXES)


def pick_base(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the part of an environment that jobs see."""
    return {name: value for name, value in environment.items() if is_base(name)}


def new_base() -> Dict[str, str]:
    """Return the base for a run that has none on record."""
    return dict(login_variables(os.path.expanduser("~")), **pick_base(os.environ))


def left_out(environment: Mapping[str, str], exported: Mapping[str, str]) -> List[str]:
    """Return the names, never the values, of variables that a training may want and sees only if its plan names them.

    Args:
        environment: The agent's own environment.
        exported: The variables that the host's `setup:` exports.
    """
    found = [
        name
        for name in environment
        if _LOOKS_WANTED.fullmatch(name)
        and not is_base(name)
        and name not in exported
        and name not in _SET_BY_US
        and not name.endswith("_VERSION")  # CUDA and Python images set these for themselves
    ]
    return sorted(found)[:_MOST_NAMED]


def of_run(paths: RunPaths, exported: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment with which a run's supervisor starts on this machine.

    The first call for a run records its base; later calls use the record.

    Args:
        paths: The run's files.
        exported: The variables that the host's `setup:` exports now: the user may have corrected its lines.

    Raises:
        OSError: The base could not be recorded.
    """
    environment = _recorded(paths)
    if environment is None:
        environment = new_base()
        files.write_json(paths.variables, {"variables": environment})
    path = join_paths(exported.get("PATH", ""), environment["PATH"])
    environment = dict(environment, **exported)
    environment["PATH"] = path
    return {name: value for name, value in environment.items() if not name.startswith("ARMADA_")}


def of_submission(paths: RunPaths, exported: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment with which a batch system's client starts: it passes its own variables on to the job."""
    tools = {name: value for name, value in os.environ.items() if name.startswith(_TOOLS)}
    return dict(tools, **of_run(paths, exported))


def login_variables(home: str) -> Dict[str, str]:
    """Return the variables that every login sets, for environments without them.

    Args:
        home: The home folder of a user without an entry in the password database, which is normal in containers.
    """
    found = {"PATH": _LOGIN_PATH, "HOME": home}
    try:
        me = pwd.getpwuid(os.getuid())
    except KeyError:
        return found
    return dict(found, HOME=me.pw_dir, USER=me.pw_name, LOGNAME=me.pw_name, SHELL=me.pw_shell or "/bin/sh")


def active_environment(spec: Mapping[str, Any]) -> Optional[str]:
    """Return the folder of the Python environment in which a run's job works; None if it works in none."""
    planned = spec.get("environment")
    if not isinstance(planned, dict) or planned.get("active") is not True:
        return None
    folder = planned.get("path")
    return folder if isinstance(folder, str) else None


def activate(environment: Dict[str, str], spec: Mapping[str, Any]) -> None:
    """Put the programs of a run's Python environment first on PATH, if its plan says that the job works in it."""
    folder = active_environment(spec)
    if folder is not None:
        programs = os.path.join(folder, "bin")
        environment["PATH"] = join_paths(programs, environment.get("PATH") or _LOGIN_PATH)
        is_conda = spec["environment"].get("conda") is True
        environment["CONDA_PREFIX" if is_conda else "VIRTUAL_ENV"] = folder


def _recorded(paths: RunPaths) -> Optional[Dict[str, str]]:
    try:
        found: Any = (files.read_json(paths.variables) or {}).get("variables")
    except files.UnreadableError:
        return None  # it is recorded again
    if not isinstance(found, dict) or not isinstance(found.get("PATH"), str):
        return None
    return {name: value for name, value in found.items() if isinstance(value, str)}


def join_paths(first: str, then: str) -> str:
    """Join two search paths. A folder in both keeps its position in the first."""
    entries: List[str] = []
    for entry in (first + os.pathsep + then).split(os.pathsep):
        if entry and entry not in entries:
            entries.append(entry)
    return os.pathsep.join(entries)
