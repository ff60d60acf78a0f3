"""Change the files of an environment that name its folder, so that it works in another one."""

import base64
import csv
import hashlib
import io
import os
import re
import shlex
from typing import Dict, Iterable, List, Tuple

from armada_agent.foundation import files
from armada_agent.paths import list_folder
from armada_agent.provision.interpreters import Interpreter

_LARGEST = 4 * 1024 * 1024
_LONGEST_SHEBANG = 127  # older kernels cut the line there
_TEXTS = re.compile(
    r"(bin|etc|share)/.*|lib/python[^/]+/site-packages/[^/]+\.pth"
    r"|lib/python[^/]+/_sysconfigdata[^/]*\.py|lib/pkgconfig/[^/]+\.pc"
)


def names_its_folder(path: str) -> bool:
    """Return whether a file, by its path below an environment or a Python, may contain the path of that folder."""
    return _TEXTS.fullmatch(path) is not None


def relocate(top: str, paths: Iterable[str], old: List[str], new: str) -> List[str]:
    """Replace a folder's former path in its files.

    Args:
        top: Where the folder is now.
        paths: Its files that may name it, relative to it.
        old: Its former paths, the longest first.
        new: The path that it will have.

    Returns:
        The files that were changed.
    """
    changed = []
    for path in paths:
        location = os.path.join(top, path)
        if os.path.getsize(location) > _LARGEST:
            continue
        with files.open_regular(location) as stream:
            content = stream.read()
        replaced = _replace(content, old, new)
        if replaced != content:
            mode = os.stat(location).st_mode & 0o777
            os.unlink(location)  # never through a hard link
            files.write_bytes(location, replaced, mode)
            changed.append(path)
    return changed


def _replace(content: bytes, old: List[str], new: str) -> bytes:
    if b"\0" in content:
        return content  # a program
    head, newline, rest = content.partition(b"\n")
    name = os.fsencode(new)
    for former in old:
        # The longer path of another folder, such as /root/envs/cpu-12 for /root/envs/cpu-1, is not this one.
        pattern = re.compile(re.escape(os.fsencode(former)) + rb"(?![\w.-])")
        found = re.match(rb"#! *" + pattern.pattern + rb"(\S*) *(.*)", head)
        head = _shebang(name + found.group(1), found.group(2).strip()) if found else pattern.sub(lambda _: name, head)
        rest = pattern.sub(lambda _: name, rest)
    return head + newline + rest


def _shebang(program: bytes, option: bytes) -> bytes:
    """Return the first lines of a script. The kernel takes no blanks and no long paths: sh then starts the interpreter."""
    words = program + (b" " + option if option else b"")
    if len(words) + 2 <= _LONGEST_SHEBANG and len(program.split()) == 1:
        return b"#!" + words
    quoted = os.fsencode(shlex.quote(os.fsdecode(program))) + (b" " + option if option else b"")
    return b"#!/bin/sh\n'''exec' " + quoted + b' "$0" "$@"\n' + b"' '''"


def link_python(top: str, base: Interpreter) -> None:
    """Make an environment's `bin/python` and its pyvenv.cfg for the Python of this host."""
    python = os.path.join(top, "bin", "python")
    os.makedirs(os.path.dirname(python), mode=0o755, exist_ok=True)
    if os.path.lexists(python):
        os.unlink(python)
    os.symlink(base.program, python)
    path = os.path.join(top, "pyvenv.cfg")
    lines = [line for line in files.read_text(path).splitlines() if not _is_of_python(line)]
    lines = ["home = " + os.path.dirname(base.program), "version_info = " + base.version] + lines
    files.remove(path)
    files.write_bytes(path, ("\n".join(lines) + "\n").encode("utf-8"), 0o644)


def _is_of_python(line: str) -> bool:
    names = ("home", "version", "version_info", "executable", "command", "base-prefix", "base-exec-prefix")
    return line.partition("=")[0].strip() in names + ("base-executable",)


def record_changes(top: str, changed: Iterable[str]) -> None:
    """Write the changed files' new hashes and sizes into the RECORD of the packages that they belong to."""
    for library in list_folder(os.path.join(top, "lib")):
        site = os.path.join(top, "lib", library, "site-packages")
        new = {os.path.relpath(os.path.join(top, path), site): _entry(os.path.join(top, path)) for path in changed}
        for name in list_folder(site):
            record = os.path.join(site, name, "RECORD")
            if name.endswith(".dist-info") and os.path.isfile(record):
                _rewrite(record, new)


def _entry(path: str) -> Tuple[str, str]:
    with files.open_regular(path) as stream:
        content = stream.read()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode("ascii")
    return "sha256=" + digest, str(len(content))


def _rewrite(record: str, new: Dict[str, Tuple[str, str]]) -> None:
    text = files.read_text(record, limit=64 * 1024 * 1024)
    if not any(path in text for path in new):
        return
    rows = [row for row in csv.reader(text.splitlines()) if row]
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(
        [[row[0], *new[row[0]]] if row[0] in new and len(row) > 1 and row[1] else row for row in rows]
    )
    os.unlink(record)
    files.write_bytes(record, written.getvalue().encode("utf-8"), 0o644)
