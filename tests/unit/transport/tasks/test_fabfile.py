"""Files of tasks: which task a name means, and what makes its content another one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from invoke.context import Context

from armada.errors import ConfigError
from armada.transport.tasks import fabfile

TEXT = """\
from fabric import task
import json
import parts.cards
said = []

@task
def first(c, *words):
    said.append(("first", c, *words))

@task(aliases=["nas"])
def mount_nas(c):
    said.append(("mount", c))

@task(name="both", pre=[first], post=[mount_nas])
def whatever(c):
    said.append(("both", c))
"""


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "cards.py").write_text("NAME = 'A100'\n")
    (tmp_path / "json.py").write_text("raise RuntimeError\n")
    file = tmp_path / "fabfile.py"
    file.write_text(TEXT)
    before = list(sys.path)
    yield file
    sys.path[:] = before
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in str(getattr(module, "__file__", "")):
            del sys.modules[name]


def test_a_task_has_its_name_its_aliases_and_dashes(path: Path) -> None:
    module = fabfile.load(path)
    assert fabfile.find(module, path, "mount_nas") is fabfile.find(module, path, "mount-nas")
    assert fabfile.find(module, path, "nas") is fabfile.find(module, path, "mount_nas")
    assert fabfile.find(module, path, "both") is fabfile.find(module, path, "whatever")
    with pytest.raises(ConfigError) as refused:
        fabfile.find(module, path, "frist")
    assert refused.value.hint == "did you mean first?"
    with pytest.raises(ConfigError) as refused:
        fabfile.find(module, path, "zzz")
    assert refused.value.hint == "its tasks: both, first, mount_nas"
    with pytest.raises(ConfigError, match="said is not a task"):
        fabfile.find(module, path, "said")


def test_the_tasks_before_and_after_one_run_with_it(path: Path) -> None:
    module, connection = fabfile.load(path), Context()
    fabfile.call(fabfile.find(module, path, "both"), connection, [])
    assert [said[0] for said in module.said] == ["first", "both", "mount"]
    fabfile.call(fabfile.find(module, path, "first"), connection, ["a", 5])
    assert module.said[-1][2:] == ("a", 5)


def test_the_content_is_the_file_what_it_imports_beside_it_the_task_and_its_arguments(path: Path) -> None:
    def key(task: str = "first", arguments: tuple[object, ...] = ()) -> str:
        fabfile.load(path)
        return fabfile.content_key(path, task, arguments)

    first = key()
    assert key() == first
    assert len({first, key("both"), key(arguments=("a",)), key(arguments=("b",)), key(arguments=(5,))}) == 5
    assert key("mount_nas") == key("mount-nas")
    (path.parent / "unused.py").write_text("")
    assert key() == first, "a module that it does not import"
    (path.parent / "parts" / "cards.py").write_text("NAME = 'H100'\n")
    assert key() != first
    (path.parent / "parts" / "cards.py").write_text("NAME = 'A100'\n")
    assert key() == first
    path.write_text(TEXT + "\n")
    assert key() != first


def test_two_files_of_one_folder_each_have_what_they_import(path: Path) -> None:
    other = path.with_name("other.py")
    other.write_text("import parts.cards\n")
    fabfile.load(path)
    fabfile.load(other)
    before = fabfile.content_key(other, "x", [])
    (path.parent / "parts" / "cards.py").write_text("NAME = 'H100'\n")
    assert fabfile.content_key(other, "x", []) != before
