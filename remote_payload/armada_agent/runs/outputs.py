"""List a run's outputs other than checkpoints: logs, metrics, W&B files, merged models, files that its experiment names.

One request covers all runs of a host, so that a sync without news costs one round trip.
"""

import hashlib
import json
import os
import re
import stat
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import parameters
from armada_agent.foundation.session import Call
from armada_agent.host import roots
from armada_agent.outbox import homes, listing, watch_record
from armada_agent.paths import RunPaths, newest
from armada_agent.runs import beside_work, orphaned_checkpoints, readable_files
from armada_agent.runs.sent_files import Sent

_ALWAYS = ("output.log", "metrics.jsonl", "telemetry.jsonl", "events.jsonl", "state.json", "spec.json", "samples.jsonl")
_FOLDERS = ("launch", "wandb", "merged")
_LEFT = "left"
"""What a resume kept of checkpoints that may be incomplete: nothing takes it home, and nothing else has it."""
_MOST_FILES = 10000
_MOST_LOOKED_AT = 200000
_MOST_RUNS = 1000
_SHOWN = 20
_MOST_OTHERS = 2000
_LONGEST_MANIFEST = 64 * 1024
_MOST_MANIFESTS = 512 * 1024
_UNNAMED = re.compile(
    r"work/(?:.*/)?(?:events\.out\.tfevents\.[^/]*|wandb/(?:offline-)?run-[^/]+/.+)", re.DOTALL
)  # come home without a pattern
_IGNORED = ("__pycache__", ".git", ".venv", "node_modules")
_BLOCK = 1024 * 1024
Found = Tuple[str, os.stat_result]


def look(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """List, for each requested run, its outbox and the files to bring home: TensorBoard's and W&B's without being named.

    `finishing` counts checkpoints whose supervisor is dead and that another process takes and hashes now; `announced`
    counts these, too. `unreadable` names finished checkpoints whose manifest cannot be read. `others` counts files
    that the run wrote below work/ and that no pattern matches: they stay on the host. A request with `list_others`
    also gets their names. What a job put beside work/, what a resume kept, folders that cannot be read and links that
    lead elsewhere are counted there, too, and stay on the host. `manifests` are those of the newest checkpoints that
    this home lacks: at most the requested number, and only short ones. `outside` lists checkpoints, and links in
    checkpoints, that lead out of the run's work folder, and so do not come home. A home that identifies itself is
    registered for these runs; `homes` lists all registered homes.
    """
    asked = parameters.sequence(params, "runs")
    home = homes.read_asker(params)
    if len(asked) > _MOST_RUNS:
        raise AgentError("bad_request", "at most %d runs per request" % _MOST_RUNS)
    answers: List[Dict[str, Any]] = []
    room, root = _MOST_MANIFESTS, roots.identify(call.root)
    for question in asked:
        if not isinstance(question, dict):
            raise AgentError("bad_request", "each of `runs` must be an object")
        paths, patterns = RunPaths(call.root, question.get("run_id")), _patterns(question)
        answer = _empty(paths)
        try:
            unregistered = homes.register(paths, home)
            if unregistered is not None:
                answer["unregistered"] = unregistered[:300]
            if question.get("list_others") is True:
                answer["others"]["files"] = []
            answer["exists"] = paths.is_there()
            _look_at(call, paths, patterns, answer)
            room -= _add_manifests(paths, home, question.get("manifests"), room, answer)
        except (
            Exception
        ) as error:  # one damaged folder must not hide the other runs; this run does not count as complete
            answer.update(truncated=True, problem="%s: %s" % (type(error).__name__, str(error)[:300]))
        answers.append(answer)
    return dict(roots.describe(call.root, root), runs=answers)


def hash_files(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Return the SHA-256 of `size` bytes of each file, from its beginning or from an offset.

    It is null for a shorter or missing file, and for one that its disk cannot read, or that this user may not read: it holds up
    no other.
    """
    paths = RunPaths(call.root, params.get("run_id"))
    found: List[Optional[str]] = []
    for entry in parameters.sequence(params, "files"):
        numbers = entry[1:] if isinstance(entry, list) else []
        if len(numbers) not in (1, 2) or not all(isinstance(number, int) and number >= 0 for number in numbers):
            raise AgentError("bad_request", "each of `files` must be [path, size] or [path, size, offset]")
        try:
            found.append(_hash(paths, entry[0], *numbers))
        except OSError:
            found.append(None)
        except AgentError as error:
            if error.kind != "not_found":
                raise
            found.append(None)
    return {"sha256": found}


def matcher(pattern: str) -> "re.Pattern[str]":
    """Compile a glob: `*` and `?` do not match `/`, `**` does. A folder's name matches everything below it."""
    parts = []
    rest = pattern.rstrip("/")
    while rest:
        if rest.startswith("**/"):
            parts.append("(?:.*/)?")
            rest = rest[3:]
        elif rest.startswith("**"):
            parts.append(".*")
            rest = rest[2:]
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(rest[0], re.escape(rest[0])))
            rest = rest[1:]
    return re.compile("".join(parts) + "(?:/.*)?", re.DOTALL)


def _patterns(question: Dict[str, Any]) -> "List[re.Pattern[str]]":
    listed = question.get("outputs", [])
    if not isinstance(listed, list) or not all(map(parameters.is_text, listed)) or len(listed) > 100:
        raise AgentError("bad_request", "`outputs` must be a list of patterns")
    return [matcher(pattern) for pattern in listed]


def _empty(paths: RunPaths) -> Dict[str, Any]:
    """Return the answer for a run that is there, of which nothing has been read yet: without a listing it is not missing."""
    answer: Dict[str, Any] = {"run_id": paths.run_id, "exists": True, "outbox": [], "announced": 0, "finishing": 0}
    answer.update(
        {
            "submission": 0,
            "homes": [],
            "outputs": [],
            "truncated": False,
            "others": {"count": 0, "size_bytes": 0, "examples": []},
        }
    )
    return answer


def _look_at(call: Call, paths: RunPaths, patterns: "List[re.Pattern[str]]", answer: Dict[str, Any]) -> None:
    if not answer["exists"]:
        return
    answer["attempt"] = newest(paths.attempts()) or 0  # first: what a later one saves may not be listed
    # In this order, a checkpoint that is finished meanwhile is counted twice instead of never.
    unfinished = orphaned_checkpoints.attend(call, paths)
    answer["finishing"] = unfinished.finishing
    answer["announced"] = len(paths.announced()) + unfinished.unannounced + unfinished.untaken
    answer["untaken"] = unfinished.untaken
    answer["unreadable"] = listing.find_unreadable(paths)
    answer["outbox"] = listing.list_finished(paths)
    answer["homes"] = homes.describe(paths)
    outside = watch_record.find_outside(paths)
    answer["outside"] = {"count": len(outside), "examples": outside[:_SHOWN]}
    sent = Sent(paths)
    beside = beside_work.find(paths)
    for path, found in _files(paths, sent, answer, set(outside), beside, is_asked=bool(patterns)):
        top = path.partition("/")[0]
        if top == _LEFT or top in beside:
            _count(answer["others"], path, found.st_size)
            continue
        inside = path[len("work/") :] if path.startswith("work/") else None
        is_named = inside is not None and any(pattern.fullmatch(inside) for pattern in patterns)
        is_own = inside is not None and sent.is_own(inside, found)
        if inside is None or is_named or (is_own and _UNNAMED.fullmatch(path)):
            if len(answer["outputs"]) < _MOST_FILES:
                times = {"mtime": found.st_mtime, "ctime_us": found.st_ctime_ns // 1000}
                answer["outputs"].append(dict(times, path=path, size_bytes=found.st_size))
            else:
                answer["truncated"] = True
        elif is_own:
            _count(answer["others"], path, found.st_size)
    answer["submission"] = paths.newest_submission() or 0  # last: a home that knows it has seen all of the former


def _count(others: Dict[str, Any], path: str, size_bytes: int) -> None:
    others["count"] += 1
    others["size_bytes"] += size_bytes
    if len(others["examples"]) < _SHOWN:
        others["examples"].append(path)
    is_readable = path.partition("/")[0] in readable_files.READABLE  # home asks for hashes of these
    if is_readable and len(others.get("files", ())) < _MOST_OTHERS and "files" in others:
        others["files"].append([path, size_bytes])


def _add_manifests(
    paths: RunPaths, home: Optional[homes.Home], wanted: object, room: int, answer: Dict[str, Any]
) -> int:
    """Add the manifests that home would request next; home requests those that do not fit.

    Returns:
        Their size in the answer, in bytes.
    """
    taken = 0
    left = wanted if isinstance(wanted, int) else 0
    known = {entry["digest"] for entry in answer["outbox"] if entry["acknowledged"]}
    for each in answer["homes"]:
        if home is not None and each["id"] == home["id"]:
            known = set(each["held"]) | set(each["unwanted"])
    for entry in reversed(answer["outbox"]):
        if left <= 0:
            break
        if entry["digest"] in known:
            continue
        left -= 1
        try:
            text = listing.manifest_text(paths, entry["digest"], _LONGEST_MANIFEST)
        except (AgentError, OSError):
            continue  # home gets the error when it requests the manifest
        size = len(json.dumps(text))
        if size <= min(_LONGEST_MANIFEST, room - taken):
            taken += size
            answer.setdefault("manifests", {})[entry["digest"]] = text
    return taken


def _files(
    paths: RunPaths, sent: Sent, answer: Dict[str, Any], named: Set[str], beside: List[str], *, is_asked: bool
) -> Iterator[Found]:
    """Yield the regular files of a run; what else holds files, and cannot be looked into, is counted in the answer.

    Args:
        paths: The run's.
        sent: What armada put into its work folder.
        answer: Gets folders that cannot be read, and links that lead elsewhere.
        named: Links that the answer names already, relative to the work folder.
        beside: What the job put beside its work folder.
        is_asked: Files of the work folder are asked for.
    """
    single = set()
    for name in (*_ALWAYS, *beside):
        found = _regular(os.path.join(paths.folder, name))
        if found:
            single.add(name)
            yield name, found
    budget = _MOST_LOOKED_AT

    def note(error: OSError) -> None:
        if error.filename is not None and not isinstance(error, FileNotFoundError):
            path = os.path.relpath(os.fsdecode(error.filename), paths.folder)
            if is_asked or not path.startswith("work"):
                answer["truncated"] = True  # what lies in it may be wanted
            _count(answer["others"], path, 0)

    for top in (*_FOLDERS, _LEFT, "work", *(name for name in beside if name not in single)):
        if os.path.islink(os.path.join(paths.folder, top)):
            _count(answer["others"], top, 0)
            continue  # links are not sent, and what they point to, which may be away now, is not, either
        for parent, folders, names in os.walk(os.path.join(paths.folder, top), onerror=note):
            folders[:] = sorted(name for name in folders if name not in _IGNORED)
            for name in sorted([*folders, *names]):
                location = os.path.join(parent, name)
                try:
                    found = _regular(location)
                except OSError as error:  # such as in a folder that lets nobody in
                    note(error)
                    continue
                budget -= 1
                if budget <= 0:
                    answer["truncated"] = True
                    return
                path = os.path.relpath(location, paths.folder)
                if found:
                    yield path, found
                elif top == "work" and os.path.islink(location):
                    inside = os.path.relpath(location, paths.work)
                    if inside not in named and sent.leads_out(inside):
                        _count(answer["others"], path, 0)


def _regular(path: str) -> Optional[os.stat_result]:
    """Return what is there, if it is a regular file; None for anything else and nothing.

    Raises:
        OSError: Nobody can say what is there.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _hash(paths: RunPaths, path: object, size: int, offset: int = 0) -> Optional[str]:
    descriptor = readable_files.open_file(paths, path)
    with os.fdopen(descriptor, "rb") as stream:
        stream.seek(offset)
        digest = hashlib.sha256()
        left = size
        while left:
            block = stream.read(min(_BLOCK, left))
            if not block:
                return None
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()
