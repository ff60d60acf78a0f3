"""Deliver one message to one destination."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from armada.errors import ArmadaError
from armada.foundation.extras import install_command

if TYPE_CHECKING:
    from collections.abc import Callable

DESKTOP = "desktop"
_PATIENCE_S = 20.0
_NOTHING = "\u200c"
"""A character without width, behind which `@everyone` is a plain word."""
_SCRIPT = "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run"


class NotDelivered(ArmadaError):
    """A destination did not accept a message. The delivery is retried."""


def deliver(url: str, title: str, body: str) -> None:
    """Send a message to an apprise URL.

    Raises:
        NotDelivered: The destination refused it, apprise is not installed, or apprise does not support the URL.
    """
    try:
        import apprise  # here, because nothing else needs it: it takes 14 MB with its dependencies
    except ImportError:
        raise NotDelivered("apprise is not installed", hint=install_command("notify")) from None
    said: list[str] = []
    with _Listening(said.append):
        service = apprise.Apprise()
        if not service.add(url):
            raise NotDelivered(f"apprise does not know this kind of URL ({url.partition('://')[0]}://)")
        for each in service:
            if each.overflow_mode == apprise.OverflowMode.UPSTREAM:  # what a URL says by `?overflow=` counts
                each.overflow_mode = apprise.OverflowMode.TRUNCATE
        if not url.startswith(("mailto:", "mailtos:")):
            title, body = _without_mentions(title), _without_mentions(body)
        taken = service.notify(title=title, body=body, body_format=apprise.NotifyFormat.TEXT)
    if not taken:
        raise NotDelivered(f"{url.partition('://')[0]}://… did not accept it" + (f": {said[-1]}" if said else ""))


def _without_mentions(text: str) -> str:
    """Break what chat services take for a mention of everybody: a job's words may have `@everyone` or `<!channel>` in them."""
    return re.sub(r"@|<(?=[!&#])", lambda found: found[0] + _NOTHING, text)


def show(title: str, body: str) -> None:
    """Show a desktop notification on this machine.

    Raises:
        NotDelivered: There is no screen, or no program that can show it.
    """
    if sys.platform == "darwin":
        command = ["osascript", "-e", _SCRIPT, title, body]
    elif program := shutil.which("notify-send"):
        # The body is markup; a run's name may contain `<`.
        plain = body.replace("&", "&amp;").replace("<", "&lt;")
        command = [program, "--app-name=armada", "--", title, plain]
    else:
        raise NotDelivered("no notify-send on this machine", hint="install libnotify-bin, or set desktop: false")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotDelivered(f"{command[0]}: {error}") from error
    if done.returncode:
        raise NotDelivered(f"{command[0]}: {done.stderr.strip()[:200] or f'exit code {done.returncode}'}")


class _Listening:
    """Collects apprise's log messages, which alone say why a delivery failed. They do not contain URLs with passwords."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        self._handler = logging.Handler(logging.WARNING)
        self._handler.emit = lambda record: hear(record.getMessage())  # type: ignore[method-assign]  # a handler of one line
        self._log = logging.getLogger("apprise")

    def __enter__(self) -> None:
        self._log.addHandler(self._handler)

    def __exit__(self, *_: object) -> None:
        self._log.removeHandler(self._handler)
