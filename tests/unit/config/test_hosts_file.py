from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from armada.config.hosts import Host, load_hosts
from armada.config.hosts_file import add_host, remove_host
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
