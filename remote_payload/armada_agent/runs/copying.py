"""Send files to the user's machine, or receive files from it: the host's side of `armada cp`.

First, a JSON line behind a marker announces what follows, or the error. Then a tar stream of regular files and folders
follows.
"""

import json
import os
import shutil
import signal
import stat
import sys
import tarfile
from typing import Any, BinaryIO, Dict, Iterator, List, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import parameters
from armada_agent.paths import RunPaths

_SHOWN = 5


def send(asked: Dict[str, Any]) -> int:
    """Write a file or folder to standard output as a tar stream.

    Args:
        asked: `root`, `run_id` (None: relative to the user's home folder), `path`, `mark`.

    Returns:
        The exit code.
    """
    out = sys.stdout.buffer
    try:
        path = _resolve(asked)
        if not os.path.exists(path):
            raise AgentError("not_found", "there is no %s on this host" % path)
        if not os.path.isdir(path) and not os.path.isfile(path):
            raise AgentError("bad_request", "%s on this host is neither a file nor a folder" % path)
        name = os.path.basename(path.rstrip("/")) or "root"
        members, left = _list_files(path, name)
        sizes = [os.path.getsize(place) for place, _ in members if not os.path.isdir(place)]
    except (AgentError, OSError) as error:
        _say(out, asked, {"error": str(error)})
        return 1
    said = {"name": name, "is_folder": os.path.isdir(path), "files": len(sizes), "size_bytes": sum(sizes)}
    _say(out, asked, dict(said, left=left[:_SHOWN], left_count=len(left)))
    place = path
    try:
        with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT, dereference=True) as archive:
            for place, member in members:
                archive.add(place, arcname=member, recursive=False)
        out.flush()
    except OSError as error:
        sys.stderr.write("%s changed while it was copied: %s\n" % (place, error.strerror or error))
        return 1
    return 0


def take(asked: Dict[str, Any]) -> int:
    """Read a tar stream from standard input into a file or folder. Existing files are replaced one by one.

    Args:
        asked: As for `send`, and `name`, `is_folder` and the number of `files` to receive.

    Returns:
        The exit code.
    """
    out = sys.stdout.buffer
    try:
        target = _choose_target(_resolve(asked), parameters.text(asked, "name"), asked.get("is_folder") is True)
    except (AgentError, OSError) as error:
        _say(out, asked, {"error": str(error)})
        return 1
    _say(out, asked, {"target": target})
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # what arrived is removed below
    part = os.path.join(os.path.dirname(target), ".%s.armada-%s" % (os.path.basename(target)[:80], asked["mark"][:8]))
    try:
        os.mkdir(part, 0o700)
        try:
            count = _extract(sys.stdin.buffer, part)
            if count != asked.get("files"):
                raise AgentError("io", "only %d of %s files arrived" % (count, asked.get("files")))
            os.rename(os.path.join(part, parameters.text(asked, "name")), target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except (AgentError, OSError, tarfile.TarError, EOFError) as error:
        _say(out, asked, {"error": "%s: %s" % (target, error)})
        return 1
    _say(out, asked, {"files": count})
    return 0


def _resolve(asked: Dict[str, Any]) -> str:
    """Return the absolute path of the user's path, which is relative to the run's working folder or the user's home folder."""
    base = os.path.expanduser("~")
    if asked.get("run_id") is not None:
        paths = RunPaths(asked["root"], asked["run_id"])
        paths.require()
        base = paths.work
    path = parameters.text(asked, "path")
    ends = "/" if path.endswith("/") else ""
    return os.path.normpath(os.path.join(base, os.path.expanduser(path))) + ends


def _choose_target(path: str, name: str, is_folder: bool) -> str:
    if "/" in name or name in ("", ".", ".."):
        raise AgentError("bad_request", "%.100r is not a file's name" % name)
    target = os.path.join(path, name) if os.path.isdir(path) else path
    if target.endswith("/"):
        raise AgentError("not_found", "there is no folder %s on this host" % path.rstrip("/"))
    if not os.path.isdir(os.path.dirname(target)):
        raise AgentError("not_found", "there is no folder %s on this host" % os.path.dirname(target))
    if os.path.isdir(target) or (is_folder and os.path.lexists(target)):
        raise AgentError("conflict", "%s is there already; name another place, or remove it" % target)
    if os.path.exists(target) and not os.path.isfile(target):
        raise AgentError("conflict", "%s is neither a file nor a folder; name another place" % target)
    return target


def _list_files(path: str, name: str) -> Tuple[List[Tuple[str, str]], List[str]]:
    """List folders and files with their names in the stream, and what cannot be sent: links to folders, devices, broken links."""
    members = [(path.rstrip("/") or "/", name)]
    left: List[str] = []
    if not os.path.isdir(path):
        return members, left
    for parent, folders, names in os.walk(path, onerror=_raise):
        for each in sorted(folders) + sorted(names):
            place = os.path.join(parent, each)
            if os.path.islink(place) and not os.path.isfile(place):
                left.append(os.path.relpath(place, path))
            elif os.path.isdir(place) or stat.S_ISREG(os.stat(place).st_mode):
                members.append((place, os.path.join(name, os.path.relpath(place, path))))
            else:
                left.append(os.path.relpath(place, path))
        folders[:] = sorted(each for each in folders if not os.path.islink(os.path.join(parent, each)))
    return members, left


def _raise(error: OSError) -> None:
    raise error


def _extract(stream: BinaryIO, folder: str) -> int:
    """Extract regular files and folders below a new folder. Return the number of files."""
    count = 0
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in _checked(archive):
            place = os.path.join(folder, *member.name.split("/"))
            if member.isdir():
                os.makedirs(place, mode=0o755, exist_ok=True)
                os.chmod(place, member.mode & 0o755 | 0o700)
                continue
            content = archive.extractfile(member)
            if content is None:
                raise AgentError("io", "%s has no content" % member.name)
            with open(place, "xb") as written:
                shutil.copyfileobj(content, written, 1024 * 1024)
                written.flush()
                os.fsync(written.fileno())
            os.chmod(place, member.mode & 0o755 | 0o600)  # a private file stays private
            os.utime(place, (member.mtime, member.mtime))
            count += 1
    return count


def _checked(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for member in archive:
        parts = member.name.split("/")
        if not (member.isfile() or member.isdir()) or any(part in ("", ".", "..") for part in parts):
            raise AgentError("io", "%.200r cannot be taken" % member.name)
        yield member


def _say(out: BinaryIO, asked: Dict[str, Any], message: Dict[str, Any]) -> None:
    """Write a line that home can distinguish from the output of start-up files."""
    line = "\n@@ARMADA-CP %s %s\n" % (asked["mark"], json.dumps(message, ensure_ascii=True))
    out.write(line.encode("ascii"))
    out.flush()
