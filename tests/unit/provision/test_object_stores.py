"""Objects of a store come home, whole, and go to the host from there; a store in memory stands in for S3."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from armada.config.files import FileSource
from armada.config.hosts import Host
from armada.errors import ProvisionFailed
from armada.foundation.progress import NullProgress
from armada.paths import HomePaths
from armada.provision.object_stores import download, list_objects
from armada.provision.sources import fetch, look_up
from armada.rpc.session import HostSession


class Bucket(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A store in memory under S3's scheme, which counts and can refuse."""

    protocol = "s3"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    fetched: ClassVar[list[str]] = []
    refuses: Exception | None = None
    shorter_by = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("s3://").strip("/")

    def get_file(self, rpath: str, lpath: str, **_: Any) -> None:
        if self.refuses is not None:
            raise self.refuses
        type(self).fetched.append(rpath)
        content = self.cat_file(rpath)
        Path(lpath).write_bytes(content[: len(content) - self.shorter_by])


@pytest.fixture(autouse=True)
def bucket(monkeypatch: pytest.MonkeyPatch) -> type[Bucket]:
    fsspec.register_implementation("s3", Bucket, clobber=True)
    for name, value in {"store": {}, "pseudo_dirs": [""], "fetched": []}.items():
        monkeypatch.setattr(Bucket, name, value)
    store = Bucket(skip_instance_cache=True)
    store.pipe({"/bucket/corpus/a.txt": b"aaa", "/bucket/corpus/deep/b.txt": b"bb", "/bucket/one.bin": b"1"})
    return Bucket


def test_a_prefix_becomes_a_folder_and_an_object_a_file(tmp_path: Path, bucket: type[Bucket]) -> None:
    corpus, one = list_objects("s3://bucket/corpus"), list_objects("s3://bucket/one.bin")
    assert [(name, size) for name, _, size in corpus.files] == [("a.txt", 3), ("deep/b.txt", 2)]
    assert (corpus.is_folder, corpus.size_bytes, one.is_folder) == (True, 5, False)
    folder = download(corpus, tmp_path, NullProgress())
    assert (folder / "deep" / "b.txt").read_bytes() == b"bb"
    (folder / "a.txt").unlink()
    download(corpus, tmp_path, NullProgress())
    assert [name.rpartition("/")[2] for name in bucket.fetched] == ["a.txt", "b.txt", "a.txt"]


def test_a_changed_object_is_another_one() -> None:
    before = list_objects("s3://bucket/one.bin").identity
    assert list_objects("s3://bucket/one.bin").identity == before
    Bucket(skip_instance_cache=True).pipe_file("/bucket/one.bin", b"2")
    assert list_objects("s3://bucket/one.bin").identity != before


def test_what_cannot_be_had_is_said(tmp_path: Path, bucket: type[Bucket], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProvisionFailed, match="there is nothing at s3://bucket/none"):
        list_objects("s3://bucket/none")
    objects = list_objects("s3://bucket/one.bin")
    monkeypatch.setattr(bucket, "refuses", PermissionError("Access Denied \x1b[31m"))
    with pytest.raises(ProvisionFailed, match=r"cannot be read: Access Denied") as refused:
        download(objects, tmp_path, NullProgress())
    assert "\x1b" not in str(refused.value)
    monkeypatch.setattr(bucket, "refuses", None)
    monkeypatch.setattr(bucket, "shorter_by", 1)
    with pytest.raises(ProvisionFailed, match="brought 0 of 1 bytes"):
        download(objects, tmp_path, NullProgress())
    assert not list(tmp_path.rglob("one.bin*"))


def test_without_the_library_the_command_that_installs_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ProvisionFailed, match="needs fsspec, which is not installed here") as refused:
        list_objects("s3://bucket/one.bin")
    assert "armada-gpu[stores]" in str(refused.value.hint)


def test_they_reach_the_host_through_home(tmp_path: Path) -> None:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    files = {name: FileSource(url=f"s3://bucket/{name}") for name in ("corpus", "one.bin", "none")}
    with HostSession(Host(name="local", local=True), home) as session:
        corpus, one, none = look_up(session, home, files, {}, ())
        assert none.problem == "there is nothing at s3://bucket/none"
        assert (corpus.size_bytes, corpus.link, corpus.through_home) == (5, None, True)
        folder = Path(fetch(session, home, corpus, {}, (), NullProgress()).content)
        file = Path(fetch(session, home, one, {}, (), NullProgress()).content)
    assert (folder / "a.txt").read_bytes() == b"aaa"
    assert file.read_bytes() == b"1"
    assert folder.parent == file.parent.parent == home.local_root / "data"
