"""Every file name below a host's root, and the checks that keep names sent by home inside it."""

import errno
import os
import re
import stat
from typing import List, Optional

from armada_agent.errors import AgentError

_RUN_ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
ANNOUNCED = ".new-"
ASIDE = ".aside"
"""The folder in which a wipe sets the runs aside before it decides whether they are deleted."""


def is_run_id(name: str) -> bool:
    return _RUN_ID.fullmatch(name) is not None


def checked_run_id(run_id: object) -> str:
    if not isinstance(run_id, str) or not is_run_id(run_id):
        raise AgentError("bad_request", "%.100r is not a run id" % (run_id,))
    return run_id


def checked_digest(digest: object, what: str = "digest") -> str:
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise AgentError("bad_request", "%.100r is not a %s" % (digest, what))
    return digest


class RunPaths:
    """The paths of one run's files.

    Args:
        root: The root.
        run_id: The run.
        runs: The folder of runs, if that is set aside.
    """

    def __init__(self, root: str, run_id: object, runs: Optional[str] = None) -> None:
        self.root = root
        self.run_id = checked_run_id(run_id)
        self.folder = os.path.join(runs or runs_folder(root), self.run_id)
        self.spec = self._file("spec.json")
        self.state = self._file("state.json")
        self.events = self._file("events.jsonl")
        self.metrics = self._file("metrics.jsonl")
        self.telemetry = self._file("telemetry.jsonl")
        self.output = self._file("output.log")
        self.secrets = self._file("secrets.env")
        self.variables = self._file("variables.json")
        self.stop = self._file("stop.json")
        self.work = self._file("work")
        self.outbox = self._file("outbox")
        self.left = self._file("left")
        self.homes = self._file("homes")
        self.container = self._file("container.json")
        self.container_variables = self._file("container.env")
        self.outbox_lock = self._file(".outbox.lock")
        self.given_up = self._file("given-up.json")
        self.checkpoint_watch = self._file("harvest.json")
        self.checkpoint_watch_lock = self._file(".harvest.lock")
        self.metrics_watch = self._file("curves.json")
        self.wandb = self._file("wandb")
        self.reported = self._file("reported.jsonl")
        self.library = self._file("lib")
        self.supervisor_log = self._file("supervisor.log")
        self.scheduler_log = self._file("scheduler.log")
        self.supervisor_lock = self._file(".supervisor.lock")
        self.submit_lock = self._file(".submit.lock")
        self.spent = self._file("spent.json")

    def _file(self, name: str) -> str:
        return "%s/%s" % (self.folder, name)

    def is_there(self) -> bool:
        """Return whether the run's folder is there. It is missing only where the folder of runs was read and lacks it.

        Raises:
            OSError: It cannot be seen, for example because a disk is away or refuses, or because it is set aside.
        """
        if self._is_seen():
            return True
        try:
            with os.scandir(runs_folder(self.root)) as entries:
                next(entries, None)
        except FileNotFoundError:
            _refuse_broken_link(runs_folder(self.root))
        for aside in find_aside(self.root):
            if os.path.lexists(os.path.join(aside, self.run_id)):
                message = "set aside by `armada hosts release --wipe`, which has not decided yet whether it is deleted"
                raise OSError(errno.EBUSY, message, aside)
        return self._is_seen()  # it may have been put back just now

    def _is_seen(self) -> bool:
        try:
            return stat.S_ISDIR(os.stat(self.folder).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            _refuse_broken_link(self.folder)
        return False

    def submission(self, number: int, name: str = "") -> str:
        return "%s/submissions/%d/%s" % (self.folder, number, name)

    def attempt(self, number: int, name: str = "") -> str:
        return "%s/attempts/%d/%s" % (self.folder, number, name)

    def submissions(self) -> List[int]:
        return _numbers(self._file("submissions"))

    def newest_submission(self) -> Optional[int]:
        """Return the number of the newest submission that was claimed; without one, of the newest folder.

        Whoever was ended between making a submission's folder and its claim submitted nothing: the former one counts.
        """
        numbers = self.submissions()
        return next((number for number in reversed(numbers) if self.is_claimed(number)), newest(numbers))

    def refused_after(self, number: int) -> Optional[int]:
        """Return the newest submission after `number` that its batch system refused, unless it was claimed again."""
        later = [each for each in self.submissions() if each > number and not self.is_claimed(each)]
        return newest([each for each in later if os.path.exists(self.submission(each, "refused.json"))])

    def is_claimed(self, number: int) -> bool:
        """Return whether a submission was claimed. Its job's record says so, too, where somebody deleted the claim."""
        return any(os.path.exists(self.submission(number, name)) for name in ("claim.json", "job.json"))

    def attempts(self) -> List[int]:
        return _numbers(self._file("attempts"))

    def heartbeats(self) -> List[str]:
        return [self._file(name) for name in list_folder(self.folder) if re.fullmatch(r"heartbeat-\d+\.json", name)]

    def checkpoint(self, digest: str, name: str = "") -> str:
        return os.path.join(self.outbox, digest, name)

    def home(self, home_id: str) -> str:
        return os.path.join(self.homes, home_id)

    def acknowledgement(self, digest: str) -> str:
        return os.path.join(self.outbox, digest + ".ack")

    def checkpoints(self) -> List[str]:
        """List the digests of finished checkpoints."""
        return [name for name in _list_own(self.outbox) if _DIGEST.fullmatch(name)]

    def announced(self) -> List[str]:
        """List the folders of checkpoints that are announced but not yet hashed."""
        found = [os.path.join(self.outbox, name) for name in _list_own(self.outbox) if name.startswith(ANNOUNCED)]
        return [folder for folder in found if not os.path.islink(folder)]  # hashing also changes the folder

    def require(self) -> None:
        """Raise an error if the plan of the run is not on this host: for whatever starts something by it.

        Raises:
            AgentError: `not_found`.
        """
        if not os.path.isfile(self.spec):
            raise AgentError("not_found", "no run %s under %s" % (self.run_id, self.root))


class SweepPaths:
    """The paths of one sweep's files: which runs are its cells on this host."""

    def __init__(self, root: str, sweep: object) -> None:
        self.root = root
        self.sweep = checked_run_id(sweep)
        self.folder = os.path.join(root, "sweeps", self.sweep)
        self.cells = os.path.join(self.folder, "cells.json")
        self.log = os.path.join(self.folder, "dispatcher.log")
        self.edit_lock = os.path.join(self.folder, ".edit.lock")
        self.dispatcher_lock = os.path.join(self.folder, ".dispatcher.lock")
        self.arrays_lock = os.path.join(self.folder, ".arrays.lock")
        self._arrays = os.path.join(self.folder, "arrays")

    def arrays(self) -> List[int]:
        """List the numbers of the arrays in which a batch system got cells, or is to get them."""
        return _numbers(self._arrays)

    def array(self, number: int, name: str = "") -> str:
        return os.path.join(self._arrays, str(number), name)


def runs_folder(root: str) -> str:
    return os.path.join(root, "runs")


def find_aside(root: str) -> List[str]:
    """List the folders of runs that are set aside: in the root or, if the folder of runs is a mount point, in that."""
    places = (os.path.join(root, ASIDE), os.path.join(runs_folder(root), ASIDE))
    return [os.path.join(place, name) for place in places for name in list_folder(place)]


def locks_folder(root: str) -> str:
    return os.path.join(root, "locks")


def list_folder(path: str) -> List[str]:
    """List the names in a folder in sorted order. A missing folder gives an empty list."""
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []


def newest(numbers: List[int]) -> Optional[int]:
    return numbers[-1] if numbers else None


def _numbers(folder: str) -> List[int]:
    found = sorted(int(name) for name in _list_own(folder) if _NUMBER.fullmatch(name))
    if found:
        require_own(os.path.join(folder, str(found[-1])))  # the agent writes to the newest
    return found


def _list_own(folder: str) -> List[str]:
    require_own(folder)
    return list_folder(folder)


def require_own(folder: str) -> None:
    """Refuse a folder of a run that is a link: writing and deleting there would change somebody else's files.

    Raises:
        OSError: The folder is a link.
    """
    if os.path.islink(folder):
        raise OSError(errno.ELOOP, "it is a link, and armada does not follow links there", folder)


def list_runs_folder(root: str, runs: Optional[str] = None) -> List[str]:
    """List the names in the folder of runs, or in `runs` if it is set aside, in sorted order. Without such a folder, there is none.

    Raises:
        OSError: The folder cannot be read, or is a link to a folder that is not there.
    """
    folder = runs or runs_folder(root)
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        _refuse_broken_link(folder)
        return []


def list_run_ids(root: str, runs: Optional[str] = None) -> List[str]:
    """List the ids of the runs below a root, or in `runs` if they are set aside, also of a run whose folder cannot be seen.

    Raises:
        OSError: As `list_runs_folder`.
    """
    found = []
    for name in list_runs_folder(root, runs):
        try:
            found.append(checked_run_id(name))
        except AgentError:
            continue  # hidden leftovers, and folders that users created
    return [name for name in found if _may_be_folder(os.path.join(runs or runs_folder(root), name))]


def _may_be_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except FileNotFoundError:
        return os.path.islink(path)  # else it was deleted just now
    except OSError:
        return True


def _refuse_broken_link(path: str) -> None:
    """Raise an error if a path that was not found is a link: what it leads to may be on a disk that is away.

    Raises:
        OSError: It is a link.
    """
    if os.path.islink(path):
        raise OSError(errno.ENXIO, "it is a link to what is not there: a file system may not be mounted", path)
