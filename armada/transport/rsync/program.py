"""Run rsync, and send files to SSH hosts over a separate connection, because Paramiko stalls on bulk data (paramiko #822).

An exit status of 0 is no proof: rsync also returns it for a file that changed while it was read. Callers check digests.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from armada.errors import LinkLost, RsyncUnusable
from armada.foundation.progress import TransferProgress
from armada.paths import HomePaths
from armada.transport.copying import regular_sizes
from armada.transport.interface import ProgressCallback
from armada.transport.rsync.errors import explain_exit
from armada.transport.ssh.config_file import write_ssh_config
from armada.transport.ssh.host_keys import pinned_keys
from armada.transport.ssh.names import checked_names, checked_remote_folder
from armada.transport.ssh.resolve import HostSpec
from armada.transport.stderr_tail import StderrTail

OLDEST = (3, 1)  # has --info=progress2 and --outbuf
# ssh itself gives up on a silent link after 20 s; this catches a process that lives but makes no progress. Checking the
# part that already exists prints nothing: 5 minutes are about 100 GB.
_STALL_S = 300.0
_TICK_S = 1.0
# `-s`, because the name `--secluded-args` exists only since 3.2.6.
_OPTIONS = [
    "-s", "--from0", "--no-links", "--no-devices", "--no-specials", "--no-owner", "--no-group",
    "--inplace", "--append-verify", "--no-compress", "--info=progress2", "--no-human-readable", "--outbuf=L",
]  # fmt: skip
_PROGRESS = re.compile(rb"^\s*(?P<done>\d+)\s+\d+%\s+(?P<rate>[\d.]+)(?P<unit>[kMGT]?)B/s")
_UNITS = {b"": 1, b"k": 1 << 10, b"M": 1 << 20, b"G": 1 << 30, b"T": 1 << 40}


def push(
    spec: HostSpec,
    home: HomePaths,
    source: Path,
    files: Sequence[str],
    destination: str,
    progress: ProgressCallback | None = None,
) -> None:
    """Copy files to a host; see Transport.push. The parent of `destination` must exist."""
    names = checked_names(files, host=spec.name)
    target = checked_remote_folder(destination, host=spec.name)
    total_bytes = sum(regular_sizes(source, names, host=spec.name))
    if not names:
        check_here()
        return
    # Private, but executable files stay executable.
    options = ["--recursive", "--times", "--perms", "--chmod=D700,Fu+rw,Fgo="]
    arguments = [*options, *over_ssh(spec, home), f"{source.absolute()}/", f"{spec.alias}:{target}/"]
    status, said = run_rsync(arguments, names, spec.name, home.ssh, progress, total_bytes)
    if status:
        raise explain_exit(status, said, host=spec.name, pinned=pinned_keys(home), reuse_only=spec.reuse_only)


def over_ssh(spec: HostSpec, home: HomePaths) -> list[str]:
    """Return the options that make rsync use the host's generated SSH configuration; it must run in `home.ssh`."""
    # ssh passes a -F with a space in it unquoted to the ssh of its jump hosts; a plain file name is safe.
    return ["-e", f"ssh -F {write_ssh_config(spec, home).name}"]


def run_rsync(
    arguments: Sequence[str],
    names: Sequence[str],
    host: str,
    folder: Path,
    progress: ProgressCallback | None,
    total_bytes: int,
    *,
    keep_open: Sequence[int] = (),
) -> tuple[int, str]:
    """Run rsync to its end, with the options common to both directions.

    Args:
        arguments: Options, source and destination.
        names: The files, relative to the source.
        host: The host's name, for messages.
        folder: The working folder.
        progress: Receives the progress.
        total_bytes: The total size of the files.
        keep_open: Descriptors that all its processes inherit, so that locks on them last as long as any of these.

    Returns:
        The exit status, negative for a signal, and the sanitized standard error.

    Raises:
        RsyncUnusable: This machine has no rsync, or one that is too old.
        LinkLost: It stopped making progress.
    """
    check_here()
    with _listed(names) as listing, _tie() as tie:
        process = subprocess.Popen(
            ["sh", "-c", _tied(keep_open), "sh", listing, "rsync", *_OPTIONS, "--files-from=-", *arguments],
            stdin=tie,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**{k: v for k, v in os.environ.items() if not k.startswith("RSYNC_")}, "LC_ALL": "C"},
            pass_fds=keep_open,
            start_new_session=True,  # so that its ssh can be killed with it
        )
        stdout, stderr = _pipes(process)
        errors = StderrTail(lambda: os.read(stderr.fileno(), 65536), name=f"stderr of rsync with {host}")
        with stdout, stderr:
            try:
                stalled = not _follow(stdout, progress, total_bytes)
                if not stalled:
                    process.wait()
            finally:  # after a stall, Ctrl-C, or an error in the callback
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                status, said = process.wait(), errors.text(wait_s=2.0)
    if stalled:
        raise LinkLost(f"the transfer made no progress for {_STALL_S:.0f} s", hint="run it again", host=host)
    return status, said


def _tied(keep_open: Sequence[int]) -> str:
    """Return what the shell does: its standard input is the pipe that ties rsync to us, `$1` is the list of files.

    rsync does not notice that nobody reads its output: after a killed armada it would work for hours. PR_SET_PDEATHSIG
    could tie only the first of its three processes to us. So one more process waits for the end of a pipe that only we
    hold, and kills them all. The list is deleted before anything is copied: a kill does not leave it behind.
    """
    tie, names = [number for number in range(3, 10) if number not in keep_open][:2]  # dash knows no larger ones
    return (
        f'exec {tie}<&0 {names}<"$1"; rm -f -- "$1"; shift; '
        f"(read -r _ <&{tie}; kill -KILL 0) >/dev/null 2>&1 {names}<&- & "
        f'exec "$@" <&{names} {tie}<&- {names}<&-'
    )


@contextlib.contextmanager
def _listed(names: Sequence[str]) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(prefix="armada-files-", delete=False) as listing:
        try:
            # rsync treats names that begin with # or ; as comments, even here, and silently leaves those files out.
            listing.write(b"".join(b"./" + name.encode() + b"\0" for name in names))
            listing.flush()
            yield listing.name
        finally:
            Path(listing.name).unlink(missing_ok=True)


@contextlib.contextmanager
def _tie() -> Iterator[int]:
    """Yield a descriptor that reaches its end when this process dies or leaves the block."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(reading)
        os.close(writing)


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdout is None or process.stderr is None:
        raise ValueError("`process` needs two pipes")
    return process.stdout, process.stderr


def _follow(stdout: IO[bytes], progress: ProgressCallback | None, total_bytes: int) -> bool:
    """Report progress until the output ends, also while there is no output; return False if it stalled."""
    line, last, heard = b"", None, time.monotonic()
    with selectors.DefaultSelector() as waiting:  # unlike select(2), it supports descriptors above 1023
        waiting.register(stdout, selectors.EVENT_READ)
        while time.monotonic() - heard < _STALL_S:
            if not waiting.select(_TICK_S):
                if progress and last:
                    progress(last)
                continue
            data, heard = os.read(stdout.fileno(), 65536), time.monotonic()
            if not data:
                return True
            *lines, line = (line + data).replace(b"\r", b"\n").split(b"\n")
            for said in lines:
                if progress and (found := parse_progress(said, total_bytes)):
                    progress(found)
                    last = TransferProgress(found.done_bytes, total_bytes, None)
    return False


def parse_progress(line: bytes, total_bytes: int) -> TransferProgress | None:
    """Parse one line of `--info=progress2 --no-human-readable`."""
    match = _PROGRESS.match(line)
    if match is None:
        return None
    return TransferProgress(int(match["done"]), total_bytes, float(match["rate"]) * _UNITS[match["unit"]])


def check_here() -> None:
    """Raise RsyncUnusable if this machine's rsync cannot be used."""
    _check_version(shutil.which("rsync"))


@functools.cache
def _check_version(program: str | None) -> None:
    hint = "install rsync 3.1 or newer (apt-get install rsync, brew install rsync)"
    if program is None:
        raise RsyncUnusable("there is no rsync on this machine", hint=hint)
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"rsync\s+version\s+v?(\d+)\.(\d+)", said)
    if match is None or (int(match[1]), int(match[2])) < OLDEST:
        raise RsyncUnusable(f"armada cannot use this machine's rsync: {said.splitlines()[:1]}", hint=hint)
