"""Find processes that the kernel killed for memory, by counters that all users can read and by its log if it is readable."""

import contextlib
import os
import re
from typing import Any, Dict, List, Optional

from armada_agent.foundation import files

_LOG = "/dev/kmsg"
_MOST_RECORDS = 100000
_EARLIER_S = 5.0  # the clocks of the log and of this process differ a little
_KILLED = re.compile(r"[Oo]ut of memory: Killed process (\d+) \(([^)]{0,64})\)(?:.*?anon-rss:(\d+)kB)?")
_COUNTER = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def count_oom_kills() -> Dict[str, Optional[int]]:
    """Count the processes killed for memory since boot, in this cgroup and on this machine; None if unknown."""
    return {"cgroup": _count(_cgroup_file()), "machine": _count("/proc/vmstat")}


def find_oom_kills(before: Any, since_s: Optional[float]) -> List[str]:
    """Return the kernel's messages about processes killed for memory since an attempt began.

    Args:
        before: The result of `count_oom_kills` when the attempt began; any other value if it was not called.
        since_s: The monotonic clock when the attempt began.

    Returns:
        The kernel's messages, newest last; empty if it killed no process.
    """
    now = count_oom_kills()
    then = before if isinstance(before, dict) else {}
    more = {name: _difference(now[name], then.get(name)) for name in now}
    if not any(more.values()):
        return []
    told = [] if since_s is None else parse_log(_read_log(), since_s - _EARLIER_S)
    if told:
        return told
    if more["cgroup"]:
        return ["%d of the processes in the job's cgroup" % more["cgroup"]]
    return ["%d of the processes on this machine while the job ran" % more["machine"]]


def parse_log(text: str, since_s: float) -> List[str]:
    """Find the kernel's messages about processes that it killed for memory, in records of /dev/kmsg after a time since boot."""
    found = []
    for line in text.splitlines():
        head, _, words = line.partition(";")
        killed = _KILLED.search(words)
        fields = head.split(",")
        if killed is None or len(fields) < 3 or not fields[2].isdigit() or int(fields[2]) / 1e6 < since_s:
            continue
        pid, name, size = killed.groups()
        held = " with %.1f GB" % (int(size) / 1e6) if size else ""
        limit = ", by the limit of its cgroup" if "cgroup" in words else ""
        found.append("process %s (%s)%s%s" % (pid, name, held, limit))
    return found


def parse_counter(text: str) -> Optional[int]:
    """Read `oom_kill` in memory.events, memory.oom_control or /proc/vmstat."""
    match = _COUNTER.search(text)
    return int(match.group(1)) if match else None


def find_cgroup(memberships: str) -> Optional[str]:
    """Return the file that counts for this process's cgroup, by /proc/self/cgroup. The older hierarchy has precedence."""
    unified = None
    for line in memberships.splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        _, controllers, path = parts
        if "memory" in controllers.split(","):
            return "/sys/fs/cgroup/memory%s/memory.oom_control" % path.rstrip("/")
        if not controllers:
            unified = "/sys/fs/cgroup%s/memory.events" % path.rstrip("/")
    return unified


def _cgroup_file() -> str:
    return find_cgroup(files.read_text("/proc/self/cgroup")) or ""


def _count(path: str) -> Optional[int]:
    return parse_counter(files.read_text(path)) if path else None


def _difference(now: Optional[int], then: Any) -> int:
    return max(0, now - then) if now is not None and isinstance(then, int) else 0


def _read_log() -> str:
    """Read the kernel's log; an empty string if only root may read it."""
    try:
        descriptor = os.open(_LOG, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    records = []
    try:
        with contextlib.suppress(OSError):  # until the end of the log, or a missing permission
            for _ in range(_MOST_RECORDS):
                with contextlib.suppress(BrokenPipeError):  # the kernel overwrote the next record before it was read
                    records.append(os.read(descriptor, 16384))
    finally:
        os.close(descriptor)
    return b"".join(records).decode("utf-8", "replace")
