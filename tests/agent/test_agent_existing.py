"""Environments that a person made on a host: examined, never changed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from armada_agent.errors import AgentError
from armada_agent.provision import existing

from tests.agent.conversation import Conversation, Host, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

ASKED = ("torch", "accelerate")


def make_venv(folder: Path, **packages: str) -> Path:
    """A virtual environment with packages that cannot be imported: nobody should."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    for name, version in packages.items():
        (site / name).mkdir()
        (site / name / "__init__.py").write_text("raise SystemExit('it was imported')\n")
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder


def examine(host: Host, folder: Path | str) -> dict[str, Any]:
    return host.call("environment.examine", path=str(folder), packages=list(ASKED))


def contents(folder: Path) -> set[tuple[str, float]]:
    return {(str(path), path.lstat().st_mtime) for path in folder.rglob("*")}


def test_it_is_asked_what_it_has_and_nothing_in_it_changes(host: Host, tmp_path: Path) -> None:
    folder = make_venv(tmp_path / "mine", torch="2.4.0")
    before = contents(folder)
    answer = examine(host, folder)
    assert answer["packages"] == {"torch": "2.4.0", "accelerate": None}
    assert answer["version"] == platform.python_version()
    assert (answer["path"], answer["python"]) == (str(folder), f"{folder}/bin/python")
    assert answer["is_conda"] is False
    assert contents(folder) == before


def test_other_peoples_python_variables_do_not_reach_it(converse: Callable[..., Conversation], tmp_path: Path) -> None:
    (tmp_path / "foreign" / "torch").mkdir(parents=True)
    (tmp_path / "foreign" / "torch" / "__init__.py").touch()
    host = Host(converse(environment={**os.environ, "PYTHONPATH": str(tmp_path / "foreign")}))
    assert examine(host, make_venv(tmp_path / "mine"))["packages"]["torch"] is None


def test_a_folder_that_a_removed_package_left_is_no_package(this_host: Host, tmp_path: Path) -> None:
    folder = make_venv(tmp_path / "mine")
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "torch").mkdir()
    assert examine(this_host, folder)["packages"]["torch"] is None


def test_a_path_from_home_is_the_hosts(converse: Callable[..., Conversation], tmp_path: Path) -> None:
    make_venv(tmp_path / "home" / "mine")
    host = Host(converse(environment={**os.environ, "HOME": str(tmp_path / "home")}))
    assert examine(host, "~/mine/")["path"] == f"{tmp_path}/home/mine"


@pytest.mark.parametrize(
    ("make", "said", "hint"),
    [
        ("true", "there is no folder", "a path on the host"),
        ("touch mine", "is not a folder", "bin/python"),
        ("mkdir mine", "there is no Python in", "venv"),
        (
            "mkdir -p mine/bin && ln -s /gone/python mine/bin/python",
            "leads to /gone/python, which is not there",
            "again",
        ),
        (
            "mkdir -p mine/bin && printf '#!/bin/sh\necho broken >&2; exit 3' > mine/bin/python && chmod +x mine/bin/python",
            r"is no Python 3 that works \(exit code 3\): broken",
            None,
        ),
        ("mkdir -p mine/bin && cp /bin/echo mine/bin/python", "is no Python 3 that works", None),
        ("mkdir -p mine/bin && echo x > mine/bin/python && chmod +x mine/bin/python", "cannot be started", None),
    ],
)
def test_what_is_no_environment_is_said(
    this_host: Host, tmp_path: Path, make: str, said: str, hint: str | None
) -> None:
    subprocess.run(["sh", "-c", make], cwd=tmp_path, check=True)
    with pytest.raises(Refused, match=said) as refused:
        examine(this_host, tmp_path / "mine")
    assert refused.value.kind == "environment"
    assert hint is None or hint in (refused.value.hint or "")


@pytest.mark.parametrize("name", ["mine", "mine/bin", "mine/bin/activate", "."])
def test_one_that_others_can_change_is_refused(this_host: Host, tmp_path: Path, name: str) -> None:
    folder = make_venv(tmp_path / "shared" / "mine")
    (tmp_path / "shared" / name).chmod(0o777)
    with pytest.raises(Refused, match="can be written by everybody") as refused:
        examine(this_host, folder)
    assert "chmod go-w" in (refused.value.hint or "")
    assert "rm -rf" not in (refused.value.hint or "")
    assert "armada's root" not in str(refused.value)


def test_the_lock_file_of_uv_may_be_open_and_nothing_else_of_that_name(this_host: Host, tmp_path: Path) -> None:
    folder = make_venv(tmp_path / "mine", torch="2.4.0")
    (folder / ".lock").touch()
    (folder / ".lock").chmod(0o666)  # as uv makes it
    assert examine(this_host, folder)["packages"]["torch"] == "2.4.0"
    (folder / "bin" / ".lock").touch()
    (folder / "bin" / ".lock").chmod(0o666)
    with pytest.raises(Refused, match=rf"^{folder}/bin/\.lock can be written by everybody"):
        examine(this_host, folder)


def test_a_folder_in_the_place_of_the_lock_file_is_refused_if_others_can_change_it(
    this_host: Host, tmp_path: Path
) -> None:
    folder = make_venv(tmp_path / "mine")
    (folder / ".lock").mkdir()
    (folder / ".lock").chmod(0o777)
    with pytest.raises(Refused, match=rf"^{folder}/\.lock can be written by everybody"):
        examine(this_host, folder)


def test_a_python_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine" / "bin").mkdir(parents=True)
    program = tmp_path / "mine" / "bin" / "python"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(existing, "_PATIENCE_S", 0.01)
    with pytest.raises(AgentError, match="did not say its version"):
        existing.examine(None, {"path": str(tmp_path / "mine"), "packages": []})  # type: ignore[arg-type]  # it needs none


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"path": "mine"}, "is not an absolute path"),
        ({"path": "/x", "packages": ["a b"]}, "names of modules"),
        ({"conda": "../x"}, "is not the name of an environment"),
        ({"conda": 5}, "is not the name of an environment"),
    ],
)
def test_what_no_home_asks_is_refused(shared_host: Host, params: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said) as refused:
        shared_host.call("environment.examine", **{"packages": [], **params})
    assert refused.value.kind == "bad_request"


@pytest.fixture
def conda(tmp_path: Path, converse: Callable[..., Conversation]) -> Host:
    """A host where conda keeps environments under its own folder, and notes one that is elsewhere."""
    home = tmp_path / "home"
    for place in ("miniconda3", "miniconda3/envs/mine", "elsewhere/noted", "elsewhere/twice", "miniconda3/envs/twice"):
        make_venv(home / place)
        (home / place / "conda-meta").mkdir()
    (home / "miniconda3/envs/.half").mkdir()
    (home / ".conda").mkdir()
    listed = [home / "elsewhere/noted", home / "elsewhere/twice", home / "gone", home / "miniconda3"]
    (home / ".conda/environments.txt").write_text("".join(f"{path}\n" for path in listed))
    return Host(converse(environment={"HOME": str(home), "PATH": os.environ["PATH"]}))


@pytest.mark.parametrize(
    ("name", "place"), [("mine", "miniconda3/envs/mine"), ("noted", "elsewhere/noted"), ("base", "miniconda3")]
)
def test_an_environment_of_condas_is_found_by_its_name(conda: Host, tmp_path: Path, name: str, place: str) -> None:
    answer = conda.call("environment.examine", conda=name, packages=[])
    assert (answer["path"], answer["is_conda"]) == (str((tmp_path / "home" / place).resolve()), True)


def test_a_name_that_conda_does_not_know_or_knows_twice_is_said(conda: Host) -> None:
    with pytest.raises(Refused, match="conda has no environment called gone here") as unknown:
        conda.call("environment.examine", conda="gone", packages=[])
    assert "mine, noted, twice" in (unknown.value.hint or "")
    with pytest.raises(Refused, match=r"conda has several environments called twice here: .*elsewhere/twice, "):
        conda.call("environment.examine", conda="twice", packages=[])
