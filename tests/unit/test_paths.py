from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armada.paths import RUN_ID, HomePaths, bundled, new_run_id, slug


@given(st.text())
def test_any_name_gives_an_id_that_is_safe_in_folders_and_job_names(name: str) -> None:
    assert RUN_ID.fullmatch(new_run_id(name))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Größe 7B/LoRA", "grosse-7b-lora"),
        ("$(touch x)", "touch-x"),
        ("", "run"),
        ("日本", "run"),
        ("../../etc", "etc"),
        ("a\nb", "a-b"),
    ],
)
def test_a_slug_keeps_what_is_readable(name: str, expected: str) -> None:
    assert slug(name) == expected


def test_armada_home_moves_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMADA_HOME", str(tmp_path))
    home = HomePaths.from_environment()
    places = [home.hosts_file, home.store, home.known_hosts, home.checkpoints("r"), home.local_root, home.profiles]
    assert all(place.is_relative_to(tmp_path) for place in places)


def test_what_ships_with_armada_is_found() -> None:
    assert (bundled("remote_payload", "armada_train") / "__init__.py").is_file()
    assert bundled("quickstart", "quickstart.yaml").is_file()


def test_nobody_else_may_look_into_the_results_of_runs(tmp_path: Path) -> None:
    paths = HomePaths(tmp_path / "config", tmp_path / "state")
    paths.make()
    assert {folder.stat().st_mode & 0o777 for folder in (paths.config, paths.state, paths.state / "runs")} == {0o700}
