"""A small server that takes uploads as the Hugging Face hub does, by HTTP and git-lfs, for tests without internet.

The requests are those that huggingface_hub 0.34 to 2 make for `create_repo`, `model_info` and `create_commit` with
HF_HUB_DISABLE_XET: `/api/repos/create`, `/api/models/<repo>`, `…/preupload/<rev>`, `/<repo>.git/info/lfs/objects/batch`, a PUT
for each large file, and `…/commit/<rev>` with one line of JSON for each file.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_LARGE = (".safetensors", ".bin")


@dataclass
class Uploads:
    """What was uploaded, and what it was asked."""

    token: str = "hf_the-token-of-the-test"
    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    private: dict[str, bool] = field(default_factory=dict)
    commits: int = 0
    asked: list[str] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    """Requests by a pattern of their method and path, and the status that answers them."""
    before_commit: Callable[[], None] = lambda: None
    corrupt: str = "none"
    """Say other hashes than those of the bytes, of files whose name ends so."""
    address: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)

    def create(self, repo: str, *, private: bool, **files: bytes) -> None:
        self.repos[repo] = {".gitattributes": b"*.bin filter=lfs\n", **files}
        self.private[repo] = private

    @property
    def head(self) -> str:
        return f"{self.commits:040x}"

    def info(self, repo: str) -> dict[str, Any]:
        siblings = []
        for name, sent in self.repos[repo].items():
            content = sent + b"x" * name.endswith(self.corrupt)
            told: dict[str, Any] = {"rfilename": name, "size": len(content)}
            told["blobId"] = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            if name.endswith(_LARGE):
                sha256 = hashlib.sha256(content).hexdigest()
                told["lfs"] = {"sha256": sha256, "size": len(content), "pointerSize": 134}
            siblings.append(told)
        about = {"_id": "1", "id": repo, "modelId": repo, "sha": self.head, "private": self.private[repo], "tags": []}
        return {**about, "downloads": 0, "likes": 0, "siblings": siblings}

    def commit(self, repo: str, lines: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Make a commit; None if another one came before."""
        if lines[0]["value"].get("parentCommit") not in (None, self.head):
            return None
        for line in lines[1:]:
            value = line["value"]
            content = base64.b64decode(value["content"]) if line["key"] == "file" else self.blobs[value["oid"]]
            self.repos[repo][value["path"]] = content
        self.commits += 1
        return {"success": True, "commitOid": self.head, "commitUrl": f"{self.address}/{repo}/commit/{self.head}"}


@contextmanager
def taking_uploads() -> Iterator[Uploads]:
    """Serve on a port of loopback while the block runs."""
    hub = Uploads()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self._body()
            asked = f"{self.command} {urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)}"
            hub.asked.append(asked)
            for pattern, status in hub.refused.items():
                if re.search(pattern, asked):
                    self._send(status, {"error": f"refused with {status}"})
                    return
            if put := re.fullmatch(r"PUT /upload/([0-9a-f]{64})", asked):
                hub.blobs[put[1]] = body
                self._send(200, {})
            elif self.headers.get("Authorization") != f"Bearer {hub.token}":
                self._send(401, {"error": "Invalid username or password."})
            else:
                self._route(asked, body)

        def _route(self, asked: str, body: bytes) -> None:
            if asked == "POST /api/repos/create":
                wanted = json.loads(body)
                repo = "/".join(filter(None, (wanted.get("organization"), wanted["name"])))
                hub.create(repo, private=wanted.get("private", wanted.get("visibility") == "private"))
                self._send(200, {"url": f"{hub.address}/{repo}", "name": repo})
            elif asked == "POST /api/validate-yaml":
                self._send(200, {"errors": [], "warnings": []})
            elif found := re.fullmatch(r"GET /api/models/([^/]+/[^/]+)", asked):
                known = found[1] in hub.repos
                self._send(200, hub.info(found[1])) if known else self._send(404, {}, code="RepoNotFound")
            elif re.fullmatch(r"POST /api/models/(.+)/preupload/main", asked):
                modes = [(file["path"], file["path"].endswith(_LARGE)) for file in json.loads(body)["files"]]
                told = [
                    {"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
                    for path, large in modes
                ]
                self._send(200, {"files": told})
            elif re.fullmatch(r"POST /(.+)\.git/info/lfs/objects/batch", asked):
                self._send(
                    200,
                    {"transfer": "basic", "objects": [self._upload_of(each) for each in json.loads(body)["objects"]]},
                )
            elif found := re.fullmatch(r"POST /api/models/(.+)/commit/main", asked):
                hub.before_commit()
                made = hub.commit(found[1], [json.loads(line) for line in body.splitlines() if line])
                self._send(200, made) if made else self._send(412, {"error": "A commit has happened since."})
            else:
                self._send(404, {"error": f"no such thing: {asked}"})

        def _upload_of(self, asked: dict[str, Any]) -> dict[str, Any]:
            href = f"{hub.address}/upload/{asked['oid']}"
            return {"oid": asked["oid"], "size": asked["size"], "actions": {"upload": {"href": href, "header": {}}}}

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def _send(self, status: int, value: object, *, code: str = "") -> None:
            content = json.dumps(value).encode()
            self.send_response(status)
            if code:
                self.send_header("X-Error-Code", code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
