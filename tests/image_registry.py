"""A registry that images can be pulled from, made of a folder that podman has saved."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


class Registry:
    """A registry with one image, `NAME:1`; it wants a password for `private`."""

    def __init__(self, folder: Path) -> None:
        self.manifest = (folder / "manifest.json").read_bytes()
        self.digest = f"sha256:{hashlib.sha256(self.manifest).hexdigest()}"
        self.pulled: list[str] = []
        self.place = ""

    def name(self, image: str) -> str:
        return f"{self.place}/{image}"


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[Registry]:
    """Serve a folder of `podman save --format docker-dir` on a port of this machine."""
    registry = Registry(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            kind, _, name = self.path.removeprefix("/v2/").rpartition("/")
            if self.path == "/v2/":
                self.answer(200, b"{}")
            elif "/private/" in self.path:
                self.answer(401, b'{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}')
            elif kind == "x/manifests" and name in ("1", registry.digest):
                registry.pulled.append(name)
                self.answer(200, registry.manifest, _MANIFEST)
            elif kind == "x/blobs" and (folder / name.removeprefix("sha256:")).is_file():
                self.answer(200, (folder / name.removeprefix("sha256:")).read_bytes(), "application/octet-stream")
            else:
                self.answer(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}')

        def answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="private"')
            if kind == _MANIFEST:
                self.send_header("Docker-Content-Digest", registry.digest)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        registry.place = f"127.0.0.1:{server.server_port}"
        yield registry
        server.shutdown()
