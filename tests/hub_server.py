"""A small server that answers as the Hugging Face hub does, for tests without internet.

The shapes are those huggingface_hub 1 and 2 read: `/api/models/<repo>/revision/<rev>` with `sha` and `siblings` (`blobId`,
and for large files `lfs`), `/api/models/<repo>/tree/<rev>`, and `/<repo>/resolve/<rev>/<file>` with `ETag`, `X-Repo-Commit`,
`X-Linked-Size` and ranges.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_LARGE = (".safetensors", ".bin")


@dataclass
class Hub:
    """What it serves, and what it was asked."""

    repo: str
    files: dict[str, bytes]
    commit: str = COMMIT
    token: str | None = None
    """Without it, everything is refused."""
    damaged: set[str] = field(default_factory=set)
    """Files whose bytes are others than their hash says, as long."""
    asked: list[str] = field(default_factory=list)
    address: str = ""

    def siblings(self, *, blobs: bool) -> list[dict[str, object]]:
        return [self._sibling(name, content, blobs=blobs) for name, content in self.files.items()]

    def etag(self, name: str) -> str:
        content = self.files[name]
        if name.endswith(_LARGE):
            return hashlib.sha256(content).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()

    def _sibling(self, name: str, content: bytes, *, blobs: bool) -> dict[str, object]:
        if not blobs:
            return {"rfilename": name}
        told: dict[str, object] = {"rfilename": name, "size": len(content), "blobId": self.etag(name)[:40]}
        if name.endswith(_LARGE):
            told["lfs"] = {"sha256": self.etag(name), "size": len(content), "pointerSize": 134}
        return told


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Serve on a port of loopback while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self, *, body: bool) -> None:
            place = urllib.parse.urlsplit(self.path)
            path = urllib.parse.unquote(place.path)
            hub.asked.append(f"{self.command} {path}")
            if hub.token is not None and self.headers.get("Authorization") != f"Bearer {hub.token}":
                self._send(401, {"X-Error-Code": "GatedRepo"}, b'{"error": "Access is restricted"}', body=body)
                return
            if match := re.fullmatch(r"/api/models/(.+?)/tree/([^/]+)", path):
                self._send_tree(match[1], match[2], body=body)
            elif match := re.fullmatch(r"/api/models/(.+?)(?:/revision/([^/]+))?", path):
                self._send_model(match[1], match[2] or "main", blobs="blobs" in place.query, body=body)
            elif match := re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", path):
                self._send_file(match[1], match[2], match[3], body=body)
            else:
                self._send(404, {}, b"{}", body=body)

        def _send_model(self, repo: str, revision: str, *, blobs: bool, body: bool) -> None:
            if repo != hub.repo or revision not in ("main", hub.commit):
                code = "RepoNotFound" if repo != hub.repo else "RevisionNotFound"
                self._send(404, {"X-Error-Code": code}, b'{"error": "not found"}', body=body)
                return
            told = {"_id": "1", "id": hub.repo, "modelId": hub.repo, "sha": hub.commit, "private": False, "tags": []}
            told |= {"downloads": 0, "likes": 0, "siblings": hub.siblings(blobs=blobs)}
            self._send(200, {"Content-Type": "application/json"}, json.dumps(told).encode(), body=body)

        def _send_tree(self, repo: str, revision: str, *, body: bool) -> None:
            if repo != hub.repo or revision not in ("main", hub.commit):
                self._send(404, {"X-Error-Code": "RepoNotFound"}, b"{}", body=body)
                return
            listed = []
            for file in hub.siblings(blobs=True):
                entry = {"type": "file", "path": file["rfilename"], "size": file["size"], "oid": file["blobId"]}
                if isinstance(lfs := file.get("lfs"), dict):
                    entry["lfs"] = {"oid": lfs["sha256"], "size": lfs["size"], "pointerSize": 134}
                listed.append(entry)
            self._send(200, {"Content-Type": "application/json"}, json.dumps(listed).encode(), body=body)

        def _send_file(self, repo: str, revision: str, name: str, *, body: bool) -> None:
            if repo != hub.repo or revision not in ("main", hub.commit) or name not in hub.files:
                self._send(404, {"X-Error-Code": "EntryNotFound"}, b"", body=body)
                return
            content = hub.files[name]
            if name in hub.damaged:
                content = bytes(byte ^ 1 for byte in content)
            headers = {"ETag": f'"{hub.etag(name)}"', "X-Repo-Commit": hub.commit, "Accept-Ranges": "bytes"}
            headers["X-Linked-Size"] = str(len(content))
            wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if wanted:
                first, last = int(wanted[1]), int(wanted[2] or len(content) - 1)
                headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
                self._send(206, headers, content[first : last + 1], body=body)
            else:
                self._send(200, headers, content, body=body)

        def _send(self, code: int, headers: dict[str, str], content: bytes, *, body: bool) -> None:
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
