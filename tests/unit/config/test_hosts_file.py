from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from armada.config.hosts import Host, load_hosts
from armada.config.hosts_file import add_host, change_host, changed_host, foresee_change, remove_host
from armada.errors import ConfigError, Conflict, NotFound
from armada.paths import HomePaths

COMMENTED = """\
# my hosts

hosts:   # all of them
    # the one under the desk
    desk:
        ssh: desk   # see ~/.ssh/config
        # and its disk
        root: /scratch

    # rented
    a100-1: {ssh: 'root@1.2.3.4:50022'}
    # the end

# really
"""


def test_adding_keeps_every_character_that_was_there(home: HomePaths) -> None:
    home.hosts_file.write_text(COMMENTED)
    add_host(home, Host(name="new", ssh="me@there", profile="cpu"))
    expected = COMMENTED.replace("50022'}\n", "50022'}\n    new:\n      ssh: me@there\n      profile: cpu\n")
    assert home.hosts_file.read_text() == expected


@pytest.mark.fault("two `hosts add` of one name with different boxes", "the second is refused and pins no key")
def test_what_is_kept_by_a_hosts_name_stays_when_its_name_is_taken(home: HomePaths) -> None:
    pinned: list[str] = []
    add_host(home, Host(name="new", ssh="me@there"), first=lambda: pinned.append("there"))
    with pytest.raises(Conflict, match="there is a host new already"):
        add_host(home, Host(name="new", ssh="me@elsewhere"), first=lambda: pinned.append("elsewhere"))
    assert pinned == ["there"]


def test_removing_keeps_the_comments_of_the_others(home: HomePaths) -> None:
    home.hosts_file.write_text(COMMENTED)
    remove_host(home, "desk")
    text = home.hosts_file.read_text()
    for comment in ("# my hosts", "# all of them", "# the one under the desk", "# rented", "# the end", "# really"):
        assert comment in text
    assert list(load_hosts(home)) == ["local", "a100-1"]
    remove_host(home, "a100-1")
    assert list(load_hosts(home)) == ["local"]
    add_host(home, Host(name="desk", ssh="desk"))
    assert "# the end" in home.hosts_file.read_text()
    assert list(load_hosts(home)) == ["local", "desk"]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "# nothing yet\n",
        "hosts:\n",
        "hosts: {}  # none\n",
        "hosts: {b: {ssh: b}}  # one\n",
        "hosts:\n  b: {ssh: b}",
        "hosts:\n  b:\n    ssh: >-\n      b\n  # after\n",
        "---\nhosts:\n  b: {ssh: b}\n",
        '{"hosts": {"b": {"ssh": "b"}}}\n',
    ],
)
def test_adding_and_removing_works_in_every_style(home: HomePaths, text: str | None) -> None:
    if text is not None:
        home.hosts_file.write_text(text)
    before = load_hosts(home)
    add_host(home, Host(name="a", ssh="a"))
    assert load_hosts(home) == {**before, "a": Host(name="a", ssh="a", origin=home.hosts_file)}
    remove_host(home, "a")
    assert load_hosts(home) == before
    assert text is None or text.count("#") == home.hosts_file.read_text().count("#")


def test_a_name_is_added_once(home: HomePaths) -> None:
    add_host(home, Host(name="a", ssh="a"))
    with pytest.raises(Conflict, match="already"):
        add_host(home, Host(name="a", ssh="b"))


def test_removing_what_is_not_there_says_so(home: HomePaths) -> None:
    with pytest.raises(NotFound, match="no host 'a'"):
        remove_host(home, "a")
    with pytest.raises(NotFound):
        remove_host(home, "local")


def test_a_wrong_file_is_left_alone(home: HomePaths) -> None:
    home.hosts_file.write_text("hosts: {a: {shh: x}}\n")
    with pytest.raises(ConfigError, match="unknown key"):
        add_host(home, Host(name="b", ssh="b"))
    assert home.hosts_file.read_text() == "hosts: {a: {shh: x}}\n"


def test_an_anchor_others_need_is_not_torn_out(home: HomePaths) -> None:
    text = "hosts:\n  a: &a\n    ssh: x\n  b: *a\n"
    home.hosts_file.write_text(text)
    with pytest.raises((Conflict, ConfigError)):
        remove_host(home, "a")
    assert home.hosts_file.read_text() == text


def test_the_file_is_for_its_owner_only(home: HomePaths) -> None:
    add_host(home, Host(name="a", ssh="a"))
    assert stat.S_IMODE(home.hosts_file.stat().st_mode) == 0o600


def test_a_link_to_somewhere_else_stays_a_link(home: HomePaths, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.yaml"
    real.write_text("hosts: {}\n")
    home.hosts_file.symlink_to(real)
    add_host(home, Host(name="a", ssh="a"))
    assert home.hosts_file.is_symlink()
    assert "ssh: a" in real.read_text()


def test_many_at_once_lose_nothing(home: HomePaths) -> None:
    threads = [threading.Thread(target=add_host, args=(home, Host(name=f"h{i}", ssh="x"))) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(load_hosts(home)) == 13
    assert not list(home.config.glob(".hosts.*[!k]"))


_texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@settings(deadline=None)
@given(profile=_texts, root=_texts, price=st.none() | st.floats(0, 1e6))
def test_hostile_text_reads_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, profile: str, root: str, price: float | None
) -> None:
    folder = tmp_path_factory.mktemp("home")
    home = HomePaths(folder / "config", folder / "state")
    host = Host(name="h", ssh="x", profile=profile, root="/" + root, price_per_hour=price)
    add_host(home, host)
    add_host(home, Host(name="i", ssh="x"))
    remove_host(home, "i")
    assert load_hosts(home)["h"].model_dump() == host.model_dump()


def test_changing_keeps_every_other_character(home: HomePaths) -> None:
    home.hosts_file.write_text(COMMENTED)
    change = change_host(home, "desk", {"root": "/other disk", "profile": "cpu"})
    expected = COMMENTED.replace("root: /scratch\n", "root: /other disk\n        profile: cpu\n")
    assert home.hosts_file.read_text() == expected
    assert change.keys == ["profile", "root"]
    assert [line for line in change.diff.splitlines() if line[0] in "+-" and line[:3] not in ("+++", "---")] == [
        "-        root: /scratch",
        "+        root: /other disk",
        "+        profile: cpu",
    ]
    change_host(home, "desk", {"root": "/scratch", "profile": None})
    assert home.hosts_file.read_text() == COMMENTED


def test_changing_an_entry_on_one_line_keeps_its_line(home: HomePaths) -> None:
    home.hosts_file.write_text(COMMENTED)
    change_host(home, "a100-1", {"ssh": "root@1.2.3.5:50023", "price_per_hour": 2.5, "profile": "cpu"})
    line = 'a100-1: {ssh: "root@1.2.3.5:50023", price_per_hour: 2.5, profile: cpu}\n'
    assert home.hosts_file.read_text() == COMMENTED.replace("a100-1: {ssh: 'root@1.2.3.4:50022'}\n", line)


@pytest.mark.parametrize(
    "entry",
    [
        "a: {ssh: a}",
        "a: { ssh: a, }  # kept",
        "a: {ssh: a,  # kept\n      root: /x}",
        "a: {ssh: a,\n      root: /x   # kept\n    }",
        '"a":\n    "ssh": "a"  # kept',
        "a:\n    ssh: >-\n      a\n    # kept",
        "a:\n    ssh: |-\n      a\n    root: /x  # kept",
        "a:\n    ssh: a\n    profile:\n    root: /x",
        "a:\n    ssh: a\n    quota: [x, -b]  # kept\n    scheduler: slurm",
        "a:\n    ssh: a\n    scheduler: slurm\n    slurm:\n      partition: gpu  # kept\n      # kept",
        "a:\n    root: /x # kept\n    ssh: 'a'",
        "a:\n   ssh: a # kept\n   price_per_hour:   1.5   # kept",
        "a:\r\n    ssh: a # kept\r\n    root: /x # kept\r\n",
    ],
)
def test_changing_works_in_every_style(home: HomePaths, entry: str) -> None:
    text = f"# kept\nbwlimit: 5M  # kept\nhosts:\n  b: {{ssh: b}}  # kept\n  {entry}\n\n  # kept\n  c:\n    ssh: c\n# kept\n"
    home.hosts_file.write_text(text, newline="")
    before = load_hosts(home)
    settings: list[dict[str, object]] = [
        {"ssh": "me@[2001:db8::1]:7"},
        {"root": "/new", "profile": "cpu, {x}: #1", "price_per_hour": 12.4},
        {"profile": "cpu", "identity": Path("/keys/a b")},
        {"profile": None, "price_per_hour": None, "identity": None},
        {"root": None},
    ]
    wanted = before["a"]
    for each in settings:
        wanted = changed_host(wanted, each)
        assert change_host(home, "a", each).after == wanted
        assert load_hosts(home) == {**before, "a": wanted}
        assert list(load_hosts(home)) == list(before)
        after = home.hosts_file.read_text()
        removed = entry.count("# kept") if None in each.values() else 0  # what stands beside a setting goes with it
        assert text.count("# kept") - removed <= after.count("# kept") <= text.count("# kept"), after


@pytest.mark.parametrize(
    "provision",
    [
        "python",
        "system-packages: [rsync, tmux]",
        "fabfile.py:drivers",
        "fabfile.py:drivers: [550, '550', 1.5, true]",
        "/elsewhere/fabfile.py:drivers",
        "uv, fabfile.py:drivers: [550], ~/fabfile.py:mount_nas",
    ],
)
def test_a_host_with_tasks_can_be_changed(home: HomePaths, provision: str) -> None:
    text = f"hosts:\n  a:\n    ssh: a\n    profile: cpu\n    provision: [{provision}]  # kept\n"
    home.hosts_file.write_text(text)
    before = load_hosts(home)["a"]
    change_host(home, "a", {"price_per_hour": 1.5})
    assert change_host(home, "a", {"profile": None}).keys == ["profile"]
    assert home.hosts_file.read_text() == text.replace("    profile: cpu\n", "") + "    price_per_hour: 1.5\n"
    assert load_hosts(home)["a"].provision == before.provision


def test_what_is_there_already_is_not_written_again(home: HomePaths) -> None:
    text = "hosts: {a: {ssh:   a, identity: ~/.ssh/id, scheduler: direct}}"
    home.hosts_file.write_text(text)
    home.hosts_file.chmod(0o600)
    same = {"ssh": "a", "identity": Path("~/.ssh/id").expanduser(), "scheduler": "direct", "profile": None}
    seen = home.hosts_file.stat()
    assert change_host(home, "a", same).keys == []
    assert home.hosts_file.read_text() == text
    assert home.hosts_file.stat().st_ino == seen.st_ino


def test_local_gets_an_entry_when_something_is_said_of_it(home: HomePaths) -> None:
    assert change_host(home, "local", {"profile": None}).text_after == ""
    assert not home.hosts_file.exists()
    change_host(home, "local", {"profile": "cpu"})
    assert load_hosts(home)["local"].profile == "cpu"
    change_host(home, "local", {"root": "/big"})
    assert load_hosts(home)["local"].root == "/big"


def test_a_look_ahead_changes_nothing(home: HomePaths) -> None:
    home.hosts_file.write_text(COMMENTED)
    assert (
        "+    a100-1: {ssh: 'root@1.2.3.4:50022', profile: cpu}"
        in foresee_change(home, "a100-1", {"profile": "cpu"}).diff
    )
    assert home.hosts_file.read_text() == COMMENTED


def test_settings_that_do_not_fit_together_change_nothing(home: HomePaths) -> None:
    home.hosts_file.write_text("hosts: {a: {ssh: a, scheduler: slurm, slurm: {partition: x}}}\n")
    with pytest.raises(ValueError, match="is for `scheduler: slurm`"):
        change_host(home, "a", {"scheduler": "direct"})
    with pytest.raises(NotFound, match="no host 'b'"):
        change_host(home, "b", {"scheduler": "direct"})
    assert "slurm: {partition: x}" in home.hosts_file.read_text()


@pytest.mark.parametrize(
    "text",
    [
        "hosts:\n  a: &a\n    ssh: x\n  b: *a\n",
        "hosts:\n  a: {ssh: &x x}\n  b: {ssh: *x}\n",
    ],
)
@pytest.mark.parametrize("name", ["a", "b"])
def test_what_others_share_is_not_changed_for_one(home: HomePaths, text: str, name: str) -> None:
    home.hosts_file.write_text(text)
    with pytest.raises(Conflict, match="cannot edit safely"):
        change_host(home, name, {"ssh": "y"})
    assert home.hosts_file.read_text() == text


def test_many_changes_at_once_lose_nothing(home: HomePaths) -> None:
    home.hosts_file.write_text("hosts:\n" + "".join(f"  h{i}: {{ssh: x}}  # {i}\n" for i in range(12)))
    threads = [threading.Thread(target=change_host, args=(home, f"h{i}", {"root": f"/{i}"})) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [host.root for host in load_hosts(home).values()] == [None, *(f"/{i}" for i in range(12))]


@settings(deadline=None, max_examples=40)
@given(profile=_texts, root=_texts, price=st.none() | st.floats(0, 1e6), flow=st.booleans())
def test_hostile_values_are_changed_to_what_they_are(
    tmp_path_factory: pytest.TempPathFactory, profile: str, root: str, price: float | None, flow: bool
) -> None:
    folder = tmp_path_factory.mktemp("home")
    home = HomePaths(folder / "config", folder / "state")
    home.config.mkdir()
    home.hosts_file.write_text(
        "hosts:\n  h: {ssh: x, profile: y} # z\n" if flow else "hosts:\n  h:\n    ssh: x\n    profile: y # z\n"
    )
    values = {"profile": profile, "root": "/" + root, "price_per_hour": price}
    change_host(home, "h", values)
    found = load_hosts(home)["h"]
    assert {key: getattr(found, key) for key in values} == values
    assert home.hosts_file.read_text().endswith("# z\n") or not flow


def test_a_shared_file_keeps_its_permissions_also_behind_a_link(home: HomePaths, tmp_path: Path) -> None:
    shared = tmp_path / "lab.yaml"
    shared.write_text("hosts: {}\n")
    shared.chmod(0o664)
    home.hosts_file.symlink_to(shared)
    add_host(home, Host(name="a", ssh="a"))
    change_host(home, "a", {"profile": "cpu"})
    assert shared.stat().st_mode & 0o777 == 0o664
    remove_host(home, "a")
    assert shared.stat().st_mode & 0o777 == 0o664
    assert home.hosts_file.is_symlink()
