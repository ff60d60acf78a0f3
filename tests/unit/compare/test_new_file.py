"""A file of the user's naming: what is replaced, what is written to directly, and what is refused."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from armada.cli.bench_views import check_outputs
from armada.cli.main import build_parser
from armada.compare.new_file import check_new_file, new_file
from armada.errors import ArmadaError, Conflict, UsageError
from armada.paths import HomePaths


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    return HomePaths(config=tmp_path / "config", state=tmp_path / "state")


def write(word: Path | str, home: HomePaths, *, force: bool = False) -> None:
    path = check_new_file(str(word), "--csv", home, force=force)
    with new_file(path, force=force) as temporary:
        temporary.write_bytes(b"rows")


@contextlib.contextmanager
def read_end(pipe: Path) -> Iterator[list[bytes]]:
    """Read all that somebody writes to a named pipe."""
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    yield found
    reader.join(10)
    assert not reader.is_alive()


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("force", [False, True])
def test_a_named_pipe_is_written_to(tmp_path: Path, home: HomePaths, linked: bool, force: bool) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    word = pipe
    if linked:
        word = tmp_path / "link"
        word.symlink_to("pipe")
    with read_end(pipe) as found:
        write(word, home, force=force)
    assert found == [b"rows"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_is_written_to(tmp_path: Path, home: HomePaths) -> None:
    null, full = tmp_path / "null", tmp_path / "full"
    try:
        os.mknod(null, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        os.mknod(full, 0o600 | stat.S_IFCHR, os.makedev(1, 7))
        full.open("wb").close()
    except PermissionError:
        pytest.skip("only root makes devices")
    write(null, home, force=True)
    with pytest.raises(ArmadaError, match="could not be written: No space left"):
        write(full, home, force=True)
    assert all(stat.S_ISCHR(each.stat().st_mode) for each in (null, full))


def test_a_descriptor_of_the_caller_is_written_to(home: HomePaths) -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(UsageError, match="nothing can be written"):  # one that the program opened itself
            write(f"/dev/fd/{writing}", home)
        os.set_inheritable(writing, True)
        write(f"/dev/fd/{writing}", home)
        assert os.read(reading, 100) == b"rows"
        os.set_inheritable(reading, True)
        with pytest.raises(UsageError, match="nothing can be written"):
            write(f"/dev/fd/{reading}", home)
    finally:
        os.close(reading)
        os.close(writing)


def test_a_link_counts_as_its_target(tmp_path: Path, home: HomePaths) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to("target")
    write(link, home)
    assert target.read_text() == "rows"
    target.write_text("mine")
    with pytest.raises(Conflict, match="exists already"):
        write(link, home)
    assert target.read_text() == "mine"
    write(link, home, force=True)
    assert (link.is_symlink(), target.read_text()) == (True, "rows")


def test_a_link_into_armadas_folder_or_to_itself_is_refused(tmp_path: Path, home: HomePaths) -> None:
    home.state.mkdir()
    inside, circle = tmp_path / "inside", tmp_path / "circle"
    inside.symlink_to("state/armada.db")
    circle.symlink_to("circle")
    with pytest.raises(UsageError, match="armada's own folder"):
        write(inside, home, force=True)
    with pytest.raises(Conflict, match="neither a file nor a pipe"):
        write(circle, home, force=True)


@pytest.mark.parametrize("option", ["--csv", "--chart"])
def test_a_bench_replaces_no_file_unless_forced(tmp_path: Path, home: HomePaths, option: str) -> None:
    file = tmp_path / "rows.svg"
    file.write_text("mine")
    words = ["bench", "--show", "run", option, str(file)]
    with pytest.raises(Conflict, match="exists already"):
        check_outputs(build_parser("bench").parse_args(words), home)
    check_outputs(build_parser("bench").parse_args([*words, "--force"]), home)
    assert file.read_text() == "mine"


def test_a_name_that_the_system_refuses_is_said(home: HomePaths) -> None:
    for word in (f"{'x' * 300}.csv", f"{'x' * 300}/rows.csv"):
        with pytest.raises(ArmadaError, match="cannot be written: File name too long"):
            check_new_file(word, "--csv", home, force=False)
