from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.hosts import Host, load_hosts
from armada.errors import ConfigError
from armada.paths import HomePaths


def write(home: HomePaths, text: str) -> None:
    home.hosts_file.write_text(text)


def test_local_is_always_there(home: HomePaths) -> None:
    hosts = load_hosts(home)
    assert list(hosts) == ["local"]
    assert hosts["local"].local
    assert hosts["local"].origin is None


def test_every_field_is_read(home: HomePaths) -> None:
    write(
        home,
        "hosts:\n  a100-1:\n    ssh: root@127.0.1.2:50022\n    profile: cpu\n    root: ~/x y\n    scheduler: direct\n"
        "    identity: keys/id\n    price_per_hour: 14\n    transport: fabric\n  desk: {ssh: desk}\n",
    )
    host = load_hosts(home)["a100-1"]
    assert (host.ssh, host.profile, host.root, host.price_per_hour) == ("root@127.0.1.2:50022", "cpu", "~/x y", 14.0)
    assert host.identity == home.config / "keys" / "id"
    assert host.origin == home.hosts_file


def test_the_users_own_hosts_win_over_a_projects_and_each_knows_its_file(home: HomePaths, tmp_path: Path) -> None:
    write(home, "hosts: {a: {ssh: mine}, b: {ssh: mine}}\n")
    (tmp_path / "armada.yaml").write_text("hosts: {b: {ssh: theirs}, c: {ssh: theirs}}\n")
    hosts = load_hosts(home, tmp_path)
    assert list(hosts) == ["local", "a", "b", "c"]
    assert (hosts["a"].ssh, hosts["b"].ssh, hosts["c"].ssh) == ("mine", "mine", "theirs")
    assert (hosts["b"].origin, hosts["c"].origin) == (home.hosts_file, tmp_path / "armada.yaml")


@pytest.mark.parametrize("wrong", ["setup: [touch owned]", "scheduler: slurm, quota: [touch, owned]"])
def test_a_project_runs_no_commands_on_this_machine(home: HomePaths, tmp_path: Path, wrong: str) -> None:
    entry = f"hosts:\n  evil:\n    {{local: true, {wrong}}}\n"
    (tmp_path / "armada.yaml").write_text(entry)
    with pytest.raises(ConfigError, match=r"armada.yaml:3: .*would run commands on this machine; a project may not"):
        load_hosts(home, tmp_path)
    write(home, entry)
    (tmp_path / "armada.yaml").write_text("hosts: {far: {ssh: far, setup: [module load cuda]}}\n")
    assert set(load_hosts(home, tmp_path)) == {"local", "evil", "far"}


@pytest.mark.parametrize("entry", ["{profile: cpu}", "{local: true, profile: cpu}"])
def test_local_can_be_given_a_profile(home: HomePaths, entry: str) -> None:
    write(home, f"hosts: {{local: {entry}}}\n")
    assert load_hosts(home)["local"].profile == "cpu"


@pytest.mark.parametrize("text", ["", "hosts:\n", "hosts: {}\n", "hosts:\n  local:\n"])
def test_files_that_say_nothing_are_fine(home: HomePaths, text: str) -> None:
    write(home, text)
    assert load_hosts(home)["local"].local


@pytest.mark.parametrize(
    ("entry", "words", "hint"),
    [
        ("{shh: x}", "unknown key `hosts.h.shh`", "did you mean `hosts.h.ssh`?"),
        ("{ssh: x, identity_file: y}", "unknown key `hosts.h.identity_file`", "did you mean `hosts.h.identity`?"),
        ("{ssh: x, name: y}", "unknown key `hosts.h.name`", None),
        ("{ssh: x, origin: y}", "unknown key `hosts.h.origin`", None),
        ("{ssh: x, local: true}", "exactly one", None),
        ("{profile: cpu}", "exactly one", None),
        ("", "exactly one", None),
        ("{ssh: 5}", "must be text, not 5", None),
        ("{ssh: -oProxyCommand=x}", "must be an alias", None),
        ("{ssh: me@-oProxyCommand=x}", "must be an alias", None),
        ("{ssh: '@host'}", "must be an alias", None),
        ("{ssh: 'a b'}", "spaces or control", None),
        ('{ssh: "a\\nb"}', "spaces or control", None),
        ('{ssh: "a\\u200bb"}', "spaces or control", None),
        ("{ssh: ''}", "must not be empty", None),
        ("{ssh: x, root: relative}", "must be absolute", None),
        ("{ssh: x, scheduler: directt}", "must be 'direct'", "did you mean direct?"),
        ("{ssh: x, price_per_hour: -1}", "at least 0", None),
        ("{ssh: x, price_per_hour: .nan}", "finite", None),
        ("{ssh: x, local: maybe}", "must be true or false", None),
        ("{local: true, identity: k}", "is a key for ssh", None),
        ("[x]", "must be a mapping", None),
    ],
)
def test_a_wrong_host_is_refused_with_its_line(home: HomePaths, entry: str, words: str, hint: str | None) -> None:
    write(home, f"# mine\nhosts:\n  h: {entry}\n")
    with pytest.raises(ConfigError) as refused:
        load_hosts(home)
    assert words in refused.value.message
    assert (refused.value.path, refused.value.line) == (home.hosts_file, 3)
    if hint:
        assert refused.value.hint == hint


@pytest.mark.parametrize("name", ["-x", "a b", "a/b", "..", "$(touch x)", "é", "a" * 64, ""])
def test_names_that_cannot_be_folders_or_options_are_refused(home: HomePaths, name: str) -> None:
    write(home, f"hosts:\n  {name!r}: {{ssh: x}}\n")
    with pytest.raises(ConfigError, match="is not a valid name of a host") as refused:
        load_hosts(home)
    assert refused.value.line == 2


def test_local_over_ssh_is_refused(home: HomePaths) -> None:
    write(home, "hosts: {local: {ssh: x}}\n")
    with pytest.raises(ConfigError, match="this machine"):
        load_hosts(home)


def test_an_unknown_key_at_the_top_is_refused(home: HomePaths) -> None:
    write(home, "host: {}\n")
    with pytest.raises(ConfigError, match="unknown key `host`") as refused:
        load_hosts(home)
    assert refused.value.hint == "did you mean `hosts`?"


def test_a_host_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Host(name="a", ssh="b").ssh = "c"
