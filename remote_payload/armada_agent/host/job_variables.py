"""Choose which variables of the supervisor's environment a job sees: the same at every attempt.

The base is a list of names that say who the user is and where things lie on a machine. Their values are recorded when a
run is first handed over, so a retry by the daemon sees what the launch saw. What the host's `setup:` exports is added
each time. Anything else of the shell that launched the run must be named in its plan (`env:`, `secrets:`).
"""

import os
import pwd
import re
from typing import Any, Dict, List, Mapping, Optional

from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.paths import RunPaths

_BASE = (
    # the user, and the system
    "HOME USER LOGNAME SHELL PATH LD_LIBRARY_PATH LD_PRELOAD LANG LANGUAGE TZ",
    # where files go
    "TMPDIR TMP TEMP XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME SCRATCH WORK PROJECT FAST",
    # how the network is reached
    "http_proxy https_proxy ftp_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY",
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE",
    # where toolkits and caches are
    "CUDA_HOME CUDA_PATH ROCM_PATH HF_HOME HF_HUB_CACHE HF_DATASETS_CACHE HF_ENDPOINT HF_HUB_OFFLINE TORCH_HOME",
    # what `module` needs to work on
    "MODULEPATH MODULESHOME MODULES_CMD LOADEDMODULES _LMFILES_ BASH_ENV",
)
_NAMES = frozenset(" ".join(_BASE).split())
_PREFIXES = ("LC_", "LMOD_", "_LMOD", "__LMOD", "__MODULES_", "BASH_FUNC_module", "BASH_FUNC_ml%%")
_LOOKS_WANTED = re.compile(
    r"(?:HF|HUGGING_?FACE|TRANSFORMERS|DATASETS|TOKENIZERS|ACCELERATE|DEEPSPEED|DS|WANDB|CUDA|NCCL|GLOO"
    r"|TORCH\w*|PYTORCH|TRITON|OMP|MKL|XFORMERS|BNB|KMP)_\w+|PYTHONPATH|PYTHONHASHSEED|PYTHONWARNINGS"
)
_SET_BY_US = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
_TOOLS = ("SLURM_CONF", "KRB5")  # what sbatch itself may need to reach its controller
_LOGIN_PATH = "/usr/local/bin:/usr/bin:/bin"
_MOST_NAMED = 50
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_names(environment: Dict[str, str]) -> None:
    """Refuse what is no name of a variable.

    Raises:
        AgentError: `bad_request`.
    """
    for name in environment:
        if not _VARIABLE.fullmatch(name):
            raise AgentError("bad_request", "%.100r is not the name of a variable" % name)


def is_base(name: str) -> bool:
    """Tell whether jobs see the host's own variable of this name."""
    return name in _NAMES or name.startswith(_PREFIXES)


def pick_base(environment: Mapping[str, str]) -> Dict[str, str]:
    """Keep of an environment what jobs see of it."""
    return {name: value for name, value in environment.items() if is_base(name)}


def left_out(environment: Mapping[str, str], exported: Mapping[str, str]) -> List[str]:
    """Name the variables that a training may want and does not see unless its plan names them; never their values.

    Args:
        environment: The agent's own.
        exported: What the host's `setup:` exports.
    """
    found = [
        name
        for name in environment
        if _LOOKS_WANTED.fullmatch(name)
        and not is_base(name)
        and name not in exported
        and name not in _SET_BY_US
        and not name.endswith("_VERSION")  # images of CUDA and Python say theirs so
    ]
    return sorted(found)[:_MOST_NAMED]


def of_run(paths: RunPaths, exported: Mapping[str, str]) -> Dict[str, str]:
    """Compose what a run's supervisor is started with on this machine.

    The first call for a run records its base; later ones use what was recorded.

    Args:
        paths: The run's files.
        exported: What the host's `setup:` exports; the values of now, because a person may have mended the lines.

    Raises:
        OSError: The base could not be recorded.
    """
    environment = _recorded(paths)
    if environment is None:
        environment = dict(login_variables(os.path.expanduser("~")), **pick_base(os.environ))
        files.write_json(paths.variables, {"variables": environment})
    path = join_paths(exported.get("PATH", ""), environment["PATH"])
    environment = dict(environment, **exported)
    environment["PATH"] = path
    return {name: value for name, value in environment.items() if not name.startswith("ARMADA_")}


def of_submission(paths: RunPaths, exported: Mapping[str, str]) -> Dict[str, str]:
    """Compose what a batch system's client is started with: it hands its own variables on to the job."""
    tools = {name: value for name, value in os.environ.items() if name.startswith(_TOOLS)}
    return dict(tools, **of_run(paths, exported))


def login_variables(home: str) -> Dict[str, str]:
    """Say what every login has, for environments that lack it.

    Args:
        home: For a user without an entry in the password database, as containers have.
    """
    found = {"PATH": _LOGIN_PATH, "HOME": home}
    try:
        me = pwd.getpwuid(os.getuid())
    except KeyError:
        return found
    return dict(found, HOME=me.pw_dir, USER=me.pw_name, LOGNAME=me.pw_name, SHELL=me.pw_shell or "/bin/sh")


def active_environment(spec: Mapping[str, Any]) -> Optional[str]:
    """Name the folder of the Python environment that a run's job works inside; None where it works in none."""
    planned = spec.get("environment")
    if not isinstance(planned, dict) or planned.get("active") is not True:
        return None
    folder = planned.get("path")
    return folder if isinstance(folder, str) else None


def activate(environment: Dict[str, str], spec: Mapping[str, Any]) -> None:
    """Put the programs of a run's Python environment first, where its plan says that the job works inside it."""
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
        return None  # it is recorded anew
    if not isinstance(found, dict) or not isinstance(found.get("PATH"), str):
        return None
    return {name: value for name, value in found.items() if isinstance(value, str)}


def join_paths(first: str, then: str) -> str:
    """Join two search paths; what stands in both counts where it stands first."""
    entries: List[str] = []
    for entry in (first + os.pathsep + then).split(os.pathsep):
        if entry and entry not in entries:
            entries.append(entry)
    return os.pathsep.join(entries)
