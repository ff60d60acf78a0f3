"""Find the type of a folder's file system."""

import os
import re
from typing import List, NamedTuple, Optional

_NETWORK = (
    *(
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "lustre",
        "gpfs",
        "beegfs",
        "ceph",
        "glusterfs",
        "afs",
        "orangefs",
        "pvfs2",
    ),
    *(
        "panfs",
        "wekafs",
        "9p",
        "virtiofs",
        "ocfs2",
        "gfs2",
        "acfs",
        "pfs",
        "quobyte",
        "vboxsf",
        "prl_fs",
        "vmhgfs",
        "coda",
    ),
)
_OCTAL = re.compile(r"\\([0-7]{3})")
Mount = NamedTuple("Mount", [("point", str), ("kind", str), ("options", List[str])])


def find(path: str) -> Optional[Mount]:
    """Find the mount that contains a path. Return None if the kernel does not say (not Linux)."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
            mounts = parse(stream.read())
    except OSError:
        return None
    return choose(mounts, os.path.realpath(path))


def choose(mounts: List[Mount], path: str) -> Optional[Mount]:
    """Choose the mount that contains a path: the one with the longest mount point, and the last of equal ones, which hides the others."""
    above = [m for m in mounts if m.point in ("/", path) or path.startswith(m.point + "/")]
    return max(enumerate(above), key=lambda pair: (len(pair[1].point), pair[0]))[1] if above else None


def parse(text: str) -> List[Mount]:
    """Parse /proc/<pid>/mountinfo (proc(5)). Invalid lines are skipped."""
    found = []
    for line in text.splitlines():
        own, _, common = line.partition(" - ")
        fields, rest = own.split(" "), common.split(" ")
        if len(fields) < 6 or len(rest) < 3:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), fields[4])
        found.append(Mount(point, rest[0], sorted(set(fields[5].split(",") + rest[2].split(",")))))
    return found


def is_shared(mount: Optional[Mount]) -> bool:
    """Return whether other machines may see the same files. Unknown types count as shared, and so does FUSE, mostly a network."""
    return mount is None or mount.kind in _NETWORK or mount.kind.startswith("fuse")
