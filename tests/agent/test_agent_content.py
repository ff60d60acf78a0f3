"""Content-addressed folders: nothing wrong is ever published, and publishing twice is no harm."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
import tarfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from armada_agent.provision.content import find_problem

from tests.agent.conversation import Conversation, Host, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = {"run.py": (b"print(1)\n", 0o755), "pkg/é ü.txt": (b"text", 0o644), "pkg/deep/empty": (b"", 0o644)}
Manifest = list[list[Any]]


def manifest_of(files: dict[str, tuple[bytes, int]]) -> tuple[Manifest, str]:
    manifest = [[name, len(c), hashlib.sha256(c).hexdigest(), mode] for name, (c, mode) in sorted(files.items())]
    canonical = json.dumps(manifest, separators=(",", ":"), ensure_ascii=True)
    return manifest, hashlib.sha256(canonical.encode()).hexdigest()


def stage(host: Host, sha: str, files: dict[str, tuple[bytes, int]] = FILES) -> Path:
    answer = host.call("content.check", kind="code", sha=sha)
    assert answer["present"] is False
    staging = host.root / "code" / f".new-{sha}"
    assert answer["staging"] == str(staging)
    for name, (content, _) in files.items():
        (staging / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).write_bytes(content)
    return staging


def test_what_is_whole_is_published_once(python: str, converse: Callable[..., Conversation]) -> None:
    host = Host(converse(python, environment={"PATH": os.environ["PATH"], "LC_ALL": "C"}))
    manifest, sha = manifest_of(FILES)
    staging = stage(host, sha)
    path = host.root / "code" / sha
    assert host.call("content.publish", kind="code", sha=sha, manifest=manifest) == {"path": str(path)}
    assert not staging.exists()
    for name, (content, mode) in FILES.items():
        assert (path / name).read_bytes() == content
        assert (path / name).stat().st_mode & 0o777 == mode
    assert host.call("content.check", kind="code", sha=sha)["present"] is True
    assert host.call("content.publish", kind="code", sha=sha, manifest=manifest) == {"path": str(path)}


def test_a_look_creates_nothing_and_keeps_what_was_sent(this_host: Host) -> None:
    manifest, sha = manifest_of(FILES)
    answer = this_host.call("content.check", kind="code", sha=sha, only_look=True)
    assert (answer["present"], answer["staging"]) == (False, str(this_host.root / "code" / f".new-{sha}"))
    assert not (this_host.root / "code").exists()
    staging = stage(this_host, sha)
    assert this_host.call("content.check", kind="code", sha=sha, only_look=True)["present"] is False
    assert (staging / "run.py").exists()
    this_host.call("content.publish", kind="code", sha=sha, manifest=manifest)
    assert this_host.call("content.check", kind="code", sha=sha, only_look=True)["present"] is True


def test_the_order_of_a_manifest_does_not_matter(this_host: Host) -> None:
    manifest, sha = manifest_of(FILES)
    stage(this_host, sha)
    this_host.call("content.publish", kind="code", sha=sha, manifest=manifest[::-1])
    assert this_host.call("content.check", kind="code", sha=sha)["present"] is True


def test_a_file_that_the_disk_refuses_is_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux tells a failed write once; a second look would find the right bytes in the cache, and no error."""

    def refuse(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    arrived = tmp_path / "model"
    arrived.write_bytes(b"weights")
    sha256 = hashlib.sha256(b"weights").hexdigest()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="Input/output"):
            find_problem(str(arrived), 7, sha256)
    assert find_problem(str(arrived), 7, sha256) == "is missing"


def damage_bytes(staging: Path) -> None:
    (staging / "run.py").write_bytes(b"print(2)\n")


def damage_size(staging: Path) -> None:
    (staging / "run.py").write_bytes(b"print")


def remove_one(staging: Path) -> None:
    (staging / "run.py").unlink()


def add_one(staging: Path) -> None:
    (staging / "extra").touch()


def add_folder(staging: Path) -> None:
    (staging / "extra/deep").mkdir(parents=True)
    (staging / "extra/deep/file").touch()


def link_file(staging: Path) -> None:
    (staging / "run.py").unlink()
    (staging / "run.py").symlink_to("/etc/hostname")


def link_folder(staging: Path) -> None:
    (staging / "pkg").rename(staging.parent / "elsewhere")
    (staging / "pkg").symlink_to(staging.parent / "elsewhere")


def make_pipe(staging: Path) -> None:
    (staging / "run.py").unlink()
    os.mkfifo(staging / "run.py")


@pytest.mark.parametrize(
    "damage", [damage_bytes, damage_size, remove_one, add_one, add_folder, link_file, link_folder, make_pipe]
)
def test_what_is_wrong_is_refused_and_repaired_by_sending_it_again(
    this_host: Host, damage: Callable[[Path], None]
) -> None:
    manifest, sha = manifest_of(FILES)
    damage(stage(this_host, sha))
    with pytest.raises(Refused) as refused:
        this_host.call("content.publish", kind="code", sha=sha, manifest=manifest)
    assert refused.value.kind == "io"
    assert not (this_host.root / "code" / sha).exists()
    stage(this_host, sha)
    this_host.call("content.publish", kind="code", sha=sha, manifest=manifest)


@pytest.mark.parametrize("path", ["../x", "/x", "a/../b", "a//b", "", ".", "a\n", "a\x1b[2J", "\u202ex", "a/"])
def test_a_path_that_leads_elsewhere_is_refused(shared_host: Host, path: str) -> None:
    manifest, sha = manifest_of({path: (b"", 0o644)})
    with pytest.raises(Refused) as refused:
        shared_host.call("content.publish", kind="data", sha=sha, manifest=manifest)
    assert refused.value.kind == "bad_request"


@pytest.mark.parametrize("mode", [0o777, 0o4755, 0, "0o644"])
def test_an_odd_mode_is_refused(shared_host: Host, mode: Any) -> None:
    manifest, sha = manifest_of({"a": (b"", mode)})
    with pytest.raises(Refused) as refused:
        shared_host.call("content.publish", kind="data", sha=sha, manifest=manifest)
    assert refused.value.kind == "bad_request"


def test_a_manifest_of_another_content_is_refused(this_host: Host) -> None:
    manifest, sha = manifest_of(FILES)
    stage(this_host, sha)
    with pytest.raises(Refused) as refused:
        this_host.call("content.publish", kind="code", sha=sha, manifest=manifest[:-1])
    assert refused.value.kind == "bad_request"
    with pytest.raises(Refused) as refused:
        this_host.call("content.publish", kind="code", sha=sha, manifest=[manifest[0], *manifest])
    assert refused.value.kind == "bad_request"


@pytest.mark.parametrize(
    ("kind", "sha"), [("envs", "0" * 64), ("code", "../" + "0" * 61), ("code", "0" * 63), (None, "0" * 64)]
)
def test_kinds_and_names_are_checked(shared_host: Host, kind: Any, sha: str) -> None:
    with pytest.raises(Refused) as refused:
        shared_host.call("content.check", kind=kind, sha=sha)
    assert refused.value.kind == "bad_request"


def test_publishing_what_was_never_sent_says_so(this_host: Host) -> None:
    manifest, sha = manifest_of(FILES)
    with pytest.raises(Refused) as refused:
        this_host.call("content.publish", kind="models", sha=sha, manifest=manifest)
    assert refused.value.kind == "not_found"


def test_two_homes_publish_the_same_content_at_once(converse: Callable[..., Conversation]) -> None:
    homes = [Host(converse()) for _ in range(2)]
    manifest, sha = manifest_of(FILES)
    stage(homes[0], sha)
    answers: list[dict[str, Any]] = []

    def publish(home: Host) -> None:
        answers.append(home.call("content.publish", kind="code", sha=sha, manifest=manifest))

    threads = [threading.Thread(target=publish, args=(home,)) for home in homes * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [{"path": str(homes[0].root / "code" / sha)}] * 6
    assert not (homes[0].root / "code" / f".new-{sha}").exists()


def pour(talk: Conversation, sha: str, members: list[tuple[tarfile.TarInfo, bytes]], cut: int = 0) -> dict[str, Any]:
    """Send a tar stream after its request, as home does where rsync cannot be used."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8") as tar:
        for member, data in members:
            member.size = len(data) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(data))
    number = talk.ask("content.receive", {"kind": "code", "sha": sha})
    talk.write_raw(stream.getvalue()[: -cut or None])
    if cut and talk.process.stdin is not None:
        talk.process.stdin.close()
    return talk.answer(number)


def test_a_tar_stream_is_staged_and_a_second_one_goes_on_in_the_middle_of_a_file(
    python: str, converse: Callable[..., Conversation]
) -> None:
    ascii_only = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    manifest, sha = manifest_of(FILES)
    half = dict(FILES, **{"run.py": (b"prin", 0o755)})
    members = [(tarfile.TarInfo(name), content) for name, (content, _) in half.items()]
    assert pour(converse(python, environment=ascii_only), sha, members) == {"files": 3}
    staged = Host(converse(python, environment=ascii_only)).call("content.staged", kind="code", sha=sha)["files"]
    assert sorted(staged) == [["pkg/deep/empty", 0], ["pkg/é ü.txt", 4], ["run.py", 4]]
    rest = tarfile.TarInfo("run.py")
    rest.pax_headers = {"ARMADA.offset": "4"}
    assert pour(converse(python, environment=ascii_only), sha, [(rest, b"t(1)\n")]) == {"files": 1}
    host = Host(converse(python, environment=ascii_only))
    host.call("content.publish", kind="code", sha=sha, manifest=manifest)
    for name, (content, _) in FILES.items():
        assert (host.root / "code" / sha / name).read_bytes() == content


def special(name: str, kind: bytes = tarfile.REGTYPE, offset: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
    member.pax_headers = {"ARMADA.offset": offset} if offset else {}
    return member


@pytest.mark.parametrize(
    "member",
    [
        special("../escaped"),
        special("/tmp/escaped"),
        special("a\nb"),
        special("link", tarfile.SYMTYPE),
        special("link", tarfile.LNKTYPE),
        special("fifo", tarfile.FIFOTYPE),
        special("folder", tarfile.DIRTYPE),
        special("behind/passwd"),
        special("short", offset="100"),
        special("short", offset="-1"),
    ],
    ids=lambda member: f"{member.name!a} type {member.type!r} {len(member.pax_headers)}",
)
def test_a_tar_stream_with_anything_but_files_below_the_folder_is_refused(
    converse: Callable[..., Conversation], root: Path, tmp_path: Path, member: tarfile.TarInfo
) -> None:
    _, sha = manifest_of(FILES)
    staging = root / "code" / f".new-{sha}"
    staging.mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (staging / "behind").symlink_to(tmp_path / "outside")
    with pytest.raises(Refused):
        pour(converse(), sha, [(member, b"content")])
    assert not (root / "code" / "escaped").exists()
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_tar_stream_that_is_cut_off_is_no_success(converse: Callable[..., Conversation]) -> None:
    _, sha = manifest_of(FILES)
    with pytest.raises(Refused, match="ends too early"):
        pour(converse(), sha, [(tarfile.TarInfo("run.py"), b"x" * 100_000)], cut=50_000)


# What lies under a hash is what the hash says, each time it is used.


def publish(host: Host, kind: str = "code") -> tuple[str, Path]:
    manifest, sha = manifest_of(FILES)
    staging = Path(host.call("content.check", kind=kind, sha=sha)["staging"])
    for name, (content, _) in FILES.items():
        (staging / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).write_bytes(content)
    host.call("content.publish", kind=kind, sha=sha, manifest=manifest)
    return sha, host.root / kind / sha


def forget(path: Path) -> None:
    """As an older armada left it: without a note beside it."""
    (path.parent / f".manifest-{path.name}.json").unlink()


def change_quietly(path: Path) -> None:
    status = path.stat()
    path.write_bytes(path.read_bytes().swapcase())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("kind", ["code", "data", "models"])
@pytest.mark.parametrize("is_noted", [True, False], ids=["noted", "of an older armada"])
def test_a_content_that_was_changed_is_refused_with_what_is_wrong(this_host: Host, kind: str, is_noted: bool) -> None:
    sha, path = publish(this_host, kind)
    assert this_host.call("content.check", kind=kind, sha=sha)["present"] is True
    change_quietly(path / "run.py")
    if not is_noted:
        forget(path)
    with pytest.raises(Refused, match=f"{sha} does not match its name") as refused:
        this_host.call("content.check", kind=kind, sha=sha)
    assert refused.value.kind == "environment"
    assert f"rm -rf {path}" in (refused.value.hint or "")


@pytest.mark.parametrize("is_noted", [True, False], ids=["noted", "of an older armada"])
@pytest.mark.parametrize("damage", [add_one, remove_one, lambda path: (path / "a").symlink_to("run.py")])
def test_a_content_with_other_files_is_refused(
    this_host: Host, damage: Callable[[Path], object], is_noted: bool
) -> None:
    sha, path = publish(this_host, "data")
    damage(path)
    if not is_noted:
        forget(path)
    with pytest.raises(Refused, match="does not match its name"):
        this_host.call("content.check", kind="data", sha=sha)


def test_data_of_an_older_armada_is_read_once_and_code_each_time(this_host: Host) -> None:
    sha, path = publish(this_host, "data")
    note = path.parent / f".manifest-{sha}.json"
    before = note.read_bytes()
    forget(path)
    assert this_host.call("content.check", kind="data", sha=sha)["present"] is True
    assert note.read_bytes() == before
    # A seal that says that nobody touched the file is believed of data, and not of code.
    for kind, is_believed in (("data", True), ("code", False)):
        sha, path = publish(this_host, kind) if kind == "code" else (sha, path)
        change_quietly(path / "run.py")
        note = path.parent / f".manifest-{sha}.json"
        told = json.loads(note.read_bytes())
        now = (path / "run.py").stat()
        told["seals"]["run.py"] = [now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino]
        note.write_text(json.dumps(told))
        if is_believed:
            assert this_host.call("content.check", kind=kind, sha=sha)["present"] is True
        else:
            with pytest.raises(Refused, match="has the wrong content"):
                this_host.call("content.check", kind=kind, sha=sha)


def test_a_note_beside_a_content_cannot_say_that_other_files_belong_to_it(this_host: Host) -> None:
    sha, path = publish(this_host, "data")
    (path / "extra").write_bytes(b"x")
    note = path.parent / f".manifest-{sha}.json"
    told = json.loads(note.read_bytes())
    told["manifest"].append(["extra", 1, hashlib.sha256(b"x").hexdigest(), 0o644])
    note.write_text(json.dumps(told))
    with pytest.raises(Refused, match="does not match its name"):
        this_host.call("content.check", kind="data", sha=sha)


def test_a_run_works_in_a_copy_that_was_held_against_the_hash(this_host: Host) -> None:
    _, path = publish(this_host)
    this_host.create("right", "true", job={"code": str(path)})
    change_quietly(path / "run.py")
    with pytest.raises(Refused, match=r"run\.py has the wrong content"):
        this_host.create("wrong", "true", job={"code": str(path)})
    assert not this_host.folder("wrong").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to somebody else")
def test_a_content_that_somebody_else_put_there_is_refused(this_host: Host) -> None:
    sha, path = publish(this_host)
    for place in (path, path / "run.py"):
        os.chown(place, 61235, 61235)
        with pytest.raises(Refused, match=r"is not yours, it belongs to .*\(uid 61235\)"):
            this_host.call("content.check", kind="code", sha=sha)
        os.chown(place, 0, 0)
    os.chown(path, 61235, 61235)
    with pytest.raises(Refused, match="is not yours"):
        this_host.call("host.facts")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: (path / "run.py").write_text("changed by another run"), "does not match its name"),
        (shutil.rmtree, "which run twice needs as in/run.py, is no longer on its host"),
    ],
)
def test_a_run_is_not_resumed_with_files_that_changed_or_are_gone(
    this_host: Host, damage: Callable[[Path], object], words: str
) -> None:
    _, path = publish(this_host, "data")
    this_host.launch(
        "twice", "sh", "-c", "exit 3", job={"data": [{"content": str(path / "run.py"), "name": "in/run.py"}]}
    )
    this_host.await_end("twice")
    damage(path)
    with pytest.raises(Refused, match=words) as refused:
        this_host.call("run.submit", run_id="twice", submission=2)
    assert refused.value.kind == "environment"
    assert not (this_host.folder("twice") / "attempts" / "2").exists()


def test_a_run_whose_files_are_still_right_is_resumed(this_host: Host, tmp_path: Path) -> None:
    _, path = publish(this_host, "data")
    linked = [{"content": str(path / "run.py"), "name": "a"}, {"content": str(tmp_path), "name": "b", "outside": True}]
    this_host.launch("twice", "sh", "-c", "exit 3", job={"data": linked})
    this_host.await_end("twice")
    this_host.call("run.submit", run_id="twice", submission=2)
    this_host.await_state("twice", "failed", submission=2)
