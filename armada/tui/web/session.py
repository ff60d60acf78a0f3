"""Run the dashboard of one browser window. `python -m armada.tui.web.session [--read-only]`."""

from __future__ import annotations

import asyncio
import sys

from textual import messages
from textual.drivers.web_driver import WebDriver


class PipeDriver(WebDriver):
    """Textual's driver, changed so that it ends when the server is killed. The original would run for ever."""

    def start_application_mode(self) -> None:
        self._loop = asyncio.get_running_loop()
        super().start_application_mode()

    def run_input_thread(self) -> None:
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._loop.call_soon_threadsafe(self._app.post_message, messages.ExitApp())


def main() -> None:
    from armada.paths import HomePaths
    from armada.tui.first_rows import FirstRows

    home = HomePaths.from_environment()
    reading = FirstRows(home)
    from armada.tui.app import Dashboard

    Dashboard(home, read_only="--read-only" in sys.argv[1:], first=reading.wait()).run()


if __name__ == "__main__":
    main()
