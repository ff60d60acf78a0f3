"""Start operations as processes of their own, so that closing the dashboard interrupts nothing."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from armada.errors import ArmadaError
from armada.foundation.process_identity import process_info
from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.tui import acts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from armada.paths import HomePaths

ASK_S = 120.0
_UNASKED = re.compile(r"armada: (\S+): (.+)")
"""What `armada ps` says of a host that it could not ask."""
NOT_STARTED = 1
GONE = "the store is gone: it was deleted or moved. Put it back, or close the dashboard"
"""Why no command is started."""
LAUNCHERS_S = 0.1
"""How long a question waits for a store that is locked, in seconds: keys wait meanwhile, and the commands look again."""
_END_BYTES = 16_000
"""How much of an output is read for its last line."""
ROOM_BYTES = 1 << 16
"""On a disk with less room than this, output may be lost."""


def command(*words: str) -> list[str]:
    """Return the command line of this same program."""
    return [sys.executable, "-m", "armada", *words]


class Ended(NamedTuple):
    """The end of a command: its title on the screen, exit code, last line, and the file with its output.

    If it was not started, `last` says why, and `log` is the folder of such files.
    """

    title: str
    exit_code: int
    last: str
    log: Path

    @property
    def words(self) -> str:
        """What the user is told. A run that the title names is not named again."""
        if self.log.suffix != ".log":
            return f"{self.title}: {self.last}"  # it was not started
        named, colon, rest = self.last.partition(": ")
        said = " ".join((rest if colon and named in self.title.split() else self.last).split())
        good = self.exit_code == 0
        if good and self.title.startswith("launch "):  # `launched` and the host are said already
            _, on, host = self.title.rpartition(" on ")
            said = said.removeprefix("launched ").removesuffix(f"{on}{host}")
        more = "" if good else "\n(7 shows its output)"
        return f"{self.title}{' done' if good else f' ended with {self.exit_code}'}{f': {said}' if said else ''}{more}"


def start(
    home: HomePaths,
    title: str,
    words: Sequence[str],
    tell: Callable[[Ended], None],
    *,
    undo: Sequence[Sequence[str]] = (),
    undoes: str | None = None,
    is_own: bool = False,
) -> Path | None:
    """Start an armada command that outlives this process.

    Args:
        home: Its output goes to state/dashboard there.
        title: The action's name for the user, sanitized.
        words: The arguments after `armada`.
        tell: Called from another thread when the command has ended, if this process still lives then.
        undo: The commands that undo it, for the history.
        undoes: The name of the act that it undoes.
        is_own: The user did not ask for it; the history leaves it out.

    Returns:
        The file with its output; None if there can be none: then nothing is started, and `tell` says why.
    """
    try:
        log = acts.new_log(home, words[0], kind="checks", kept=10) if is_own else acts.new_log(home, words[0])
        output = log.open("wb")
    except OSError as error:
        tell(Ended(title, NOT_STARTED, without_file(error), acts.folder_of(home)))
        return None
    try:
        with output:
            process = subprocess.Popen(
                command(*words),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:  # no room for a process, or for so many words
        log.unlink(missing_ok=True)
        why = sanitize_line(f"not started: {error.strerror or error}", 300)
        tell(Ended(title, NOT_STARTED, why, acts.folder_of(home)))
        return None
    identity = process_info(process.pid)
    acts.record(log, title=title, words=words, process=identity, undo=undo, undoes=undoes)

    def wait() -> None:
        code = process.wait()
        acts.record_end(log, code)
        said = unasked(log) if code == 0 and words[0] == "ps" else last_line(log)
        tell(Ended(title, code, said or why_silent(log, code), log))

    threading.Thread(target=wait, name=f"wait {words[0]}", daemon=True).start()
    return log


def without_file(error: OSError) -> str:
    """Say why a command was not started: there can be no file for its output."""
    return sanitize_line(f"not started, as there can be no file for its output: {error}", 300)


class Answer(NamedTuple):
    """The answer of a command that only reads; `said` is the reason if there is no answer."""

    exit_code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return last_of(self.err) or f"it ended with {self.exit_code}"

    @property
    def json(self) -> dict[str, object] | None:
        """Return the printed object; None if the command printed none because it failed or was killed."""
        found = self._printed
        return found if isinstance(found, dict) and "error" not in found else None

    @property
    def refusal(self) -> str:
        """Return why there is no answer, with the command's hint; a line for each error of a file."""
        found = self._printed
        error = found.get("error") if isinstance(found, dict) else None
        if not isinstance(error, dict) or not isinstance(error.get("message"), str):
            return self.said
        hint = f" ({error['hint']})" if isinstance(error.get("hint"), str) else ""
        return f"{sanitize_text(error['message'], 4000)}{sanitize_line(hint, 300)}"

    @property
    def _printed(self) -> object:
        try:
            return json.loads(self.out)
        except ValueError:
            return None


def ask(words: Sequence[str], tell: Callable[[Answer], None]) -> Callable[[], None]:
    """Start an armada command that only reads, and pass its answer to `tell` in another thread.

    Returns:
        What ends the command, if nobody needs its answer any longer.
    """
    unwanted = threading.Event()
    started: list[subprocess.Popen[bytes]] = []

    def stop() -> None:
        unwanted.set()
        for process in started:
            if process.poll() is None:
                process.terminate()

    def wait() -> None:
        try:
            process = subprocess.Popen(
                command(*words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # too long for the system, or with a NUL in it
            tell(Answer(1, "", f"the command cannot be started: {error}"))
            return
        started.append(process)
        if unwanted.is_set():  # between the start and here
            stop()
        try:
            out, err = process.communicate(timeout=ASK_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = b"", f"no answer within {ASK_S:.0f} s".encode()
        tell(Answer(process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")))

    threading.Thread(target=wait, name=f"ask {words[0]}", daemon=True).start()
    return stop


def launchers(home: HomePaths, run_ids: Sequence[str]) -> dict[str, str]:
    """Return the names of other homes that launched some of these runs, by run id; empty if the store cannot be read.

    The commands check again, and refuse runs that are missing here.
    """
    from armada.home import launched_by, own
    from armada.store.database import Database
    from armada.store.queries.launching import launching_homes

    found: dict[str, str] = {}
    with (
        contextlib.suppress(ArmadaError, OSError, sqlite3.Error),
        Database(home.store, existing=True, patience_s=LAUNCHERS_S) as database,
    ):
        here = own(home).id
        for run_id, told in launching_homes(database, run_ids).items():
            other = launched_by({"home": told})
            if other is not None and other.id != here:
                found[run_id] = other.named
    return found


def last_line(log: Path) -> str:
    """Return the last line of a command's output that is not a hint, or why the output cannot be read."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _END_BYTES))
            return last_of(stream.read(_END_BYTES).decode("utf-8", "replace"))
    except OSError as error:
        return unreadable(error)


def unasked(log: Path) -> str:
    """Return which hosts could not be asked, from the output of `armada ps`; "" if all answered. Its last row says no end."""
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            failed = [found for line in lines if (found := _UNASKED.match(line)) is not None]
    except OSError as error:
        return unreadable(error)
    if not failed:
        return ""
    if len(failed) == 1:
        return sanitize_line(f"{failed[0][1]} could not be asked: {failed[0][2]}", 300)
    return sanitize_line(f"{len(failed)} hosts could not be asked: {', '.join(each[1] for each in failed)}", 300)


def unreadable(error: OSError) -> str:
    """Say that what a command printed is unknown."""
    return sanitize_line(f"what it printed cannot be read: {error.strerror or error}", 300)


def why_silent(log: Path, code: int) -> str:
    """Return why a command that failed left no output; "" if it did not fail."""
    if code == 0:
        return ""
    with contextlib.suppress(OSError):
        if shutil.disk_usage(log.parent).free < ROOM_BYTES:
            return f"the disk with {sanitize_line(log.parent, 200)} is full, so what it said is lost"
    return "it said nothing"


def last_of(text: str) -> str:
    """Return the last line of some output that is neither a hint nor empty, sanitized."""
    lines = [line for line in text.splitlines() if line.strip()]
    said = [line for line in lines if not line.lstrip().startswith(("→", "next "))]
    return sanitize_line(said[-1].strip().removeprefix("armada: "), 300) if said else ""
