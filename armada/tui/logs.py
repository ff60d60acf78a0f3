"""Find a run's log at home, and start `armada logs` to fetch it from its host."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
import time
from stat import S_ISREG
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.sync.outputs.long_logs import END, LOG
from armada.tui.operations import command, last_of
from armada.units import span

if TYPE_CHECKING:
    from pathlib import Path

    from armada.paths import HomePaths
    from armada.store.run_sync import RunSync
    from armada.store.runs import Run

TAIL_LINES = 5000
COPIED_BYTES = 64_000_000
_ONE_STARTS = threading.Lock()


def fetched(home: HomePaths, run_id: str) -> Path:
    """Return the file to which this dashboard's `armada logs` writes; another dashboard has its own."""
    return kept(home, run_id).with_name(f"{run_id}.{os.getpid()}.log")


def kept(home: HomePaths, run_id: str) -> Path:
    """Return the copy that remains after a log was followed."""
    return home.state / "dashboard" / "logs" / f"{run_id}.log"


def at_home(home: HomePaths, run: Run, *, local: bool) -> Path | None:
    """Return the newest copy of the run's log on this machine; on `local` it is the run's own file."""
    outputs = home.run(run.run_id) / "outputs"
    end = outputs / END  # the end part of a log that is too long to be fetched completely
    places = [end if _modified(end) is not None else outputs / LOG, fetched(home, run.run_id), kept(home, run.run_id)]
    if local:
        places.insert(0, home.local_root / "runs" / run.run_id / "output.log")
    found = {place: moment for place in places if (moment := _modified(place)) is not None}
    if local and places[0] in found:
        return places[0]
    return max(found, key=lambda place: found[place], default=None)


def is_whole(home: HomePaths, run_id: str, path: Path | None) -> bool:
    """Whether a copy is known to begin with the first line: it is the run's own file, or what sync brings home completely.

    A copy that was followed may have begun near the log's end.
    """
    return path in (home.local_root / "runs" / run_id / "output.log", home.run(run_id) / "outputs" / LOG)


def _modified(place: Path) -> float | None:
    """Return when a file was modified; None if there is none, 0 if that cannot be told: who reads it then learns why."""
    try:
        stat = place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return 0.0
    return stat.st_mtime if S_ISREG(stat.st_mode) else None


def why_none(run: Run) -> str:
    """Say why no copy of a run's log is on this machine."""
    if run.started_at is None and run.state == "queued":
        return "no log yet: it waits; press l to follow"
    return "log not synced yet; press l to follow"


def brief_age(home: HomePaths, run: Run, path: Path, sync: RunSync | None, now: float) -> str:
    """Return how old a copy at home is in a few words; empty as `age_of_copy`."""
    moment = _copied_at(home, run, path, sync)
    return "" if moment is None else f"copy of {_clock(moment, now)}"


def age_of_copy(home: HomePaths, run: Run, path: Path, sync: RunSync | None, trouble: str | None, now: float) -> str:
    """Return how old a copy at home is, and why there is no newer one. Empty if it is the run's own file, or complete.

    Args:
        home: The home with the copy.
        run: The run that printed the log.
        path: The copy that is shown.
        sync: The record of the run's syncs.
        trouble: Why following it failed, if it did.
        now: Unix time.
    """
    moment = _copied_at(home, run, path, sync)
    if moment is None:
        return ""
    words = f"copy at home as of {_clock(moment, now)}, {span(max(0.0, now - moment))} ago"
    if run.unreachable_since is not None:
        return f"{words}; {run.host} is unreachable since {_clock(run.unreachable_since, now)}"
    return f"{words}; {sanitize_line(trouble, 400)}" if trouble else words


def _copied_at(home: HomePaths, run: Run, path: Path, sync: RunSync | None) -> float | None:
    """Return when a copy at home was made; None if it is the run's own file, or complete."""
    own = home.local_root / "runs" / run.run_id / "output.log"
    is_whole = sync is not None and sync.final_done and run.ended and not run.is_guess
    if is_whole or path == own:
        return None
    with contextlib.suppress(OSError):  # it was replaced a moment ago: the next call returns the new one's age
        return max(path.stat().st_mtime, (sync.last_at or 0.0) if sync is not None else 0.0)
    return None


def _clock(moment: float, now: float) -> str:
    """Format the time of day; with its date if that is not today."""
    then, today = time.localtime(moment), time.localtime(now)
    return time.strftime("%H:%M" if then[:3] == today[:3] else "%Y-%m-%d %H:%M", then)


class Follower:
    """`armada logs --follow` of one run, as a child process that ends with the screen that started it.

    It starts from the synced log, so that only newer lines are fetched. If nothing was synced yet, or too much to copy,
    the log is `partial` and begins near its end. Where it cannot be started, as on a full disk, `trouble` says why.

    `start` may take seconds, as it copies the synced log, and belongs on a thread of its own; all else is quick.
    """

    def __init__(self, home: HomePaths, run_id: str) -> None:
        self.path = fetched(home, run_id)
        self._kept = kept(home, run_id)
        self.errors = self.path.with_suffix(".err")
        self._copy = self.path.with_suffix(".copy")
        self._home, self._run_id = home, run_id
        self.partial = False
        self._process: subprocess.Popen[bytes] | None = None
        self._is_starting = True
        self._is_stopped = False
        self._lock = threading.Lock()
        """Held while the process is started: it is either stopped or not started."""
        self._why = ""

    def start(self) -> None:
        """Copy the synced log, and start the command; nothing if it was stopped before."""
        with _ONE_STARTS:  # one that was stopped while it copied has deleted its files before the next one makes them
            if not self._is_stopped:
                self._start()
            self._is_starting = False

    def _start(self) -> None:
        try:
            begin = self._prepare()
            with self._lock:
                if not self._is_stopped:
                    self._process = self._begin(begin)
        except OSError as error:
            self._why = f"the log cannot be fetched: {error}"
            self.partial = False
        with contextlib.suppress(OSError):  # a half copy would hide the whole one
            self._copy.unlink(missing_ok=True)
            if self._process is None:
                self.path.unlink(missing_ok=True)

    def _prepare(self) -> list[str]:
        """Copy the synced log, if that is not too much; return where the command begins."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._clear()
        known = self._home.run(self._run_id) / "outputs" / LOG
        size = known.stat().st_size if known.is_file() else 0
        self.partial = not 0 < size <= COPIED_BYTES or known.with_name(END).is_file()
        self.path.unlink(missing_ok=True)
        if self.partial:
            return ["--tail", str(TAIL_LINES)]
        shutil.copyfile(known, self._copy)  # under its final name, the half copy would be the newest log at home
        copied = known.stat()
        os.utime(self._copy, ns=(copied.st_atime_ns, copied.st_mtime_ns))  # the copy keeps the original's times
        return ["--from", str(self._copy.stat().st_size)]  # the file may have been replaced meanwhile

    def _begin(self, begin: list[str]) -> subprocess.Popen[bytes]:
        if not self.partial:
            self._copy.replace(self.path)
        argv = command(
            "logs", "--follow", "--colours", "--pid", str(os.getpid()), *begin, self._run_id
        )  # ends with this process
        with self.path.open("ab") as out, self.errors.open("wb") as err:
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)

    def _clear(self) -> None:
        """Delete what dashboards that were killed have left of this run's log."""
        for left in self.path.parent.glob(f"{self._kept.stem}.*"):
            pid = left.stem.removeprefix(f"{self._kept.stem}.")
            if pid.isdecimal() and not _is_running(int(pid)):
                left.unlink(missing_ok=True)

    @property
    def is_started(self) -> bool:
        return self._process is not None

    @property
    def has_ended(self) -> bool:
        """Whether nothing follows the log any more, or ever did."""
        if self._process is None:
            return not self._is_starting
        return self._process.poll() is not None

    @property
    def trouble(self) -> str | None:
        """Return why it failed, if it failed."""
        if self._process is None:
            return None if self._is_starting else self._why
        if self._process.poll() in (None, 0):
            return None
        with contextlib.suppress(OSError):  # somebody has deleted it
            return self.errors.read_text(encoding="utf-8", errors="replace")[-500:].strip() or "armada logs ended"
        return "armada logs ended"

    @property
    def reason(self) -> str:
        """Return why it failed in one line, sanitized, with the file that has the whole output of a bug; "" if it did not."""
        if (trouble := self.trouble) is None:
            return ""
        return (last_of(trouble) or "armada logs ended").replace("the lines above", sanitize_line(self.errors, 200))

    def stop(self) -> None:
        """End the command. What it has fetched remains as the copy at home, and its errors if there are some."""
        with self._lock:
            self._is_stopped = True
        if self._process is None:
            return  # `start` leaves nothing
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):  # it only reads, so it may outlive us briefly
                self._process.wait(0.2)
        with contextlib.suppress(OSError):  # the disk may be full, or read-only by now
            if self.path.stat().st_size:
                self.path.replace(self._kept)
            else:
                self.path.unlink()
        with contextlib.suppress(OSError):
            if not self.errors.stat().st_size:
                self.errors.unlink()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # another user's
    return True
