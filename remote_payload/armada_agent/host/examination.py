"""Examine a host for `armada doctor`: settings that break other programs, and leftover files."""

import fcntl
import getpass
import os
import pwd
import re
import subprocess
import time
from typing import Any, Dict, List, Optional, Tuple

from armada_agent.foundation import files, parameters, process_identity
from armada_agent.foundation.session import Call
from armada_agent.host import mounts
from armada_agent.paths import list_folder

_VARIABLES = (
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "VIRTUAL_ENV"),
    "ARMADA_LEFT_OUT",
)
_LONGEST = 1000
_LEFT_S = 86400.0
_STAGED_IN = ("", "agent", "code", "data", "models", "tools", "runs")
_SSHD = ("/etc/ssh/sshd_config.d", "/etc/ssh/sshd_config")
_LOGIND = ("/etc/systemd/logind.conf", "/etc/systemd/logind.conf.d", "/run/systemd/logind.conf.d")
MOST_PROBE_BYTES = 16 * 1024 * 1024
_NOISE = os.urandom(1024 * 1024)  # random, so that a compressing link does not look faster than it is


def probe(call: Call, params: Dict[str, Any]) -> None:
    """Answer with the time, the number of bytes received and, after that line, as many raw bytes as the request asks for."""
    size = min(MOST_PROBE_BYTES, parameters.integer(params, "send_bytes"))
    received = len(parameters.text(params, "padding"))

    def pour(output: int) -> None:
        left = size
        while left:
            left -= os.write(output, _NOISE[:left])

    call.answer({"time": time.time(), "received_bytes": received, "size_bytes": size}, pour)


def examine(call: Call, _params: Dict[str, Any]) -> Dict[str, Any]:
    """Check everything that is known to break hosts. Change nothing except files that are created and deleted at once."""
    home = os.path.expanduser("~")
    max_sessions, max_startups = parse_sshd(_read_all(_SSHD))
    return {
        "shell": _shell(),
        "umask": "%04o" % call.session.login_umask,
        "variables": {name: os.environ[name][:_LONGEST] for name in _VARIABLES if os.environ.get(name)},
        "root": _folder(call.root, try_it=True),
        "home": _folder(home),
        "tmp": _folder("/tmp"),  # noqa: S108  # only examined
        "quota": _quota(),
        "max_sessions": max_sessions,
        "max_startups": max_startups,
        "ends_processes_at_logout": parse_logind(_read_all(_LOGIND)) and not _lingers(),
        "leftovers": _leftovers(call.root),
        "identity": process_identity.identify(),
    }


def parse_sshd(text: str) -> Tuple[Optional[int], Optional[str]]:
    """Parse MaxSessions and MaxStartups of sshd_config(5): the first value counts, up to the first Match."""
    found: Dict[str, str] = {}
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words and words[0].lower() == "match":
            break
        if len(words) > 1:
            found.setdefault(words[0].lower(), words[1])
    sessions = found.get("maxsessions", "")
    startups = found.get("maxstartups", "")
    return (
        int(sessions) if sessions.isdigit() else None,
        startups if re.fullmatch(r"\d{1,6}(:\d{1,3}:\d{1,6})?", startups) else None,
    )


def parse_logind(text: str) -> bool:
    """Return whether logind.conf(5) kills a user's processes when the last session ends. The last of several values counts."""
    words = re.findall(r"(?mi)^\s*KillUserProcesses\s*=\s*(\S+)", text)
    return bool(words) and words[-1].lower() in ("yes", "true", "1", "on")


def _folder(path: str, try_it: bool = False) -> Dict[str, Any]:
    mount = mounts.find(path)
    found: Dict[str, Any] = {
        "path": path,
        "kind": mount.kind[:60] if mount else None,
        "is_shared": mounts.is_shared(mount),
        "options": [option for option in ("ro", "noexec", "nosuid") if mount and option in mount.options],
        "is_writable": os.access(path, os.W_OK),
        "free_bytes": None,
        "total_bytes": None,
        "free_inodes": None,
        "total_inodes": None,
        "problem": None,
        "has_locks": None,
    }
    try:
        status = os.statvfs(path)
    except OSError as error:
        return dict(found, problem=str(error)[:_LONGEST])
    found.update(
        free_bytes=status.f_bavail * status.f_frsize,
        total_bytes=status.f_blocks * status.f_frsize,
        free_inodes=status.f_favail if status.f_files else None,
        total_inodes=status.f_files or None,
    )
    return dict(found, **_try(path)) if try_it else found


def _try(folder: str) -> Dict[str, Any]:
    """Write, lock and execute a file in a folder: mount options and quotas do not show everything."""
    path = files.temporary_name(os.path.join(folder, "doctor"))
    try:
        with open(path, "xb") as stream:
            stream.write(b"#!/bin/sh\nexit 0\n" + b"#" * 65536)
            os.fsync(stream.fileno())
            os.fchmod(stream.fileno(), 0o700)
            has_locks = _locks(path, stream.fileno())
        try:
            subprocess.check_call(
                [path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        except (OSError, subprocess.CalledProcessError) as error:
            return {"problem": "programs there do not run: %s" % str(error)[:_LONGEST], "has_locks": has_locks}
        return {"problem": None, "has_locks": has_locks}
    except OSError as error:
        return {"problem": "files cannot be written there: %s" % str(error)[:_LONGEST]}
    finally:
        files.remove(path)


def _locks(path: str, held: int) -> bool:
    """Return whether a lock excludes another process."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return files.is_locked(path)


def _quota() -> Optional[str]:
    """Return the output of quota(1), if it is installed and reports a limit."""
    try:
        said = subprocess.check_output(
            ["quota", "-w", "-s"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return said.decode("utf-8", "replace").strip()[-2000:] or None


def _leftovers(root: str) -> Dict[str, Any]:
    """Count temporary files older than a day that interrupted transfers and killed processes left."""
    found: List[str] = []
    size = 0
    for below in _STAGED_IN:
        folder = os.path.join(root, below) if below else root
        for name in list_folder(folder):
            path = os.path.join(folder, name)
            if is_temporary(name) and _age(path) > _LEFT_S:
                found.append(os.path.join(below, name))
                size += _size(path)
    return {"count": len(found), "size_bytes": size, "names": [name[:200] for name in found[:5]]}


def is_temporary(name: str) -> bool:
    return name.startswith((".new-", ".part-", ".trash-")) or name.endswith((".tmp", ".part"))


def _age(path: str) -> float:
    try:
        return time.time() - os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _size(path: str) -> int:
    total = 0
    for parent, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue  # deleted meanwhile
    try:
        return total or os.lstat(path).st_size
    except OSError:
        return total


def _shell() -> Optional[str]:
    try:
        return pwd.getpwuid(os.getuid()).pw_shell[:200] or None
    except KeyError:
        return None  # a container's user may have no entry


def _lingers() -> bool:
    try:
        return os.path.exists(os.path.join("/var/lib/systemd/linger", getpass.getuser()))
    except (KeyError, OSError):
        return False


def _read_all(places: Tuple[str, ...]) -> str:
    texts = []
    for place in places:
        for path in [os.path.join(place, name) for name in list_folder(place)] or [place]:
            try:
                with open(path, encoding="utf-8", errors="replace") as stream:
                    texts.append(stream.read(256 * 1024))
            except OSError:
                continue  # missing, or readable only by root
    return "\n".join(texts)
