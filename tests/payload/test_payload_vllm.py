"""vLLM for `task: grpo`, which is not installed here: what is missing is named before a model is loaded. Without torch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from armada_train.failure import PayloadFailure
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section
from armada_train.specification.values import Training
from armada_train.training.libraries import check_libraries, needed_packages
from armada_train.training.vllm_server import await_vllm_server

from tests.payload.test_payload_grpo import make_grpo


def read(folder: Path, **vllm: Any) -> Training:
    section = make_grpo(folder, objective={"vllm": vllm}, device="cuda")
    return parse_training(Section(section, "training"))


@contextmanager
def server(*codes: int) -> Iterator[tuple[str, list[str]]]:
    """Answer with these codes, one after the other; yield the URL, and what was asked for."""
    asked: list[str] = []
    left = list(codes)

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(left.pop(0))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    http = HTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}", asked
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


@pytest.mark.parametrize("vllm", [{"mode": "colocate"}, {"mode": "server", "url": "http://localhost:8000"}])
def test_vllm_that_is_not_installed_is_named_with_its_setting(tmp_path: Path, vllm: dict[str, Any]) -> None:
    training = read(tmp_path, **vllm)
    assert needed_packages(training)["vllm"] == "grpo.vllm"
    with pytest.raises(PayloadFailure, match=r"the environment lacks .*vllm \(for `grpo.vllm`\)") as caught:
        check_libraries(training)
    assert caught.value.reason == "env_error"


def test_the_training_waits_until_its_server_is_ready(tmp_path: Path) -> None:
    paused: list[float] = []
    beats: list[None] = []
    with server(503, 503, 200) as (url, asked):
        await_vllm_server(read(tmp_path, mode="server", url=f"{url}/"), lambda: beats.append(None), pause=paused.append)
    assert asked == ["/health"] * 3
    assert (len(paused), len(beats)) == (2, 3)


def test_a_server_that_is_never_ready_ends_the_run_with_its_url(tmp_path: Path) -> None:
    times = iter([0.0, 100.0, 300.0])
    with server(503, 503) as (url, _), pytest.raises(PayloadFailure) as caught:
        await_vllm_server(
            read(tmp_path, mode="server", url=url), lambda: None, lambda: next(times), pause=lambda _: None
        )
    assert caught.value.reason == "env_error"
    assert caught.value.message.startswith(f"`training.grpo.vllm.url` {url}: no vLLM server is ready there after 240 s")
    assert "(it answers 503)" in caught.value.message
    assert "trl vllm-serve --model MODEL" in caught.value.message


def test_a_port_where_nobody_listens_is_named_and_no_other_kind_of_url_is_opened(tmp_path: Path) -> None:
    with server() as (url, _):
        pass
    with pytest.raises(PayloadFailure, match="Connection refused"):
        await_vllm_server(read(tmp_path, mode="server", url=url, timeout_s=0.001), lambda: None, pause=lambda _: None)
    with pytest.raises(PayloadFailure, match="must be http://HOST:PORT, not file:///etc/passwd"):
        await_vllm_server(read(tmp_path, mode="server", url="file:///etc/passwd"), lambda: None)


def test_a_training_without_a_server_waits_for_none(tmp_path: Path) -> None:
    await_vllm_server(read(tmp_path, mode="colocate"), lambda: pytest.fail("there is nothing to wait for"))
