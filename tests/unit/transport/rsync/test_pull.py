"""What rsync is asked for when files come, and what its endings mean then; over SSH it is tried in tests/fleet."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from armada.errors import ArmadaError, LinkLost, NotFound, RsyncUnusable
from armada.foundation.progress import TransferProgress
from armada.transport.interface import Pull
from armada.transport.rsync import program
from armada.transport.rsync.pull import pull_here

STUB = """#!/bin/sh
[ "$1" = --version ] && echo 'rsync  version 3.1.0  protocol version 31' && exit
printf '%s\\n' "$@" > {folder}/argv
case " $* " in *' --files-from=- '*) cat > {folder}/names ;; esac
{rest}
"""


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which `rsync` notes what it is told."""
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    return place


def say(stub: Path, rest: str) -> None:
    (stub / "rsync").write_text(STUB.format(folder=stub, rest=rest))
    (stub / "rsync").chmod(0o755)


def wanted(tmp_path: Path, rate: float | None = None) -> Pull:
    return Pull("/srv/out box", ["#a", "sub/b"], tmp_path, 10, rate)


def test_rsync_is_asked_for_these_files_only_by_names_that_no_shell_sees(stub: Path, tmp_path: Path) -> None:
    say(stub, "exit 0")
    pull_here("box", wanted(tmp_path, 1_000_000.0))
    asked = (stub / "argv").read_text().splitlines()
    # `-s` is what --secluded-args was called before 3.2.6; a file counts as continued only by --append-verify.
    assert {"-s", "--from0", "--no-links", "--inplace", "--append-verify", "--bwlimit=976"} <= {*asked}
    assert asked[-2:] == ["/srv/out box/", f"{tmp_path}/"]
    assert not any(option.startswith(("--delete", "--remove", "--recursive")) for option in asked)
    assert (stub / "names").read_bytes() == b"./#a\0./sub/b\0"


@pytest.mark.parametrize(("rate", "limit"), [(None, set()), (10_000.0, {"--bwlimit=9"}), (500.0, {"--bwlimit=1"})])
def test_a_small_limit_is_never_none(stub: Path, tmp_path: Path, rate: float | None, limit: set[str]) -> None:
    say(stub, "exit 0")
    pull_here("box", wanted(tmp_path, rate))
    assert {option for option in (stub / "argv").read_text().splitlines() if "bwlimit" in option} == limit


@pytest.mark.parametrize(
    ("status", "said", "expected", "words"),
    [
        (11, "rsync: [receiver] write failed on /x: No space left on device (28)", OSError, "No space left"),
        (11, "rsync: [receiver] write failed on /x: Disk quota exceeded (122)", OSError, "quota"),
        (11, "rsync error: error in file IO (code 11)", OSError, "Input/output"),
        (23, "rsync: [sender] link_stat /srv/x failed: No such file or directory (2)", NotFound, "link_stat"),
        (24, "file has vanished: /srv/x", NotFound, "vanished"),
        (23, "rsync: [sender] send_files failed to open /srv/x: Permission denied (13)", ArmadaError, "Permission"),
        (12, "bash: rsync: command not found", RsyncUnusable, "no rsync on this host"),
        (2, "protocol version mismatch -- is your shell clean?", RsyncUnusable, "shell prints"),
        (1, "rsync: -x: unknown option", RsyncUnusable, "does not support"),
        (12, "rsync: connection unexpectedly closed", LinkLost, "unexpectedly closed"),
        (30, "rsync error: timeout in data send/receive", LinkLost, "exit 30"),
    ],
)
def test_endings_are_about_this_machines_disk_the_files_there_or_the_link(
    stub: Path, tmp_path: Path, status: int, said: str, expected: type[Exception], words: str
) -> None:
    say(stub, f"echo '{said}' >&2; exit {status}")
    with pytest.raises(expected, match=words) as caught:
        pull_here("box", wanted(tmp_path))
    assert isinstance(caught.value, expected)
    if expected is OSError and "space" in words:
        assert getattr(caught.value, "errno", None) == errno.ENOSPC


def test_a_file_that_became_shorter_while_it_was_read_is_for_the_digest_to_say(stub: Path, tmp_path: Path) -> None:
    say(stub, """echo 'rsync: [sender] read errors mapping "/srv/x": No data available (61)' >&2; exit 23""")
    pull_here("box", wanted(tmp_path))
    say(stub, """echo 'rsync: [sender] read errors mapping "/srv/x": Input/output error (5)' >&2; exit 23""")
    with pytest.raises(ArmadaError, match="Input/output"):
        pull_here("box", wanted(tmp_path))


def test_a_folder_that_rsync_would_read_as_something_else_is_left_to_other_ways(tmp_path: Path) -> None:
    with pytest.raises(RsyncUnusable, match=r"one of \* \?"):
        pull_here("box", Pull("/srv/[x]", ["a"], tmp_path, 1))


def test_files_come_private_and_continued_and_are_counted(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "sub").mkdir(parents=True)
    here.mkdir()
    content = bytes(range(256)) * 4000
    (there / "sub/big").write_bytes(content)
    (there / "sub/big").chmod(0o444)
    (there / "other").write_bytes(b"not asked for")
    (here / "sub").mkdir()
    (here / "sub/big").write_bytes(content[:500_000])
    seen: list[TransferProgress] = []
    pull_here("box", Pull(str(there), ["sub/big"], here, len(content)), seen.append)
    assert (here / "sub/big").read_bytes() == content
    assert (here / "sub/big").stat().st_mode & 0o777 == 0o600
    assert not (here / "other").exists()
    assert seen[-1].done_bytes == len(content)


def test_a_silent_rsync_is_still_shown(stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks at transfers takes one that is silent for half a minute for dead."""
    monkeypatch.setattr(program, "_TICK_S", 0.01)
    enough = tmp_path / "enough"
    say(stub, f"printf '    5  50%%    1.00kB/s    0:00:01\\r'; while [ ! -e {enough} ]; do :; done; exit 0")
    seen: list[TransferProgress] = []

    def look(progress: TransferProgress) -> None:
        seen.append(progress)
        if len(seen) > 2:
            enough.touch()

    pull_here("box", wanted(tmp_path), look)
    assert [progress.rate_bytes_per_s for progress in seen[:3]] == [1024.0, None, None]
    assert {(progress.done_bytes, progress.total_bytes) for progress in seen} == {(5, 10)}


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="who holds a file is seen in /proc")
def test_a_lock_that_rsync_was_given_is_held_by_the_process_that_writes(tmp_path: Path) -> None:
    """It is the receiver that writes, a child of the process that was started."""
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    (there / "big").write_bytes(bytes(2_000_000))
    holders: set[int] = set()
    with (tmp_path / "lock").open("w") as lock:
        number = lock.fileno()

        def look(_: TransferProgress) -> None:
            held = Path("/proc").glob(f"[0-9]*/fd/{number}")
            holders.update(int(path.parts[2]) for path in held if _is(path, tmp_path / "lock") and _is_rsync(path))

        pull_here("box", Pull(str(there), ["big"], here, 2_000_000, 1_000_000.0, (number,)), look)
    assert len(holders) == 3  # sender, generator, receiver


KEPT = """
import os, sys, tempfile
from pathlib import Path
from armada.transport.rsync import program
here = Path(sys.argv[1])
lock, tempfile.tempdir = os.open(here / "lock", os.O_RDWR | os.O_CREAT), str(here / "tmp")
os.dup2(lock, 3)
program.run_rsync([], ["a"], "box", here, None, 1, keep_open=(3,))
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="what is open is seen in /proc")
def test_what_rsync_is_given_is_not_replaced_and_the_list_is_gone_before_it_copies(stub: Path, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    say(stub, f"readlink /proc/$$/fd/3 > {stub}/kept; ls {tmp_path}/tmp > {stub}/left")
    subprocess.run([sys.executable, "-c", KEPT, str(tmp_path)], check=True)
    assert (stub / "kept").read_text() == f"{tmp_path}/lock\n"
    assert (stub / "names").read_bytes() == b"./a\0"
    assert (stub / "left").read_text() == ""


def _is(path: Path, file: Path) -> bool:
    try:
        return path.samefile(file)
    except OSError:
        return False


def _is_rsync(path: Path) -> bool:
    try:
        return (path.parents[1] / "comm").read_text().strip() == "rsync"
    except OSError:
        return False
