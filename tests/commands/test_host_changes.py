"""Hosts that are known are changed: by `hosts add` again, and by `hosts set`. Their keys are shown by a real SSH server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from armada.cli.shapes import SHAPES, schema_of
from tests.commands.typed import typed
from tests.conftest import Armada, eventually
from tests.key_server import KeyServer, key_servers

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def servers() -> Iterator[list[KeyServer]]:
    """Three servers: the first two show the same key, the third another."""
    with key_servers("aab") as found:
        yield found


def hosts_file(armada: Armada) -> Path:
    return armada.folder / "home" / "config" / "hosts.yaml"


def write_hosts(armada: Armada, text: str) -> None:
    hosts_file(armada).parent.mkdir(parents=True, exist_ok=True)
    hosts_file(armada).write_text(text)


def pinned(armada: Armada) -> str:
    return (armada.folder / "home" / "state" / "ssh" / "known_hosts").read_text()


def box(armada: Armada, server: KeyServer, more: str = "") -> str:
    """Have a host `box` with its key pinned; its file with comments."""
    text = f"# mine\nhosts:\n  box:  # rented\n    ssh: {server.target}\n    price_per_hour: 1.5  # in May\n{more}"
    write_hosts(armada, text)
    assert armada.run("hosts", "trust", "box", "--yes").returncode == 0
    return text


def test_added_again_at_the_same_address_what_is_given_changes_and_nothing_is_asked(
    armada: Armada, servers: list[KeyServer]
) -> None:
    text = box(armada, servers[0])
    done = armada.run(
        "hosts", "add", "box", f"ssh -p {servers[0].port} me@127.0.0.1", "--price", "2", "--profile", "cpu"
    )
    assert done.returncode == 4, "the server lets nobody in"
    assert "price_per_hour: 1.5 → 2.0" in done.stdout
    assert "profile: — → cpu" in done.stdout
    assert "shows this key" not in done.stdout
    assert hosts_file(armada).read_text() == text.replace("1.5  # in May\n", "2.0  # in May\n    profile: cpu\n")


def test_the_same_host_added_again_changes_nothing(armada: Armada, servers: list[KeyServer]) -> None:
    text = box(armada, servers[0], "    root: /scratch\n")
    done = armada.run("hosts", "add", "box", servers[0].target)
    assert f"box is already in {hosts_file(armada)}, with the same settings" in done.stdout
    assert hosts_file(armada).read_text() == text


def test_a_box_that_came_back_elsewhere_keeps_its_name_and_settings(armada: Armada, servers: list[KeyServer]) -> None:
    text = box(armada, servers[0])
    code, out, _ = typed(armada, "y", "hosts", "add", "box", servers[1].target)
    assert code == 4, "the server lets nobody in"
    assert f"box: the address changes from {servers[0].target} to {servers[1].target}" in out
    assert "The key is the one that was pinned before" in out
    assert out.count("Is this the right key?") == 1
    assert hosts_file(armada).read_text() == text.replace(servers[0].target, servers[1].target)


@pytest.mark.parametrize("verb", ["add", "set"])
def test_a_key_that_changed_with_the_address_is_never_taken_silently(
    armada: Armada, servers: list[KeyServer], verb: str
) -> None:
    text = box(armada, servers[0])
    before = pinned(armada)
    other = servers[2]
    words = ["hosts", verb, "box", *(["--address"] if verb == "set" else []), other.target]
    nobody = armada.run(*words)
    assert (nobody.returncode, "needs a terminal" in nobody.stderr) == (2, True)
    code, out, err = typed(armada, "", *words)
    assert (code, "not pinned, nothing changed" in err) == (2, True)
    assert "The key is NOT the one that was pinned before" in out
    assert f"{servers[0].fingerprint}  (pinned before)" in out
    wrong = armada.run(*words, "--expect", servers[0].fingerprint)
    assert (wrong.returncode, other.fingerprint in wrong.stderr) == (4, True)
    assert (hosts_file(armada).read_text(), pinned(armada)) == (text, before)
    right = armada.run(*words, "--expect", other.fingerprint)
    assert right.returncode == (4 if verb == "add" else 0), right.stderr
    assert hosts_file(armada).read_text() == text.replace(servers[0].target, other.target)
    assert other.key.get_base64() in pinned(armada)
    assert servers[0].key.get_base64() not in pinned(armada)


def test_a_look_ahead_shows_the_lines_and_the_key_and_changes_nothing(armada: Armada, servers: list[KeyServer]) -> None:
    text = box(armada, servers[0])
    before = pinned(armada)
    line = f"ssh -p {servers[2].port} me@127.0.0.1 -L 8080:localhost:8080"
    for words in (["add", "box", line], ["set", "box", "--address", line]):
        looked = armada.run("hosts", *words, "--price", "3", "--dry-run")
        assert looked.returncode == 0, looked.stderr
        for shown in (
            f"-    ssh: {servers[0].target}\n",
            f"+    ssh: {servers[2].target}\n",
            "+    price_per_hour: 3.0  # in May\n",
        ):
            assert shown in looked.stdout
        assert servers[2].fingerprint in looked.stdout
        assert "The key is NOT the one that was pinned before" in looked.stdout
        told = armada.json("hosts", *words, "--price", "3", "--dry-run")
        jsonschema.validate(told, schema_of(SHAPES["hosts add --dry-run" if words[0] == "add" else "hosts set"]))
        assert [each["key"] for each in told["changes"]] == ["ssh", "price_per_hour"]
        assert [key["fingerprint"] for key in told["offered"]] == [servers[2].fingerprint]
    assert (hosts_file(armada).read_text(), pinned(armada)) == (text, before)


def test_settings_are_changed_and_unset_without_a_word_to_the_host(armada: Armada) -> None:
    write_hosts(armada, "hosts:\n  box: {ssh: me@127.0.0.1:1, price_per_hour: 2, root: /x}  # rented\n")
    told = armada.json("hosts", "set", "box", "--profile", "cpu", "--unset", "price", "--unset", "root")
    jsonschema.validate(told, schema_of(SHAPES["hosts set"]))
    assert (told["changed"], told["offered"]) == (True, [])
    assert {each["key"]: (each["before"], each["after"]) for each in told["changes"]} == {
        "profile": (None, "cpu"),
        "price_per_hour": (2.0, None),
        "root": ("/x", None),
    }
    assert "+  box: {ssh: me@127.0.0.1:1, profile: cpu}" in told["diff"]
    again = armada.run("hosts", "set", "box", "--profile", "cpu")
    assert (again.returncode, "has these settings already" in again.stdout) == (0, True)
    told = armada.json("hosts", "set", "box", "--profile", "cpu")
    assert (told["changed"], told["changes"], told["diff"]) == (False, [], "")
    assert armada.run("hosts", "set", "local", "--price", "0.3").returncode == 0
    assert {host["name"]: host["price_per_hour"] for host in armada.json("hosts", "ls")} == {"local": 0.3, "box": None}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "armada hosts set box --price 12.40"),
        (["--price", "-1"], 2, "an hour costs from 0 to"),
        (["--price", "1", "--unset", "price"], 2, "exclude each other"),
        (["--unset", "name"], 2, "invalid choice"),
        (["--root", "relative"], 2, "--root /scratch/me/armada"),
        (["--profile", "no-such"], 7, "no-such"),
        (["--identity", "missing"], 2, "missing is no file"),
        (["--reuse-only"], 2, "needs `transport: openssh`"),
        (["--address", "scp me@box:x ."], 2, "neither an address"),
        (["--address", "-oProxyCommand=touch x"], 2, "neither an address"),
        (["--address", "-oProxyCommand=x"], 2, "must be an alias or user@address:port"),
        (["--address", "me@127.0.0.1:1", "--yes"], 4, "refuses connections"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(armada: Armada, words: list[str], code: int, said: str) -> None:
    text = "hosts: {box: {ssh: me@127.0.0.1:2, scheduler: slurm, slurm: {partition: x}}}\n"
    write_hosts(armada, text)
    done = armada.run("hosts", "set", "box", *([words[0] + "=" + words[1], *words[2:]] if len(words) > 1 else words))
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert hosts_file(armada).read_text() == text


def test_a_host_that_nobody_knows_or_a_project_names_is_not_changed(armada: Armada) -> None:
    armada.write("armada.yaml", "hosts: {ours: {ssh: me@127.0.0.1:1}}\n")
    assert armada.run("hosts", "set", "none", "--price", "1").returncode == 7
    for words in (["set", "ours", "--price", "1"], ["add", "ours", "me@127.0.0.1:1", "--price", "1"]):
        refused = armada.run("hosts", *words)
        assert refused.returncode == 8
        assert "armada.yaml, a file of a project, which armada does not change" in refused.stderr
        assert "price_per_hour: 1.0" in refused.stderr
    assert not hosts_file(armada).exists()


def running(armada: Armada) -> dict[str, Any]:
    """A run that goes on, on a host `box` that is this machine."""
    write_hosts(armada, json.dumps({"hosts": {"box": {"local": True, "root": str(armada.folder / "root")}}}))
    mark = armada.folder / "begun"
    experiment = armada.command("sh", "-c", f"touch {mark}; exec sleep 1000")
    run: dict[str, Any] = armada.json("launch", "--host", "box", experiment)
    eventually(mark.exists)
    return run


def test_while_runs_are_there_what_finds_them_does_not_change(armada: Armada) -> None:
    run = running(armada)
    text = hosts_file(armada).read_text()
    for words in (["--root", str(armada.folder / "other")], ["--scheduler", "slurm"], ["--unset", "root"]):
        for more in ([], ["--dry-run"]):
            refused = armada.run("hosts", "set", "box", *words, *more)
            assert refused.returncode == 8, refused.stdout
            assert f"1 run on box may still be running, such as {run['run_id']}" in refused.stderr
            assert "Nothing was changed" in refused.stderr
    assert hosts_file(armada).read_text() == text
    assert armada.run("hosts", "set", "box", "--price", "3").returncode == 0
    eventually(lambda: armada.json("show", run["run_id"])["state"] == "running")
    assert armada.run("stop", run["run_id"], "--grace", "0").returncode == 0
    assert armada.run("hosts", "set", "box", "--root", str(armada.folder / "other")).returncode == 0


def test_another_machine_at_the_name_of_a_host_with_runs_is_said(armada: Armada, servers: list[KeyServer]) -> None:
    run = running(armada)
    try:
        box(armada, servers[0])  # as if it had been reached by SSH from the first
        done = armada.run("hosts", "set", "box", "--address", servers[2].target, "--yes")
        assert done.returncode == 0, done.stderr
        assert f"1 run may still be running at the former address, such as {run['run_id']}" in done.stdout
        kept = armada.json("ps", "--cached", "--all")
        assert [(each["run_id"], each["host"], each["ended_at"]) for each in kept] == [(run["run_id"], "box", None)]
        same = armada.run("hosts", "set", "box", "--address", servers[2].target.replace("me@", "you@"), "--yes")
        assert "may still be running" not in same.stdout
    finally:
        write_hosts(armada, json.dumps({"hosts": {"box": {"local": True, "root": str(armada.folder / "root")}}}))
        armada.run("stop", run["run_id"], "--grace", "0")
