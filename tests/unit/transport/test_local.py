from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from armada.errors import ArmadaError, LinkLost, NotFound, ProvisionFailed
from armada.foundation.progress import TransferProgress
from armada.paths import HomePaths
from armada.transport import connect, root_of
from armada.transport.local import LocalTransport

NAMES = ["plain", "sub/deep/x.sh", 'it\'s "q" $(touch x)', "#hash", ";semi", "ünï — 漢", "-dash", "a b", "empty"]


@dataclass(frozen=True)
class Here:
    name: str = "local"
    ssh: str | None = None
    local: bool = True
    root: str | None = None
    identity: Path | None = None
    transport: str = "fabric"
    reuse_only: bool = False


@pytest.fixture
def transport() -> LocalTransport:
    return LocalTransport(Here())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    for name in NAMES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if name == "empty" else name * 1000)
    (folder / "sub/deep/x.sh").chmod(0o755)
    return folder


def test_a_local_host_is_reached_without_ssh(tmp_path: Path) -> None:
    home = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    assert isinstance(connect(Here(), home), LocalTransport)
    assert root_of(Here(), home) == str(tmp_path / "state/local")
    assert root_of(Here(root="/scratch"), home) == "/scratch"


def test_files_arrive_as_they_were(transport: LocalTransport, source: Path, tmp_path: Path) -> None:
    seen: list[TransferProgress] = []
    there = tmp_path / "there"
    transport.push(source, NAMES, str(there), seen.append)
    for name in NAMES:
        assert (there / name).read_bytes() == (source / name).read_bytes()
        assert (there / name).stat().st_mtime_ns == (source / name).stat().st_mtime_ns
    assert (there / "sub/deep/x.sh").stat().st_mode & 0o777 == 0o700
    assert (there / "plain").stat().st_mode & 0o777 == 0o600
    assert there.stat().st_mode & 0o777 == 0o700
    assert seen[-1].done_bytes == seen[-1].total_bytes == sum((source / name).stat().st_size for name in NAMES)


def test_a_file_that_is_there_already_is_replaced_whole(
    transport: LocalTransport, source: Path, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "plain").write_text("something longer than what comes" * 1000)
    transport.push(source, ["plain"], str(there))
    assert (there / "plain").read_bytes() == (source / "plain").read_bytes()
    assert [path.name for path in there.iterdir()] == ["plain"]


def test_no_link_is_followed_in_either_folder(transport: LocalTransport, source: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (source / "link").symlink_to(outside / "secret")
    (source / "folder").symlink_to(outside)
    os.mkfifo(source / "fifo")
    for name in ("link", "folder/secret", "fifo", "sub", "missing", "plain/x"):
        with pytest.raises(NotFound, match="not a regular file"):
            transport.push(source, [name], str(tmp_path / "there"))
    there = tmp_path / "there2"
    there.mkdir()
    (there / "sub").symlink_to(outside)
    (there / "plain").symlink_to(outside / "secret")
    with pytest.raises(ArmadaError):
        transport.push(source, ["sub/deep/x.sh"], str(there))
    transport.push(source, ["plain"], str(there))
    assert not (there / "plain").is_symlink()
    assert (outside / "secret").read_text() == "secret"
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_names_that_mean_something_else_are_refused(transport: LocalTransport, source: Path, tmp_path: Path) -> None:
    for name in (
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "./a",
        "a//b",
        "a/",
        "a\nb",
        "a\x1bb",
        "a\x00b",
        "a\udcffb",
        "a\x85b",
    ):
        with pytest.raises(ArmadaError, match="armada does not transfer it"):
            transport.push(source, [name], str(tmp_path / "there"))
    for folder in ("relative", "~/x", "/a\nb", "/a*", "/a/../b", "/a[b]"):
        with pytest.raises(ArmadaError):
            transport.push(source, ["plain"], folder)


def test_a_folder_that_is_not_there_is_said(transport: LocalTransport, source: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no folder"):
        transport.push(tmp_path / "nowhere", ["plain"], str(tmp_path / "there"))
    (tmp_path / "file").write_text("")
    with pytest.raises(ProvisionFailed):
        transport.push(source, ["plain"], str(tmp_path / "file/below"))


def test_what_a_bootstrap_writes_to_stderr_never_blocks_it(transport: LocalTransport) -> None:
    channel = transport.open_channel()
    program = b"import sys\nfor _ in range(3000): sys.stderr.write('\\x1b[31m' + 'e' * 1000)\nsys.stderr.write('last words')\nsys.exit(4)"
    channel.write(b"%d\n%s" % (len(program), program))
    assert channel.read() == b""
    said = channel.diagnosis()
    assert said.endswith("last words\n(exit status 4)")
    assert "\x1b" not in said
    assert len(said) < 5000
    with pytest.raises(LinkLost):
        channel.write(b"x" * 100_000)
    transport.close()
    transport.close()
