"""`armada hosts provision | trust | release` against real SSH hosts: what a person would otherwise do by hand on each box."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.conftest import Armada, eventually
from tests.fleet import machines
from tests.fleet.conftest import BadLink, Fleet

Add = Callable[..., None]


@pytest.fixture
def add(armada: Armada, fleet: Fleet) -> Add:
    """A function that adds a host of the fleet the way a user would."""

    def add_host(machine: str, *more: str) -> None:
        up = fleet.host(machine)
        done = armada.run("hosts", "add", machine, up.target, "--identity", str(machines.IDENTITY), "--yes", *more)
        assert done.returncode == 0, done.stdout + done.stderr

    return add_host


@pytest.mark.timeout(900)
def test_an_environment_is_built_once_and_the_host_says_that_it_is_ready(armada: Armada, add: Add) -> None:
    add("a100-1", "--profile", "cpu")
    first = json.loads(armada.run("hosts", "provision", "a100-1", "--json", timeout_s=800).stdout)
    again = armada.run("hosts", "provision", "a100-1")
    assert again.returncode == 0, again.stderr
    assert f"environment {first['environment']} was there already" in again.stdout
    assert f"environment {first['environment']} ready" in armada.run("hosts", "check", "a100-1").stdout
    (record,) = (host for host in armada.json("hosts", "ls") if host["name"] == "a100-1")
    assert record["facts"]["environments"][first["environment"]] == "ready"


@pytest.mark.timeout(300)
def test_an_environment_that_cannot_be_built_is_5_with_what_the_installer_said(armada: Armada, add: Add) -> None:
    add("a100-1")
    profiles = armada.folder / "home" / "config" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "broken.yaml").write_text("extends: cpu\nenvironment: {packages: [no-such-package-of-armada==1.0]}\n")
    refused = armada.run("hosts", "provision", "a100-1", "--profile", "broken", timeout_s=250)
    assert refused.returncode == 5, refused.stdout + refused.stderr
    assert "no-such-package-of-armada" in refused.stderr


def test_a_host_or_profile_that_nobody_knows_is_7_and_asks_nobody(armada: Armada, add: Add) -> None:
    add("a100-1")
    for words in (("no-such-host",), ("a100-1", "--profile", "no-such-profile")):
        refused = armada.run("hosts", "provision", *words)
        assert refused.returncode == 7
        assert words[-1] in refused.stderr


def test_a_changed_key_is_pinned_only_if_it_is_the_one_that_was_compared(
    armada: Armada, add: Add, fleet: Fleet
) -> None:
    with fleet.borrow("a100-2") as machine:
        add("a100-2")
        before = armada.json("hosts", "trust", "a100-2", "--dry-run")
        assert before["offered"] == before["pinned_before"]
        machines.rekey(machine)
        shown = armada.json("hosts", "trust", "a100-2", "--dry-run")
        assert shown["pinned_before"] == before["offered"]
        (new,) = (key["fingerprint"] for key in shown["offered"])
        (old,) = (key["fingerprint"] for key in before["offered"])
        assert new != old
        assert armada.run("hosts", "check", "a100-2").returncode == 4, "a look pinned nothing"
        wrong = armada.run("hosts", "trust", "a100-2", "--expect", old)
        assert wrong.returncode == 4
        assert new in wrong.stderr
        assert armada.run("hosts", "check", "a100-2").returncode == 4
        assert armada.run("hosts", "trust", "a100-2", "--expect", new).returncode == 0
        assert armada.run("hosts", "check", "a100-2").returncode == 0


def test_a_release_that_only_looks_keeps_secrets_and_one_that_does_not_deletes_them(
    armada: Armada, add: Add, fleet: Fleet, there: str
) -> None:
    fleet.run("a100-1", f"mkdir -m 700 {there}")
    add("a100-1", "--root", there)
    armada.env["WORD"] = "of honour"
    script = "echo results > work.txt"
    run_id = armada.json("launch", "--host", "a100-1", armada.command("sh", "-c", script, secrets=["WORD"]))["run_id"]
    eventually(lambda: armada.json("ps")[0]["state"] == "succeeded")
    secrets = f"{there}/runs/{run_id}/secrets.env"
    fleet.run("a100-1", f"echo WORD=x > {secrets}")  # as a run leaves it whose supervisor was killed
    looked = armada.json("hosts", "release", "a100-1", "--dry-run", rc=8)
    assert not looked["safe"]
    assert fleet.run("a100-1", f"ls {secrets}").strip() == secrets
    drained = armada.run("hosts", "release", "a100-1", "--drain", "--ignore-work")
    assert drained.returncode == 0, drained.stdout + drained.stderr
    assert "nothing would be lost" in drained.stdout
    assert fleet.run("a100-1", f"ls {secrets} 2>/dev/null | wc -l").strip() == "0"


def sleeping(armada: Armada, host: str) -> str:
    run_id: str = armada.json("launch", "--host", host, armada.command("sleep", "600"))["run_id"]
    eventually(lambda: armada.json("show", run_id)["state"] == "running")
    return run_id


def test_a_box_that_answers_at_another_address_keeps_its_runs(
    armada: Armada, add: Add, fleet: Fleet, bad_link: Callable[..., BadLink]
) -> None:
    add("a100-1", "--price", "2")
    run_id = sleeping(armada, "a100-1")
    target = f"root@127.0.0.1:{bad_link(fleet.host('a100-1')).port}"
    moved = armada.run("hosts", "add", "a100-1", target, "--yes")
    assert moved.returncode == 0, moved.stdout + moved.stderr
    assert "The key is the one that was pinned before" in moved.stdout
    assert "may still be running at the former address" not in moved.stdout
    assert armada.json("show", run_id)["state"] == "running"
    (host,) = (each for each in armada.json("hosts", "ls") if each["name"] == "a100-1")
    assert (host["ssh"], host["price_per_hour"], host["identity"]) == (target, 2.0, str(machines.IDENTITY))
    assert armada.run("stop", run_id, "--grace", "0").returncode == 0


def test_another_machine_at_the_name_of_a_box_ends_none_of_its_runs(armada: Armada, add: Add, fleet: Fleet) -> None:
    add("a100-1")
    run_id = sleeping(armada, "a100-1")
    first, other = fleet.host("a100-1"), fleet.host("workstation")
    moved = armada.run("hosts", "set", "a100-1", "--address", other.target, "--yes")
    assert moved.returncode == 0, moved.stdout + moved.stderr
    assert "The key is NOT the one that was pinned before" in moved.stdout
    assert f"1 run may still be running at the former address, such as {run_id}" in moved.stdout
    seen = armada.json("show", run_id)
    assert (seen["state"], seen["reason"], seen["ended_at"]) == ("unknown", "root_away", None)
    assert armada.run("hosts", "set", "a100-1", "--address", first.target, "--yes").returncode == 0
    assert armada.json("show", run_id)["state"] == "running"
    assert armada.run("stop", run_id, "--grace", "0").returncode == 0


def test_an_open_connection_to_the_former_address_ends(
    armada: Armada, add: Add, fleet: Fleet, bad_link: Callable[..., BadLink]
) -> None:
    add("a100-1", "--transport", "openssh")
    sockets = armada.folder / "home" / "state" / "ssh"
    (former,) = sockets.glob("a100-1+*.ctl")
    target = f"root@127.0.0.1:{bad_link(fleet.host('a100-1')).port}"
    assert armada.run("hosts", "set", "a100-1", "--address", target, "--yes").returncode == 0
    assert not former.exists()
    assert armada.run("hosts", "check", "a100-1").returncode == 0
    armada.run("hosts", "disconnect", "a100-1")


def test_hosts_of_ssh_config_are_imported_and_stay_names_of_it(armada: Armada, fleet: Fleet) -> None:
    names = ["workstation", "a100-1"]
    for name in names:
        fleet.host(name)
    config = armada.folder / "ssh_config"
    config.write_text(machines.ssh_config())
    armada.env["ARMADA_SSH_CONFIG"] = str(config)
    imported = armada.json("hosts", "import", *names, "--yes")
    assert [each["outcome"] for each in imported] == ["added", "added"]
    assert {host["name"]: host["ssh"] for host in armada.json("hosts", "ls") if host["ssh"]} == {n: n for n in names}
    assert armada.run("hosts", "check", *names).returncode == 0


def test_a_providers_line_leads_to_a_run_in_one_command(armada: Armada, fleet: Fleet) -> None:
    machine = fleet.host("a100-1")
    line = f"$ ssh -p {machine.port} {machine.user}@{machine.address} -i {machines.IDENTITY} -L 8080:localhost:8080"
    experiment = armada.command("true")
    foreseen = armada.json("launch", "--on", line, experiment, "--dry-run", "--yes")
    assert {check["outcome"] for check in foreseen["checks"]} <= {"ok", "warn"}
    assert [host["name"] for host in armada.json("hosts", "ls")] == ["local"]
    assert list((armada.folder / "home" / "state" / "ssh").iterdir()) == []
    name = f"{machine.address}-{machine.port}"
    first = armada.json("launch", "--on", line, experiment, "--yes", "--follow")
    assert (first["host"], first["state"]) == (name, "succeeded")
    again = armada.run("launch", "--on", f"ssh://{machine.target}", experiment, "--name", "again", "--follow")
    assert again.returncode == 0, again.stdout + again.stderr
    assert f"{name} ({machine.target}), which is known" in again.stdout
    assert armada.run("hosts", "rm", name).returncode == 0


def test_a_launch_that_fails_on_a_new_host_says_that_the_host_stays(armada: Armada, fleet: Fleet) -> None:
    machine = fleet.host("bare")  # neither python3 nor rsync
    line = f"ssh {machine.target} -i {machines.IDENTITY}"
    failed = armada.run("launch", "--on", line, armada.command("true"), "--yes", "--name-of-host", "box")
    assert failed.returncode in (4, 5), failed.stdout
    assert "box stays in hosts.yaml; armada hosts rm box removes it" in failed.stderr
    assert armada.run("hosts", "rm", "box").returncode == 0
