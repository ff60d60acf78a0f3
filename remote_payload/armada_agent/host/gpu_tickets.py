"""Assign GPUs in order: each waiting supervisor holds a locked ticket, and each GPU has a lock."""

import contextlib
import fcntl
import os
import re
from typing import Any, Dict, Iterable, List, Optional, Set

from armada_agent.foundation import files
from armada_agent.paths import list_folder, locks_folder

_TICKET = re.compile(r"(\d{12})-[a-z0-9-]+")
_UUID = re.compile(r"[A-Za-z0-9-]{1,80}")


class Ticket:
    """A place in the host's queue for GPUs. It is lost when its process ends."""

    def __init__(self, root: str, run_id: str) -> None:
        locks = locks_folder(root)
        self._folder = os.path.join(locks, "tickets")
        self._order = os.path.join(locks, "tickets.lock")
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        with files.locked(self._order):
            last = max((int(name[:12]) for name in self._names()), default=0)
            self._name = "%012d-%s" % (last + 1, run_id)
            self._path = os.path.join(self._folder, self._name)
            self._lock = files.lock(self._path, timeout_s=0)  # no other process knows the name yet

    def position(self) -> int:
        """Return the position in the queue, from 1. Tickets of dead supervisors do not count."""
        with files.locked(self._order):
            ahead = [name for name in self._names() if name < self._name]
            return 1 + sum(1 for name in ahead if not self._drop_if_abandoned(os.path.join(self._folder, name)))

    def close(self) -> None:
        with files.locked(self._order):
            files.remove(self._path)
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _names(self) -> List[str]:
        return [name for name in list_folder(self._folder) if _TICKET.fullmatch(name)]

    def _drop_if_abandoned(self, path: str) -> bool:
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        files.remove(path)
        return True


def waiting(root: str) -> List[Dict[str, Any]]:
    """List the waiting supervisors, the next one first, without tickets of dead supervisors."""
    locks = locks_folder(root)
    folder = os.path.join(locks, "tickets")
    if not os.path.isdir(folder):
        return []
    found = []
    # A new ticket is locked under this lock, too. Without it, a ticket could look abandoned between its creation and
    # its locking.
    with files.locked(os.path.join(locks, "tickets.lock")):
        for name in list_folder(folder):
            path = os.path.join(folder, name)
            if _TICKET.fullmatch(name) and files.is_locked(path):
                with contextlib.suppress(OSError):
                    found.append({"run_id": name[13:], "since": os.stat(path).st_mtime})
    return found


class Holding:
    """GPUs that this process holds until it releases them or ends."""

    def __init__(self, gpus: List[Dict[str, Any]], locks: List[int]) -> None:
        self.gpus = gpus
        self._locks = locks

    def release(self) -> None:
        while self._locks:
            os.close(self._locks.pop())


def take(root: str, run_id: str, count: int, gpus: Iterable[Dict[str, Any]], occupied: Set[str]) -> Optional[Holding]:
    """Take `count` free GPUs, or none.

    Args:
        root: The host's root folder.
        run_id: Written into the locks, for users who inspect them.
        count: The number of GPUs.
        gpus: All of the host's GPUs, as `index` and `uuid`.
        occupied: uuids of GPUs on which other users' or armada's processes run.

    Returns:
        The held GPUs; None if fewer than `count` are free.
    """
    locks = locks_folder(root)
    os.makedirs(locks, mode=0o700, exist_ok=True)
    taken: List[Dict[str, Any]] = []
    held: List[int] = []
    for gpu in gpus:
        if len(taken) == count:
            break
        if gpu["uuid"] in occupied or not _UUID.fullmatch(gpu["uuid"]):
            continue
        lock = files.lock(os.path.join(locks, "gpu-%s.lock" % gpu["uuid"]), timeout_s=0)
        if lock is not None:
            taken.append({"index": gpu["index"], "uuid": gpu["uuid"]})
            held.append(lock)
    holding = Holding(taken, held)
    if len(taken) < count:
        holding.release()
        return None
    for lock in held:
        with contextlib.suppress(OSError):  # the name is only information; a full disk must not cost the GPUs
            os.ftruncate(lock, 0)
            os.pwrite(lock, run_id.encode("ascii") + b"\n", 0)
    return holding
