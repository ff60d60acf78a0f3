"""`armada dashboard --web`: what a browser shows, and who is turned away."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from armada.store import runs
from armada.tui.web.server import MOST_WINDOWS
from armada.verdicts.states import Verdict
from tests.conftest import eventually
from tests.tui.browser import browser, needs_chromium
from tests.tui.conftest import World


@dataclass
class Served:
    """A running `armada dashboard --web`."""

    process: subprocess.Popen[str]
    address: str

    @property
    def base(self) -> str:
        return self.address.partition("?")[0]

    @property
    def token(self) -> str:
        return self.address.partition("?token=")[2]

    @property
    def port(self) -> int:
        found = re.search(r":(\d+)/", self.address)
        assert found is not None
        return int(found[1])

    def windows(self) -> list[int]:
        """Processes of open browser windows."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(child) for child in children]

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait()


@pytest.fixture
def serve(world: World) -> Iterator[Callable[..., Served]]:
    started = []

    def start(*more: str) -> Served:
        argv = [sys.executable, "-m", "armada", "dashboard", "--web", *more]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found is not None, line + process.stdout.read()
        return Served(process, found[0])

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def ask(use: Callable[[aiohttp.ClientSession], Awaitable[None]]) -> None:
    async def go() -> None:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            await use(session)

    asyncio.run(go())


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):  # it may end between the two, too
        return True


def test_chromium_draws_the_runs_and_obeys_a_key(world: World, serve: Callable[..., Served], tmp_path: Path) -> None:
    needs_chromium()
    world.run("demo-aaaaaa", step=50, total_steps=100)
    world.losses("demo-aaaaaa", [3.0, 2.0, 1.25])
    world.run("next-bbbbbb", state="queued")
    served = serve("--read-only")

    async def use() -> None:
        async with browser(tmp_path / "chromium") as page:
            await page.call("Page.navigate", url=served.address)
            await page.shows(
                "demo", "aaaaaa", "1 running", "50%", "next", "? help", "demo-aaaaaa · loss", "lowest 1.25", "⠉"
            )
            assert await page.evaluate("location.href") == served.base, "the token does not stay in the address"
            assert await page.evaluate("document.cookie") == "", "no script reads the token"
            before = await page.picture()
            await page.press("?")
            await page.shows("Stop these runs")
            assert await page.picture() != before
            await page.press("Escape")
            runs.record(world.database, "demo-aaaaaa", Verdict("running", attempt=1, seq=2), step=75)
            await page.shows("75%")
            await page.press("q")
            await page.shows_notice("The dashboard is closed")
            foreign = [
                each
                for each in page.requested
                if not re.match(rf"(http|ws)://127\.0\.0\.1:{served.port}/|data:|about:", each)
            ]
            assert foreign == [], "everything comes from here: it works without a network"
            names = [each.partition("?")[0].rpartition("/")[2] for each in page.requested]
            assert names.index("symbols.ttf") < names.index("websocket"), (
                "the terminal keeps what it drew without the font"
            )

    asyncio.run(use())
    eventually(lambda: served.windows() == [])
    assert served.end() == 0


def test_without_the_token_there_is_nothing(world: World, serve: Callable[..., Served]) -> None:
    served = serve()
    wrong = "A" * len(served.token)

    async def use(session: aiohttp.ClientSession) -> None:
        for path in (
            "",
            f"?token={wrong}",
            "?token=",
            "static/js/textual.js",
            "static/css/xterm.css",
            "page.js",
            "websocket",
            "none",
        ):
            for cookies in ({}, {"armada": wrong}, {"armada": ""}):
                async with session.get(served.base + path, cookies=cookies, allow_redirects=False) as answer:
                    assert answer.status == 403, path
                    assert "Set-Cookie" not in answer.headers
                    assert served.token not in await answer.text()
        for path in ("/", "/favicon.ico", "/static/js/textual.js", f"/?token={served.token}"):
            async with session.get(
                f"http://127.0.0.1:{served.port}{path}", headers={"Cookie": f"armada={served.token}"}
            ) as answer:
                assert answer.status == 403, path
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await session.ws_connect(served.base + "websocket", origin=f"http://127.0.0.1:{served.port}")
        assert served.windows() == []

    ask(use)


def test_the_token_becomes_a_cookie_that_no_script_and_no_other_site_sees(
    world: World, serve: Callable[..., Served]
) -> None:
    served = serve()

    async def use(session: aiohttp.ClientSession) -> None:
        async with session.get(served.address) as answer:
            assert answer.status == 200
            set_cookie = answer.headers["Set-Cookie"]
            for word in ("HttpOnly", "SameSite=Strict", f"Path=/{served.base.split('/')[3]}/"):
                assert word in set_cookie
        async with session.get(served.base) as answer:
            page = await answer.text()
            assert answer.status == 200
            assert served.token not in page
            assert "https:" not in page
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        async with session.get(served.base + "static/") as answer:
            assert answer.status in (403, 404), "no list of files"

    ask(use)
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in [served.process.pid]]
    assert all(served.token.encode() not in command for command in commands)


def test_another_page_and_another_name_are_turned_away_with_the_token_too(
    world: World, serve: Callable[..., Served]
) -> None:
    served = serve()
    own = {"Cookie": f"armada={served.token}"}

    async def use(session: aiohttp.ClientSession) -> None:
        for origin in (
            "http://evil.example",
            "null",
            "https://127.0.0.1",
            "http://127.0.0.1:1",
            f"http://localhost:{served.port}",
        ):
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await session.ws_connect(served.base + "websocket", headers=own, origin=origin)
            async with session.get(served.base, headers=own | {"Origin": origin}) as answer:
                assert answer.status == 403, origin
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await session.ws_connect(served.base + "websocket", headers=own)
        for host in (
            "evil.example",
            f"evil.example:{served.port}",
            "127.0.0.1.evil.example",
            "0.0.0.0",
            "127.0.0.1:80@evil",
            "localhost; x",
            "",
        ):
            async with session.get(served.address, headers={"Host": host}) as answer:
                assert answer.status in (400, 403), host
                assert "Set-Cookie" not in answer.headers
        async with session.get(served.base, headers=own | {"Host": "localhost:9000"}) as answer:
            assert answer.status == 200, "ssh -L gives it another port"
            assert f"ws://localhost:9000{served.base.partition(str(served.port))[2]}websocket" in await answer.text()
        assert served.windows() == []

    ask(use)


@pytest.mark.parametrize(
    "end",
    [
        "the browser goes",
        "Ctrl-C",
        "SIGTERM",
        "the server is killed",
        "the browser sends rubbish",
        "the browser sends brackets",
        "the browser goes while it hangs",
        "Ctrl-C while it hangs",
        "its process is killed",
    ],
)
def test_a_window_ends_with_whoever_ends(world: World, serve: Callable[..., Served], end: str) -> None:
    served = serve("--read-only")

    async def use(session: aiohttp.ClientSession) -> None:
        origin = f"http://127.0.0.1:{served.port}"
        async with session.ws_connect(
            f"{served.base}websocket?width=90&height=20", headers={"Cookie": f"armada={served.token}"}, origin=origin
        ) as websocket:
            drawn = b""
            while b"Nothing has been launched yet" not in drawn:
                drawn += await websocket.receive_bytes()
            (pid,) = served.windows()
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            assert "--read-only" in argv
            assert served.token not in " ".join(argv) + Path(f"/proc/{pid}/environ").read_bytes().decode()
            if end.endswith("hangs"):
                os.kill(pid, signal.SIGSTOP)
            if end.startswith("the browser goes"):
                await websocket.close()
            elif end == "the browser sends brackets":
                await websocket.send_str("[" * 80_000)
            elif end == "the browser sends rubbish":
                await websocket.send_str('{"not": "ours"')
            elif end == "its process is killed":
                os.kill(pid, signal.SIGKILL)
                async for _ in websocket:  # until the server closes it
                    pass
            elif end == "the server is killed":
                served.process.kill()
            else:
                assert await asyncio.to_thread(served.end, signal.SIGTERM if end == "SIGTERM" else signal.SIGINT) == 0
            await asyncio.to_thread(eventually, lambda: gone(pid))

    ask(use)


def test_of_many_windows_at_once_eight_open_and_one_that_closes_makes_room(
    world: World, serve: Callable[..., Served]
) -> None:
    served = serve("--read-only")

    async def use(session: aiohttp.ClientSession) -> None:
        async def open_one() -> aiohttp.ClientWebSocketResponse | int:
            try:
                return await session.ws_connect(
                    f"{served.base}websocket?width=80&height=20",
                    headers={"Cookie": f"armada={served.token}"},
                    origin=f"http://127.0.0.1:{served.port}",
                )
            except aiohttp.WSServerHandshakeError as error:
                return error.status

        came = await asyncio.gather(*(open_one() for _ in range(MOST_WINDOWS + 3)))
        opened = [each for each in came if not isinstance(each, int)]
        assert len(opened) == MOST_WINDOWS
        assert [each for each in came if isinstance(each, int)] == [503] * 3
        await asyncio.to_thread(eventually, lambda: len(served.windows()) == MOST_WINDOWS)
        await opened[0].close()
        await asyncio.to_thread(eventually, lambda: len(served.windows()) == MOST_WINDOWS - 1)
        again = await open_one()
        assert not isinstance(again, int)
        for each in [*opened[1:], again]:
            await each.close()
        await asyncio.to_thread(eventually, lambda: not served.windows())

    ask(use)


def test_a_taken_port_and_a_wrong_one_are_refused_with_a_sentence(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for words, code, said in (
            (["--web", "--port", port], 8, f"cannot listen on port {port}: another program listens on it"),
            (["--web", "--port", "70000"], 2, "70000 is not a port"),
            (["--port", "80"], 2, "--port needs --web"),
        ):
            refused = subprocess.run(
                [sys.executable, "-m", "armada", "dashboard", *words],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert (refused.returncode, said in refused.stderr) == (code, True), refused.stderr


def test_without_textual_serve_it_says_what_to_install(world: World) -> None:
    program = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = classmethod(lambda cls, name, *more: None if name == "textual_serve" else find(name, *more))
from armada.__main__ import main
sys.exit(main(["dashboard", "--web"]))
"""
    refused = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert refused.returncode == 2
    assert "-m pip install 'armada-gpu[web]'" in refused.stderr
