"""A small web server for files, as kind or as unkind as a test wants it."""

from __future__ import annotations

import hashlib
import re
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Web:
    """What it serves, how, and what it was asked.

    Attributes:
        files: By path, without the leading slash.
        etags: Say when a file changes, and accept ranges of the same file only.
        ranges: Answer a part where a part is asked for.
        breaks_after: Bytes after which an answer of more breaks off; None: never.
        status: Answered instead of files.
        asked: Paths and ranges, in order.
    """

    files: dict[str, bytes]
    etags: bool = True
    ranges: bool = True
    breaks_after: int | None = None
    status: int | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)
    address: str = ""

    @property
    def downloads(self) -> list[tuple[str, str]]:
        """Requests for more than the one byte by which a size is found out."""
        return [(path, asked) for path, asked in self.asked if asked != "bytes=0-0"]


@contextmanager
def serving_files(web: Web) -> Iterator[Web]:
    """Serve on a port of loopback while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).lstrip("/")
            wanted = self.headers.get("Range", "")
            web.asked.append((path, wanted))
            content = web.files.get(path)
            if web.status is not None or content is None:
                self._send(web.status or 404, {}, b"no")
                return
            etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            headers = {"ETag": etag} if web.etags else {}
            part = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted) if web.ranges else None
            if part and self.headers.get("If-Range", etag) == etag:
                first, last = int(part[1]), min(int(part[2] or len(content)), len(content) - 1)
                if first >= len(content):
                    self._send(416, {"Content-Range": f"bytes */{len(content)}"}, b"")
                    return
                headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
                self._send(206, headers, content[first : last + 1])
            else:
                self._send(200, headers, content)

        def log_message(self, *_: object) -> None:
            pass

        def _send(self, code: int, headers: dict[str, str], content: bytes) -> None:
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            breaks = web.breaks_after is not None and len(content) > web.breaks_after
            self.wfile.write(content[: web.breaks_after] if breaks else content)
            self.close_connection = self.close_connection or breaks

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
