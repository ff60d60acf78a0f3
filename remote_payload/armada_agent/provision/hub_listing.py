"""Query the Hugging Face hub for the commit of a revision and for its files."""

import http.client
import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import parameters
from armada_agent.provision import redirects

_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}(?:/[A-Za-z0-9][A-Za-z0-9_.-]{0,95})?")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,120}")
COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB = "https://huggingface.co"
_HUB_S = 15.0
_LONGEST_ANSWER = 32 * 1024 * 1024
# A plan may set only these variables for access to the hub; all others come from the host.
_VARIABLES = ("HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "HF_HUB_DISABLE_XET")


class HubFile(NamedTuple):
    """A file of a repository. `check` is `sha256:…` or git's `blob:…`, None if the hub gives no hash."""

    size: int
    check: Optional[str]


class HubError(Exception):
    """The hub gave no listing. `refused`: the hub answered with an error."""

    def __init__(self, message: str, refused: bool) -> None:
        super().__init__(message)
        self.message = message
        self.refused = refused


def checked_names(repo: str, revision: str) -> Tuple[str, str]:
    """Return a repository's id and a revision, both checked.

    Raises:
        AgentError: `bad_request`: they are not valid.
    """
    if not _REPO.fullmatch(repo) or ".." in repo or "--" in repo:
        raise AgentError("bad_request", "%.100r is not the id of a model on the hub" % repo)
    if not _REVISION.fullmatch(revision) or ".." in revision:
        raise AgentError("bad_request", "%.100r is not a revision" % revision)
    return repo, revision


def variables(params: Dict[str, Any]) -> Dict[str, str]:
    """Return the variables of a request that concern access to the hub."""
    given = parameters.texts(params, "variables")
    return {name: value for name, value in given.items() if name.upper() in _VARIABLES}


def endpoint(params: Dict[str, Any]) -> str:
    """Return the hub's URL.

    Raises:
        HubError: HF_ENDPOINT is not a URL.
    """
    found = variables(params).get("HF_ENDPOINT") or os.environ.get("HF_ENDPOINT") or _HUB
    if not re.match(r"https?://[^\s]+$", found):
        raise HubError("HF_ENDPOINT %.100r is not an address" % found, refused=True)
    return found.rstrip("/")


def list_files(kind: str, repo: str, revision: str, params: Dict[str, Any]) -> Tuple[str, Dict[str, HubFile]]:
    """Query the hub for a revision's commit and its files.

    Args:
        kind: `models` or `datasets`.
        repo: The repository's id.
        revision: A branch, a tag or a commit.
        params: The request's parameters, with `variables` and `token`.

    Raises:
        HubError: The hub refuses, or cannot be reached.
    """
    address = endpoint(params)
    place = "%s/api/%s/%s/revision/%s" % (address, kind, repo, urllib.parse.quote(revision, safe=""))
    request = urllib.request.Request(place + "?blobs=true")  # noqa: S310  # `endpoint` checks the scheme
    if params.get("token") is not None:
        # Not sent when the hub redirects to another server.
        request.add_unredirected_header("Authorization", "Bearer " + parameters.text(params, "token"))
    try:
        with redirects.open_url(request, _HUB_S) as said:
            answer = said.read(_LONGEST_ANSWER + 1)
            if len(answer) > _LONGEST_ANSWER:
                raise HubError("%s lists too many files for %s" % (address, repo), refused=True)
            told = json.loads(answer.decode("utf-8"))
            commit = told["sha"]
            found = {str(file["rfilename"]): _hub_file(file) for file in told.get("siblings", [])}
    except urllib.error.HTTPError as error:
        why = {
            401: "it needs a token, or does not exist",
            403: "its owner must give you access",
            404: "it does not exist",
        }
        message = "%s answered %d for %s at %s: %.300s"
        words = why.get(error.code, str(error.reason))
        raise HubError(message % (address, error.code, repo, revision, words), refused=error.code in why)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, http.client.HTTPException) as error:
        raise HubError("%s cannot be reached from here: %.300s" % (address, error), refused=False)
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        raise HubError("%s returned no commit for %s" % (address, repo), refused=False)
    return commit, found


def read_file(kind: str, repo: str, commit: str, name: str, params: Dict[str, Any], most: int) -> bytes:
    """Read a small file of a repository.

    Args:
        kind: `models` or `datasets`.
        repo: The repository's id.
        commit: One of its commits.
        name: The file.
        params: The request's parameters, with `variables` and `token`.
        most: The most bytes to read.

    Raises:
        HubError: `refused`: only some users may read it; else it is longer, or cannot be read.
    """
    prefix = "" if kind == "models" else kind + "/"
    place = "%s/%s%s/resolve/%s/%s" % (endpoint(params), prefix, repo, commit, urllib.parse.quote(name))
    request = urllib.request.Request(place)  # noqa: S310  # `endpoint` checks the scheme
    if params.get("token") is not None:
        request.add_unredirected_header("Authorization", "Bearer " + parameters.text(params, "token"))
    try:
        with redirects.open_url(request, _HUB_S) as said:
            content: bytes = said.read(most + 1)
    except urllib.error.HTTPError as error:
        raise HubError("answered %d for %s" % (error.code, name), refused=error.code in (401, 403))
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise HubError("%s cannot be read: %.300s" % (name, error), refused=False)
    if len(content) > most:
        raise HubError("%s is longer than %d kB" % (name, most // 1000), refused=False)
    return content


def choose_files(names: List[str]) -> List[str]:
    """Choose the files that a training reads, without the same weights in another framework's format."""
    safe = any(name.endswith(".safetensors") and "/" not in name for name in names)
    foreign = (".msgpack", ".h5", ".ot", ".onnx", ".gguf", ".tflite", ".mlmodel", ".zip", ".tar.gz")
    chosen = [name for name in names if not name.endswith(foreign) and not name.startswith(("onnx/", "original/"))]
    return [name for name in chosen if not (safe and name.endswith((".bin", ".pth", ".pt")))]


def _hub_file(file: Dict[str, Any]) -> HubFile:
    lfs, blob = file.get("lfs"), file.get("blobId")
    check = None
    if isinstance(lfs, dict) and re.fullmatch(r"[0-9a-f]{64}", str(lfs.get("sha256"))):
        check = "sha256:%s" % lfs["sha256"]
    elif isinstance(blob, str) and COMMIT.fullmatch(blob) and not lfs:
        check = "blob:%s" % blob
    return HubFile(int(file.get("size") or 0), check)
