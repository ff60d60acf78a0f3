"""The batch systems to which a host can submit runs. Each module uses the command-line tools of one of them."""

import importlib
import os
import re
import signal
import subprocess
from typing import Any, Callable, Dict, List, Mapping, Optional, Pattern, Sequence, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import exchange, files
from armada_agent.host import setup_lines
from armada_agent.paths import RunPaths, SweepPaths, checked_run_id
from armada_agent.verdicts.liveness import WORDS

NAMES = ("slurm", "htcondor")
PENDING, HELD, RUNNING, ENDING, ENDED, GONE, UNKNOWN = WORDS
LIVING = (PENDING, HELD, RUNNING, ENDING)
_JOB_FILE_LIMIT = 1024 * 1024
TOOL_S = 45.0  # a busy slurmctld answers within this time or not at all
_SOON_S = 3.0  # a scheduler that is up nearly always answers within this time
_IN_DOUBT = re.compile(
    r"timed out|timeout|unable to contact|zero bytes|commit|connection|lost contact|connect to|find address",
    re.IGNORECASE,
)
_KILLED = (128 + signal.SIGKILL, 128 + signal.SIGTERM)
"""The exit codes of a shell script whose program was killed: some sites wrap a batch system's programs in one."""
_PERSONAL = ("SBATCH_", "SQUEUE_", "SCANCEL_", "SACCT_", "SINFO_", "SLURM_TIME_FORMAT", "SLURM_JSON", "_CONDOR_TOOL")


class EngineError(Exception):
    """The batch system did not answer, or refused a request.

    Args:
        message: The batch system's own message.
        missing: Its program is not installed.
        refused: It understood the request and refused it. Otherwise it is unknown whether the request had an effect.
        late: The program was killed because it did not answer in time.
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
        state: One of the states above; `gone`: the batch system has reported repeatedly that it has no such job.
        seen_at: Unix time of the answer. It is in the past if the batch system no longer answers.
        detail: The batch system's own state, such as `TIMEOUT`.
        reason: A run's reason, for an end that no supervisor has recorded.
        message: The batch system's explanation.
        node: The node on which the job runs.
        error: Why there is no newer answer.
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


class Place:
    """A submission's place in an array of jobs: the cells of a sweep that a batch system got at once.

    Attributes:
        sweep: The sweep's id.
        number: The array's number, which is unique in its sweep.
        index: Of the submission, from 0.
    """

    def __init__(self, sweep: str, number: int, index: int) -> None:
        self.sweep = checked_run_id(sweep)
        self.number = number
        self.index = index
        self.name = array_name(sweep, number)

    def as_json(self) -> Dict[str, Any]:
        return {"sweep": self.sweep, "number": self.number, "index": self.index}


def array_name(sweep: str, number: int) -> str:
    """Return an array's name in the queue, which is unique there: a run's number is digits only."""
    return "armada.%s.array%d" % (sweep, number)


def read_place(told: Any) -> Place:
    """Parse what `Place.as_json` returned.

    Raises:
        files.UnreadableError: It is damaged.
    """
    found = told if isinstance(told, dict) else {}
    sweep, number, index = found.get("sweep"), found.get("number"), found.get("index")
    numbers = [each for each in (number, index) if isinstance(each, int) and not isinstance(each, bool)]
    if not isinstance(sweep, str) or len(numbers) != 2 or numbers[0] < 1 or numbers[1] < 0:
        raise files.UnreadableError("its place in an array is damaged: %.100r" % (told,))
    try:
        return Place(sweep, *numbers)
    except AgentError as error:
        raise files.UnreadableError("its place in an array is damaged: %s" % error)


class HandedArray:
    """Submissions that a batch system has, or may have, as one array of jobs.

    Attributes:
        paths: The sweep's files.
        number: The array's number in its sweep.
        name: Its name in the queue, which is unique there.
        run_ids: The runs, in the order of their indexes.
        limit: How many of them run at once; None: as many as the batch system starts.
        after: The batch system's id of an array that must have ended before; None for none.
    """

    def __init__(
        self, paths: SweepPaths, number: int, run_ids: List[str], limit: Optional[int], after: Optional[str]
    ) -> None:
        self.paths = paths
        self.number = number
        self.name = array_name(paths.sweep, number)
        self.run_ids = run_ids
        self.limit = limit
        self.after = after

    def file(self, name: str = "") -> str:
        return self.paths.array(self.number, name)


class Handed:
    """A submission that a batch system has, or may have.

    Attributes:
        paths: The run's files.
        number: The submission's number.
        name: Its own name, which is unique.
        job_id: The batch system's own number of the job; empty while unknown.
        handed_at: When the batch system accepted it, unix time; 0 while unknown.
    """

    def __init__(self, paths: RunPaths, number: int, job: Optional[Dict[str, Any]] = None) -> None:
        self.paths = paths
        self.number = number
        self.name = "armada.%s.%d" % (paths.run_id, number)
        self.job_id = str((job or {}).get("job_id", ""))
        handed_at = (job or {}).get("time")
        self.handed_at = float(handed_at) if isinstance(handed_at, (int, float)) else 0.0
        self._told = (job or {}).get("array")
        self._is_recorded = job is not None

    @property
    def place(self) -> Optional[Place]:
        """The submission's place in an array of jobs; None if it is a job of its own.

        Raises:
            files.UnreadableError: The record of it is damaged.
        """
        told = self._told if self._is_recorded else files.read_json(self.file("array.json"))
        return None if told is None else read_place(told)

    @property
    def queued_as(self) -> str:
        """The job's name in the queue, which all jobs of an array share."""
        place = self.place
        return self.name if place is None else place.name

    def file(self, name: str) -> str:
        return self.paths.submission(self.number, name)

    def job_file(self, name: str) -> str:
        """Return the path of the file that home wrote for the batch system.

        Raises:
            EngineError: An older armada wrote the file, for the first submission only.
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
        stdin: What the program reads.
        timeout_s: The time limit.
        inherit: Descriptors that the program keeps open, so that a lock lasts as long as it works.
        cwd: The program's working folder.

    Returns:
        The program's stdout.

    Raises:
        EngineError: The program is missing, failed, printed too much, or did not answer in time.
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
    done: Optional[Pattern[str]] = None,
) -> Tuple[str, str]:
    """Run a program as `run_tool` does, and return its stderr, too. `given` replaces the program's environment.

    If its stdout contains `done`, it may have done what it was asked, whatever its exit code says.

    If the program has not answered after a few seconds, `find_trouble` is called. It returns why waiting is useless, or
    None.

    Returns:
        The program's stdout and stderr. Some sites' wrappers lose the exit code of an error, so stderr matters.
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
            talk.end(with_group=not inherit)  # a program under a lock of ours keeps running, and keeps the lock
            words = "%s did not answer within %.0f s" % (argv[0], timeout_s if trouble is None else first_s)
            raise EngineError(words + ("; %s" % trouble if trouble else ""), late=True)
        if talk.is_endless:
            talk.end(with_group=not inherit)
            raise EngineError("%s printed more than %d MB" % (argv[0], exchange.LIMIT >> 20))
    if child.returncode:
        words = (talk.err + b"\n" + talk.out).decode("utf-8", "replace").strip()
        # A controller that stopped answering in the middle may still have done what it was asked, and so may a program
        # that was killed while it waited for the controller's answer.
        was_killed = child.returncode < 0 or child.returncode in _KILLED
        is_done = done is not None and done.search(talk.out.decode("utf-8", "replace")) is not None
        refused = not (was_killed or is_done or _IN_DOUBT.search(words))
        raise EngineError("%s: %s" % (argv[0], words[-1500:] or "exit code %d" % child.returncode), refused=refused)
    return talk.out.decode("utf-8", "replace"), talk.err.decode("utf-8", "replace")


def as_agent_error(error: EngineError) -> AgentError:
    hint = "check its `scheduler:` and `setup:` in hosts.yaml" if error.missing else None
    return AgentError("scheduler", error.message, hint)


def empty_counts(named: Dict[str, Any]) -> Dict[str, Any]:
    """Return the counts of a partition or a worker, all zero."""
    return dict(named, nodes=0, cpus=0, cpus_free=0, gpus=0, gpus_free=0)


def count_words(words: Sequence[str]) -> Dict[str, int]:
    found: Dict[str, int] = {}
    for word in words:
        found[word] = found.get(word, 0) + 1
    return found


def allotted_gpus(environment: Dict[str, str]) -> List[str]:
    """List the GPUs that a batch system gave a job, as it names them: indexes, UUIDs, or `CUDA0`."""
    value = environment.get("CUDA_VISIBLE_DEVICES") or environment.get("_CONDOR_AssignedGPUs") or ""
    found = [word.strip() for word in value.split(",")]
    return [word for word in found if word and word not in ("NoDevFiles", "NONE", "-1", "10000")]


def _short(text: Optional[str], limit: int) -> Optional[str]:
    return text[:limit] if text else None
