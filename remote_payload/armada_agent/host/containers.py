"""Docker and podman: which of them this user can use here, which images it has, and how a container is run and removed."""

import hashlib
import json
import os
import platform
import pwd
import re
import shutil
import subprocess
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from armada_agent.errors import AgentError
from armada_agent.paths import RunPaths

TOOLS = ("podman", "docker")
"""In the order of choice: podman's containers are the user's own processes and need no daemon of root."""

REFUSED = 125
"""The exit code of `podman run` and `docker run` for errors of their own."""

PASSES_THROUGH = "passthrough"
"""The log driver of podman 4.0 and later with which a container has its client's standard output, and needs nobody to copy it."""

_REFERENCE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:-]|/(?!/)){0,254}(@sha256:[0-9a-f]{64})?")
_ID = re.compile(r"(sha256:)?[0-9a-f]{64}")
_ANSWER_S = 60.0
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}
_CDI = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
_LINGER = "/var/lib/systemd/linger"
_SYSTEMD = "/run/systemd/system"
_INITS = ("/usr/libexec/podman/catatonit", "/usr/lib/podman/catatonit", "/usr/local/libexec/podman/catatonit")
_QUEUES = "/dev/mqueue"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the host's own, for the workers of data loaders
_INIT_FAILED = re.compile(
    r"\(catatonit:\d+\): failed to exec .*No such file|\[FATAL tini \(\d+\)\] exec .* failed: No such file"
)
"""What the init process of a container prints, which starts before the program is looked for."""
_RUNTIME_FAILED = re.compile(
    r"Error: crun: executable file .* not found|exec: \"[^\"]*\": (?:executable file not found|stat .* no such file)"
)
"""What a runtime prints of a container without init that it could not start. Programs in Go use the second sentence, too."""
_UNSAFE = re.compile(r"[\x00-\x1f\x7f]")


class Tool:
    """A container tool that this user can use.

    Attributes:
        name: `podman` or `docker`.
        program: Its path.
        version: As it says.
        is_rootless: Whether its containers run in a user namespace of this user.
        gives_gpus: Whether it is set up to give GPUs to containers.
        has_init: Whether it can run an init process, which passes signals on and reaps processes.
    """

    def __init__(
        self, name: str, program: str, version: str, is_rootless: bool, gives_gpus: bool, has_init: bool
    ) -> None:
        self.name = name
        self.program = program
        self.version = version
        self.is_rootless = is_rootless
        self.gives_gpus = gives_gpus
        self.has_init = has_init


class Image:
    """An image that a tool has. `digest`: the name by which a registry has it; None if no registry does."""

    def __init__(self, image_id: str, digest: Optional[str], architecture: str) -> None:
        self.id = image_id
        self.digest = digest
        self.architecture = architecture


class NoAnswerError(Exception):
    """A tool does not answer, or answers nonsense."""


def call(program: str, words: Sequence[str], environment: Optional[Dict[str, str]] = None) -> Tuple[int, str, str]:
    """Run a tool to its end.

    Returns:
        The exit code, and what it wrote to stdout and stderr.

    Raises:
        NoAnswerError: It cannot be started, or does not end.
    """
    argv = [program] + list(words)
    try:
        done = subprocess.run(
            argv,
            env=client_environment(dict(os.environ if environment is None else environment)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoAnswerError("%s does not answer" % program)
    except OSError as error:
        raise NoAnswerError("%s cannot be started: %s" % (program, error.strerror))
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def client_environment(environment: Dict[str, str]) -> Dict[str, str]:
    """Return an environment in which a tool finds the same containers from an SSH session and from a supervisor."""
    runtime = "/run/user/%d" % os.getuid()
    found = dict(environment)
    found.pop("XDG_RUNTIME_DIR", None)
    if os.path.isdir(runtime) and os.access(runtime, os.W_OK):
        found["XDG_RUNTIME_DIR"] = runtime
    return found


def choose(needs_gpus: bool, environment: Optional[Dict[str, str]] = None, preferred: Optional[str] = None) -> Tool:
    """Choose the tool that runs a container.

    Args:
        needs_gpus: Whether the container needs GPUs.
        environment: With which the tools are called.
        preferred: The tool that already has the image.

    Raises:
        AgentError: `environment`: none can be used; the message says why of each.
    """
    doubts = []
    for name in sorted(TOOLS, key=lambda tool: tool != preferred):
        program = shutil.which(name, path=(environment or os.environ).get("PATH"))
        if program is None:
            doubts.append("%s is not installed" % name)
            continue
        found = _examine_podman(program, environment) if name == "podman" else _examine_docker(program, environment)
        if isinstance(found, str):
            doubts.append(found)
        elif needs_gpus and not found.gives_gpus:
            doubts.append("%s is not set up to give GPUs to containers" % name)
        else:
            return found
    hint = "install podman or docker, or leave `environment: {container: …}` out"
    if any("GPUs" in doubt for doubt in doubts):
        hint = "install the NVIDIA container toolkit; for podman: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    raise AgentError("environment", "this host cannot run containers for you: " + "; ".join(doubts), hint)


def find_image(program: str, reference: str, environment: Optional[Dict[str, str]] = None) -> Optional[Image]:
    """Find an image among those that a tool has.

    Raises:
        AgentError: `bad_request`: not the name of an image; `environment`: the tool does not answer.
    """
    words = ["image", "inspect", checked_reference(reference)]
    try:
        code, said, complaint = call(program, words, environment)
    except NoAnswerError as error:
        raise AgentError("environment", str(error))
    if code:
        if "no such" in complaint.lower() or "not known" in complaint.lower():
            return None
        raise AgentError("environment", "%s: %s" % (os.path.basename(program), last_line(complaint)))
    try:
        described = json.loads(said)[0]
        image_id = str(described["Id"])
        digests = [str(each) for each in described.get("RepoDigests") or []]
        architecture = str(described.get("Architecture") or "")
    except (ValueError, LookupError, TypeError, AttributeError):
        raise AgentError("environment", "%s says nothing useful of the image %s" % (program, reference))
    if not _ID.fullmatch(image_id):
        raise AgentError("environment", "%s gives the image %s no id" % (program, reference))
    remote = [each for each in digests if _REFERENCE.fullmatch(each) and not each.startswith("localhost/")]
    same = [each for each in remote if each.partition("@")[2] == reference.partition("@")[2]]
    best = same or remote
    return Image(image_id, best[0] if best else None, architecture)


def checked_reference(reference: Any) -> str:
    """Return the name of an image.

    Raises:
        AgentError: `bad_request`.
    """
    if not isinstance(reference, str) or not (_REFERENCE.fullmatch(reference) or _ID.fullmatch(reference)):
        raise AgentError("bad_request", "%.100r is not the name of an image" % (reference,))
    return reference


def full_name(tool: str, reference: str) -> str:
    """Return the name by which a tool pulls an image. Without a registry it is Docker Hub's, for both tools."""
    first, slash, _ = reference.partition("/")
    if tool == "docker" or (slash and ("." in first or ":" in first or first == "localhost")):
        return reference
    return "docker.io/%s%s" % ("" if slash else "library/", reference)


def require_architecture(image: Image, reference: str) -> None:
    """Refuse an image for machines of another kind.

    Raises:
        AgentError: `environment`.
    """
    here = _MACHINES.get(platform.machine(), platform.machine())
    if image.architecture and image.architecture != here:
        message = "the image %s is for %s, and this host is %s" % (reference, image.architecture, here)
        raise AgentError("environment", message, "name an image for %s" % here)


def explain_pull(reference: str, tool: str, said: Sequence[str]) -> AgentError:
    """Say why an image could not be pulled.

    Args:
        reference: The image.
        tool: `podman` or `docker`.
        said: The last lines that the tool printed.
    """
    text = "\n".join(said).lower()
    words = last_line("\n".join(said))
    first, slash, _ = full_name("podman", reference).partition("/")
    registry = first if slash else "docker.io"
    if "no space left" in text or "disk quota" in text:
        return AgentError("disk_full", "the disk is full: %s" % words, "%s system prune removes unused images" % tool)
    if "no matching manifest" in text or "no image found in" in text:
        message = "the image %s has no variant for this machine (%s)" % (reference, platform.machine())
        return AgentError("environment", message, "name an image for this architecture")
    if re.search(r"toomanyrequests|too many requests|status\D{0,20}\b429\b", text):
        hint = "log in on the host: %s login %s" % (tool, registry)
        return AgentError("environment", "%s refuses more downloads for now: %s" % (registry, words), hint)
    if re.search(r"unauthorized|authentication required|denied|forbidden|\b40[13]\b", text):
        message = "%s does not give out %s: it is private, or does not exist" % (registry, reference)
        return AgentError("environment", message, "log in on the host: %s login %s" % (tool, registry))
    if re.search(r"manifest unknown|name unknown|not found|\b404\b", text):
        hint = "look its name and tag up in the registry"
        return AgentError("environment", "%s has no image %s" % (registry, reference), hint)
    if re.search(r"no such host|dial tcp|timeout|connection refused|no route|unreachable|tls|x509", text):
        hint = "load the image on the host yourself: %s load --input FILE" % tool
        return AgentError("environment", "this host cannot reach %s: %s" % (registry, words), hint)
    return AgentError("environment", "%s pull %s failed: %s" % (tool, reference, words))


def name_of(paths: RunPaths) -> str:
    """Return the name of a run's container. A second one of this name cannot be created while the first exists."""
    place = hashlib.sha256(os.path.realpath(paths.root).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return "armada-%s-%s" % (paths.run_id, place)


def recorded_program(recorded: Dict[str, Any]) -> Optional[str]:
    """Return the tool of a run's container.json; None if it names none. Its path is not believed: a job can write there."""
    tool = recorded.get("tool")
    return shutil.which(tool) if tool in TOOLS else None


def find_state(program: str, name: str, environment: Optional[Dict[str, str]] = None) -> Optional[Dict[str, Any]]:
    """Return the tool's record of a container's state; None if there is no such container.

    Raises:
        NoAnswerError: The tool does not answer.
    """
    code, said, complaint = call(program, ["container", "inspect", name], environment)
    if code:
        if "no such" in complaint.lower():
            return None
        raise NoAnswerError("%s: %s" % (os.path.basename(program), last_line(complaint)))
    try:
        state = json.loads(said)[0]["State"]
    except (ValueError, LookupError, TypeError):
        state = None
    if not isinstance(state, dict):
        raise NoAnswerError("%s says nothing useful of %s" % (program, name))
    return state


def is_running(state: Optional[Dict[str, Any]]) -> bool:
    """Return whether a container of this state has processes."""
    return state is not None and (state.get("Running") is True or state.get("Status") in ("running", "paused"))


def remove(program: str, name: str) -> Optional[str]:
    """Kill and remove a container. Return why that failed; None if there is no such container any more."""
    try:
        code, _, complaint = call(program, ["rm", "--force", name])
    except NoAnswerError as error:
        return str(error)
    return None if not code or "no such" in complaint.lower() else last_line(complaint)


def lacks_program(code: int, said: str, has_started: bool = False) -> bool:
    """Return whether a container was about to start its program and its image has no such program.

    Args:
        code: Its exit code. catatonit ends with 1 if it finds no program, tini with 127.
        said: What the tool printed last.
        has_started: A process ran in the container. Then what a runtime would say is the job's own output.
    """
    if code in (1, 127) and _INIT_FAILED.search(said) is not None:
        return True
    return not has_started and code in (REFUSED, 126, 127) and _RUNTIME_FAILED.search(said) is not None


def try_start(tool: Tool, image: Image, needs_gpus: bool, environment: Optional[Dict[str, str]] = None) -> None:
    """Start a container as a job's is started, with `true` for its program, and remove it.

    Raises:
        AgentError: `environment`: the tool cannot start it.
    """
    words = ["run", "--rm"] + start_words(tool)
    if needs_gpus:
        words += ["--device", "nvidia.com/gpu=all"] if tool.name == "podman" else ["--gpus", "all"]
    try:
        code, _, complaint = call(tool.program, words + ["--entrypoint", "true", image.id], environment)
    except NoAnswerError as error:
        raise AgentError("environment", str(error))
    if code and not lacks_program(code, complaint):
        hint = "start one on the host yourself: %s run --rm %s true" % (tool.name, image.id[:19])
        raise AgentError("environment", "a container does not start on this host: %s" % last_line(complaint), hint)


def start_words(tool: Tool) -> List[str]:
    """Return the options with which every container of a job is started."""
    words = [
        "--log-driver",
        log_driver(tool),
        "--network",
        "host",
        "--security-opt",
        "label=disable",
        "--pull",
        "never",
    ]
    # Rootless podman mounts what the host's message queues are; a rented box, itself a container, may have none.
    words += ["--ipc", "host"] if os.path.isdir(_QUEUES) else mount_words(_SHARED_MEMORY, False)
    return words + (["--init"] if tool.has_init else []) + user_words(tool)


def log_driver(tool: Tool) -> str:
    """Return who writes what a container prints: nobody but its client, or with `passthrough` its processes themselves.

    Podman's client lost all of it now and then, of containers that end at once (2 of 1,300 with podman 4.3.1 under load).
    """
    return PASSES_THROUGH if tool.name == "podman" and _major(tool.version) >= 4 else "none"


def passes_through(words: Sequence[str]) -> bool:
    """Whether a container that is run with these words writes what it prints itself."""
    at = words.index("--log-driver") + 1 if "--log-driver" in words else len(words)
    return at < len(words) and words[at] == PASSES_THROUGH


def _major(version: str) -> int:
    first = version.partition(".")[0]
    return int(first) if re.fullmatch("[0-9]{1,4}", first) else 0


def user_words(tool: Tool) -> List[str]:
    """Return the options with which processes in a container have this user's id, and thus the files that they write."""
    if tool.name == "docker" and tool.is_rootless:
        return ["--user", "0:0"]  # root there is this user here
    words = ["--userns", "keep-id"] if tool.is_rootless else []
    words += ["--user", "%d:%d" % (os.getuid(), os.getgid())]
    if not tool.is_rootless and os.getuid():
        words += [word for group in os.getgroups() if group != os.getgid() for word in ("--group-add", str(group))]
    return words


def gpu_words(tool: Tool, gpus: Sequence[Dict[str, Any]]) -> List[str]:
    """Return the options that give a container these GPUs and no others."""
    if not gpus:
        return ["--env", "NVIDIA_VISIBLE_DEVICES=void"]  # images of NVIDIA's say `all`
    if tool.name == "podman":
        return [word for gpu in gpus for word in ("--device", "nvidia.com/gpu=%s" % gpu["index"])]
    return ["--gpus", '"device=%s"' % ",".join(str(gpu["uuid"]) for gpu in gpus)]


def mount_words(path: str, is_read_only: bool) -> List[str]:
    """Return the options that show a folder or file of the host in a container, under the same path.

    Raises:
        AgentError: `environment`: the path has a character that a mount cannot have.
    """
    if _UNSAFE.search(path):
        raise AgentError("environment", "%r cannot be mounted: it has a control character" % path)
    if "," not in path and '"' not in path:
        return ["--mount", "type=bind,source=%s,target=%s%s" % (path, path, ",readonly" if is_read_only else "")]
    if ":" not in path:
        # Older releases of podman cut --mount at each comma, quoted or not.
        return ["--volume", "%s:%s%s" % (path, path, ":ro" if is_read_only else "")]
    source, target = ('"%s=%s"' % (key, path.replace('"', '""')) for key in ("source", "target"))
    return ["--mount", "type=bind,%s,%s%s" % (source, target, ",readonly" if is_read_only else "")]


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else "no reason given"


def _examine_podman(program: str, environment: Optional[Dict[str, str]]) -> Union[Tool, str]:
    described = _ask(program, ["info", "--format", "json"], environment)
    if isinstance(described, str):
        return "podman does not work for you: " + described
    host = _mapping(described, "host")
    is_rootless = _mapping(host, "security").get("rootless") is True
    if host.get("serviceIsRemote") is True:
        return "podman here is a client of another machine"
    if is_rootless and os.path.isdir(_SYSTEMD) and not os.path.exists(os.path.join(_LINGER, _login())):
        return "podman would end its containers when you log out: run `loginctl enable-linger` on the host once"
    version = str(_mapping(described, "version").get("Version") or "")
    has_init = any(map(os.path.exists, _INITS)) or shutil.which("catatonit") is not None
    return Tool("podman", program, version, is_rootless, _has_cdi(), has_init)


def _examine_docker(program: str, environment: Optional[Dict[str, str]]) -> Union[Tool, str]:
    described = _ask(program, ["info", "--format", "{{json .}}"], environment)
    errors = described.get("ServerErrors") if isinstance(described, dict) else described
    complaint = errors if isinstance(errors, str) else last_line("\n".join(map(str, errors or [])))
    if "permission denied" in complaint.lower():
        return "docker is installed, but %s may not use it: ask for membership in the group `docker`" % _login()
    if isinstance(described, str) or errors or not described.get("ServerVersion"):
        return "docker does not work for you: " + complaint
    options = [str(option) for option in described.get("SecurityOptions") or []]
    if any("name=userns" in option for option in options):
        return "docker here gives containers other user ids (userns-remap), so your files would not be yours"
    runtimes = described.get("Runtimes")
    gives_gpus = (isinstance(runtimes, dict) and "nvidia" in runtimes) or bool(shutil.which("nvidia-container-cli"))
    is_rootless = any("name=rootless" in option for option in options)
    return Tool("docker", program, str(described["ServerVersion"]), is_rootless, gives_gpus, True)


def _ask(program: str, words: Sequence[str], environment: Optional[Dict[str, str]]) -> Any:
    """Return the object that a tool describes itself with, or why it does not."""
    try:
        code, said, complaint = call(program, words, environment)
    except NoAnswerError as error:
        return str(error)
    try:
        described = json.loads(said)
    except ValueError:
        described = None
    if not isinstance(described, dict) or (code and not described.get("ServerErrors")):
        return last_line(complaint)
    return described


def _mapping(described: Dict[str, Any], name: str) -> Dict[str, Any]:
    found = described.get(name)
    return found if isinstance(found, dict) else {}


def _login() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _has_cdi(listing: Callable[[str], List[str]] = os.listdir) -> bool:
    """Return whether the NVIDIA toolkit has described this machine's GPUs for podman."""
    for folder in _CDI:
        try:
            if any("nvidia" in name for name in listing(folder)):
                return True
        except OSError:
            continue
    return False
