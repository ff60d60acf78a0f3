"""A real Chromium without a window, driven over its debugging protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.waiting import pauses

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"))), None
)
REQUIRED = os.environ.get("ARMADA_REQUIRE_FLEET") == "1" or bool(os.environ.get("CI"))
"""Read here, because tests begin without any ARMADA_ variable."""
KEYS = {"Enter": ("\r", 13), "Escape": ("", 27), "ArrowDown": ("", 40)}
# The screen is a canvas. What stands in it is read as a person would: dragged over with Shift held, and copied.
COPY = """(() => {
  const taken = new DataTransfer();
  document.querySelector(".xterm-helper-textarea").dispatchEvent(new ClipboardEvent("copy", {clipboardData: taken, bubbles: true}));
  return taken.getData("text/plain");
})()"""


def needs_chromium() -> None:
    """Skip where there is none; where CI says that everything is there, that is a failure."""
    if CHROMIUM is None:
        if REQUIRED:
            pytest.fail("Chromium is missing, and ARMADA_REQUIRE_FLEET or CI says it must be there")
        pytest.skip("needs Chromium (apt-get install chromium-headless-shell)")


_NAVIGATED = "navigated or closed"
_NAVIGATIONS = 3


class Page:
    """The one tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.requested: list[str] = []
        """Addresses the page asked for, whoever they belong to."""
        self._seen = ""

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Have the browser do something. What it was asked while it went to another page is asked once more."""
        for _ in range(_NAVIGATIONS):
            answer = await self._ask(method, parameters)
            if _NAVIGATED not in str(answer.get("error")):
                break
        assert "error" not in answer, answer
        found: dict[str, Any] = answer["result"]
        return found

    async def _ask(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            answer: dict[str, Any] = await asyncio.wait_for(self._socket.receive_json(), 30)
            if answer.get("method") in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                self.requested.append(answer["params"].get("url") or answer["params"]["request"]["url"])
            if answer.get("id") == number:
                return answer

    async def evaluate(self, program: str) -> Any:
        answer = await self.call("Runtime.evaluate", expression=program, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def press(self, key: str) -> None:
        text, code = KEYS.get(key, (key, ord(key[0].upper())))
        for kind in ("keyDown", "keyUp"):
            given = {"text": text} if text and kind == "keyDown" else {}
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **given)

    async def screen(self) -> str:
        """The text on the terminal in the page; empty before it is there."""
        if not await self.evaluate("!!document.querySelector('.-first-byte .xterm-screen')"):
            return ""
        box = await self.evaluate("document.querySelector('.xterm-screen').getBoundingClientRect().toJSON()")
        ends = ((box["left"] + 1, box["top"] + 1), (box["right"] - 1, box["bottom"] - 1))
        for kind, (x, y) in zip(
            ("mousePressed", "mouseMoved", "mouseReleased"), (ends[0], ends[1], ends[1]), strict=True
        ):
            await self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1, modifiers=8
            )
        text = str(await self.evaluate(COPY))
        await self.call(
            "Input.dispatchMouseEvent", type="mousePressed", x=1, y=1, button="left", clickCount=1, modifiers=8
        )
        await self.call(
            "Input.dispatchMouseEvent", type="mouseReleased", x=1, y=1, button="left", clickCount=1, modifiers=8
        )
        return text

    async def shows(self, *words: str) -> str:
        """Wait until all words are on the terminal; what is there then."""
        for pause_s in pauses(lambda: f"{words}; in the browser:\n{self._seen}"):
            self._seen = await self.screen()
            if all(word in self._seen for word in words):
                return self._seen
            await asyncio.sleep(pause_s)
        raise AssertionError  # `pauses` has failed the test

    async def shows_notice(self, words: str) -> None:
        """Wait until the page, not the terminal in it, says this."""
        for pause_s in pauses(lambda: f"{words!r}; on the page:\n{self._seen}"):
            self._seen = str(await self.evaluate("document.body.innerText"))
            if words in self._seen:
                return
            await asyncio.sleep(pause_s)

    async def picture(self) -> bytes:
        return base64.b64decode((await self.call("Page.captureScreenshot"))["data"])


@contextlib.asynccontextmanager
async def browser(folder: Path, size: tuple[int, int] = (1280, 800)) -> AsyncIterator[Page]:
    """Chromium with one empty page, its profile in a folder of its own."""
    assert CHROMIUM is not None
    argv = [CHROMIUM, "--headless", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"]
    argv += [
        "--no-first-run",
        "--remote-debugging-port=0",
        f"--user-data-dir={folder}",
        f"--window-size={size[0]},{size[1]}",
    ]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen([*argv, "about:blank"], stdout=log, stderr=log, start_new_session=True)
    try:
        port = folder / "DevToolsActivePort"
        for pause_s in pauses(lambda: f"Chromium to begin:\n{(folder / 'chromium.log').read_text()}"):
            if port.is_file() and "\n" in port.read_text():
                break
            assert process.poll() is None, (folder / "chromium.log").read_text()
            await asyncio.sleep(pause_s)
        number = port.read_text().split("\n", maxsplit=1)[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{number}/json/list") as answer:
                (tab,) = [each for each in json.loads(await answer.text()) if each["type"] == "page"]
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                for domain in ("Page", "Runtime", "Network"):
                    await page.call(f"{domain}.enable")
                yield page
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its helpers outlive it otherwise
        process.wait()
