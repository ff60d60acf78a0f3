"""Refuse files and folders that another user could have replaced before the agent executes them.

The rules are those of OpenSSH's StrictModes, less strict where clusters need it: docs/how-to/hosts.md has them as a
table. The bootstrap sends this file to the host as text and applies it before any agent runs there. So it must work
alone: it imports no other module of armada, and its names do not clash with the bootstrap's.
"""

import os
import shlex
import stat
import struct
from typing import Iterable, Iterator, List, Optional, Set, Tuple

TRUSTED = (
    "agent",
    "tools",
    "code",
    "data",
    "models",
    "envs",
    "runs",
    "sweeps",
    "prepared",
    "schedulers",
    "locks",
    "root.json",
    "runs.json",
)
"""The names that armada uses below its root. Other names belong to the user and are never checked."""

_MOST_LINKS = 40  # the kernel's own limit
_EVERYBODY, _SHARED = "everybody", "group"
_ACL_USER, _ACL_OWNING_GROUP, _ACL_GROUP, _ACL_MASK = 0x02, 0x04, 0x08, 0x10  # linux/posix_acl_xattr.h


class UntrustedError(Exception):
    """Another user can change a file or folder on the path to a file that the agent executes.

    Args:
        message: The path, its owner and mode, and the risk.
        hint: A command to run on the host, or the advice to use another root.
    """

    def __init__(self, message: str, hint: str) -> None:
        Exception.__init__(self, message)
        self.hint = hint


def require_way(root: str) -> List[str]:
    """Check a root, every folder above it, and every link on the path. Missing ones are skipped.

    Returns:
        A warning for each folder above the root that is unsafe but not refused.

    Raises:
        UntrustedError: The root, or a link in its place, may belong to another user.
    """
    places, is_whole = _follow(root)
    ours = _our_ids(places)
    doubts: List[str] = []
    for number, (path, status) in enumerate(places):
        is_root = is_whole and number == len(places) - 1
        if stat.S_ISLNK(status.st_mode):
            _require_owner(path, status, ours, "its owner decides where the root is", _ELSEWHERE)
        elif is_root:
            _require_closed(path, status, ours, _ELSEWHERE)
        else:
            doubts += _judge_parent(path, status, ours)
    return doubts


def require_below(root: str, names: Iterable[str] = TRUSTED, deep: bool = False) -> None:
    """Check entries of a root by name. Missing ones are skipped.

    Args:
        root: A root that `require_way` accepted.
        names: Paths below the root.
        deep: Also check the entries of these folders.

    Raises:
        UntrustedError: An entry belongs to another user, or another user can write to it.
    """
    ours = _our_ids(_follow(root)[0])
    for name in names:
        path = os.path.join(root, name)
        if _require_entry(path, ours) and deep:
            for entry in os.listdir(path):
                _require_entry(os.path.join(path, entry), ours)


def require_tree(top: str) -> None:
    """Check every file and folder below `top`.

    If no other user may enter a folder, the modes below it do not matter: other users cannot reach the files.

    Raises:
        UntrustedError: As `require_below`.
    """
    below = (os.path.join(parent, name) for parent, folders, names in os.walk(top) for name in folders + names)
    _require_folder(top, below)


def require_inside(top: str, names: Iterable[str]) -> None:
    """Check some folders below `top` and their entries, as `require_tree` checks all of them.

    Of a lock file directly in `top` only the owner counts: uv makes `.lock` with mode 0666, and nobody executes it.

    Raises:
        UntrustedError: As `require_below`.
    """
    lock = os.path.join(top, ".lock")
    folders = [path for path in (os.path.normpath(os.path.join(top, name)) for name in names) if os.path.isdir(path)]
    below = [
        path for folder in folders for path in [folder] + [os.path.join(folder, name) for name in os.listdir(folder)]
    ]
    _require_folder(top, (path for path in below if path != lock or not _is_own_file(path)))


def _is_own_file(path: str) -> bool:
    status = os.lstat(path)
    return stat.S_ISREG(status.st_mode) and status.st_uid in (0, os.geteuid())


_ELSEWHERE = "choose your own folder: `root:` of this host in hosts.yaml, or `armada hosts add --root PATH`"
_MEANING = "they could change the programs that armada runs"


def _removal(path: str) -> str:
    return "if it is not yours, remove it: rm -rf %s  # on the host; armada recreates what it needs" % shlex.quote(path)


def _follow(path: str) -> Tuple[List[Tuple[str, os.stat_result]], bool]:
    """Return every folder and link through which the kernel resolves a path, and whether the whole path exists."""
    current, links = "/", 0
    places = [(current, os.lstat(current))]
    pending = path.split("/")
    while pending:
        name = pending.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            current = os.path.dirname(current)
            continue
        place = os.path.join(current, name)
        try:
            status = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            return places, False
        places.append((place, status))
        if not stat.S_ISLNK(status.st_mode):
            current = place
            continue
        links += 1
        if links > _MOST_LINKS:
            raise UntrustedError("%s: too many links follow each other" % path, _ELSEWHERE)
        target = os.readlink(place)
        pending = target.split("/") + pending
        current = "/" if target.startswith("/") else current
    # A link at the end of the path comes before its target folder.
    return places, not stat.S_ISLNK(places[-1][1].st_mode)


def _our_ids(places: List[Tuple[str, os.stat_result]]) -> Set[int]:
    """Return the owners that count as safe: root, this user, and the user to whom NFS maps root if this process is root."""
    ours = {0, os.geteuid()}
    last, status = next(place for place in reversed(places) if stat.S_ISDIR(place[1].st_mode))
    nobody = _overflow_id()
    if os.geteuid() == 0 and status.st_uid == nobody and _owner_of_new_file(last) == nobody:
        ours.add(nobody)  # root_squash
    return ours


def _owner_of_new_file(folder: str) -> Optional[int]:
    path = os.path.join(folder, ".armada-owner-%d.tmp" % os.getpid())
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        return os.fstat(descriptor).st_uid
    finally:
        os.close(descriptor)
        os.unlink(path)


def _overflow_id() -> int:
    """Return the owner id that the kernel shows for ids that it cannot map: `nobody`."""
    words = _read_words("/proc/sys/kernel/overflowuid")
    return int(words[0]) if words and words[0].isdigit() else 65534


def _is_every_id_mapped() -> bool:
    """Return whether this process is outside any user namespace (a rootless container), where the machine's root shows as `nobody`."""
    counts = _read_words("/proc/self/uid_map")[2::3]
    return not counts or sum(int(count) for count in counts if count.isdigit()) >= 0xFFFFFFFF


def _read_words(path: str) -> List[str]:
    try:
        with open(path) as stream:
            return stream.read().split()
    except (OSError, UnicodeDecodeError):
        return []


def _judge_parent(path: str, status: os.stat_result, ours: Set[int]) -> Iterator[str]:
    """Yield warnings about a folder above the root.

    Raises:
        UntrustedError: The folder is refused.
    """
    meaning = "they could replace armada's root with another folder"
    remedy = "sudo chown root %s  # on the host; or " % shlex.quote(path) + _ELSEWHERE
    if status.st_uid != _overflow_id() or _is_every_id_mapped():
        _require_owner(path, status, ours, meaning, remedy)
    if status.st_mode & stat.S_ISVTX:
        return  # other users cannot rename our entry there, and the next check covers the entry's owner
    writers = _other_writers(path, status, ours)
    if writers == _EVERYBODY:
        remedy = "chmod +t %s  # on the host, by its owner; or " % shlex.quote(path) + _ELSEWHERE
        raise UntrustedError(
            "%s, above armada's root, can be written by everybody (%s): %s" % (path, _describe(status), meaning), remedy
        )
    if writers:
        yield "%s, above armada's root, can be written by %s (%s): %s. `chmod +t %s` there keeps them from it" % (
            *(path, writers, _describe(status), meaning),
            shlex.quote(path),
        )


def _require_folder(top: str, below: Iterable[str]) -> None:
    """Check a folder below the root, then the paths in it that `below` yields. A missing folder is skipped."""
    ours = _our_ids(_follow(top)[0])
    if _require_entry(top, ours):
        is_open = bool(os.stat(top).st_mode & 0o011)
        for path in below:
            _require_inside(path, ours, is_open)


def _require_entry(path: str, ours: Set[int]) -> bool:
    """Check one entry below the root and, if it is a link, its target. Return whether it is a folder."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    if stat.S_ISLNK(status.st_mode):
        _require_owner(path, status, ours, _MEANING, _removal(path))
        require_way(path)
    else:
        _require_closed(path, status, ours, _removal(path))
    return os.path.isdir(path)


def _require_inside(path: str, ours: Set[int], is_open: bool) -> None:
    """Check one entry of a folder of ours. Its mode counts only if others may enter that folder (uv's `.lock` is 0666)."""
    status = os.lstat(path)
    if is_open and not stat.S_ISLNK(status.st_mode):
        _require_closed(path, status, ours, _removal(path))
    else:
        _require_owner(path, status, ours, _MEANING, _removal(path))


def _require_closed(path: str, status: os.stat_result, ours: Set[int], remedy: str) -> None:
    _require_owner(path, status, ours, _MEANING, remedy)
    writers = _other_writers(path, status, ours)
    if writers:
        message = "%s can be written by %s (%s): %s" % (path, writers, _describe(status), _MEANING)
        raise UntrustedError(message, "chmod go-w %s  # on the host" % shlex.quote(path))


def _require_owner(path: str, status: os.stat_result, ours: Set[int], meaning: str, remedy: str) -> None:
    if status.st_uid not in ours:
        me = "%s (uid %d)" % (_user_name(os.geteuid()), os.geteuid())
        message = "%s is not yours, it belongs to %s; you are %s there: %s"
        raise UntrustedError(message % (path, _describe(status, ""), me, meaning), remedy)


def _describe(status: os.stat_result, before: str = "owner ") -> str:
    name, mode = _user_name(status.st_uid), stat.S_IMODE(status.st_mode)
    return "%s%s (uid %d), mode %04o" % (before, name, status.st_uid, mode)


def _user_name(number: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return "a user without a name"


def _other_writers(path: str, status: os.stat_result, ours: Set[int]) -> str:
    """Return who else may write; an empty string if no other user may."""
    if status.st_mode & 0o002:
        return _EVERYBODY
    if not status.st_mode & 0o020:
        return ""  # with an access list, these bits are its mask, so users that it names may not write either
    users, groups = _access_list(path) or (set(), {status.st_gid})
    named = ["user %s" % _user_name(number) for number in sorted(users - ours)]
    named += ["%s %s" % (_SHARED, _group_name(number)) for number in sorted(groups) if not _is_private(number)]
    return ", ".join(named)


def _access_list(path: str) -> Optional[Tuple[Set[int], Set[int]]]:
    """Return the users and groups that may write according to a POSIX access list; None if there is no list."""
    read = getattr(os, "getxattr", None)  # Linux only
    try:
        content = read(path, "system.posix_acl_access") if read else b""
    except OSError:
        return None
    entries = [struct.unpack_from("<HHI", content, offset) for offset in range(4, len(content) - 7, 8)]
    if not any(tag == _ACL_MASK for tag, _, _ in entries):
        return None
    users = {number for tag, allowed, number in entries if tag == _ACL_USER and allowed & 2}
    groups = {number for tag, allowed, number in entries if tag == _ACL_GROUP and allowed & 2}
    if any(tag == _ACL_OWNING_GROUP and allowed & 2 for tag, allowed, _ in entries):
        groups.add(os.lstat(path).st_gid)
    return users, groups


def _is_private(number: int) -> bool:
    """Return whether only this user or root is a member of a group: it is root's group, or it has this user's name."""
    try:
        import grp
        import pwd

        group, me = grp.getgrgid(number), pwd.getpwuid(os.geteuid())
    except (ImportError, KeyError):
        return number == 0
    is_own = number == 0 or (number == me.pw_gid and group.gr_name == me.pw_name)
    return is_own and not set(group.gr_mem) - {"root", me.pw_name}


def _group_name(number: int) -> str:
    try:
        import grp

        return "%s (gid %d)" % (grp.getgrgid(number).gr_name, number)
    except (ImportError, KeyError):
        return str(number)
