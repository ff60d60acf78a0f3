"""Content-addressed folders (code, data, models). Home stages them; the agent verifies every byte, then renames them."""

import hashlib
import os
import shlex
import shutil
import stat
from typing import Any, Dict, List, Optional, Set, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import durability, files, parameters
from armada_agent.foundation.session import Call
from armada_agent.host import trust
from armada_agent.paths import checked_digest
from armada_agent.provision import integrity
from armada_agent.provision.integrity import Entry

KINDS = ("code", "data", "models")
_MODES = (0o755, 0o644)
_BLOCK = 1024 * 1024


def check(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Report whether a content is on this host and matches its hash. If it is missing, create its staging folder.

    With `only_look`, as for a plan, nothing is created.

    Raises:
        AgentError: `environment`: what lies there belongs to another user, or its files do not match.
    """
    path, staging = places(call.root, params)
    present = os.path.isdir(path)
    if present:
        trust.require_tree(path, call.root)
        require_right(path, str(params["sha"]), path, params["kind"] == "code", call)
    elif params.get("only_look") is not True:
        os.makedirs(staging, mode=0o700, exist_ok=True)
        integrity.loosen(staging)
    return {"present": present, "path": path, "staging": staging}


def publish(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Check staged files against their manifest and move them to their final name. Repeating this does no harm.

    Wrong files are deleted from the staging folder before the answer, so that sending them again repairs them: rsync
    treats a file of the right size as complete.

    Raises:
        AgentError: `bad_request`: the manifest does not match `sha`; `io`: files do not match the manifest.
    """
    path, staging = places(call.root, params)
    manifest = _checked_manifest(parameters.sequence(params, "manifest"), str(params["sha"]))
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with files.locked(os.path.join(os.path.dirname(path), ".lock-%s" % params["sha"])):
        if not os.path.isdir(path):
            if not os.path.isdir(staging):
                raise AgentError("not_found", "nothing is staged as %s" % staging, "send the files first")
            problems = remove_strangers(staging, {entry[0] for entry in manifest})
            problems += _verify(call, staging, manifest)
            if problems:
                shown = "; ".join(problems[:10])
                raise AgentError("io", "%d staged files are wrong: %s" % (len(problems), shown), "send it again")
            durability.fsync_folders(staging)
            if params["kind"] == "data":
                integrity.protect(staging)  # jobs see these very files, behind links
            integrity.note(record_path(path), staging, manifest)
            os.rename(staging, path)
            files.fsync_folder(os.path.dirname(path))
        shutil.rmtree(staging, ignore_errors=True)  # from another sender that was later
    return {"path": path}


def places(root: str, params: Dict[str, Any]) -> Tuple[str, str]:
    """Return the folder of a content and its staging folder."""
    kind = params.get("kind")
    if kind not in KINDS:
        raise AgentError("bad_request", "`kind` must be one of %s" % ", ".join(KINDS))
    sha = checked_digest(params.get("sha"), "content's hash")
    return os.path.join(root, kind, sha), os.path.join(root, kind, ".new-" + sha)


def find_code(root: str, folder: str) -> Optional[str]:
    """Return the hash of a content if the folder is one of code."""
    place, sha = os.path.split(os.path.normpath(folder))
    is_ours = place == os.path.join(root, "code") and len(sha) == 64 and set(sha) <= set("0123456789abcdef")
    return sha if is_ours else None


def require_right(folder: str, sha: str, content: str, every_byte: bool, call: Call) -> None:
    """Check a content, or a copy of it, against its hash.

    Args:
        folder: The folder to check.
        sha: The hash.
        content: The content itself.
        every_byte: As for `integrity.find_problems`.
        call: Receives the progress.

    Raises:
        AgentError: `environment`, with the files that are wrong.
    """
    problems = integrity.find_problems(folder, sha, record_path(content), every_byte, call.progress)
    if problems:
        shown = "; ".join(problems[:5]) + ("; …" if len(problems) > 5 else "")
        message = "the content of %s does not match its name: %s" % (content, shown)
        remedy = "remove it there when no run uses it: rm -rf %s; the next launch sends it again"
        raise AgentError("environment", message, remedy % shlex.quote(content))


def record_path(path: str) -> str:
    """Return the path of the file next to a content that lists its files."""
    return os.path.join(os.path.dirname(path), ".manifest-%s.json" % os.path.basename(path))


def _checked_manifest(listed: List[Any], sha: str) -> List[Entry]:
    manifest = [_checked_entry(entry) for entry in listed]
    if len({entry[0] for entry in manifest}) != len(manifest):
        raise AgentError("bad_request", "the manifest names a file twice")
    if integrity.digest(manifest) != sha:
        raise AgentError("bad_request", "this is not the manifest of %s" % sha)
    return sorted(manifest)


def _checked_entry(entry: Any) -> Entry:
    if not isinstance(entry, list) or len(entry) != 4:
        raise AgentError("bad_request", "a manifest's entry is [path, size, sha256, mode]")
    path, size, sha256, mode = entry
    if not is_safe(path):
        raise AgentError("bad_request", "%.200r is not a path below a folder" % (path,))
    if not isinstance(size, int) or isinstance(size, bool) or size < 0 or mode not in _MODES:
        raise AgentError("bad_request", "%s: wrong size or mode" % path)
    return path, size, checked_digest(sha256, "SHA-256"), mode


def is_safe(path: Any) -> bool:
    """Return whether a path can only mean a file below a folder, and is displayed without change."""
    if not isinstance(path, str) or not parameters.is_text(path) or not path.isprintable():
        return False
    return all(part not in ("", ".", "..") for part in path.split("/"))


def remove_strangers(staging: str, wanted: Set[str]) -> List[str]:
    """Delete everything except the wanted regular files. Report folders without any of them, too."""
    names = {integrity.native(path) for path in wanted}
    folders = {name[:end] for name in names for end, letter in enumerate(name) if letter == "/"}
    found = []
    for parent, below, inside in os.walk(staging, topdown=False):
        for name in below + inside:
            path = os.path.join(parent, name)
            relative = os.path.relpath(path, staging)
            mode = os.lstat(path).st_mode
            if (stat.S_ISREG(mode) and relative in names) or (stat.S_ISDIR(mode) and relative in folders):
                continue
            found.append("%r is not in the manifest" % relative)
            if stat.S_ISDIR(mode):
                os.rmdir(path)  # bottom up: its content is already deleted
            else:
                os.unlink(path)
    return found


def _verify(call: Call, staging: str, manifest: List[Entry]) -> List[str]:
    total = sum(entry[1] for entry in manifest) or 1
    done = 0
    problems = []
    for path, size, sha256, mode in manifest:
        location = os.path.join(staging, integrity.native(path))
        problem = find_problem(location, size, sha256)
        if problem:
            problems.append("%s %s" % (path, problem))
            files.remove(location)
        else:
            os.chmod(location, mode)
        done += size
        if size >= 64 * _BLOCK:
            call.progress("checked %s" % path, done / total)
    return problems


def find_problem(location: str, size: int, sha256: str) -> str:
    """Compare a file with its manifest and flush it to disk. Return what is wrong with it, in a few words; empty if nothing is."""
    try:
        with open(location, "rb") as stream:
            if os.fstat(stream.fileno()).st_size != size:
                return "has another size"
            digest = hashlib.sha256()
            for block in iter(lambda: stream.read(_BLOCK), b""):
                digest.update(block)
            durability.flush_or_remove(stream.fileno(), location)
    except FileNotFoundError:
        return "is missing"
    return "" if digest.hexdigest() == sha256 else "has another SHA-256"
