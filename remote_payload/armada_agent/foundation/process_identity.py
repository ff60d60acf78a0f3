"""Identify a process by machine, boot and pid, because pids are reused and containers share boot ids."""

import os
import re
import socket
import time
from typing import Any, Dict, List, Optional, Tuple

_HOST_KEYS = ("boot_id", "pid_namespace", "init_start")
_host: Dict[str, str] = {}


class Stat:
    """The fields of /proc/<pid>/stat that identify a process."""

    __slots__ = ("parent", "pid", "session", "start_time", "state")

    def __init__(self, pid: int, state: str, parent: int, session: int, start_time: str) -> None:
        self.pid = pid
        self.state = state
        self.parent = parent
        self.session = session
        self.start_time = start_time

    @property
    def is_alive(self) -> bool:
        """Whether the process runs. A zombie does not: if a container's first process reaps no children, zombies stay for ever."""
        return self.state not in "ZXx"

    @property
    def is_suspended(self) -> bool:
        """Whether SIGSTOP or a terminal stopped the process. A debugger's stop is a different state."""
        return self.state == "T"


def parse_stat(text: str) -> Stat:
    """Parse /proc/<pid>/stat, whose second field may itself contain spaces and brackets."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return Stat(int(head.split(" ", 1)[0]), fields[0], int(fields[1]), int(fields[3]), fields[19])


def read_stat(pid: int) -> Optional[Stat]:
    """Read a process's stat; return None if the process is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stream:
            return parse_stat(stream.read().decode("utf-8", "replace"))
    except (OSError, ValueError, IndexError):
        return None


def current_host() -> Dict[str, str]:
    """Describe the current boot of this machine or container."""
    if not _host:
        first = read_stat(1)  # None if /proc hides other users' processes; then boot id and namespace must do
        _host.update(
            hostname=socket.gethostname(),
            boot_id=_read("/proc/sys/kernel/random/boot_id"),
            pid_namespace=_pid_namespace(),
            init_start=first.start_time if first else "",
        )
    return dict(_host)


def identify(pid: Optional[int] = None) -> Dict[str, Any]:
    """Describe a process of this host so that `judge` can identify it later. The default is this process."""
    pid = os.getpid() if pid is None else pid
    stat = read_stat(pid)
    identity: Dict[str, Any] = dict(current_host())
    identity.update(pid=pid, start_time=stat.start_time if stat else "")
    return identity


def moment() -> Dict[str, Any]:
    """Return a time that does not depend on clock changes: seconds since boot, and the boot's identity."""
    host = current_host()
    return {"boot": ":".join(host[key] for key in _HOST_KEYS), "seconds": time.monotonic()}


def compare(recorded: Any) -> str:
    """Compare the place of a recorded process with the machine on which this process runs.

    Returns:
        `here`: this boot of this machine and this container, whatever their names are now.
        `before`: an earlier boot of this machine, or an earlier start of a container of the same name.
        `elsewhere`: another host name. It may be another machine that shares the file system, or this machine, renamed
            after a
        reboot.
        `damaged`: the record is unreadable.
    """
    if not is_identity(recorded):
        return "damaged"
    here = current_host()
    if here["boot_id"] and all(recorded[key] == here[key] for key in _HOST_KEYS):
        return "here"  # the machine was renamed while it was running
    if recorded["hostname"] != here["hostname"]:
        return "elsewhere"
    return "here" if all(recorded[key] == here[key] for key in _HOST_KEYS) else "before"


def judge(recorded: Any) -> str:
    """Decide whether a recorded process is alive.

    Returns:
        `alive`, `dead`, or `unknown`: the record is damaged, or may come from another machine that shares the file
        system.
    """
    place = compare(recorded)
    if place != "here":
        return "dead" if place == "before" else "unknown"
    stat = read_stat(recorded["pid"])
    return "alive" if stat and stat.is_alive and stat.start_time == recorded["start_time"] else "dead"


def was_rebooted(recorded: Any) -> bool:
    """Return whether this machine or container has restarted since a process was recorded on it."""
    return compare(recorded) == "before"


def is_identity(value: Any) -> bool:
    keys: Tuple[str, ...] = ("hostname", "start_time") + _HOST_KEYS
    return (
        isinstance(value, dict)
        and isinstance(value.get("pid"), int)
        and all(isinstance(value.get(key), str) for key in keys)
    )


def age_s(pid: Optional[int] = None) -> float:
    """Return the seconds since a process was started, across every exec. The default is this process; 0 if /proc is unreadable."""
    stat = read_stat(os.getpid() if pid is None else pid)
    try:
        uptime_s = float(_read("/proc/uptime").split()[0])
        return max(0.0, uptime_s - int(stat.start_time) / os.sysconf("SC_CLK_TCK")) if stat else 0.0
    except (ValueError, IndexError, OSError):
        return 0.0


def all_pids() -> List[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _pid_namespace() -> str:
    try:
        return "".join(re.findall(r"\d+", os.readlink("/proc/self/ns/pid")))
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        with open(path) as stream:
            return stream.read().strip()
    except OSError:
        return ""
