"""What is sent to hosts: the agent's sources, and the bytecode that home's Python made of them."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from armada.paths import bundled
from armada.rpc import agent_archive


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the agent's sources, without bytecode."""
    copy = tmp_path / "armada_agent"
    shutil.copytree(bundled("remote_payload", "armada_agent"), copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(bundled("remote_payload") / "armada_log.py", tmp_path)
    monkeypatch.setattr(agent_archive, "bundled", lambda *_: copy)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return copy


@pytest.fixture
def build(folder: Path) -> Callable[[], tuple[bytes, str]]:  # of that copy
    return agent_archive.build.__wrapped__


def names(content: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.namelist()


def test_it_has_each_module_as_source_and_compiled_under_its_hash(build: Callable[[], tuple[bytes, str]]) -> None:
    content, sha256 = build()
    assert hashlib.sha256(content).hexdigest() == sha256
    sources = {name for name in names(content) if name.endswith(".py")}
    assert {"__main__.py", "armada_log.py", "armada_agent/rpc/serve.py", "armada_agent/verdicts/doubt.py"} <= sources
    assert set(names(content)) == sources | {name + "c" for name in sources}


def test_it_stays_as_it_is_until_the_sources_change(folder: Path, build: Callable[[], tuple[bytes, str]]) -> None:
    first = build()
    assert build() == first
    (folder / "novel.py").write_text("ANSWER = 42\n")
    second = build()
    assert second != first
    assert build() == second
    assert len(list((folder / "__pycache__").iterdir())) == 1


def test_a_kept_one_that_was_damaged_is_made_anew(folder: Path, build: Callable[[], tuple[bytes, str]]) -> None:
    build()
    (kept,) = (folder / "__pycache__").iterdir()
    whole = kept.read_bytes()
    for damaged in (whole[:-1], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        kept.write_bytes(damaged)
        content, sha256 = build()
        assert hashlib.sha256(content).hexdigest() == sha256
        assert "armada_agent/rpc/serve.pyc" in names(content)


def test_where_bytecode_may_not_be_kept_it_has_the_sources_alone(
    folder: Path, build: Callable[[], tuple[bytes, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        plain = build()
    assert all(name.endswith(".py") for name in names(plain[0]))
    assert not (folder / "__pycache__").exists()
    (folder / "__pycache__").write_text("somebody's file")
    assert build() == plain


def test_where_nothing_can_be_written_nothing_is_compiled(
    build: Callable[[], tuple[bytes, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an installation of somebody else's: each command would compile it all again."""

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "touch", refuse)
    compiled: list[object] = []
    monkeypatch.setattr(agent_archive, "compile_all", compiled.append)
    content, _ = build()
    assert all(name.endswith(".py") for name in names(content))
    assert compiled == []


def test_a_file_system_without_hard_links_keeps_it_too(
    build: Callable[[], tuple[bytes, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    content, _ = first = build()
    assert "armada_agent/rpc/serve.pyc" in names(content)
    assert build() == first


def test_of_two_that_make_one_at_once_the_first_is_everybodys(
    folder: Path, build: Callable[[], tuple[bytes, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, others = agent_archive.compile_all, []

    def meanwhile(sources: dict[str, bytes]) -> dict[str, bytes]:
        monkeypatch.setattr(agent_archive, "compile_all", lambda them: {**real(them), "made.by": b"the other"})
        others.append(build())
        return real(sources)

    monkeypatch.setattr(agent_archive, "compile_all", meanwhile)
    mine = build()
    assert others == [mine]
    assert "made.by" in names(mine[0])
    assert len(list((folder / "__pycache__").iterdir())) == 1


def test_python_takes_the_bytecode_and_a_traceback_shows_the_source(
    folder: Path, build: Callable[[], tuple[bytes, str]], tmp_path: Path
) -> None:
    (folder / "novel.py").write_text('"""Of no use."""\n\n\ndef fail() -> None:\n    raise KeyError("it was here")\n')
    path = tmp_path / "agent.pyz"
    path.write_bytes(build()[0])
    script = [
        f"import sys, traceback; sys.path.insert(0, {str(path)!r})",
        "from armada_agent import novel; print(novel.__doc__)",
        "try: novel.fail()",
        "except KeyError: traceback.print_exc()",
    ]
    done = subprocess.run([sys.executable, "-I", "-c", "\n".join(script)], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"  # compiled without its docstring
    assert 'raise KeyError("it was here")' in done.stderr
    assert str(folder) not in done.stderr  # home's own folders are nobody's business there
