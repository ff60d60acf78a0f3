"""What a person is told when others could change what armada executes on a host."""

from __future__ import annotations

import os

import pytest

from tests.conftest import Armada

SHE = 61235


@pytest.fixture
def root(armada: Armada) -> str:
    """The root of `local`, as a first look makes it."""
    assert armada.run("hosts", "check", "local").returncode == 0
    return str(armada.local_runs.parent)


@pytest.mark.parametrize(
    "words", [("hosts", "check", "local"), ("doctor", "local"), ("launch", "--host", "local", "exp.yaml")]
)
def test_an_open_root_is_refused_with_the_command_that_closes_it(
    armada: Armada, root: str, words: tuple[str, ...]
) -> None:
    armada.command("touch", f"{armada.folder}/ran")
    os.chmod(root, 0o777)  # noqa: PTH101
    done = armada.run(*words)
    assert done.returncode == 5
    said = " ".join((done.stdout + done.stderr).split())
    assert f"{root} can be written by everybody" in said
    assert "mode 0777" in said
    assert f"chmod go-w {root}" in said
    assert "Traceback" not in said
    assert not (armada.folder / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give folders to somebody else")
@pytest.mark.parametrize(
    "words", [("hosts", "check", "local"), ("doctor", "local"), ("launch", "--host", "local", "exp.yaml")]
)
@pytest.mark.parametrize("which", [".", "code", "code/" + "a" * 64])
def test_what_belongs_to_somebody_else_is_refused_by_name(
    armada: Armada, root: str, which: str, words: tuple[str, ...]
) -> None:
    armada.command("touch", f"{armada.folder}/ran")
    place = armada.local_runs.parent / which
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chown(place, SHE, SHE)
    done = armada.run(*words)
    assert done.returncode == 5
    said = " ".join((done.stdout + done.stderr).split())
    assert f"{place} is not yours, it belongs to" in said
    assert f"(uid {SHE}), mode 07" in said
    assert "Traceback" not in said
    assert not (armada.folder / "ran").exists()
