"""Serve the dashboard on loopback: one dashboard process per browser window, connected by a websocket."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import html
import os
import signal
import socket
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import textual_serve
from aiohttp import WSMsgType, web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from armada.errors import Conflict
from armada.tui.web.gate import Gate, guard

if TYPE_CHECKING:
    from collections.abc import Callable

LOOPBACK = "127.0.0.1"
MOST_WINDOWS = 8
"""Each is a process of about 60 MB."""
MESSAGE_BYTES = 1 << 20
ENDING_S = 3.0
STATIC = Path(textual_serve.__file__).parent / "static"
OWN_FILES = {"page.css": "text/css", "page.js": "text/javascript", "symbols.ttf": "font/ttf"}


class Window(AppService):
    """A browser window's dashboard, in a separate process."""

    def __init__(self, websocket: web.WebSocketResponse, argv: list[str]) -> None:
        super().__init__(
            "",
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=websocket.close,  # type: ignore[arg-type]  # the boolean result is not used
            download_manager=DownloadManager(),
        )
        self._argv = argv

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        environment = super()._build_environment(width, height)
        environment["TEXTUAL_DRIVER"] = "armada.tui.web.session:PipeDriver"
        words = environment.get("LC_ALL") or environment.get("LC_CTYPE") or environment.get("LANG") or ""
        if "utf" not in words.casefold():
            environment["LC_ALL"] = "C.UTF-8"  # a browser shows all characters, unlike the server's terminal
        return environment

    async def _open_app_process(self, width: int = 80, height: int = 24) -> asyncio.subprocess.Process:
        """Start the process from an argument list; textual-serve would pass a line to a shell."""
        self._process = process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._build_environment(width, height),
            start_new_session=True,  # keeps Ctrl-C for the server, which then stops its windows in order
        )
        self._stdin = process.stdin
        return process

    async def run(self) -> None:
        """Pass on what the process says until it ends, however it does; then close the browser's connection."""
        try:
            await super().run()
        finally:
            with contextlib.suppress(ConnectionError):
                await self.remote_close()

    async def on_data(self, payload: bytes) -> None:
        """Pass on output. It is still read after the browser has gone, because a blocked writer could not exit."""
        with contextlib.suppress(ConnectionError):
            await super().on_data(payload)

    async def stop(self) -> None:
        """Terminate the process, then kill it if necessary; it writes nothing that a kill could damage."""
        process = self._process
        if process is None:
            return
        # Both are waited for and not cancelled: textual-serve swallows a cancellation, and a timeout around it lasts for ever.
        ends = [asyncio.ensure_future(super().stop()), asyncio.ensure_future(process.wait())]
        try:
            await asyncio.wait(ends, timeout=ENDING_S)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        await asyncio.wait(ends, timeout=ENDING_S)


class DashboardServer:
    """The web application.

    Args:
        read_only: Start the dashboards with `--read-only`.
    """

    def __init__(self, *, read_only: bool) -> None:
        self.gate = Gate()
        self._argv = [sys.executable, "-m", "armada.tui.web.session", *(["--read-only"] if read_only else [])]
        self._open: set[web.WebSocketResponse] = set()

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self.gate.check])
        application.on_response_prepare.append(guard)
        application.on_shutdown.append(self._close)
        application.router.add_get(self.gate.root, self._page)
        application.router.add_get(f"{self.gate.root}websocket", self._websocket)
        application.router.add_static(f"{self.gate.root}static", STATIC)
        for name in OWN_FILES:
            application.router.add_get(f"{self.gate.root}{name}", self._own_file)
        return application

    async def _page(self, request: web.Request) -> web.Response:
        address = f"ws://{request.headers['Host']}{self.gate.root}websocket"
        size = _number(request.query.get("fontsize"), 16, 6, 60)
        page = _own("page.html").decode().replace("WEBSOCKET_URL", html.escape(address)).replace("FONT_SIZE", str(size))
        return web.Response(text=page, content_type="text/html")

    async def _own_file(self, request: web.Request) -> web.Response:
        name = request.path.rpartition("/")[2]
        return web.Response(body=_own(name), content_type=OWN_FILES[name])

    async def _websocket(self, request: web.Request) -> web.WebSocketResponse:
        if len(self._open) >= MOST_WINDOWS:
            raise web.HTTPServiceUnavailable(text=f"{MOST_WINDOWS} windows are open already: close one\n")
        websocket = web.WebSocketResponse(heartbeat=15, timeout=ENDING_S, max_msg_size=MESSAGE_BYTES)
        self._open.add(websocket)  # before the first await: several may arrive at once
        window = Window(websocket, self._argv)
        try:
            await websocket.prepare(request)
            size = (_number(request.query.get(name), usual, 1, 1000) for name, usual in (("width", 80), ("height", 24)))
            await window.start(*size)
            await _pass_on(websocket, window)
        finally:
            self._open.discard(websocket)
            await asyncio.shield(window.stop())
        return websocket

    async def _close(self, _: web.Application) -> None:
        for websocket in [each for each in self._open if each.prepared]:
            await websocket.close(code=1001, message=b"the server ends")


async def _pass_on(websocket: web.WebSocketResponse, window: Window) -> None:
    """Pass on messages from the browser until it disconnects; an invalid message closes the window."""
    async for message in websocket:
        if message.type is not WSMsgType.TEXT:
            continue
        try:
            kind, *rest = message.json()
            match kind, rest:
                case "stdin", [str(text)]:
                    await window.send_bytes(text.encode("utf-8", "replace"))
                case "resize", [{"width": width, "height": height}]:
                    await window.set_terminal_size(_number(width, 80, 1, 1000), _number(height, 24, 1, 1000))
                case "ping", [str(text)]:
                    await websocket.send_json(["pong", text])
                case "focus", []:
                    await window.focus()
                case "blur", []:
                    await window.blur()
        except (ValueError, TypeError, RecursionError):
            await websocket.close(code=1008, message=b"not understood")


def _number(given: Any, usual: int, least: int, most: int) -> int:
    try:
        return min(most, max(least, int(given)))
    except (TypeError, ValueError, OverflowError):
        return usual


def _own(name: str) -> bytes:
    return resources.files("armada.tui.web").joinpath(name).read_bytes()


def listen(port: int) -> socket.socket:
    """Open a socket on loopback; 0 is any free port.

    Raises:
        Conflict: Another program uses the port, or it is privileged.
    """
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        why = "another program listens on it" if error.errno == errno.EADDRINUSE else error.strerror
        raise Conflict(
            f"cannot listen on port {port}: {why}", hint="--port 0, or no --port, uses a free one"
        ) from error


async def serve(listening: socket.socket, *, read_only: bool, tell: Callable[[str], None]) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP.

    Args:
        listening: From `listen`.
        read_only: Start the dashboards with `--read-only`.
        tell: Called with the address that gives access, once the server answers.
    """
    server = DashboardServer(read_only=read_only)
    # No log of requests: the first one has the token in its address.
    runner = web.AppRunner(server.application(), access_log=None, handle_signals=False, shutdown_timeout=2 * ENDING_S)
    await runner.setup()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    try:
        await web.SockSite(runner, listening).start()
        tell(f"http://{LOOPBACK}:{listening.getsockname()[1]}{server.gate.way_in}")
        await ended.wait()
    finally:
        await runner.cleanup()
