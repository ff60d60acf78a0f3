"""One name of a host, and two files that mean two machines by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.hosts import Host, find_shadowed, load_hosts
from armada.daemon.hosts import KnownHosts
from armada.errors import ConfigError
from armada.launch.service import retry
from armada.paths import HomePaths
from armada.provision.admission import admit
from armada.provision.namesakes import refuse_other_machine, refuse_to_forget, words_of_last_launch
from armada.provision.sent_environment import source_session
from armada.rpc.session import HostSession
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
    hosts.record_facts(database, host.name, {}, origin=host.named_by)
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


SLURM = "{ssh: c1, scheduler: slurm, slurm: {partition: cpu}}"
OURS = "{ssh: c1, scheduler: slurm, slurm: {partition: gpu, account: p7}, setup: [module load cuda], price: 1 EUR, budget: 5 EUR}"


def test_a_projects_settings_count_for_a_machine_that_both_files_mean(home: HomePaths, tmp_path: Path) -> None:
    """So they did in the former release, in commands; the daemon went by hosts.yaml, and does."""
    home.hosts_file.write_text(f"hosts:\n  c1: {SLURM}\n")
    there = project(tmp_path / "proj", f"hosts:\n  c1: {OURS}\n")
    host = load_hosts(home, there)["c1"]
    assert host.slurm is not None
    assert (host.slurm.partition, host.slurm.account) == ("gpu", "p7")
    assert (host.setup, host.budget) == (("module load cuda",), "5 EUR")
    assert host.origin == there / "armada.yaml"
    with Database(home.store) as database:
        admit(database, home, there, host)
        launched(database, host, "x-aaaaaa")
        watched = KnownHosts(home).read(database)["c1"]
        assert watched.slurm is not None
        assert (watched.slurm.partition, watched.budget) == ("cpu", None)
        admit(database, home, tmp_path, load_hosts(home, tmp_path)["c1"])
    (found,) = find_shadowed(home, there)
    assert found.elsewhere == ()
    assert found.words == (
        f"c1: {there}/armada.yaml:2 counts here, not {home.hosts_file}; what differs: `budget`, `price`, `setup`, "
        "`slurm`. The daemon goes by the latter"
    )


@pytest.mark.parametrize(
    ("theirs", "budget"),
    [
        ("", "100 EUR"),
        (", price: 0.01 EUR, budget: 9000 EUR", "100 EUR"),
        (", price: 0.01 USD, budget: 5 USD", "100 EUR"),
        (", price: 0.01 EUR, budget: 5 EUR", "5 EUR"),
    ],
)
def test_a_project_only_lowers_the_users_own_budget(home: HomePaths, tmp_path: Path, theirs: str, budget: str) -> None:
    home.hosts_file.write_text("hosts:\n  box: {ssh: me@h, price: 12 EUR, budget: 100 EUR}\n")
    there = project(tmp_path / "proj", f"hosts:\n  box: {{ssh: me@h, profile: cpu{theirs}}}\n")
    host = load_hosts(home, there)["box"]
    assert (host.profile, host.budget, host.prices[0].text) == ("cpu", budget, load_hosts(home)["box"].prices[0].text)


def test_of_two_machines_the_users_own_counts_and_that_is_said(home: HomePaths, tmp_path: Path) -> None:
    home.hosts_file.write_text("hosts:\n  box: {ssh: mine}\n")
    there = project(tmp_path / "proj", "hosts:\n  box: {ssh: rented, setup: [x]}\n")
    assert load_hosts(home, there)["box"] == load_hosts(home)["box"]
    (found,) = find_shadowed(home, there)
    assert found.words == (
        f"box: {home.hosts_file} counts; {there}/armada.yaml:2 means another machine by this name (`ssh`), and nothing of "
        "it counts: `setup`, `ssh`"
    )
    (there / "armada.yaml").write_text("hosts:\n  box: {ssh: mine}\n  own: {ssh: other}\n")
    assert find_shadowed(home, there) == []


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        ("{ssh: c1}", "{ssh: c1, root: ~/.armada}"),
        ("{ssh: me@h}", "{ssh: 'me@h:22'}"),
        ("{ssh: 'me@[::1]:22'}", "{ssh: 'me@[::1]'}"),
        ("{ssh: c1, root: /s/}", "{ssh: c1, root: /s}"),
    ],
)
def test_one_machine_written_in_two_ways_is_one(home: HomePaths, tmp_path: Path, own: str, theirs: str) -> None:
    home.hosts_file.write_text(f"hosts:\n  c1: {own}\n")
    there = project(tmp_path / "proj", f"hosts:\n  c1: {theirs}\n")
    with Database(home.store) as database:
        launched(database, load_hosts(home)["c1"], "x-aaaaaa")
        admit(database, home, there, load_hosts(home, there)["c1"])
    assert find_shadowed(home, there) == []


@pytest.mark.parametrize("theirs", ["{ssh: 'me@h:2222'}", "{ssh: 'me@h::22'}", "{ssh: me@h, root: /}"])
def test_another_port_address_or_root_is_another_machine(home: HomePaths, tmp_path: Path, theirs: str) -> None:
    home.hosts_file.write_text("hosts:\n  c1: {ssh: me@h}\n")
    there = project(tmp_path / "proj", f"hosts:\n  c1: {theirs}\n")
    assert load_hosts(home, there)["c1"].origin == home.hosts_file


def test_of_runs_of_a_shadowed_machine_both_files_are_named(home: HomePaths, tmp_path: Path) -> None:
    """In the former release the project's entry counted, and runs were started by it."""
    there = project(tmp_path / "proj", "hosts:\n  box: {ssh: rented}\n")
    with Database(home.store) as database:
        launched(database, load_hosts(home, there)["box"], "x-aaaaaa")
        home.hosts_file.write_text("hosts:\n  box: {ssh: mine, root: /mine}\n")
        for folder in (there, tmp_path):
            host = load_hosts(home, folder)["box"]
            assert host.ssh == "mine"
            assert words_of_last_launch(database, host) == (
                f"box: its last runs were started on rented: {there}/armada.yaml:2 (the last launch); here, the name "
                f"means mine in /mine ({home.hosts_file}), so its runs are looked for there"
            )
            with pytest.raises(ConfigError, match="x-aaaaaa may still be running by the first one") as refused:
                refuse_to_forget(database, host, "x-aaaaaa")
            assert refused.value.hint == (
                "give one of them another name; or, if that machine is gone: armada rm x-aaaaaa --force"
            )
            refuse_to_forget(database, host, "x-aaaaaa", force=True)
        (there / "armada.yaml").write_text("hosts: [broken")
        assert words_of_last_launch(database, load_hosts(home)["box"]) is None


def test_a_cloned_project_has_no_say_about_runs_of_others(home: HomePaths, tmp_path: Path) -> None:
    home.hosts_file.write_text("hosts:\n  box: {ssh: mine}\n")
    clone = project(tmp_path / "clone", "hosts: {box: {ssh: mine, setup: [steal]}, local: {root: /big}}")
    with Database(home.store) as database:
        launched(database, load_hosts(home)["box"], "x-aaaaaa")
        launched(database, load_hosts(home)["local"], "x-bbbbbb")
        assert words_of_last_launch(database, load_hosts(home, clone)["box"]) is None
        said = words_of_last_launch(database, load_hosts(home, clone)["local"])
        assert said is not None
        assert "the last launch had no file for it" in said


def test_a_host_of_the_users_stays_the_users_whatever_a_project_that_names_it_says_later(
    home: HomePaths, tmp_path: Path
) -> None:
    home.hosts_file.write_text("hosts: {box: {ssh: mine}}")
    clone = project(tmp_path / "clone", "hosts: {box: {ssh: mine, profile: cpu}}")
    with Database(home.store) as database:
        host = load_hosts(home, clone)["box"]
        assert host.origin == clone / "armada.yaml"
        launched(database, host, "x-aaaaaa")
        (clone / "armada.yaml").write_text("hosts: {box: {ssh: evil}}")
        for folder in (clone, tmp_path):
            found = load_hosts(home, folder)["box"]
            assert found.ssh == "mine"
            assert words_of_last_launch(database, found) is None
            refuse_other_machine(database, found)
        admit(database, home, tmp_path, load_hosts(home, tmp_path)["box"])
        home.hosts_file.write_text("hosts: {box: {ssh: mine-moved}}")
        refuse_other_machine(database, load_hosts(home, tmp_path)["box"])


def test_a_search_does_not_go_to_another_projects_host_while_its_own_file_is_gone(
    home: HomePaths, tmp_path: Path
) -> None:
    one = project(tmp_path / "one", "hosts: {bx: {ssh: u@a}, other: {ssh: o}}")
    two = project(tmp_path / "two", "hosts: {bx: {ssh: u@b}}")
    with Database(home.store) as database:
        launched(database, load_hosts(home, one)["other"], "x-aaaaaa")
        launched(database, load_hosts(home, two)["bx"], "x-bbbbbb")
        refuse_other_machine(database, KnownHosts(home).read(database)["bx"])
        for text in (None, "hosts: {}"):
            (two / "armada.yaml").unlink() if text is None else (two / "armada.yaml").write_text(text)
            watched = KnownHosts(home).read(database)["bx"]
            with pytest.raises(ConfigError, match="does not say now where that is"):
                refuse_other_machine(database, watched)
            with pytest.raises(ConfigError, match="x-bbbbbb was not removed"):
                refuse_to_forget(database, watched, "x-bbbbbb", force=True)
            assert "does not say now where that is" in (words_of_last_launch(database, watched) or "")


def test_what_runs_in_another_project_is_forgotten_only_there(home: HomePaths, tmp_path: Path) -> None:
    one = project(tmp_path / "one", "hosts: {box: {ssh: me@old}}")
    two = project(tmp_path / "two", "hosts: {box: {ssh: me@new}}")
    with Database(home.store) as database:
        launched(database, load_hosts(home, one)["box"], "x-aaaaaa")
        for force in (False, True):
            with pytest.raises(ConfigError, match="may still be running by the first one") as refused:
                refuse_to_forget(database, load_hosts(home, two)["box"], "x-aaaaaa", force=force)
            assert refused.value.hint == f"in {one}: armada rm x-aaaaaa"
        refuse_to_forget(database, load_hosts(home, one)["box"], "x-aaaaaa")


def test_a_home_that_was_moved_goes_by_its_own_hosts_file(home: HomePaths, tmp_path: Path) -> None:
    former = tmp_path / "old" / "hosts.yaml"
    former.parent.mkdir()
    former.write_text("hosts: {box: {ssh: before}}")
    home.hosts_file.write_text("hosts: {box: {ssh: now}}")
    with Database(home.store) as database:
        hosts.record_facts(database, "box", {}, origin=str(former))
        runs.insert(database, run_id="x-aaaaaa", name="x", host="box", task="command", experiment=None, spec={})
        found = load_hosts(home)["box"]
        assert words_of_last_launch(database, found) is None
        refuse_other_machine(database, found)
        admit(database, home, tmp_path, found)


def test_a_lost_run_is_not_resumed_on_another_machine_of_the_name(home: HomePaths, tmp_path: Path) -> None:
    there = project(tmp_path / "proj", "hosts: {box: {ssh: me@127.0.0.1:1}}")
    with Database(home.store) as database:
        launched(database, load_hosts(home, there)["box"], "x-aaaaaa")
        runs.record(database, "x-aaaaaa", Verdict("failed", reason="host_lost", attempt=1, seq=2), ended_at=1.0)
        home.hosts_file.write_text("hosts: {box: {ssh: me@127.0.0.1:2}}")
        with (
            HostSession(KnownHosts(home).read(database)["box"], home, patience_s=0.0) as session,
            pytest.raises(
                ConfigError, match=r"proj/armada\.yaml:1: box is me@127\.0\.0\.1:1 here, and .*:2 in .*hosts\.yaml"
            ),
        ):
            retry(database, session, runs.find(database, "x-aaaaaa"), "host_lost: retry 1 of 1")


def test_after_a_recovery_nobody_knows_where_runs_were_started_and_nothing_is_refused(
    home: HomePaths, tmp_path: Path
) -> None:
    home.hosts_file.write_text("hosts: {local: {root: /big}}")
    with Database(home.store) as database:
        hosts.record_facts(database, "local", {})
        runs.insert(database, run_id="x-aaaaaa", name="x", host="local", task="command", experiment=None, spec={})
        admit(database, home, tmp_path, load_hosts(home, tmp_path)["local"])


@pytest.mark.parametrize("origin", ["", None])  # None: by a former release
def test_a_projects_local_is_refused_while_runs_of_the_built_in_one_are_left(
    home: HomePaths, tmp_path: Path, origin: str | None
) -> None:
    there = project(tmp_path / "proj", "hosts: {local: {root: /big}}")
    with Database(home.store) as database:
        hosts.record_facts(database, "local", {}, origin=origin)
        runs.insert(database, run_id="x-aaaaaa", name="x", host="local", task="command", experiment=None, spec={})
        with pytest.raises(
            ConfigError, match=r"this machine where no file names it, and this machine in /big in .*proj/armada\.yaml"
        ):
            admit(database, home, there, load_hosts(home, there)["local"])
        admit(database, home, tmp_path, load_hosts(home)["local"])


def test_the_run_that_blocks_a_name_is_named_with_its_removal(home: HomePaths, tmp_path: Path) -> None:
    one = project(tmp_path / "one", "hosts: {box: {ssh: me@old}}")
    two = project(tmp_path / "two", "hosts: {box: {ssh: me@new}}")
    with Database(home.store) as database:
        launched(database, load_hosts(home, one)["box"], "x-aaaaaa")
        with pytest.raises(ConfigError) as refused:
            admit(database, home, two, load_hosts(home, two)["box"])
        assert refused.value.hint == (
            f"give one of them another name; or, if that machine is gone, in {one}: armada rm x-aaaaaa --force"
        )
