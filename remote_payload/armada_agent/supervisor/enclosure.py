"""The container around a job: its image is there, its command is composed, and nothing of it stays behind.

The job's process, as the supervisor sees it, is `contain.py`. It lives as long as the container and has its exit code.
The processes in the container carry the run's marker, so they are found, counted and ended as those of any job.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.host import containers, job_variables
from armada_agent.paths import RunPaths
from armada_agent.supervisor.job import StartError, clean_environment

_CONTENTS = ("code", "data", "models")
_CACHES = ("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "TORCH_HOME")
_PROXIES = (
    *("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"),
)
_PASSED = ("USER", "LOGNAME", "TZ", "HF_ENDPOINT", "HF_HUB_OFFLINE", *_CACHES, *_PROXIES)
"""Variables of the host that mean the same in a container."""
_OURS = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "PYTHONPATH")
_TOOLS_OWN = ("DOCKER_", "CONTAINER", "PODMAN", "BUILDAH", "STORAGE_", "REGISTRY_", "REGISTRIES_", "XDG_", "DBUS_")
"""How names begin that the tool itself obeys: another `DOCKER_HOST` would be another machine's docker."""
_PULL_TICK_S = 0.2


class Prepared:
    """The tool that runs a job's container, and the name by which it has the image."""

    def __init__(self, tool: containers.Tool, image: str) -> None:
        self.tool = tool
        self.image = image


def planned(spec: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """Return the container of a run's plan; None if the job runs on the host itself."""
    found = spec.get("container")
    return found if isinstance(found, dict) else None


def wake(spec: Dict[str, Any]) -> None:
    """Let rootless podman start the process that it keeps for all of its containers, before a guardian adopts it as the job's."""
    if planned(spec) is not None and os.getuid():
        try:
            containers.choose(False, clean_environment(), _preferred(spec))
        except AgentError:
            return  # `prepare` says it


def prepare(paths: RunPaths, spec: Dict[str, Any], tick: Callable[[], None]) -> Optional[Prepared]:
    """Have the image of a run, the same at every attempt, and no container of an earlier attempt.

    Args:
        paths: The run's files.
        spec: The run's plan.
        tick: Called while the image is pulled. If it raises an error, the pull is ended.

    Returns:
        What `wrap` needs; None if the job runs on the host itself.

    Raises:
        StartError: The image cannot be had, or a container of the run is alive.
        OSError: The run's folder cannot be written.
    """
    wanted = planned(spec)
    if wanted is None:
        return None
    try:
        tool = containers.choose(bool(spec["gpus"]), clean_environment(), _preferred(spec))
        image = _find_image(tool, wanted)
        if image is None:
            image = _pull(tool, wanted, tick)
        name = containers.name_of(paths)
        if containers.is_running(containers.find_state(tool.program, name)):
            message = "the container of an earlier attempt still runs: %s; `armada stop %s` ends it"
            raise StartError("env_error", message % (name, paths.run_id))
        left = containers.remove(tool.program, name)
    except AgentError as error:
        raise StartError("env_error", error.message)
    except containers.NoAnswerError as error:
        raise StartError("env_error", str(error))
    if left is not None:
        raise StartError("env_error", "the container of an earlier attempt cannot be removed: %s" % left)
    files.write_json(paths.container, {"tool": tool.name, "name": name})
    return Prepared(tool, image)


def wrap(
    paths: RunPaths,
    spec: Dict[str, Any],
    prepared: Optional[Prepared],
    attempt: int,
    argv: List[str],
    environment: Dict[str, str],
    gpus: Sequence[Dict[str, Any]],
) -> Tuple[List[str], Dict[str, str]]:
    """Return the command and the environment that run a job in its container.

    Args:
        paths: The run's files.
        spec: The run's plan.
        prepared: What `prepare` returned.
        attempt: The number of the attempt.
        argv: The job.
        environment: The job's environment, as it would be on the host itself.
        gpus: `index` and `uuid` of the job's GPUs.

    Raises:
        StartError: The container cannot be composed.
    """
    if prepared is None:
        return argv, environment
    tool = prepared.tool
    try:
        words, client = compose(paths, spec, tool, prepared.image, argv, environment, gpus)
    except AgentError as error:
        raise StartError("env_error", error.message)
    except OSError as error:
        raise StartError("env_error", "the container could not be prepared: %s" % error)
    wrapper = [sys.executable or "python3", "-I", sys.argv[0], "contain", "--root", paths.root]
    wrapper += ["--run", paths.run_id, "--attempt", str(attempt), "--program", tool.program, "--"]
    return wrapper + words, containers.client_environment(client)


def clear(paths: RunPaths) -> Optional[str]:
    """Remove the container of a run's job, whatever became of its processes. Return why that failed, or None."""
    with contextlib.suppress(OSError):
        files.remove(paths.container_variables)
    try:
        recorded = files.read_json(paths.container)
    except files.UnreadableError:
        return None
    program = containers.recorded_program(recorded or {})
    if program is None:
        return None
    failure = containers.remove(program, containers.name_of(paths))
    return None if failure is None else "the container %s is not removed: %s" % (containers.name_of(paths), failure)


def compose(
    paths: RunPaths,
    spec: Dict[str, Any],
    tool: containers.Tool,
    image: str,
    argv: List[str],
    environment: Dict[str, str],
    gpus: Sequence[Dict[str, Any]],
) -> Tuple[List[str], Dict[str, str]]:
    """Return the words after the tool's name, and the tool's own environment.

    Values of variables are not among the words, which every user of the machine can read. The tool takes them from its
    environment. Those that mean something to the tool itself are in a file if the experiment gives them; the others of
    these are folders of the host.

    Raises:
        AgentError: `environment`: a variable or a path cannot be given to a container.
        OSError: The root or the run's folder cannot be written.
    """
    job = spec["job"]
    home = os.path.join(paths.root, "containers", "home")
    os.makedirs(home, mode=0o700, exist_ok=True)
    given = set(job.get("env") or {})
    inside = {
        name: value
        for name, value in environment.items()
        if name in given or name in (job.get("secrets") or []) or name.startswith("ARMADA_") or name in _PASSED + _OURS
    }
    inside["CUDA_VISIBLE_DEVICES"] = ",".join(str(index) for index in range(len(gpus)))  # counted anew inside
    caches = _caches(inside, environment)
    inside.setdefault("HOME", home)
    words = ["run", "--name", containers.name_of(paths), "--label", "armada.run=%s" % paths.run_id]
    words += containers.start_words(tool) + containers.gpu_words(tool, gpus)
    for path in _spellings([paths.folder, home] + caches + _prepared(paths, spec)):
        words += containers.mount_words(path, False)
    for path in _spellings(_read_only(paths, spec)):
        words += containers.mount_words(path, True)
    client = clean_environment()
    kept: Dict[str, str] = {}
    for name in sorted(inside):
        if name in (job.get("secrets") or []) or not _is_tools_own(name):
            words += ["--env", name]
            client[name] = inside[name]
        elif name in given:
            kept[name] = inside[name]
        else:
            words += ["--env", "%s=%s" % (name, inside[name])]
    words += _keep(paths, kept)
    words += ["--workdir", paths.work, "--entrypoint", argv[0], containers.checked_reference(image)]
    return words + argv[1:], client


def _keep(paths: RunPaths, variables: Dict[str, str]) -> List[str]:
    """Write variables into a file that this user alone can read. Return the options with which the tool reads it."""
    files.remove(paths.container_variables)
    if not variables:
        return []
    for name, value in variables.items():
        if "\n" in value or "\r" in value:
            message = "`env:` gives %s a value of several lines; a container gets this variable only if it has one line"
            raise AgentError("environment", message % name)
    lines = "".join("%s=%s\n" % each for each in sorted(variables.items()))
    files.write_bytes(paths.container_variables, lines.encode("utf-8", "surrogateescape"))
    return ["--env-file", paths.container_variables]


def _caches(inside: Dict[str, str], environment: Dict[str, str]) -> List[str]:
    """Return the caches that runs share with the host; the hub's is one of them without being named."""
    if "HF_HOME" not in inside and os.path.isabs(environment.get("HOME", "")):
        cache = os.path.join(environment["HOME"], ".cache", "huggingface")
        with contextlib.suppress(OSError):  # a home that is not there: the container's own home has the cache then
            os.makedirs(cache, exist_ok=True)
            inside["HF_HOME"] = cache
    return [inside[name] for name in _CACHES if os.path.isabs(inside.get(name, "")) and os.path.isdir(inside[name])]


def _read_only(paths: RunPaths, spec: Dict[str, Any]) -> List[str]:
    found = [os.path.join(paths.root, kind) for kind in _CONTENTS]
    found += [entry["content"] for entry in spec["job"].get("data") or [] if entry.get("outside")]
    found += _other_checkpoints(paths, spec)
    return [path for path in found if os.path.exists(path)]


def _prepared(paths: RunPaths, spec: Dict[str, Any]) -> List[str]:
    """Return the folder of tokenised data, if the run is one of the bundled trainer that shares it with others."""
    folder = os.path.join(paths.root, "prepared")
    if _section(spec, "training").get("prepared") != folder:
        return []
    os.makedirs(folder, exist_ok=True)
    return [folder]


def _other_checkpoints(paths: RunPaths, spec: Dict[str, Any]) -> List[str]:
    """Return the checkpoints of other runs of this host that the bundled trainer reads."""
    training = _section(spec, "training")
    named = [_section(training, "start_from").get("path"), _section(training, "merge").get("adapter")]
    runs = os.path.join(paths.root, "runs") + os.sep
    return [path for path in named if isinstance(path, str) and os.path.normpath(path).startswith(runs)]


def _section(settings: Dict[str, Any], name: str) -> Dict[str, Any]:
    found = settings.get(name)
    return found if isinstance(found, dict) else {}


def _spellings(places: Sequence[str]) -> List[str]:
    """Return paths without what lies in another of them, and with each also by its name without links."""
    found: Set[str] = set()
    for path in places:
        found.update((os.path.normpath(path), os.path.realpath(path)))
    return sorted(path for path in found if not any(path.startswith(other + os.sep) for other in found))


def _is_tools_own(name: str) -> bool:
    """Return whether the tool would obey a variable that is meant for the job.

    It would ask a proxy only for images, and `run` pulls none. The address of a proxy or a mirror may hold a password.
    """
    if name in (*_PROXIES, "HF_ENDPOINT"):
        return False
    return job_variables.is_base(name) or name.startswith(_TOOLS_OWN)


def _preferred(spec: Dict[str, Any]) -> Optional[str]:
    tool = (planned(spec) or {}).get("tool")
    return tool if tool in containers.TOOLS else None


def _find_image(tool: containers.Tool, wanted: Dict[str, Any]) -> Optional[str]:
    """Return the id or digest of the image, whichever the tool knows."""
    for name in (wanted.get("id"), wanted.get("digest")):
        if name is not None and containers.find_image(tool.program, name, clean_environment()) is not None:
            return str(name)
    return None


def _pull(tool: containers.Tool, wanted: Dict[str, Any], tick: Callable[[], None]) -> str:
    """Pull the image of earlier attempts again: somebody has removed it from the host."""
    if not wanted.get("digest"):
        message = "the image %s of this run is no longer here (%s), and no registry has it"
        raise StartError("env_error", message % (wanted.get("image"), wanted.get("id")))
    digest = containers.checked_reference(wanted["digest"])
    with tempfile.TemporaryFile() as said:
        argv = [tool.program, "pull", digest]
        environment = containers.client_environment(clean_environment())
        child = subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            while child.poll() is None:
                tick()
                time.sleep(_PULL_TICK_S)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        if child.returncode:
            said.seek(0)
            lines = said.read(65536).decode("utf-8", "replace").splitlines()
            raise containers.explain_pull(digest, tool.name, lines[-20:])
    return digest
