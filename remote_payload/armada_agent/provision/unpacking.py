"""Make an environment of the files that home sent from another host: verified, relocated, tried, and only then ready.

`envs/.new-<key>` has the list and the files, as far as they have arrived. They stay there after an interruption.
"""

import concurrent.futures
import os
import shutil
import socket
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import durability, files, parameters
from armada_agent.foundation.session import Call
from armada_agent.host import gpus, setup_lines
from armada_agent.paths import checked_digest
from armada_agent.provision import (
    build_claim,
    content,
    environment,
    environment_folder,
    integrity,
    interpreters,
    pip_configuration,
    relocation,
)
from armada_agent.provision.interpreters import Interpreter

LIST = "packed.json"
_LIST_LIMIT = 256 * 1024 * 1024
_MODES = (0o755, 0o644)
_THREADS = 4
_MOST_RANGES = 10000
_SPARE = 1.05
_DRIVERS = ("libcuda.so", "libnvidia-ml.so")
File = Tuple[str, int, str, int]


class Packed:
    """A list of `packing.pack`, validated."""

    def __init__(self, told: Dict[str, Any]) -> None:
        python = parameters.mapping(told, "python")
        try:
            self.python = Interpreter(dict(python, program=""))
        except ValueError:
            raise AgentError("bad_request", "the list does not describe its Python")
        self.standalone = python.get("standalone")
        if self.standalone is not None and not interpreters.is_standalone(self.standalone):
            raise AgentError("bad_request", "%.100r is not the name of a Python" % (self.standalone,))
        self.hostname = parameters.text(told, "hostname")
        self.folders = _texts(told, "folders")
        self.modules = _texts(told, "modules")
        self.notes = _texts(told, "notes")
        freeze = told.get("freeze")
        self.freeze = freeze if parameters.is_text(freeze) else None
        self.files = [_file(entry) for entry in parameters.sequence(told, "files")]
        self.links = [_link(entry) for entry in parameters.sequence(told, "links")]
        if not all(os.path.isabs(folder) and len(folder) > 1 for folder in self.folders + [self.python.prefix]):
            raise AgentError("bad_request", "the list's folders must be absolute")

    def wanted(self, with_python: bool) -> List[Tuple[int, File]]:
        """Return the files that this host needs, with their numbers in the list."""
        return [
            (number, entry)
            for number, entry in enumerate(self.files)
            if with_python or not entry[0].startswith("python/")
        ]


def place(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Report which files of an environment are still to be sent.

    Returns:
        In `python` whether there will be one for it. In `missing` [first, end, offset]: of the first of these files, the
        bytes before the offset are there.

    Raises:
        AgentError: `environment`: another machine that shares the root has it; `disk_full`.
    """
    key = environment_folder.checked_key(params.get("key"))
    digest = checked_digest(params.get("digest"))
    answer: Dict[str, Any] = {"ready": environment_folder.status(call.root, key) == "ready", "listed": False}
    answer.update(missing=[], missing_bytes=0, python=True)
    staging = environment_folder.staging(call.root, key)
    packed = None if answer["ready"] else _read_list(staging, digest)
    if packed is None:
        return answer
    setup_lines.apply()
    environment.refuse_others(call.root, key)
    base, with_python = _find_base(call.root, packed)
    if base is None and not with_python:
        answer.update(listed=True, python=False)
        return answer
    missing = list(_missing(staging, packed.wanted(with_python)))
    size = sum(packed.files[number][1] - offset for number, offset in missing)
    space = os.statvfs(call.root)
    if space.f_bavail * space.f_frsize < size * _SPARE:
        message = "%d bytes of environment %s are still to come, and %s has %d bytes free"
        free = space.f_bavail * space.f_frsize
        hint = "free space on the host's root folder, then try again"
        raise AgentError("disk_full", message % (size, key, call.root, free), hint)
    answer.update(listed=True, missing=_ranges(missing, len(packed.files)), missing_bytes=size)
    return answer


def unpack(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Verify the files that arrived, and make them an environment of this host.

    Raises:
        AgentError: `io`: files are wrong (they are deleted; the others stay); `environment`: its packages do not work here;
            `not_found`: nothing has arrived.
    """
    begun = time.monotonic()
    key = environment_folder.checked_key(params.get("key"))
    digest = checked_digest(params.get("digest"))
    setup_lines.apply()
    outcome = "ready"
    if environment_folder.status(call.root, key) != "ready":
        with build_claim.hold(call, key) as claim:
            if environment_folder.status(call.root, key) != "ready":
                _unpack(call, key, digest, claim)
                outcome = "built"
            shutil.rmtree(environment_folder.staging(call.root, key), ignore_errors=True)  # from another home, too late
    return environment.describe(call.root, key, outcome, time.monotonic() - begun)


def _unpack(call: Call, key: str, digest: str, claim: build_claim.Claim) -> None:
    staging = environment_folder.staging(call.root, key)
    packed = _read_list(staging, digest)
    if packed is None:
        raise AgentError("not_found", "no list of files has arrived in %s" % staging, "send it again")
    base, with_python = _base(call.root, packed)
    _verify(call, staging, packed.wanted(with_python))
    if base is None:
        base = _place_python(call, staging, packed)
    made = os.path.join(staging, "env")
    folder = environment_folder.locate(call.root, key)
    _make_links(made, packed, "env")
    names = [path for path in _below(packed, "env") if relocation.names_its_folder(path)]
    changed = relocation.relocate(made, names, packed.folders, folder)
    relocation.link_python(made, base)
    relocation.record_changes(made, changed + ["pyvenv.cfg"])
    notes = packed.notes + _try(call, environment_folder.python_of(made), packed.modules, claim)
    ready = {
        "key": key,
        "python": base.version,
        "time": time.time(),
        "freeze": pip_configuration.hide_passwords(packed.freeze or ""),
        "notes": notes,
        "built_on": socket.gethostname(),
        "origin": packed.hostname,
    }
    claim.require()
    files.write_json(os.path.join(made, environment_folder.READY), ready)
    if os.path.isdir(folder):
        environment.refuse_others(call.root, key)
        shutil.rmtree(folder)
    durability.fsync_folders(made)
    os.rename(made, folder)
    files.fsync_folder(os.path.dirname(folder))


def _verify(call: Call, staging: str, wanted: List[Tuple[int, File]]) -> None:
    entries = [entry for _, entry in wanted]
    content.remove_strangers(staging, {entry[0] for entry in entries} | {LIST})

    def check(entry: File) -> str:
        name, size, sha256, mode = entry
        location = os.path.join(staging, integrity.native(name))
        problem = content.find_problem(location, size, sha256)
        if problem:
            files.remove(location)
            return "%s %s" % (name, problem)
        os.chmod(location, mode)
        return ""

    problems = []
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        for count, problem in enumerate(pool.map(check, entries)):
            if problem:
                problems.append(problem)
            if count % 500 == 0:
                call.progress("verifying the files that arrived", count / len(entries))
    if problems:
        shown = "; ".join(problems[:10])
        raise AgentError("io", "%d files of the environment are wrong: %s" % (len(problems), shown), "send it again")


def _place_python(call: Call, staging: str, packed: Packed) -> Interpreter:
    """Put the Python that came with an environment among this root's own.

    Raises:
        AgentError: `environment`: it does not start here.
    """
    made = os.path.join(staging, "python")
    target = os.path.join(call.root, "tools", "python", str(packed.standalone))
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    with files.locked(os.path.join(os.path.dirname(target), ".armada.lock")):
        if not os.path.isdir(target):
            _make_links(made, packed, "python")
            names = [path for path in _below(packed, "python") if relocation.names_its_folder(path)]
            relocation.relocate(made, names, [packed.python.prefix], target)
            program = os.path.join("bin", "python" + packed.python.minor)
            if interpreters.probe(os.path.join(made, program)) is None:
                message = "%s, which came from %s, does not start on this host"
                raise AgentError("environment", message % (packed.standalone, packed.hostname))
            durability.fsync_folders(made)
            os.rename(made, target)
            files.fsync_folder(os.path.dirname(target))
    found = interpreters.probe(_standalone_program(call.root, packed))
    if found is None or not found.suits(packed.python):
        raise AgentError("environment", "%s does not start on this host" % target, "remove that folder there")
    return found


def _standalone_program(root: str, packed: Packed) -> str:
    return os.path.join(root, "tools", "python", str(packed.standalone), "bin", "python" + packed.python.minor)


def _find_base(root: str, packed: Packed) -> Tuple[Optional[Interpreter], bool]:
    """Return this host's Python for an environment, and whether the one that comes with it is needed."""
    if packed.standalone is None:
        return interpreters.find(root, packed.python), False
    there = interpreters.probe(_standalone_program(root, packed))
    return (there, False) if there is not None and there.suits(packed.python) else (None, True)


def _base(root: str, packed: Packed) -> Tuple[Optional[Interpreter], bool]:
    """Do what `_find_base` does.

    Raises:
        AgentError: `environment`: neither is there.
    """
    found, with_python = _find_base(root, packed)
    if found is None and not with_python:
        message = "this host has no Python %s (%s) that starts; the environment from %s needs one"
        what = packed.python.abi or packed.python.implementation
        hint = "install Python %s here; only a Python that uv downloaded travels with its environments"
        minor = packed.python.minor
        raise AgentError("environment", message % (minor, what, packed.hostname), hint % minor)
    return found, with_python


def _try(call: Call, python: str, modules: List[str], claim: build_claim.Claim) -> List[str]:
    """Import what could be imported where the environment comes from.

    Returns:
        A note about what only a machine with a GPU driver can import.

    Raises:
        AgentError: `environment`: an import fails.
    """
    call.progress("importing its packages")
    failed = interpreters.try_imports(call, python, {"modules": modules}, False, [claim.lock])["failed"]
    untried = []
    if not gpus.is_installed():
        untried = sorted(name for name, words in failed.items() if any(each in str(words) for each in _DRIVERS))
    problems = ["%s (%s)" % (name, words) for name, words in sorted(failed.items()) if name not in untried]
    if problems:
        message = "the environment that arrived does not work on this host: " + "; ".join(problems[:5])
        hint = "what was sent is kept in %s; run it again once that is repaired, or delete it"
        raise AgentError(
            "environment", message[:4000], hint % os.path.dirname(os.path.dirname(os.path.dirname(python)))
        )
    return ["not imported, because this machine has no GPU driver: %s" % ", ".join(untried)] if untried else []


def _make_links(top: str, packed: Packed, kind: str) -> None:
    for name, target in packed.links:
        of, _, path = name.partition("/")
        if of == kind:
            location = os.path.join(top, integrity.native(path))
            os.makedirs(os.path.dirname(location), mode=0o755, exist_ok=True)
            os.symlink(integrity.native(target), location)


def _below(packed: Packed, kind: str) -> List[str]:
    return [entry[0].partition("/")[2] for entry in packed.files if entry[0].startswith(kind + "/")]


def _missing(staging: str, wanted: List[Tuple[int, File]]) -> Iterator[Tuple[int, int]]:
    """Yield the number of each file that has not arrived completely, and how many of its bytes have."""
    for number, (name, size, _, _) in wanted:
        try:
            staged = os.lstat(os.path.join(staging, integrity.native(name))).st_size
        except OSError:
            staged = -1
        if staged != size:
            yield number, staged if 0 < staged < size else 0


def _ranges(missing: List[Tuple[int, int]], count: int) -> List[List[int]]:
    ranges: List[List[int]] = []
    for number, offset in missing:
        if ranges and ranges[-1][1] == number and not offset:
            ranges[-1][1] = number + 1
        elif len(ranges) < _MOST_RANGES:
            ranges.append([number, number + 1, offset])
        else:
            ranges[-1][1:] = [count, ranges[-1][2]]  # what is there already is sent again
            break
    return ranges


def _read_list(staging: str, digest: str) -> Optional[Packed]:
    """Read the list that home sent; None if it is missing or another one."""
    path = os.path.join(staging, LIST)
    try:
        if integrity.hash_file(path) != digest:
            return None
        return Packed(files.read_json(path, limit=_LIST_LIMIT) or {})
    except (OSError, files.UnreadableError):
        return None


def _texts(told: Dict[str, Any], name: str) -> List[str]:
    found = parameters.sequence(told, name)
    if not all(parameters.is_text(each) for each in found):
        raise AgentError("bad_request", "`%s` must be texts" % name)
    return list(found)


def _file(entry: Any) -> File:
    if not isinstance(entry, list) or len(entry) != 4 or not _is_ours(entry[0]):
        raise AgentError("bad_request", "%.300r is not a file of an environment" % (entry,))
    name, size, sha256, mode = entry
    if not isinstance(size, int) or isinstance(size, bool) or size < 0 or mode not in _MODES:
        raise AgentError("bad_request", "%.300s: wrong size or mode" % name)
    return name, size, checked_digest(sha256, "SHA-256"), mode


def _link(entry: Any) -> Tuple[str, str]:
    """Validate a link: it stays inside the folder that it is in, `env` or `python`."""
    if isinstance(entry, list) and len(entry) == 2 and _is_ours(entry[0]) and parameters.is_text(entry[1]):
        name, target = entry
        end = os.path.normpath(os.path.join(os.path.dirname(name), target))
        if target.isprintable() and not os.path.isabs(target) and (end + "/").startswith(name.split("/")[0] + "/"):
            return name, target
    raise AgentError("bad_request", "%.300r is not a link inside an environment" % (entry,))


def _is_ours(name: Any) -> bool:
    return content.is_safe(name) and name.split("/")[0] in ("env", "python") and "/" in name and name != "env/READY"
