"""Download hub models on the login node for workers without internet, into folders named by commit."""

import json
import os
import shutil
from typing import Any, Dict, List, Optional, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import files, parameters
from armada_agent.foundation.session import Call
from armada_agent.host import trust
from armada_agent.provision import environment, hub_cache, hub_listing
from armada_agent.provision.hub_listing import COMMIT, HubError, HubFile

_DROPPED = ("HF_HUB_OFFLINE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "TRANSFORMERS_OFFLINE", "PYTHONPATH")
_SHOWN_LINES = 15
_LONGEST_CONFIG = 1000 * 1000
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
# Runs in the environment's Python. Its input comes over stdin: process lists would show a token.
_FETCH = """
import hashlib, json, os, sys, threading
asked = json.load(sys.stdin)
from huggingface_hub import HfApi, snapshot_download
api = HfApi(token=asked["token"] or False)
listed = api.model_info(asked["repo"], revision=asked["commit"], files_metadata=True).siblings or []
wanted = {file.rfilename: file for file in listed if file.rfilename in set(asked["files"])}
total = sum(file.size or 0 for file in wanted.values())
done = threading.Event()
def tell():
    while not done.wait(2.0):
        sizes = [os.path.getsize(os.path.join(p, n)) for p, _, names in os.walk(asked["folder"]) for n in names
                 if os.path.exists(os.path.join(p, n))]
        print("@@", min(total, sum(sizes)), total, flush=True)
threading.Thread(target=tell, daemon=True).start()
snapshot_download(asked["repo"], revision=asked["commit"], local_dir=asked["folder"], token=asked["token"] or False,
                  allow_patterns=sorted(wanted))
done.set()
for name, file in sorted(wanted.items()):
    path = os.path.join(asked["folder"], name)
    size = os.path.getsize(path)
    digest = hashlib.sha256() if file.lfs else hashlib.sha1(b"blob %d\\0" % size)
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
        os.fsync(stream.fileno())
    expected = file.lfs.sha256 if file.lfs else file.blob_id
    if expected and digest.hexdigest() != expected:
        os.unlink(path)
        sys.exit("%s arrived damaged; it is fetched again by the next try" % name)
"""


def find(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Return the current commit of a model's revision, and the folder of its files.

    If the hub cannot be reached, the last known commit counts, provided that its files are here.

    Returns:
        `commit` and `path`, null if unknown; `present`; `size_bytes` to download; `error` if the hub did not answer;
        `refused` if it answered with an error; `denied` if only some users may read its files; `config`, its config.json,
        or `config_problem`; `cache`, what the host's Hugging Face cache has of it.
    """
    repo, revision = _checked(params)
    answer: Dict[str, Any] = {"commit": None, "path": None, "present": False, "size_bytes": None, "error": None}
    answer.update(refused=False, denied=None, config=None, config_problem=None, cache=None)
    commit: Optional[str] = None
    try:
        commit, found = _list(repo, revision, params)
    except HubError as error:
        commit = _Shelf(call.root, repo).remembered(revision)
        answer.update(error=error.message[:2000], refused=error.refused)
    else:
        answer["size_bytes"] = sum(file.size for file in found.values())
        lacking = _lacking(found)
        if lacking is not None:
            commit = None
            answer.update(error="%s %s at %s" % (repo, lacking, revision), refused=True)
        elif commit is not None:
            answer.update(_read_config(repo, commit, found, params))
            answer["cache"] = hub_cache.describe(call.root, repo, commit, found, hub_listing.variables(params))
    if commit is not None:
        path = _Shelf(call.root, repo).folder(commit)
        answer.update(commit=commit, path=path, present=os.path.isdir(path))
        if answer["present"]:
            trust.require_tree(path, call.root)  # its bytes were verified against the hub's hashes on arrival
    return answer


def fetch(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Download a model with an environment's own huggingface_hub, and verify every file against the hub's hash.

    Raises:
        AgentError: `environment`, with the end of the output; `disk_full`.
    """
    repo, revision = _checked(params)
    commit = parameters.text(params, "commit")
    if not COMMIT.fullmatch(commit):
        raise AgentError("bad_request", "%.100r is not a commit" % commit)
    python = environment.find_python(call.root, params.get("environment"))
    shelf = _Shelf(call.root, repo)
    path = shelf.folder(commit)
    outcome = "ready"
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    lock = files.lock(os.path.join(os.path.dirname(path), ".lock-" + commit), timeout_s=0)
    if lock is None:
        call.progress("%s is being fetched already" % repo)
        lock = files.lock(os.path.join(os.path.dirname(path), ".lock-" + commit))
    try:
        if not os.path.isdir(path):
            staging = os.path.join(os.path.dirname(path), ".new-" + commit)
            os.makedirs(staging, mode=0o700, exist_ok=True)
            _fetch(call, python, repo, commit, staging, params, lock)
            shutil.rmtree(os.path.join(staging, ".cache"), ignore_errors=True)  # the library's files for resuming
            os.rename(staging, path)
            files.fsync_folder(os.path.dirname(path))
            outcome = "fetched"
        shelf.remember(revision, commit)
    finally:
        if lock is not None:
            os.close(lock)
    return {"outcome": outcome, "path": path, "size_bytes": _size(path)}


class _Shelf:
    """The folders of one model's commits, and the last known commit of each revision."""

    def __init__(self, root: str, repo: str) -> None:
        self._folder = os.path.join(root, "models", "hub", repo.replace("/", "--"))
        self._refs = os.path.join(self._folder, "refs.json")

    def folder(self, commit: str) -> str:
        return os.path.join(self._folder, commit)

    def remembered(self, revision: str) -> Optional[str]:
        commit = revision if COMMIT.fullmatch(revision) else self._read().get(revision)
        known = isinstance(commit, str) and COMMIT.fullmatch(commit) is not None
        return str(commit) if known and os.path.isdir(self.folder(str(commit))) else None

    def remember(self, revision: str, commit: str) -> None:
        files.write_json(self._refs, dict(self._read(), **{revision: commit}))

    def _read(self) -> Dict[str, Any]:
        try:
            return files.read_json(self._refs) or {}
        except files.UnreadableError:
            return {}


def _checked(params: Dict[str, Any]) -> Tuple[str, str]:
    return hub_listing.checked_names(parameters.text(params, "repo"), parameters.text(params, "revision"))


def _list(repo: str, revision: str, params: Dict[str, Any]) -> Tuple[str, Dict[str, HubFile]]:
    """Query the hub for a revision's commit, and for the files to download."""
    commit, found = hub_listing.list_files("models", repo, revision, params)
    return commit, {name: found[name] for name in hub_listing.choose_files(sorted(found))}


def _lacking(found: Dict[str, HubFile]) -> Optional[str]:
    """Return what a repository lacks to be a model that transformers loads, or None."""
    if not found:
        return "holds no files"
    if "config.json" not in found and "adapter_config.json" not in found:
        return "has no config.json, which transformers needs,"
    if not any(name.endswith(_WEIGHTS) for name in found):
        return "has no weights that transformers reads"
    return None


def _read_config(repo: str, commit: str, found: Dict[str, HubFile], params: Dict[str, Any]) -> Dict[str, Any]:
    """Read config.json, which also shows whether this token may read the repository's files."""
    if "config.json" not in found:
        return {"config_problem": "it has no config.json"}
    try:
        content = hub_listing.read_file("models", repo, commit, "config.json", params, _LONGEST_CONFIG)
        return {"config": content.decode("utf-8")}
    except HubError as error:
        return {"denied" if error.refused else "config_problem": error.message[:400]}
    except ValueError:
        return {"config_problem": "its config.json is not text"}


def _fetch(
    call: Call, python: str, repo: str, commit: str, staging: str, params: Dict[str, Any], lock: Optional[int]
) -> None:
    try:
        _, wanted = _list(repo, commit, params)
    except HubError as error:
        raise AgentError("environment", error.message)
    variables = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    variables.update(hub_listing.variables(params), HF_HUB_DISABLE_PROGRESS_BARS="1", HF_HUB_DISABLE_TELEMETRY="1")
    asked = {"repo": repo, "commit": commit, "folder": staging, "files": sorted(wanted), "token": params.get("token")}
    said: List[str] = []

    def take(line: str) -> None:
        words = line.split(" ")
        if words[0] == "@@" and len(words) == 3 and words[1].isdigit() and words[2].isdigit():
            call.progress("%s from the hub" % repo, int(words[1]) / float(max(1, int(words[2]))))
        elif line.strip():
            said.append(line[:500])

    call.progress("%s from the hub" % repo, 0.0)
    code = call.session.children.run(
        [python, "-I", "-c", _FETCH],
        variables,
        take,
        inherit=[] if lock is None else [lock],
        stdin=json.dumps(asked).encode("utf-8"),
    )
    if code:
        words = "\n".join(said[-_SHOWN_LINES:]) or "it printed nothing"
        full = "No space left" in words or "Disk quota" in words
        message = "fetching %s failed with exit code %d:\n%s" % (repo, code, words)
        raise AgentError("disk_full" if full else "environment", message, "launch again to continue from here")


def _size(path: str) -> int:
    return sum(os.path.getsize(os.path.join(top, name)) for top, _, names in os.walk(path) for name in names)
