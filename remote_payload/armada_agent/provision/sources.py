"""Look up the sources of an experiment's `files:`: paths of this host, URLs, repositories of the hub."""

import hashlib
import http.client
import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import files, parameters
from armada_agent.foundation.session import Call
from armada_agent.host import trust
from armada_agent.provision import content, hub_listing, redirects
from armada_agent.provision.hub_listing import HubError

_ANSWER_S = 20.0
_AT_ONCE = 8
_COLLECTIONS = ("models", "datasets")
_COMPRESSED = (".gz", ".tgz", ".bz2", ".xz", ".zst", ".br", ".Z")


class Item(NamedTuple):
    """One file to download.

    Attributes:
        path: Its path below the content's folder.
        url: Its URL.
        size: Its size in bytes, if known.
        check: `sha256:…` or git's `blob:…`, if known.
        version: The server's ETag, or its date if it sends no ETag.
        token: Sent as a bearer token, but not to a server to which this one redirects.
        is_fixed: The URL always gives the same bytes, as that of a commit does.
    """

    path: str
    url: str
    size: Optional[int]
    check: Optional[str]
    version: str = ""
    token: Optional[str] = None
    is_fixed: bool = False

    @property
    def can_resume(self) -> bool:
        """Return whether the rest of a file surely belongs to a part that arrived earlier."""
        is_strong = bool(self.version) and not self.version.startswith("W/")
        return self.check is not None or self.is_fixed or is_strong


class Source(NamedTuple):
    """The present state of a source.

    Attributes:
        identity: Changes whenever the source's files may have changed; empty if nothing shows that.
        items: Its files.
        is_folder: It is linked as a folder, not as its only file.
    """

    identity: str
    items: List[Item]
    is_folder: bool


def look_up(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Report for each source whether it is available, its size, and whether it is on this host. Download nothing."""
    asked = parameters.sequence(params, "sources")

    def answer(source: Any) -> Dict[str, Any]:
        found: Dict[str, Any] = {"identity": None, "present": False, "path": None, "size_bytes": None, "files": 0}
        found.update(problem=None, refused=False)
        try:
            if not isinstance(source, dict):
                raise AgentError("bad_request", "each of `sources` must be an object")
            if source.get("kind") == "host":
                found.update(_on_this_host(source))
            else:
                found.update(_elsewhere(call, source, params))
        except HubError as error:
            found.update(problem=error.message[:2000], refused=error.refused)
        return found

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return {"found": list(pool.map(answer, asked))}


def resolve(call: Call, source: Dict[str, Any], params: Dict[str, Any]) -> Source:
    """Query the source's server for its present state.

    Raises:
        AgentError: `bad_request`: this is not a source.
        HubError: The server refuses, or cannot be reached.
    """
    if source.get("kind") == "web":
        return _web(call, source)
    if source.get("kind") == "hub":
        return _hub(source, params)
    raise AgentError("bad_request", "%.100r is no kind of source" % (source.get("kind"),))


def opened(item: Item, start: int = 0, length: Optional[int] = None) -> Any:
    """Request a file from an offset on. A server answers 206 if it starts there, 200 if it starts at 0.

    Raises:
        OSError: The server refuses (`urllib.error.HTTPError`), or cannot be reached.
        http.client.HTTPException: It sends something else than HTTP.
        HubError: It sends the file compressed, although asked not to.
    """
    request = urllib.request.Request(item.url)  # noqa: S310  # the scheme was checked
    request.add_header("User-Agent", "armada")
    request.add_header("Accept-Encoding", "identity")
    if start or length:
        request.add_header("Range", "bytes=%d-%s" % (start, start + length - 1 if length else ""))
    if start and not item.version.startswith("W/") and item.version:
        request.add_header("If-Range", item.version)
    if item.token is not None:
        request.add_unredirected_header("Authorization", "Bearer " + item.token)
    answer = redirects.open_url(request, _ANSWER_S, item.check is not None)
    coding = answer.headers.get("Content-Encoding", "").strip().lower() or "identity"
    path = urllib.parse.urlsplit(item.url).path
    if coding != "identity" and not path.endswith(_COMPRESSED):  # some servers declare what a .gz file is
        answer.close()
        message = "%s is sent compressed (%.50s), although armada asked for the file itself"
        raise HubError(message % (hide_query(item.url), coding), refused=True)
    return answer


def version_of(headers: Any) -> str:
    """Return what a server says about a file's version; empty if nothing."""
    return str(headers.get("ETag") or headers.get("Last-Modified") or "")


def find_fetched(call: Call, source: Source) -> Optional[str]:
    """Return the folder of a source's files if they are here and unchanged.

    Raises:
        AgentError: `environment`: they were changed.
    """
    if not source.identity:
        return None
    try:
        noted = files.read_json(note_path(call.root, source.identity)) or {}
    except files.UnreadableError:
        return None
    sha = noted.get("content")
    if not isinstance(sha, str) or not re.fullmatch(r"[0-9a-f]{64}", sha):
        return None
    folder = os.path.join(call.root, "data", sha)
    if not os.path.isdir(folder):
        return None
    trust.require_tree(folder, call.root)
    content.require_right(folder, sha, folder, False, call)
    return folder


def note_path(root: str, identity: str) -> str:
    """Return the path of the file that records a source's content."""
    return os.path.join(root, "data", ".fetched-%s.json" % identity)


def linked_path(folder: str, source: Source) -> str:
    """Return the path to which a job's link points."""
    return folder if source.is_folder else os.path.join(folder, source.items[0].path)


def _on_this_host(source: Dict[str, Any]) -> Dict[str, Any]:
    path = os.path.normpath(os.path.expanduser(parameters.text(source, "path")))
    if not os.path.isabs(path):
        return {"problem": "%s is not an absolute path" % path, "refused": True}
    if not os.path.exists(path):
        return {"problem": "there is no %s on this host" % path, "refused": True}
    if not os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0)):
        return {"problem": "%s cannot be read by the user of this host" % path, "refused": True}
    if not os.path.isdir(path) and not os.path.isfile(path):
        return {"problem": "%s is neither a file nor a folder" % path, "refused": True}
    return {"present": True, "path": path, "files": 1}


def _elsewhere(call: Call, asked: Dict[str, Any], params: Dict[str, Any]) -> Dict[str, Any]:
    source = resolve(call, asked, params)
    folder = find_fetched(call, source)
    sizes = [item.size for item in source.items]
    size = None if any(each is None for each in sizes) else sum(each or 0 for each in sizes)
    found: Dict[str, Any] = {"identity": source.identity or None, "size_bytes": size, "files": len(source.items)}
    if folder is not None:
        found.update(present=True, path=linked_path(folder, source))
    return found


def _web(call: Call, asked: Dict[str, Any]) -> Source:
    url, name = parameters.text(asked, "url"), parameters.text(asked, "name")
    sha256 = asked.get("sha256")
    if sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", str(sha256)):
        raise AgentError("bad_request", "%.100r is not a SHA-256" % (sha256,))
    if not content.is_safe(name) or "/" in name:
        raise AgentError("bad_request", "%.100r is not a file's name" % name)
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and (sha256 or parts.hostname in redirects.LOOPBACK)):
        raise AgentError("bad_request", "%.200r must begin with https://" % url)
    if sha256:
        promised = Source(_identity("sha256", name, str(sha256)), [Item(name, url, None, "sha256:%s" % sha256)], False)
        if find_fetched(call, promised) is not None:
            return promised  # even if its server is unreachable
        size, version = _ask_size(promised.items[0])
        return promised._replace(items=[promised.items[0]._replace(size=size, version=version)])
    size, version = _ask_size(Item(name, url, None, None))
    identity = _identity("web", name, url, version, str(size)) if version else ""
    return Source(identity, [Item(name, url, size, None, version)], False)


def _ask_size(item: Item) -> Tuple[Optional[int], str]:
    """Request one byte to learn the size, because URLs that are signed for GET refuse HEAD."""
    shown = hide_query(item.url)
    try:
        with opened(item, length=1) as said:
            headers = said.headers
            whole = re.fullmatch(r"bytes 0-0/(\d+)", headers.get("Content-Range", ""))
            length = whole[1] if whole else headers.get("Content-Length", "") if said.status == 200 else ""
    except urllib.error.HTTPError as error:
        if error.code == 416:  # an empty file has no first byte
            real = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
            return (int(real[1]) if real else None), version_of(error.headers)
        raise HubError("%s answered %d (%.300s)" % (shown, error.code, error.reason), refused=error.code < 500)
    except (OSError, ValueError, http.client.HTTPException) as error:
        why = getattr(error, "reason", error) or type(error).__name__
        raise HubError("%s cannot be reached from here: %.300s" % (shown, why), refused=False)
    return (int(length) if length.isdigit() else None), version_of(headers)


def hide_query(url: str) -> str:
    """Remove the query of a URL for display: a signed URL has its key there."""
    return url.partition("?")[0][:300]


def _hub(asked: Dict[str, Any], params: Dict[str, Any]) -> Source:
    collection, path = parameters.text(asked, "collection"), parameters.text(asked, "path")
    if collection not in _COLLECTIONS:
        raise AgentError("bad_request", "%.100r is no collection of the hub" % collection)
    repo, revision = hub_listing.checked_names(parameters.text(asked, "repo"), parameters.text(asked, "revision"))
    commit, listed = hub_listing.list_files(collection, repo, revision, params)
    names = [name for name in sorted(listed) if content.is_safe(name)]
    odd = [
        name for name in sorted(listed) if not content.is_safe(name) and (name + "/").startswith(path and path + "/")
    ]
    if odd and (path or collection == "datasets"):  # of a whole model, training reads only files with known names
        raise HubError("%s holds %.200r, which cannot be a file's name" % (repo, odd[0]), refused=True)
    if path in listed:
        chosen, below, is_folder = [path], os.path.dirname(path), False
    elif path:
        chosen, below, is_folder = [name for name in names if name.startswith(path + "/")], path, True
    else:
        chosen = hub_listing.choose_files(names) if collection == "models" else names
        below, is_folder = "", True
    if not chosen:
        raise HubError("%s holds no %s at %s" % (repo, path or "files", revision), refused=True)
    prefix = "%s/%s%s/resolve/%s/" % (
        hub_listing.endpoint(params),
        "datasets/" if collection == "datasets" else "",
        repo,
        commit,
    )
    token = parameters.text(params, "token") if params.get("token") is not None else None
    items = [
        Item(
            name[len(below) + 1 if below else 0 :],
            prefix + urllib.parse.quote(name),
            listed[name].size,
            listed[name].check,
            token=token,
            is_fixed=True,
        )
        for name in chosen
    ]
    return Source(_identity("hub", collection, repo, commit, path), items, is_folder)


def _identity(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode("ascii")).hexdigest()
