"""Deleting folders on a host: a mode does not keep what this user owns, a link is not followed, and what stays is named."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.fork_server import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import sys
from armada_agent.errors import AgentError
from armada_agent.foundation import deletion
try:
    deletion.delete_folder(sys.argv[1], "/known/as")
except AgentError as error:
    print(error.kind, error.message, error.hint, sep="\\n")
"""

REMOVE = """
import sys
from armada_agent.foundation.session import Call, Session
from armada_agent.runs import folders
print(folders.remove(Call(Session(sys.argv[1], "", 1, sys.stdin.buffer, 0), 1), {"run_id": "q-aaaaaa"}))
"""


WIPE = """
import sys
from armada_agent.foundation.session import Call, Session
from armada_agent.runs import wipe
print(wipe.wipe(Call(Session(sys.argv[1], "", 1, sys.stdin.buffer, 0), 1), {})["removed"])
"""


def _without_roots_rights() -> None:
    """Give up CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH at the next exec: modes then hold for root, too."""
    for capability in (1, 2):
        ctypes.CDLL(None).prctl(24, capability)


def delete(folder: Path, script: str = SCRIPT) -> str:
    """Run a script with a folder as a user for whom modes hold; returns what it prints: the error's lines."""
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "remote_payload")},
        preexec_fn=_without_roots_rights if os.geteuid() == 0 else None,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("run/a/locked/deep", "run/z", "outside"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text("x")
    (tmp_path / "run" / "link").symlink_to(tmp_path / "outside")
    return tmp_path / "run"


def test_a_folder_whose_modes_forbid_it_is_deleted(folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.chmod(0o500)
    for name, mode in (("a/locked/deep", 0o000), ("a/locked", 0o000), ("z", 0o500), ("a", 0o600), ("", 0o500)):
        (folder / name).chmod(mode)
    assert delete(folder) == ""
    assert not folder.exists()
    assert (outside / "file").read_text() == "x"
    assert outside.stat().st_mode & 0o777 == 0o500


def test_a_run_with_a_folder_whose_mode_forbids_it_is_removed(tmp_path: Path) -> None:
    locked = tmp_path / "runs" / "q-aaaaaa" / "work" / "locked"
    (locked / "deep").mkdir(parents=True)
    locked.chmod(0o000)
    assert delete(tmp_path, REMOVE) == "{}\n"
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of others")
def test_what_cannot_be_deleted_is_named_and_the_rest_goes(folder: Path) -> None:
    theirs = folder / "a" / "locked"
    theirs.chmod(0o700)
    os.chown(theirs, 65534, 65534)
    kind, message, hint = delete(folder).splitlines()
    assert kind == "io"
    assert message == f"/known/as could not be deleted as a whole; there remains {theirs} (permission denied)"
    assert hint == f"delete it on the host as root, or as its owner: rm -rf {folder}"
    assert sorted(path.name for path in folder.iterdir()) == ["a"]
    shutil.rmtree(folder)


def test_a_wipe_deletes_what_an_earlier_one_left_and_what_modes_lock(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for place in (".trash-runs/q-aaaaaa/work/locked", "envs/e/locked/deep"):
        (root / place).mkdir(parents=True)
        (root / place).chmod(0o000)
    assert delete(root, WIPE) == "['envs']\n"
    assert not root.exists() or list(root.iterdir()) == []
