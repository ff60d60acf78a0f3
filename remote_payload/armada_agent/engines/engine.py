"""The batch systems to which a host can submit runs. Each module uses the command-line tools of one."""

import importlib
import os
import re
import subprocess
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import exchange, files
from armada_agent.host import setup_lines
from armada_agent.paths import RunPaths
from armada_agent.verdicts.liveness import WORDS

NAMES = ("slurm", "htcondor")
PENDING, HELD, RUNNING, ENDING, ENDED, GONE, UNKNOWN = WORDS
LIVING = (PENDING, HELD, RUNNING, ENDING)
_JOB_FILE_LIMIT = 1024 * 1024
TOOL_S = 45.0  # a busy slurmctld answers within this, or nobody gets an answer
_SOON_S = 3.0  # what is up answers within it nearly always
_IN_DOUBT = re.compile(
    r"timed out|timeout|unable to contact|zero bytes|commit|connection|lost contact|connect to|find address",
    re.IGNORECASE,
)
_PERSONAL = ("SBATCH_", "SQUEUE_", "SCANCEL_", "SACCT_", "SINFO_", "SLURM_TIME_FORMAT", "SLURM_JSON", "_CONDOR_TOOL")


class EngineError(Exception):
    """The batch system did not answer, or refused.

    Args:
        message: In its own words.
        missing: Its program is not installed.
        refused: It understood, and will not; otherwise nobody knows what it did.
        late: It was ended because it did not answer in time.
    """

    def __init__(self, message: str, missing: bool = False, refused: bool = False, late: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.missing = missing
        self.refused = refused
        self.late = late


def scheduler_status(
    state: str,
    seen_at: Optional[float],
    detail: Optional[str] = None,
    reason: Optional[str] = None,
    message: Optional[str] = None,
    node: Optional[str] = None,
    error: Optional[str] = None,
) -> Dict[str, Any]:
    """Build the batch system's last answer about one submission.

    Args:
        state: One of the words above; `gone`: it says, and goes on saying, that it has no such job.
        seen_at: When it said so; older than now where it does not answer any more.
        detail: Its own word, `TIMEOUT`.
        reason: A run's reason, for an end nobody else has written.
        message: Its explanation.
        node: Where the job runs.
        error: Why there is no newer word.
    """
    return {
        "state": state,
        "seen_at": seen_at,
        "detail": _short(detail, 60),
        "reason": reason,
        "message": _short(message, 600),
        "node": _short(node, 200),
        "error": _short(error, 600),
    }


class Handed:
    """A submission that a batch system has, or may have.

    Attributes:
        paths: The run's files.
        number: The submission's.
        name: What it is called in the queue; nothing else there has this name.
        job_id: The batch system's own number for it; empty while that is not known.
        handed_at: When the batch system took it, unix time; 0 while that is not known.
    """

    def __init__(self, paths: RunPaths, number: int, job: Optional[Dict[str, Any]] = None) -> None:
        self.paths = paths
        self.number = number
        self.name = "armada.%s.%d" % (paths.run_id, number)
        self.job_id = str((job or {}).get("job_id", ""))
        handed_at = (job or {}).get("time")
        self.handed_at = float(handed_at) if isinstance(handed_at, (int, float)) else 0.0

    def file(self, name: str) -> str:
        return self.paths.submission(self.number, name)

    def job_file(self, name: str) -> str:
        """Name the file that home wrote for the batch system.

        Raises:
            EngineError: An older armada wrote it, for the first submission alone.
        """
        path = os.path.join(self.paths.folder, "launch", name)
        if self.number > 1:
            try:
                with files.open_regular(path) as stream:
                    text = stream.read(_JOB_FILE_LIMIT)
            except OSError as error:
                raise EngineError("launch/%s cannot be read: %s" % (name, error), refused=True)
            if b"armada_submission" not in text:
                message = "launch/%s was written by an armada that could not resume jobs" % name
                raise EngineError(message, refused=True)
        return path


def find(name: Any) -> Any:
    """Import the module of a batch system.

    Raises:
        AgentError: `unsupported`.
    """
    if name not in NAMES:
        raise AgentError("unsupported", "no scheduler %.40r" % (name,), "update armada at home or on the host")
    return importlib.import_module("armada_agent.engines." + str(name))


def run_tool(
    argv: Sequence[str], stdin: bytes = b"", timeout_s: float = TOOL_S, inherit: Sequence[int] = (), cwd: str = "/"
) -> str:
    """Run one of a batch system's programs, without the user's own settings for it.

    Args:
        argv: Program and arguments.
        stdin: What it reads.
        timeout_s: How long it may take.
        inherit: Descriptors it keeps open, so that a lock lasts as long as it works.
        cwd: Where it runs.

    Returns:
        What it printed.

    Raises:
        EngineError: It is missing, failed, printed far too much, or did not answer in time.
    """
    return run_tool_aloud(argv, stdin, timeout_s, inherit, cwd)[0]


def run_tool_aloud(
    argv: Sequence[str],
    stdin: bytes = b"",
    timeout_s: float = TOOL_S,
    inherit: Sequence[int] = (),
    cwd: str = "/",
    given: Optional[Mapping[str, str]] = None,
    find_trouble: Optional[Callable[[], Optional[str]]] = None,
) -> Tuple[str, str]:
    """Run one as `run_tool` does, in an environment of its own where one is `given`.

    `find_trouble` is called when it has not answered for a few seconds, and says why it need not be waited for any longer, or
    None.

    Returns:
        What it printed, and what it said beside that: some sites' wrappers lose the exit code of an error.
    """
    failure = setup_lines.find_failure()
    if failure:
        raise EngineError(failure)
    environment = dict(given or ())
    if given is None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_PERSONAL)}
        environment["LC_ALL"] = "C"
    try:
        child = subprocess.Popen(
            list(argv),
            env=environment,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=list(inherit),
            start_new_session=True,
        )
    except FileNotFoundError:
        raise EngineError("%s is not installed on this host" % argv[0], missing=True)
    except OSError as error:
        raise EngineError("%s: %s" % (argv[0], error))
    with child, exchange.Exchange(child, stdin) as talk:
        first_s = min(timeout_s, _SOON_S) if find_trouble is not None else timeout_s
        ended = talk.carry_on(first_s)
        trouble = find_trouble() if find_trouble is not None and not ended else None
        if not ended and trouble is None:
            ended = talk.carry_on(timeout_s - first_s)
        if not ended:
            talk.end(with_group=not inherit)  # what works under a lock of ours goes on, and so does the lock
            words = "%s did not answer within %.0f s" % (argv[0], timeout_s if trouble is None else first_s)
            raise EngineError(words + ("; %s" % trouble if trouble else ""), late=True)
        if talk.is_endless:
            talk.end(with_group=not inherit)
            raise EngineError("%s printed more than %d MB" % (argv[0], exchange.LIMIT >> 20))
    if child.returncode:
        words = (talk.err + b"\n" + talk.out).decode("utf-8", "replace").strip()
        # A controller that went silent in the middle may have done what it was asked all the same.
        refused = _IN_DOUBT.search(words) is None
        raise EngineError("%s: %s" % (argv[0], words[-1500:] or "exit code %d" % child.returncode), refused=refused)
    return talk.out.decode("utf-8", "replace"), talk.err.decode("utf-8", "replace")


def as_agent_error(error: EngineError) -> AgentError:
    hint = "check its `scheduler:` and `setup:` in hosts.yaml" if error.missing else None
    return AgentError("scheduler", error.message, hint)


def empty_counts(named: Dict[str, Any]) -> Dict[str, Any]:
    """Begin the counting of a partition's or a worker's share."""
    return dict(named, nodes=0, cpus=0, cpus_free=0, gpus=0, gpus_free=0)


def count_words(words: Sequence[str]) -> Dict[str, int]:
    found: Dict[str, int] = {}
    for word in words:
        found[word] = found.get(word, 0) + 1
    return found


def allotted_gpus(environment: Dict[str, str]) -> List[str]:
    """Read which GPUs a batch system gave a job, in its own words: indexes, UUIDs, or `CUDA0`."""
    value = environment.get("CUDA_VISIBLE_DEVICES") or environment.get("_CONDOR_AssignedGPUs") or ""
    found = [word.strip() for word in value.split(",")]
    return [word for word in found if word and word not in ("NoDevFiles", "NONE", "-1", "10000")]


def _short(text: Optional[str], limit: int) -> Optional[str]:
    return text[:limit] if text else None
