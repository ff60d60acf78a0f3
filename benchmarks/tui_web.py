"""How fast the dashboard is in a browser: a key to the frame that Chromium draws after the answer to it."""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from armada.paths import HomePaths
from benchmarks.tui_parts import PRESSED, busy, ms, quantile
from tests.tui.browser import Page, browser

WATCH = """
window.times = [];
let pressed = null;
addEventListener("keydown", (event) => { pressed = event.isTrusted ? performance.now() : pressed; }, true);
const Real = window.WebSocket;
window.WebSocket = class extends Real {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", () => {
      if (pressed === null) return;
      const began = pressed;
      pressed = null;
      // The terminal draws in the next frame; what follows that frame sees it drawn.
      requestAnimationFrame(() => requestAnimationFrame(() => window.times.push(performance.now() - began)));
    });
  }
};
"""
PRESSES = 120
_REST_S = 0.08


def web(home: HomePaths, _rounds: int) -> dict[str, str]:
    """Open the dashboard in Chromium, and walk through the runs while fifty of them change.

    A change that arrives just after a key may be taken for its answer: what is measured is at most as long as it was.
    """
    argv = [sys.executable, "-m", "armada", "dashboard", "--web", "--read-only"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=os.environ) as served:
        try:
            assert served.stdout is not None
            found = re.search(r"http://\S+", served.stdout.readline())
            assert found is not None
            times = asyncio.run(_walk(home, found[0]))
        finally:
            served.kill()
    return {
        "a key to its frame in a browser, median": ms(statistics.median(times)),
        "a key to its frame in a browser, p95": ms(quantile(times, 0.95)),
    }


async def _walk(home: HomePaths, address: str) -> list[float]:
    """Return the seconds from each key to its frame."""
    with tempfile.TemporaryDirectory() as folder:
        async with browser(Path(folder) / "chromium") as page:
            await page.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
            await page.call("Page.navigate", url=address)
            await page.shows("? help")
            with busy(home):
                await asyncio.sleep(3)
                await page.evaluate("window.times.length = 0")
                for number in range(PRESSES):
                    await _press(page, PRESSED[number * len(PRESSED) // PRESSES])
                    await asyncio.sleep(_REST_S)
                times = await page.evaluate("window.times")
    return [float(each) / 1000 for each in times]


async def _press(page: Page, key: str) -> None:
    name, code = {
        "down": ("ArrowDown", 40), "up": ("ArrowUp", 38), "end": ("End", 35), "home": ("Home", 36), "pagedown": ("PageDown", 34),
    }[key]  # fmt: skip
    for kind in ("rawKeyDown", "keyUp"):
        await page.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)
