"""What a host remembers of its tasks, by the shells that are here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from armada.errors import ConfigError, ProvisionFailed
from armada.transport.tasks import records

KEY, OTHER = "a" * 40, "b" * 40


@dataclass
class Shell:
    """A login shell on this machine, in the place of a connection."""

    program: str
    home: Path
    before: str = ""

    def run(self, line: str, *, hide: bool, warn: bool, timeout: int) -> SimpleNamespace:
        assert hide
        assert warn
        assert timeout
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.home)}
        done = subprocess.run(
            [self.program, "-c", self.before + line], capture_output=True, text=True, env=env, check=False
        )
        return SimpleNamespace(stdout=done.stdout, stderr=done.stderr, ok=done.returncode == 0)


@dataclass
class Said:
    """A host that answers what a test wants, with the mark that it was asked for."""

    text: str

    def run(self, line: str, *, hide: bool, warn: bool, timeout: int) -> SimpleNamespace:
        assert hide
        assert warn
        assert timeout
        found = re.search(r'echo "([0-9a-f]{16}) uid', line)
        assert found is not None
        return SimpleNamespace(stdout=self.text.replace("NONCE", found[1]), stderr="", ok=True)


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "csh", "tcsh", "fish"])
def test_what_was_noted_is_known_to_every_login_shell(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    host = Shell(shell, tmp_path)
    for root in ("~/my files/armada", str(tmp_path / "größer (2)")):
        assert records.ask(host, root, [KEY]).done_at == {}
        records.note(host, root, KEY)
        state = records.ask(host, root, [KEY, OTHER])
        assert list(state.done_at) == [KEY]
        assert state.done_at[KEY] > 1e9
        assert state.root == root.replace("~", str(tmp_path))
        (found,) = (Path(state.root) / "tools" / "tasks").iterdir()
        assert (found.name, found.stat().st_mode & 0o777) == (KEY, 0o600)
    assert records.ask(host, "~/my files/armada", []).done_at == {}


@pytest.mark.parametrize("root", ["/a'b", '/a"b', "/a$b", "/a`b`", "/a\\b", "/a!b", "/a\nb"])
def test_a_folder_that_a_shell_would_read_is_refused(root: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot keep their records"):
        records.ask(Shell("sh", tmp_path), root, [KEY])


def test_what_a_start_up_file_prints_is_no_answer(tmp_path: Path) -> None:
    host = Shell("sh", tmp_path, before=f"echo welcome; echo 0123456789abcdef done {KEY} 5; ")
    assert records.ask(host, "~/.armada", [KEY]).done_at == {}
    with pytest.raises(ProvisionFailed, match="its login shell does not run commands: This account is not available"):
        records.ask(Shell("sh", tmp_path, before="echo This account is not available; exit 1; "), "~/.armada", [KEY])


@pytest.mark.parametrize(
    ("said", "done_at"),
    [
        (f"NONCE done {KEY} 5", {KEY: 5.0}),
        (f"NONCE done {KEY} tomorrow", {KEY: 0.0}),
        (f"NONCE done {KEY} {'9' * 400}", {KEY: 0.0}),
        (f"NONCE done {OTHER} 5", {}),
        (f"NONCE done {KEY} ", {KEY: 0.0}),
        ("NONCE done", {}),
    ],
)
def test_of_an_answer_only_what_was_asked_for_counts(said: str, done_at: dict[str, float]) -> None:
    host = Said(f"NONCE uid 1000\nNONCE root /home/me/.armada\n{said}\n")
    assert records.ask(host, "~/.armada", [KEY]).done_at == done_at


def test_a_host_that_cannot_write_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProvisionFailed, match="it ran, but the host cannot record that in"):
        records.note(Shell("sh", tmp_path), str(tmp_path / "file"), KEY)


def _noted(tmp_path: Path) -> tuple[Shell, Path]:
    host = Shell("sh", tmp_path)
    records.note(host, "~/.armada", KEY)
    return host, tmp_path / ".armada" / "tools" / "tasks"


def _refused(host: Shell, words: str) -> None:
    with pytest.raises(ProvisionFailed, match=words) as caught:
        records.ask(host, "~/.armada", [KEY, OTHER])
    assert "/.armada/tools/tasks" in str(caught.value.hint)
    with pytest.raises(ProvisionFailed, match=f"it ran, but is not recorded: .*{words}"):
        records.note(host, "~/.armada", KEY)


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_records_that_others_could_have_written_are_not_believed(mode: int, tmp_path: Path) -> None:
    host, folder = _noted(tmp_path)
    folder.chmod(mode)
    _refused(host, "can be written by others")
    folder.chmod(0o755)
    assert list(records.ask(host, "~/.armada", [KEY]).done_at) == [KEY]


def test_a_link_in_the_place_of_the_records_is_refused(tmp_path: Path) -> None:
    host, folder = _noted(tmp_path)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    _refused(host, "is a link")
    folder.unlink()
    folder.symlink_to(tmp_path / "nowhere")
    _refused(host, "is a link")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_records_of_another_user_are_not_believed(tmp_path: Path) -> None:
    host, folder = _noted(tmp_path)
    os.chown(folder, 12345, -1)
    _refused(host, "belongs to another user")


def test_a_folder_in_the_place_of_a_record_is_refused(tmp_path: Path) -> None:
    host, folder = _noted(tmp_path)
    (folder / KEY).unlink()
    (folder / KEY).mkdir()
    _refused(host, f"{KEY} is a folder")
    assert not list((folder / KEY).iterdir())


def test_a_record_is_not_written_through_a_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine\n")
    folder = tmp_path / ".armada" / "tools" / "tasks"
    folder.mkdir(parents=True, mode=0o700)
    # The record's first name ends with the number of the shell, which `exec` keeps.
    plant = f"ln -s {precious} {folder}/.{KEY}.$$; exec "
    with pytest.raises(ProvisionFailed, match="cannot record that"):
        records.note(Shell("sh", tmp_path, before=plant), "~/.armada", KEY)
    assert precious.read_text() == "mine\n"
    assert not (folder / KEY).exists()
