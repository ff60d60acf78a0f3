"""Find the kind of file system of a folder."""

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
    """Find the mount a path lies on; None where the kernel does not say (no Linux)."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
            mounts = parse(stream.read())
    except OSError:
        return None
    return choose(mounts, os.path.realpath(path))


def choose(mounts: List[Mount], path: str) -> Optional[Mount]:
    """Choose the mount that holds a path: the longest point above it, and of equal ones the last, which hides the others."""
    above = [m for m in mounts if m.point in ("/", path) or path.startswith(m.point + "/")]
    return max(enumerate(above), key=lambda pair: (len(pair[1].point), pair[0]))[1] if above else None


def parse(text: str) -> List[Mount]:
    """Parse /proc/<pid>/mountinfo (proc(5)); what is no line of it is passed over."""
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
    """Tell whether other machines may have the same files; unknown counts as yes. FUSE is somebody's network in most cases."""
    return mount is None or mount.kind in _NETWORK or mount.kind.startswith("fuse")
