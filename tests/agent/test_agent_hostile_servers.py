"""Downloads of `files:` from servers that lie: no wrong file, no download without an end, no secret for others."""

from __future__ import annotations

import gzip
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conversation import Host, Refused

BYTES = random.Random(6).randbytes(300_000)
OTHER = BYTES[::-1]


class Request:
    """One request, and what a test answers."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._handler = handler
        self.path = handler.path
        self.part = handler.headers.get("Range", "")
        self.token = handler.headers.get("Authorization")

    @property
    def is_look_up(self) -> bool:
        return self.part == "bytes=0-0"

    def answer(self, code: int, body: bytes, *, cut: int | None = None, **headers: str) -> None:
        """Send headers (`Content_Range` is `Content-Range`) and a body, or only its beginning."""
        self._handler.send_response(code)
        length = {} if "Transfer_Encoding" in headers else {"Content_Length": str(len(body))}
        for name, value in (length | headers).items():
            self._handler.send_header(name.replace("_", "-"), value)
        self._handler.end_headers()
        self._handler.wfile.write(body[:cut])
        self._handler.close_connection = True

    def say_size(self, **headers: Any) -> None:
        self.answer(206, BYTES[:1], Content_Range=f"bytes 0-0/{len(BYTES)}", **headers)


@contextmanager
def answering(answer: Callable[[Request], None]) -> Iterator[str]:
    """Serve with a function on a port of loopback, and yield the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(Request(self))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def fetch(host: Host, address: str, **more: Any) -> bytes:
    source = {"kind": "web", "url": f"{address}/x.bin", "name": "x.bin", **more}
    (found,) = host.call("files.look_up", sources=[source])["found"]
    if found["problem"]:
        raise AssertionError(found["problem"])
    return Path(host.call("files.fetch", source=source, identity=found["identity"])["path"]).read_bytes()


def test_a_file_that_changes_between_look_up_and_download_is_not_taken_for_the_old_one(this_host: Host) -> None:
    def answer(request: Request) -> None:
        if request.is_look_up:
            request.say_size(ETag='"old"')
        else:
            request.answer(200, OTHER, ETag='"new"')

    with answering(answer) as address, pytest.raises(Refused, match="changed while it was downloaded") as refused:
        fetch(this_host, address)
    assert refused.value.kind == "conflict"


@pytest.mark.parametrize("headers", [{}, {"ETag": 'W/"weak"'}])
def test_two_halves_of_two_files_are_not_put_together(this_host: Host, headers: dict[str, Any]) -> None:
    asked = []

    def answer(request: Request) -> None:
        if request.is_look_up:
            request.say_size(**headers)
            return
        asked.append(request.part)
        if len(asked) == 1:
            request.answer(200, BYTES, cut=150_000, **headers)
        elif request.part:
            request.answer(206, OTHER[150_000:], Content_Range=f"bytes 150000-299999/{len(OTHER)}", **headers)
        else:
            request.answer(200, OTHER, **headers)

    with answering(answer) as address:
        assert fetch(this_host, address) == OTHER
    assert asked == ["", ""]


def test_another_part_than_the_one_asked_for_is_not_taken(this_host: Host) -> None:
    asked = []

    def answer(request: Request) -> None:
        if request.is_look_up:
            request.say_size(ETag='"e"')
            return
        asked.append(request.part)
        if len(asked) == 1:
            request.answer(200, BYTES, cut=150_000, ETag='"e"')
        elif len(asked) == 2:
            request.answer(206, OTHER, Content_Range="bytes 7-300006/400000", ETag='"e"')
        else:
            request.answer(206, BYTES[150_000:], Content_Range="bytes 150000-299999/300000", ETag='"e"')

    with answering(answer) as address:
        assert fetch(this_host, address) == BYTES


def test_more_than_announced_ends_the_download(this_host: Host) -> None:
    def answer(request: Request) -> None:
        if request.is_look_up:
            request.say_size(ETag='"e"')
        else:
            request.answer(200, BYTES + b"x", ETag='"e"')

    with answering(answer) as address, pytest.raises(Refused, match="more than the 300000 bytes that it announced"):
        fetch(this_host, address)


def test_a_server_that_refuses_every_part_still_gives_the_file(this_host: Host) -> None:
    def answer(request: Request) -> None:
        if request.part:
            request.answer(416, b"", ETag='"e"')
        else:
            request.answer(200, BYTES, ETag='"e"')

    with answering(answer) as address:
        assert fetch(this_host, address) == BYTES


def test_a_chunked_answer_that_breaks_off_is_asked_for_again(this_host: Host) -> None:
    asked = []
    chunk = b"%x\r\n%s\r\n" % (len(BYTES), BYTES)

    def answer(request: Request) -> None:
        whole = chunk + b"0\r\n\r\n"
        if not request.is_look_up:
            asked.append(request.part)
        request.answer(200, whole, cut=1000 if len(asked) == 1 else None, Transfer_Encoding="chunked")

    with answering(answer) as address:
        assert fetch(this_host, address) == BYTES
    assert len(asked) == 2


def test_what_is_no_http_is_said_of_its_file_alone(this_host: Host) -> None:
    long: dict[str, Any] = {"a" * 70_000: "x"}
    with answering(lambda request: request.answer(99999, b"", **long)) as address:
        sources = [{"kind": "web", "url": f"{address}/x", "name": "x"}, {"kind": "host", "path": "/"}]
        strange, fine = this_host.call("files.look_up", sources=sources)["found"]
    assert "cannot be reached from here" in strange["problem"]
    assert fine["present"]


def test_a_compressed_answer_is_refused_unless_the_file_itself_is_compressed(this_host: Host) -> None:
    squeezed = gzip.compress(BYTES)

    def answer(request: Request) -> None:
        request.answer(200, squeezed, Content_Encoding="gzip", ETag='"e"')

    with answering(answer) as address:
        source = {"kind": "web", "url": f"{address}/x.bin", "name": "x.bin"}
        (found,) = this_host.call("files.look_up", sources=[source])["found"]
        assert "is sent compressed (gzip)" in found["problem"]
        assert fetch(this_host, address, url=f"{address}/x.tar.gz") == squeezed


@pytest.mark.parametrize("to", ["http://example.org/x.bin", "ftp://127.0.0.1/x"])
def test_a_redirect_to_where_a_file_can_be_changed_on_its_way_is_refused(this_host: Host, to: str) -> None:
    with answering(lambda request: request.answer(302, b"", Location=to + "?key=secret")) as address:
        source = {"kind": "web", "url": f"{address}/x", "name": "x"}
        (found,) = this_host.call("files.look_up", sources=[source])["found"]
    assert "can be changed on its way" in found["problem"]
    assert "secret" not in found["problem"]


def test_a_redirect_to_a_file_of_the_host_is_refused(this_host: Host) -> None:
    with answering(lambda request: request.answer(302, b"", Location="file:///etc/passwd")) as address:
        source = {"kind": "web", "url": f"{address}/x", "name": "x"}
        (found,) = this_host.call("files.look_up", sources=[source])["found"]
    assert "answered 302" in found["problem"]


def hub_answer(names: list[str]) -> bytes:
    siblings = [{"rfilename": name, "size": len(BYTES), "blobId": None} for name in names]
    return json.dumps({"sha": "0" * 40, "siblings": siblings}).encode()


def test_a_token_does_not_follow_a_redirect_to_another_server(this_host: Host) -> None:
    tokens: list[tuple[str, str | None]] = []

    def elsewhere(request: Request) -> None:
        tokens.append(("other", request.token))
        request.answer(200, BYTES)

    with answering(elsewhere) as other:

        def answer(request: Request) -> None:
            tokens.append(("hub", request.token))
            if request.path.startswith("/api/"):
                request.answer(200, hub_answer(["x"]))
            else:
                request.answer(302, b"", Location=f"{other}/x")

        with answering(answer) as address:
            source = {"kind": "hub", "collection": "datasets", "repo": "a/b", "revision": "main", "path": ""}
            way: dict[str, Any] = {"variables": {"HF_ENDPOINT": address}, "token": "t0ken"}
            (found,) = this_host.call("files.look_up", sources=[source], **way)["found"]
            this_host.call("files.fetch", source=source, identity=found["identity"], **way)
    assert set(tokens) == {("hub", "Bearer t0ken"), ("other", None)}


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "a\nb", "a//b", "\x1b[31m", ""])
def test_a_dataset_with_a_name_that_is_no_files_is_refused_and_not_shortened(this_host: Host, name: str) -> None:
    with answering(lambda request: request.answer(200, hub_answer(["fine", name]))) as address:
        source = {"kind": "hub", "collection": "datasets", "repo": "a/b", "revision": "main", "path": ""}
        (found,) = this_host.call("files.look_up", sources=[source], variables={"HF_ENDPOINT": address})["found"]
    assert "cannot be a file's name" in found["problem"]
    assert found["problem"].isprintable()
