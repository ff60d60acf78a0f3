"""Install flash-attn in an environment: fetch a wheel, or compile it within the available memory."""

import os
import shutil
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from armada_agent.errors import AgentError
from armada_agent.host import limits
from armada_agent.host.telemetry import parse_meminfo

GIB = 1 << 30
_JOB_BYTES = 9 * GIB  # for one nvcc with four threads, by flash-attn's setup.py; 5 GiB with one
_SMALL_JOB_BYTES = 5 * GIB
_JOB_HOURS = 10.0  # measured elsewhere: 5 h with MAX_JOBS=2, 1 h with 10; for two generations of GPUs
_USUAL_ARCHITECTURES = 2

Run = Callable[[List[str], Dict[str, str]], List[str]]


class BuildPlan(NamedTuple):
    """How flash-attn is compiled: number of parallel `jobs`, `threads` of each, and the estimated `hours`."""

    jobs: int
    threads: int
    architectures: List[str]
    hours: float


def install(
    request: Dict[str, Any], python_tag: str, installer: List[str], run: Run, say: Callable[[str], None]
) -> str:
    """Install flash-attn in an environment.

    Args:
        request: Home's request: `mode`, `url`, `version`, `capabilities`, `required`.
        python_tag: The tag of the environment's Python, such as `cp312`.
        installer: `uv pip install --python …`.
        run: Runs a command with additional variables; raises AgentError.
        say: Receives progress messages.

    Returns:
        The outcome, a sentence for READY.

    Raises:
        AgentError: flash-attn is required and could not be installed.
    """
    try:
        if request.get("mode") == "build":
            return _build(request, installer, run, say)
        url = str(request.get("url")).replace("{python}", python_tag)
        run(installer + ["--no-deps", url], {})
        return "flash-attn %s from %s" % (request.get("version"), url)
    except AgentError as error:
        if error.kind == "disk_full":
            raise
        sentence = "flash-attn could not be installed"
        if request.get("mode") != "build":
            sentence = "flash-attn's wheel for %s could not be fetched; check that this host reaches %s" % (
                python_tag,
                _server(str(request.get("url"))),
            )
        if request.get("required"):
            hint = "put the wheel on a server the host reaches (environment.flash_attn_url), or flash_attn: none"
            raise AgentError("environment", "%s\n%s" % (sentence, error.message), error.hint or hint)
        say("%s The environment is built without it: attention uses the hub's kernel or SDPA" % (sentence + "."))
        return "left out: %s" % sentence


def plan_build(memory_bytes: int, cores: int, capabilities: List[str]) -> BuildPlan:
    """Decide how many compilers may run in parallel. flash-attn itself considers the machine's memory, not the job's limit.

    Raises:
        AgentError: The memory does not suffice for one compiler.
    """
    architectures = sorted({capability.replace(".", "") for capability in capabilities}) or ["80", "90"]
    # Code for 8.0 runs on 8.6 and 8.9, and is the only code of that generation that flash-attn compiles.
    wanted = sorted({"80" if name in ("80", "86", "87", "89") else name for name in architectures}, key=int)
    threads = 4 if memory_bytes >= _JOB_BYTES else 1
    jobs = min(cores, memory_bytes // (_JOB_BYTES if threads > 1 else _SMALL_JOB_BYTES))
    if jobs < 1:
        have = memory_bytes / float(GIB)
        message = "compiling flash-attn takes 5 GiB of memory, and this job may have %.1f" % have
        raise AgentError(
            "environment", message, "use a profile with environment.flash_attn: none, or request more memory"
        )
    hours = _JOB_HOURS / jobs * len(wanted) / _USUAL_ARCHITECTURES * (1 if threads > 1 else 2)
    return BuildPlan(int(jobs), threads, wanted, hours)


def free_memory_bytes() -> int:
    """Return how many bytes of memory a build may use: the free memory, but at most a container's limit."""
    limit = limits.memory_bytes() or 0
    try:
        with open("/proc/meminfo") as stream:
            available = parse_meminfo(stream.read()).get("MemAvailable")
    except OSError:
        available = None
    return min(limit, available) if available is not None else limit


def _build(request: Dict[str, Any], installer: List[str], run: Run, say: Callable[[str], None]) -> str:
    nvcc = _find_nvcc()
    if nvcc is None:
        message = "flash_attn: build needs CUDA's compiler, and this host has no nvcc"
        raise AgentError("environment", message, "install the CUDA toolkit there, or set environment.flash_attn: auto")
    plan = plan_build(
        free_memory_bytes(), limits.cpu_count(), [str(item) for item in request.get("capabilities") or []]
    )
    say(
        "compiling flash-attn %s for %s, %d at once: about %s"
        % (request.get("version"), ", ".join("sm_" + name for name in plan.architectures), plan.jobs, _span(plan.hours))
    )
    variables = {
        "MAX_JOBS": str(plan.jobs),
        "NVCC_THREADS": str(plan.threads),
        "FLASH_ATTN_CUDA_ARCHS": ";".join(plan.architectures),
        "FLASH_ATTENTION_FORCE_BUILD": "TRUE",
        "CUDA_HOME": os.path.dirname(os.path.dirname(nvcc)),
    }
    run(installer + ["ninja", "wheel", "packaging", "setuptools", "psutil"], {})
    # Without build isolation: it must be compiled against the torch of this environment.
    run(installer + ["--no-deps", "--no-build-isolation", "flash-attn==%s" % request.get("version")], variables)
    return "flash-attn %s, built here" % request.get("version")


def _find_nvcc() -> Optional[str]:
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    candidates = [os.path.join(home, "bin", "nvcc") for home in homes if home]
    found = [path for path in candidates if os.access(path, os.X_OK)]
    return found[0] if found else shutil.which("nvcc")


def _server(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2] or url


def _span(hours: float) -> str:
    return "%d min" % max(1, round(hours * 60)) if hours < 1 else "%.1f h" % hours
