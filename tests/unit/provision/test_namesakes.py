"""One name of a host, and two files that mean two machines by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.hosts import Host, load_hosts
from armada.daemon.hosts import KnownHosts
from armada.errors import ConfigError
from armada.paths import HomePaths
from armada.provision.admission import admit
from armada.provision.sent_environment import source_session
from armada.store import hosts, runs
from armada.store.database import Database
from armada.verdicts.states import Verdict


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    found = HomePaths(tmp_path / "config", tmp_path / "state")
    found.make()
    return found


def project(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "armada.yaml").write_text(text)
    return folder


def launched(database: Database, host: Host, run_id: str) -> None:
    """Record what a launch records of a host, and its run."""
    hosts.record_facts(database, host.name, {}, origin=str(host.origin or ""))
    runs.insert(database, run_id=run_id, name="x", host=host.name, task="command", experiment=None, spec={})
    runs.record(database, run_id, Verdict("running", attempt=1, seq=1))


@pytest.mark.parametrize(
    "theirs",
    ["{ssh: me@10.0.0.2}", "{ssh: me@10.0.0.1, root: /else}", "{local: true}", "{ssh: me@10.0.0.1, scheduler: slurm}"],
)
def test_nothing_starts_where_a_project_means_another_machine(home: HomePaths, tmp_path: Path, theirs: str) -> None:
    home.hosts_file.write_text("hosts:\n  box: {ssh: me@10.0.0.1}\n")
    there = project(tmp_path / "proj", f"hosts:\n  box: {theirs}\n")
    with Database(home.store) as database:
        host = load_hosts(home, there)["box"]
        assert host == KnownHosts(home).read(database)["box"]
        with pytest.raises(
            ConfigError, match=r"proj/armada\.yaml:2: box is .* here, and me@10\.0\.0\.1 in .*hosts\.yaml"
        ):
            admit(database, home, there, host)
        (there / "armada.yaml").write_text("hosts: {box: {ssh: me@10.0.0.1, price_per_hour: 3}}")
        admit(database, home, there, host)


def test_of_two_projects_the_daemon_takes_the_one_of_the_last_launch(home: HomePaths, tmp_path: Path) -> None:
    one = project(tmp_path / "one", "hosts:\n  gpu: {ssh: me@10.0.0.3}\n  other: {ssh: me@10.0.0.5}\n")
    two = project(tmp_path / "two", "hosts:\n  gpu: {ssh: me@10.0.0.4}\n  third: {ssh: me@10.0.0.6}\n")
    with Database(home.store) as database:
        launched(database, load_hosts(home, two)["third"], "t-aaaaaa")
        first = load_hosts(home, one)["gpu"]
        admit(database, home, one, first)
        launched(database, first, "x-aaaaaa")
        assert KnownHosts(home).read(database)["gpu"].ssh == "me@10.0.0.3"
        second = load_hosts(home, two)["gpu"]
        with pytest.raises(
            ConfigError, match=r"one/armada\.yaml:2: gpu is me@10\.0\.0\.3 here, .* may still be running"
        ):
            admit(database, home, two, second)
        runs.record(database, "x-aaaaaa", Verdict("succeeded", attempt=1, seq=2), ended_at=1.0)
        admit(database, home, two, second)
        launched(database, second, "x-bbbbbb")
        assert KnownHosts(home).read(database)["gpu"].ssh == "me@10.0.0.4"


def test_a_host_of_a_deleted_worktree_is_watched_by_the_file_of_another_one(home: HomePaths, tmp_path: Path) -> None:
    text = "hosts: {h1: {ssh: me@10.0.0.1}, h2: {ssh: me@10.0.0.2}, local: {root: /big}}"
    one, two = project(tmp_path / "one", text), project(tmp_path / "two", text)
    with Database(home.store) as database:
        launched(database, load_hosts(home, two)["h1"], "x-aaaaaa")
        launched(database, load_hosts(home, one)["h2"], "x-bbbbbb")
        launched(database, load_hosts(home)["local"], "x-cccccc")
        known = KnownHosts(home)
        assert set(known.read(database)) == {"h1", "h2", "local"}
        (one / "armada.yaml").write_text("hosts: {h1: {ssh: me@10.0.0.9}, h2: {ssh: me@10.0.0.2}}")
        assert known.read(database)["h1"].ssh == "me@10.0.0.1"
        (two / "armada.yaml").write_text("hosts: [broken")
        assert known.read(database)["h1"].ssh == "me@10.0.0.1"
        assert "h1" not in KnownHosts(home).read(database)
        (one / "armada.yaml").write_text(text)
        (two / "armada.yaml").unlink()
        two.rmdir()
        for each in (known, KnownHosts(home)):
            found = each.read(database)
            assert set(found) == {"h1", "h2", "local"}
            assert found["local"].root is None


def test_a_broken_file_of_another_project_refuses_nothing(home: HomePaths, tmp_path: Path) -> None:
    one = project(tmp_path / "one", "hosts: {gpu: {ssh: me@10.0.0.3}}")
    two = project(tmp_path / "two", "hosts: {gpu: {ssh: me@10.0.0.4}}")
    with Database(home.store) as database:
        launched(database, load_hosts(home, one)["gpu"], "x-aaaaaa")
        (one / "armada.yaml").write_text("hosts: [broken")
        admit(database, home, two, load_hosts(home, two)["gpu"])


def test_the_built_in_local_is_not_a_projects_local(home: HomePaths, tmp_path: Path) -> None:
    there = project(tmp_path / "proj", "hosts: {local: {root: /big}, gpu: {ssh: me@10.0.0.3}}")
    with Database(home.store) as database:
        launched(database, load_hosts(home, there)["gpu"], "x-aaaaaa")
        launched(database, load_hosts(home)["local"], "x-bbbbbb")
        assert KnownHosts(home).read(database)["local"].root is None
        launched(database, load_hosts(home, there)["local"], "x-cccccc")
        assert KnownHosts(home).read(database)["local"].root == "/big"
        with pytest.raises(ConfigError, match="this machine in /big here, and this machine where no file names it"):
            admit(database, home, tmp_path, load_hosts(home)["local"])


def test_a_host_of_a_project_gets_environments_from_another_of_it_wherever_the_daemon_works(
    home: HomePaths, tmp_path: Path
) -> None:
    there = project(
        tmp_path / "proj", "hosts: {gpu: {ssh: me@10.0.0.3, environments_from: login}, login: {ssh: me@10.0.0.2}}"
    )
    gpu = load_hosts(home, there)["gpu"]
    with source_session(home, Path("/"), gpu) or pytest.fail("it builds its own") as source:
        assert source.host.ssh == "me@10.0.0.2"
