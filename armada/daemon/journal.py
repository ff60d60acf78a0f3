"""Write the daemon's log: a rotated file, and stderr in the foreground."""

from __future__ import annotations

import logging
import logging.handlers
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from armada.paths import HomePaths

MOST_BYTES = 5_000_000
KEPT_FILES = 2


def log_file(home: HomePaths) -> Path:
    return home.daemon / "daemon.log"


def open_journal(home: HomePaths, *, aloud: bool) -> None:
    """Send every log line of armada to the file, and with `aloud` to stderr as well."""
    home.daemon.mkdir(mode=0o700, parents=True, exist_ok=True)
    form = logging.Formatter("%(asctime)sZ %(levelname)-7s %(message)s", "%Y-%m-%dT%H:%M:%S")
    form.converter = time.gmtime
    file = logging.handlers.RotatingFileHandler(
        log_file(home), maxBytes=MOST_BYTES, backupCount=KEPT_FILES, encoding="utf-8"
    )
    log_file(home).chmod(0o600)
    handlers: list[logging.Handler] = [file, *([logging.StreamHandler(sys.stderr)] if aloud else [])]
    log = logging.getLogger("armada")
    log.setLevel(logging.INFO)
    for handler in handlers:
        handler.setFormatter(form)
        log.addHandler(handler)

    def last_words(told: threading.ExceptHookArgs) -> None:
        if told.exc_value is not None:
            log.critical("thread %s ended", told.thread and told.thread.name, exc_info=told.exc_value)

    threading.excepthook = last_words


def tail(home: HomePaths, lines: int) -> str:
    """Return the last lines of the log, including the previous file's if the newest one has just begun."""
    text = ""
    for path in (log_file(home), log_file(home).with_name("daemon.log.1")):
        if path.exists():
            text = path.read_text(encoding="utf-8", errors="replace") + text
        if text.count("\n") >= lines:
            break
    return "".join(text.splitlines(keepends=True)[-lines:]) if lines else ""
