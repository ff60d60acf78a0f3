"""Locks on files: who holds them, who waits, and what a child process inherits."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from armada.foundation.locks import FileLock, locked, try_lock_range
from tests.conftest import eventually


def test_a_lock_makes_its_file_and_folder_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "one"
    with locked(path):
        pass
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_only_one_thread_holds_a_lock(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"), FileLock(tmp_path / "lock") as second:
        assert not second.try_acquire()
        assert not second.try_acquire(shared=True)


def test_readers_hold_a_lock_together_and_keep_a_writer_out(tmp_path: Path) -> None:
    with FileLock(tmp_path / "lock") as first, FileLock(tmp_path / "lock") as second:
        assert first.try_acquire(shared=True)
        assert second.try_acquire(shared=True)
        assert not first.try_acquire()
        second.release()
        assert first.try_acquire()


def test_who_waits_gets_the_lock_when_its_holder_leaves(tmp_path: Path) -> None:
    done: list[str] = []

    def second() -> None:
        with locked(tmp_path / "lock"):
            done.append("second")

    with locked(tmp_path / "lock"):
        thread = threading.Thread(target=second)
        thread.start()
        done.append("first")
    thread.join()
    assert done == ["first", "second"]


def test_a_lock_that_stays_held_ends_the_wait_at_the_time_out(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "lock"),
        FileLock(tmp_path / "lock") as second,
        pytest.raises(TimeoutError, match="stayed locked for 0 s"),
    ):
        second.acquire(timeout_s=0)


def test_a_child_that_is_given_the_descriptor_holds_the_lock_with_us(tmp_path: Path) -> None:
    with locked(tmp_path / "lock") as lock:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock.descriptor,))
    with FileLock(tmp_path / "lock") as second:
        assert not second.try_acquire()
        child.communicate(b"\n")
        assert second.try_acquire()


def test_a_child_inherits_no_lock_unasked(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    with FileLock(tmp_path / "lock") as second:
        assert eventually(second.try_acquire)
    child.communicate(b"\n")


def test_who_waits_reads_who_holds_it(tmp_path: Path) -> None:
    with FileLock(tmp_path / "lock") as first, FileLock(tmp_path / "lock", create=False) as second:
        assert second.read_holder() is None
        first.write_holder({"pid": 123456, "doing": "a long sentence"})
        first.write_holder({"pid": 1})
        assert second.read_holder() == {"pid": 1}


def test_a_lock_that_is_only_read_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), FileLock(tmp_path / "folder" / "lock", create=False):
        pass
    assert not (tmp_path / "folder").exists()


def test_a_link_is_refused_where_others_could_put_one(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"), FileLock(tmp_path / "lock", follow_links=False):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_range_of_bytes_is_locked_against_other_processes(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.touch()
    descriptor = os.open(path, os.O_RDWR)
    try:
        assert try_lock_range(descriptor, 10, 5)
        asks = (
            "import os, sys; from armada.foundation.locks import try_lock_range as ask; "
            "fd = os.open(sys.argv[1], os.O_RDWR); print(ask(fd, 12, 1), ask(fd, 15, 1))"
        )
        done = subprocess.run([sys.executable, "-c", asks, str(path)], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["False", "True"]
    finally:
        os.close(descriptor)
