"""Nobody else may put anything in the place of what armada executes on a host."""

from __future__ import annotations

import grp
import hashlib
import io
import json
import os
import pwd
import shutil
import struct
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from armada_agent.errors import AgentError
from armada_agent.host import ownership, trust
from armada_agent.host.ownership import UntrustedError, require_below, require_tree, require_way
from armada_agent.runs.wipe import OURS

from armada.transport.bootstrap import COMMAND, MARK, opening

if TYPE_CHECKING:
    from collections.abc import Iterator

ME, SHE, NOBODY = 61234, 61235, 65534

may_give_away = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give folders to somebody else")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other users can get to; pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp(prefix="armada-ownership-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def make(path: Path, mode: int = 0o755, owner: int | None = None) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    if owner is not None:
        os.chown(path, owner, owner)
    return path


# The way to the root.


def test_a_root_of_ones_own_is_taken_and_leaves_no_doubts(place: Path) -> None:
    assert require_way(str(make(place / "root", 0o700))) == []
    assert require_way(str(place / "not" / "there" / "yet")) == []


def test_a_folder_like_tmp_is_taken_above_the_root_and_not_as_the_root(place: Path) -> None:
    make(place / "tmp", 0o1777)
    assert require_way(str(make(place / "tmp" / "root", 0o700))) == []
    with pytest.raises(UntrustedError, match="can be written by everybody"):
        require_way(str(place / "tmp"))


@pytest.mark.parametrize("mode", [0o777, 0o702])
def test_a_root_that_everybody_may_write_is_refused_with_the_command_that_closes_it(place: Path, mode: int) -> None:
    root = make(place / "ro ot", mode)
    with pytest.raises(UntrustedError, match=rf"ro ot can be written by everybody .*mode {mode:04o}") as refused:
        require_way(str(root))
    assert refused.value.hint == f"chmod go-w '{root}'  # on the host"


def test_a_folder_above_the_root_that_everybody_may_write_is_refused(place: Path) -> None:
    make(place / "scratch", 0o777)
    for root in (make(place / "scratch" / "root", 0o700), place / "scratch" / "missing"):
        with pytest.raises(
            UntrustedError, match=r"scratch, above armada's root, can be written by everybody"
        ) as refused:
            require_way(str(root))
        assert f"chmod +t {place}/scratch" in refused.value.hint


@may_give_away
def test_a_group_that_shares_a_folder_above_is_a_doubt_and_one_that_shares_the_root_is_refused(place: Path) -> None:
    group = make(place / "group", 0o2775)
    os.chown(group, 0, SHE)
    (doubt,) = require_way(str(make(group / "root", 0o700)))
    assert f"can be written by group {SHE}" in doubt
    assert f"chmod +t {group}" in doubt
    group.chmod(0o3775)
    assert require_way(str(group / "root")) == []
    with pytest.raises(UntrustedError, match=f"can be written by group {SHE}"):
        require_way(str(group))


@may_give_away
@pytest.mark.parametrize("she", [SHE, NOBODY])
@pytest.mark.parametrize("which", ["root", "above"])
def test_a_folder_of_somebody_else_is_refused_with_its_owner_and_mode(place: Path, which: str, she: int) -> None:
    make(place / "above" / "root", 0o700)
    os.chown(place / "above" if which == "above" else place / "above" / "root", she, she)
    with pytest.raises(UntrustedError, match=rf"is not yours, it belongs to .*\(uid {she}\), mode 07") as refused:
        require_way(str(place / "above" / "root"))
    assert "`root:`" in refused.value.hint


@may_give_away
def test_a_link_is_judged_by_its_owner_its_folder_and_where_it_leads(place: Path) -> None:
    real = make(place / "real" / "root", 0o700)
    link = place / "link"
    link.symlink_to("real/../real/root")
    assert require_way(str(link)) == []
    os.chown(real.parent, SHE, SHE)
    with pytest.raises(UntrustedError, match="real is not yours"):
        require_way(str(link))
    os.chown(real.parent, 0, 0)
    os.chown(link, SHE, SHE, follow_symlinks=False)
    with pytest.raises(UntrustedError, match="link is not yours"):
        require_way(str(link))
    os.chown(link, 0, 0, follow_symlinks=False)
    place.chmod(0o777)
    with pytest.raises(UntrustedError, match="above armada's root"):
        require_way(str(link))


def test_links_that_follow_each_other_in_a_circle_are_refused(place: Path) -> None:
    (place / "one").symlink_to("two")
    (place / "two").symlink_to("one")
    with pytest.raises(UntrustedError, match="too many links"):
        require_way(str(place / "one"))


def test_a_group_with_nobody_in_it_but_me_may_write(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make(place / "root", 0o770)
    number = root.stat().st_gid
    members: list[str] = []
    me = pwd.struct_passwd(("ada", "x", os.geteuid(), number, "", "/home/ada", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: me)
    monkeypatch.setattr(grp, "getgrgid", lambda _: grp.struct_group(("ada", "x", number, members)))
    assert require_way(str(root)) == []
    members.append("mallory")
    with pytest.raises(UntrustedError, match="can be written by group ada"):
        require_way(str(root))


def test_an_access_list_says_who_may_write(place: Path) -> None:
    root = make(place / "root", 0o770)

    def entry(tag: int, allowed: int, number: int = 0xFFFFFFFF) -> bytes:
        return struct.pack("<HHI", tag, allowed, number)

    def content(*, mask: int) -> bytes:
        named = entry(0x02, 7, SHE) + entry(0x04, 5) + entry(0x10, mask) + entry(0x20, 0)
        return struct.pack("<I", 2) + entry(0x01, 7) + named

    try:
        os.setxattr(root, "system.posix_acl_access", content(mask=5))
    except OSError:
        pytest.skip("this file system has no access lists")
    assert require_way(str(root)) == []
    os.setxattr(root, "system.posix_acl_access", content(mask=7))
    with pytest.raises(UntrustedError, match=f"can be written by user a user without a name|user .*{SHE}"):
        require_way(str(root))


@may_give_away
def test_what_nfs_makes_of_our_own_root_is_ours(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make(place / "root", 0o700, NOBODY)
    with pytest.raises(UntrustedError):
        require_way(str(root))
    monkeypatch.setattr(ownership, "_owner_of_new_file", lambda _: NOBODY)
    assert require_way(str(root)) == []


@may_give_away
def test_in_a_container_without_its_own_root_the_machines_folders_are_taken(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(place / "above", 0o755, NOBODY)
    root = make(place / "above" / "root", 0o700)
    monkeypatch.setattr(ownership, "_is_every_id_mapped", lambda: False)
    assert require_way(str(root)) == []


# What lies in it.


@may_give_away
@pytest.mark.parametrize("name", ownership.TRUSTED)
def test_what_somebody_planted_while_the_root_was_open_is_found(place: Path, name: str) -> None:
    root = make(place / "root", 0o700)
    require_below(str(root))
    make(root / name, 0o755, SHE)
    with pytest.raises(UntrustedError, match=f"{name} is not yours") as refused:
        require_below(str(root))
    assert f"rm -rf {root / name}" in refused.value.hint


def test_what_is_ours_and_open_below_the_root_is_found(place: Path) -> None:
    root = make(place / "root", 0o700)
    make(root / "code", 0o700)
    make(root / "code" / "abc", 0o777)
    require_below(str(root))
    with pytest.raises(UntrustedError, match="abc can be written by everybody") as refused:
        require_below(str(root), deep=True)
    assert refused.value.hint.startswith("chmod go-w ")


@may_give_away
def test_a_link_below_the_root_is_followed(place: Path) -> None:
    root = make(place / "root", 0o700)
    big = make(place / "big" / "models", 0o700)
    (root / "models").symlink_to(big)
    require_below(str(root), deep=True)
    os.chown(big.parent, SHE, SHE)
    with pytest.raises(UntrustedError, match="big is not yours"):
        require_below(str(root))


@may_give_away
def test_in_a_tree_every_owner_counts_and_modes_where_others_can_get_to_them(place: Path) -> None:
    tree = make(place / "tree", 0o700)
    make(tree / "deep" / "er", 0o777)
    require_tree(str(tree))
    tree.chmod(0o755)
    with pytest.raises(UntrustedError, match="er can be written by everybody"):
        require_tree(str(tree))
    tree.chmod(0o700)
    (tree / "deep" / "er" / "x.py").touch()
    os.chown(tree / "deep" / "er" / "x.py", SHE, SHE)
    with pytest.raises(UntrustedError, match=r"x\.py is not yours"):
        require_tree(str(tree))


@may_give_away
def test_an_environment_is_looked_at_where_python_looks(place: Path) -> None:
    environment = make(place / "env", 0o700)
    packages = make(environment / "lib" / "python3.11" / "site-packages", 0o700)
    make(environment / "bin", 0o700)
    (environment / "bin" / "python").symlink_to("/usr/bin/env")
    (environment / ".lock").touch()
    (environment / ".lock").chmod(0o666)  # as uv makes it; nobody else gets there
    trust.require_environment(str(environment))
    for planted in (environment / "bin" / "accelerate", packages / "planted.pth", environment / "READY"):
        planted.touch()
        os.chown(planted, SHE, SHE)
        with pytest.raises(AgentError, match=f"{planted.name} is not yours") as refused:
            trust.require_environment(str(environment))
        assert refused.value.kind == "environment"
        planted.unlink()


def test_all_that_armada_makes_below_its_root_is_looked_at() -> None:
    assert set(OURS) < set(ownership.TRUSTED)


# The bootstrap, before any agent runs.

PLANTED = "import os\ndef serve(root, **rest):\n    open(os.path.join(root, 'ran'), 'w').close()\n"


def pack(source: str) -> tuple[bytes, str]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("armada_agent/__init__.py", "")
        archive.writestr("armada_agent/rpc/__init__.py", "")
        archive.writestr("armada_agent/rpc/serve.py", source)
    return buffer.getvalue(), hashlib.sha256(buffer.getvalue()).hexdigest()


def bootstrap(root: Path, sha256: str, user: int) -> dict[str, Any]:
    done = subprocess.run(
        ["sh", "-c", COMMAND],
        input=opening(root=str(root), sha256=sha256, nonce="n"),
        capture_output=True,
        timeout=60,
        check=False,
        cwd="/",
        user=user,
        group=user,
        extra_groups=[],
    )
    if MARK not in done.stdout:
        assert done.returncode == 0, done.stderr
        return {}
    told: dict[str, Any] = json.loads(done.stdout.partition(MARK)[2])
    return told


def plant(root: Path, owner: int, mode: int = 0o777) -> str:
    """Put an agent under the hash that it has, as somebody could who made the root before us."""
    archive, sha256 = pack(PLANTED)
    make(root, mode)
    make(root / "agent", 0o755)
    (root / "agent" / f"{sha256}.pyz").write_bytes(archive)
    for path in (root, root / "agent", root / "agent" / f"{sha256}.pyz"):
        os.chown(path, owner, owner)
    return sha256


@may_give_away
def test_the_bootstrap_starts_the_agent_in_a_root_of_ones_own(place: Path) -> None:
    sha256 = plant(place / "root", ME, 0o700)
    assert bootstrap(place / "root", sha256, ME) == {}
    assert (place / "root" / "ran").exists()


@may_give_away
@pytest.mark.parametrize("which", [".", "agent", "agent/{}.pyz"])
def test_the_bootstrap_executes_nothing_that_somebody_else_could_have_changed(place: Path, which: str) -> None:
    root = place / "root"
    sha256 = plant(root, ME, 0o755)
    os.chown(root / which.format(sha256), SHE, SHE)
    error = bootstrap(root, sha256, ME)["error"]
    assert error["kind"] == "environment"
    assert f"(uid {SHE}), mode" in error["message"]
    assert error["hint"]
    assert not (root / "ran").exists()


@may_give_away
def test_the_bootstrap_makes_nothing_in_a_place_that_it_refuses(place: Path) -> None:
    make(place / "open", 0o777, SHE)
    error = bootstrap(place / "open" / "a" / "root", "0" * 64, ME)["error"]
    assert "is not yours" in error["message"]
    assert list((place / "open").iterdir()) == []


@may_give_away
def test_the_bootstrap_makes_folders_above_the_root_that_only_we_may_write(place: Path) -> None:
    make(place / "mine", 0o755, ME)
    before = os.umask(0)
    try:
        told = bootstrap(place / "mine" / "a" / "b" / "root", "0" * 64, ME)
    finally:
        os.umask(before)
    assert told["need"] == "agent"
    assert [(place / "mine" / part).stat().st_mode & 0o777 for part in ("a", "a/b", "a/b/root", "a/b/root/agent")] == [
        *(0o755, 0o755),
        *(0o700, 0o700),
    ]
