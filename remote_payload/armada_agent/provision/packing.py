"""List an environment that is to be sent to another host: every file with its hash, and what it needs there.

The list is a file below `envs`, so that a connection for bytes can send it. Nothing in the environment is changed.
"""

import concurrent.futures
import csv
import hashlib
import json
import os
import platform
import re
import socket
import stat
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.foundation.session import Call
from armada_agent.host import setup_lines, trust
from armada_agent.paths import list_folder
from armada_agent.provision import content, environment_folder, integrity, interpreters
from armada_agent.provision.interpreters import Interpreter

FORMAT = 1
_THREADS = 4
_OLD_S = 86400.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_MANYLINUX = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_GLIBC = re.compile(rb"GLIBC_2\.(\d{1,3})\b")
Found = Tuple[List[Tuple[str, str]], List[List[str]]]


def pack(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """List a finished environment. `environment.read` then sends the list, and the files in it.

    Raises:
        AgentError: `environment`: it is not ready, or cannot be moved to another host.
    """
    key = environment_folder.checked_key(params.get("key"))
    folder = environment_folder.locate(call.root, key)
    if environment_folder.status(call.root, key) != "ready":
        raise AgentError("environment", "environment %s is not ready" % key, "armada hosts provision builds it")
    trust.require_environment(folder)
    setup_lines.apply()
    base = interpreters.probe(environment_folder.python_of(folder))
    if base is None:
        raise AgentError("environment", "the Python of %s does not start" % folder)
    call.progress("importing its packages")
    tried = interpreters.try_imports(
        call, environment_folder.python_of(folder), {"distributions": _requested(folder)}, True, []
    )
    found, links = _walk(folder, "env", base)
    if base.standalone is not None:
        more, more_links = _walk(base.prefix, "python", None)
        found, links = found + more, links + more_links
    manifest = _hash(call, found)
    ready = environment_folder.read_ready(folder)
    document = {
        "format": FORMAT,
        "key": key,
        "hostname": socket.gethostname(),
        "folders": sorted({folder, os.path.realpath(folder)}, key=len, reverse=True),
        "python": {
            "version": base.version,
            "implementation": base.implementation,
            "abi": base.abi,
            "prefix": base.prefix,
            "standalone": base.standalone,
        },
        "machine": platform.machine(),
        "libc": platform.libc_ver(environment_folder.python_of(folder))[0] or "other",
        "glibc": needed_glibc(folder),
        "modules": tried["imported"],
        "freeze": ready.get("freeze"),
        "notes": [note for note in ready.get("notes") or [] if isinstance(note, str)],
        "files": manifest,
        "links": links,
    }
    encoded = files.encode(document)
    digest = hashlib.sha256(encoded).hexdigest()
    _keep(call.root, key, digest, encoded)
    return {
        "digest": digest,
        "list_bytes": len(encoded),
        "size_bytes": sum(entry[1] for entry in manifest),
        "failed": {str(name): str(words)[:500] for name, words in tried["failed"].items()},
    }


def list_path(root: str, key: str, digest: str) -> str:
    return os.path.join(root, "envs", ".packed-%s-%s.json" % (key, digest))


def tops(root: str, key: str) -> Dict[str, str]:
    """Return the folder that each kind of file in a list lies below."""
    folder = environment_folder.locate(root, key)
    program = os.path.realpath(environment_folder.python_of(folder))
    found = {"env": folder}
    prefix = os.path.dirname(os.path.dirname(program))
    if interpreters.is_standalone(os.path.basename(prefix)):
        found["python"] = prefix
    return found


def _keep(root: str, key: str, digest: str, encoded: bytes) -> None:
    folder = os.path.join(root, "envs")
    for name in list_folder(folder):
        path = os.path.join(folder, name)
        if name.startswith(".packed-%s-" % key) and time.time() - os.lstat(path).st_mtime > _OLD_S:
            files.remove(path)
    temporary = files.temporary_name(list_path(root, key, digest))
    files.write_bytes(temporary, encoded)
    os.rename(temporary, list_path(root, key, digest))


def _requested(folder: str) -> List[str]:
    """Return the names of the packages that the environment was asked to have."""
    names = ["flash-attn"]
    for listed in ("requirements.txt", "optional.txt"):
        for line in files.read_text(os.path.join(folder, listed)).splitlines():
            found = _NAME.match(line)
            if found and "://" not in line.split("@")[0]:
                names.append(found.group(0))
    return names


def _walk(top: str, kind: str, base: Optional[Interpreter]) -> Found:
    """Return the regular files below a folder as (name in the list, path), and its links as [name in the list, target].

    Raises:
        AgentError: `environment`: a file cannot be sent.
    """
    found: List[Tuple[str, str]] = []
    links: List[List[str]] = []
    for parent, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in sorted(folders + names):
            path = os.path.join(parent, name)
            relative = os.fsencode(os.path.relpath(path, top)).decode("utf-8", "surrogateescape")
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode) or name.endswith(".pyc") or relative in (environment_folder.READY, ".lock"):
                continue
            if not content.is_safe(relative):
                raise AgentError("environment", "%.300r in %s has a name that cannot be sent" % (relative, top))
            if stat.S_ISLNK(mode):
                target = _target(path, top, base)
                if target is None:
                    found.append((kind + "/" + relative, path))  # a file in uv's cache (UV_LINK_MODE=symlink)
                elif target != relative:
                    links.append([kind + "/" + relative, target])
            elif stat.S_ISREG(mode):
                found.append((kind + "/" + relative, path))
            else:
                raise AgentError("environment", "%s is neither a file, a folder nor a link" % path)
    return found, sorted(links)


def _target(path: str, top: str, base: Optional[Interpreter]) -> Optional[str]:
    """Return what a link means on another host; None if it stands for a file elsewhere.

    An environment's links to its Python become links to `bin/python`, which is made anew there: its own name is returned
    for that one.

    Raises:
        AgentError: `environment`: it leads out of the environment.
    """
    real, inside = os.path.realpath(path), os.path.realpath(top) + os.sep
    above = os.path.dirname(path)
    if base is not None and real == base.program and above == os.path.join(top, "bin"):
        return "bin/python" if os.path.basename(path) == "python" else "python"
    if real.startswith(inside) and os.path.exists(real):
        return os.path.relpath(real, os.path.realpath(above))
    if os.path.isfile(real):
        return None
    hint = "an environment that armada built has no such link: remove it there, or the environment; the next launch builds it"
    raise AgentError("environment", "%s leads to %s, outside of the environment" % (path, os.readlink(path)), hint)


def _hash(call: Call, found: List[Tuple[str, str]]) -> List[List[Any]]:
    manifest: List[List[Any]] = []

    def one(item: Tuple[str, str]) -> List[Any]:
        name, path = item
        real = os.path.realpath(path)
        status = os.stat(real)
        return [name, status.st_size, integrity.hash_file(real), 0o755 if status.st_mode & 0o100 else 0o644]

    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        for count, entry in enumerate(pool.map(one, found)):
            manifest.append(entry)
            if count % 500 == 0:
                call.progress("hashing its files", count / len(found))
    return sorted(manifest)


def needed_glibc(folder: str) -> Optional[str]:
    """Return the oldest glibc that all packages run with, by the tags of their wheels.

    A wheel that was compiled here (`linux_x86_64`) has no such tag: its libraries say which symbols they need.

    Raises:
        AgentError: `environment`: a package is installed from sources that stay on this host.
    """
    needed = (0, 0)
    for site in sorted(_sites(folder)):
        for name in list_folder(site):
            if name.endswith(".dist-info"):
                needed = max(needed, _of_package(site, name))
            elif name.endswith(".pth"):
                _refuse_outside(os.path.join(site, name), folder)
    return "%d.%d" % needed if needed > (0, 0) else None


def _sites(folder: str) -> Iterator[str]:
    library = os.path.join(folder, "lib")
    for name in list_folder(library):
        yield os.path.join(library, name, "site-packages")


def _of_package(site: str, name: str) -> Tuple[int, int]:
    try:
        origin = json.loads(files.read_text(os.path.join(site, name, "direct_url.json")) or "{}")
    except ValueError:
        origin = {}
    if isinstance(origin, dict) and isinstance(origin.get("dir_info"), dict) and origin["dir_info"].get("editable"):
        message = "%s is installed from %.200s as an editable package: its sources would stay on this host"
        raise AgentError("environment", message % (name[: -len(".dist-info")], origin.get("url")))
    tags = re.findall(r"^Tag: *\S+-(\S+)$", files.read_text(os.path.join(site, name, "WHEEL")), re.MULTILINE)
    platforms = [each for tag in tags for each in tag.split(".")]
    told = [found for found in map(_glibc_of, platforms) if found is not None]
    if told:
        return min(told)
    if not any(each.startswith("linux_") for each in platforms):
        return 0, 0
    return max([(0, 0)] + [_of_library(os.path.join(site, path)) for path in _libraries(site, name)])


def _glibc_of(tag: str) -> Optional[Tuple[int, int]]:
    named = re.match(r"manylinux_(\d{1,3})_(\d{1,3})_", tag)
    return (int(named.group(1)), int(named.group(2))) if named else _MANYLINUX.get(tag.partition("_")[0])


def _libraries(site: str, name: str) -> List[str]:
    record = files.read_text(os.path.join(site, name, "RECORD"), limit=64 * 1024 * 1024)
    paths = [row[0] for row in csv.reader(record.splitlines()) if row]
    return [path for path in paths if re.search(r"\.so(\.\d+)*$", path) and content.is_safe(path)]


def _of_library(path: str) -> Tuple[int, int]:
    newest = 0
    try:
        with open(path, "rb") as stream:
            tail = b""
            for block in iter(lambda: stream.read(4 * 1024 * 1024), b""):
                newest = max([newest] + [int(each) for each in _GLIBC.findall(tail + block)])
                tail = block[-16:]
    except OSError:
        return 0, 0
    return (2, newest) if newest else (0, 0)


def _refuse_outside(path: str, folder: str) -> None:
    inside = (folder + os.sep, os.path.realpath(folder) + os.sep)
    for line in files.read_text(path).splitlines():
        if line.startswith(os.sep) and not (line.rstrip() + os.sep).startswith(inside):
            message = "%s adds %.200s to the modules of the environment, which would stay on this host"
            raise AgentError("environment", message % (path, line))
