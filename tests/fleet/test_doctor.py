"""`armada doctor` against hosts that are ill, and against home."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Armada
from tests.fleet import machines
from tests.fleet.conftest import Fleet
from tests.fleet.test_odd_hosts import add, changed

pytestmark = pytest.mark.timeout(200)
ESCAPES = "\x1b]52;c;ZXZpbA==\x07\x1b[2Jhello \u202eevil"


def troubles(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {finding["subject"]: finding for finding in report["findings"] if finding["outcome"] != "ok"}


def test_an_ill_host_is_explained_with_remedies_and_what_it_prints_is_inert(armada: Armada, fleet: Fleet) -> None:
    how = (
        "cat > /root/.bashrc; printf '\\033]52;c;AAAA\\007\\033[31mno entry\\n' > /etc/issue.odd;"
        " echo 'Banner /etc/issue.odd' >> /etc/ssh/sshd_config; echo 'MaxSessions 3' >> /etc/ssh/sshd_config; kill -HUP 1;"
        " mv /usr/bin/rsync /usr/bin/rsync.away; mkdir -p /tmp/odd/code/.new-x; touch -d '3 days ago' /tmp/odd/code/.new-x"
    )
    back = (
        "rm -rf /root/.bashrc /tmp/odd; mv /usr/bin/rsync.away /usr/bin/rsync;"
        " sed -i '/issue.odd/d;/MaxSessions/d' /etc/ssh/sshd_config; kill -HUP 1"
    )
    rc = f"printf '%s\\n' '{ESCAPES}'\numask 077\nexport LD_LIBRARY_PATH=/opt/odd CONDA_PREFIX=/opt/conda\n"
    with changed(fleet, how, back, stdin=rc.encode()) as machine:
        add(armada, machine, "--root", "/tmp/odd")
        said = armada.run("doctor", machine.name)
        told = armada.json("doctor", machine.name)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "\x1b" not in said.stdout + said.stderr + str(told)
    assert "\u202e" not in said.stdout
    assert "│ �]52;c;ZXZpbA==" in said.stdout
    assert "no entry" in said.stdout
    (report,) = told["hosts"]
    found = troubles(report)
    assert set(found) == {"shell", "libraries", "conda", "sshd", "rsync", "leftovers"}
    assert all(finding["remedy"] for finding in found.values())
    assert "hello" in report["noise"]
    assert "OpenSSH" in report["banner"]
    assert "0077" in said.stdout


@pytest.mark.parametrize(
    ("how", "back", "subject", "says"),
    [
        (
            "mkdir -p /mnt/odd; mount -t tmpfs -o noexec,size=40m,mode=700 tmpfs /mnt/odd",
            "umount -l /mnt/odd",
            "root",
            "programs there do not run",
        ),
        (
            (
                "mkdir -p /etc/systemd/logind.conf.d;"
                " printf '[Login]\\nKillUserProcesses=yes\\n' > /etc/systemd/logind.conf.d/odd.conf"
            ),
            "rm /etc/systemd/logind.conf.d/odd.conf",
            "logout",
            "runs would die with the connection",
        ),
    ],
    ids=["root noexec", "processes end at logout"],
)
def test_what_would_break_runs_is_exit_3(
    armada: Armada, fleet: Fleet, how: str, back: str, subject: str, says: str
) -> None:
    with changed(fleet, how, back) as machine:
        add(armada, machine, "--root", "/mnt/odd")
        (report,) = armada.json("doctor", machine.name, rc=3)["hosts"]
    finding = troubles(report)[subject]
    assert finding["outcome"] == "fail"
    assert says in finding["message"]


def test_hosts_out_of_reach_are_4_and_do_not_hide_the_others(armada: Armada, fleet: Fleet) -> None:
    add(armada, fleet.host("workstation"))
    with fleet.borrow("a100-2") as machine:
        add(armada, machine)
        machines.rekey(machine)
        told = armada.json("doctor", rc=4)
        reports = {report["name"]: report for report in told["hosts"]}
        assert set(reports) == {"local", "workstation", "a100-2"}
        assert not [f for f in reports["workstation"]["findings"] if f["outcome"] == "fail"]
        assert "armada hosts trust a100-2" in troubles(reports["a100-2"])["host key"]["remedy"]
        machines.kill(machine)
        down = armada.run("doctor", "a100-2")
        assert down.returncode == 4
        assert "✗ connection" in down.stdout
        assert f"ssh -v root@{machine.address}" in down.stdout or "→" in down.stdout
    assert armada.run("doctor", "no-such-host").returncode == 7


def test_a_link_is_measured_under_its_limit(armada: Armada, fleet: Fleet, bad_link: Callable[..., Any]) -> None:
    machine = fleet.host("workstation")
    link = bad_link(machine, "--rtt-ms", "60")
    done = armada.run(
        *("hosts", "add", "far", f"{machine.user}@127.0.0.1:{link.port}"),
        *("--identity", str(machines.IDENTITY), "--yes"),
    )
    assert done.returncode == 0, done.stderr
    file = armada.folder / "home" / "config" / "hosts.yaml"
    file.write_text(file.read_text().replace("  far:\n", "  far:\n    bwlimit: 200k\n"))
    (report,) = armada.json("doctor", "far")["hosts"]
    measured = report["measured"]
    assert measured["round_trip_s"] >= 0.06
    assert measured["limited"]
    assert measured["down_bytes_per_s"] < 600_000  # a quarter of a second of burst is let through
    assert abs(measured["clock_off_s"]) < 5


def test_home_is_looked_at_too(armada: Armada) -> None:
    config = armada.folder / "home" / "config"
    assert armada.run("doctor").returncode == 0
    (config / "notifications.yaml").write_text("{}\n")
    (config / "notifications.yaml").chmod(0o644)
    (home,) = [armada.json("doctor")["home"]]
    assert troubles(home)["permissions"]["remedy"] == f"chmod go= {config}/notifications.yaml"
    (config / "hosts.yaml").write_text("hosts:\n  box: {shh: me@box}\n")
    broken = armada.run("doctor")
    assert broken.returncode == 2
    assert "hosts.yaml:2" in broken.stdout
    (config / "hosts.yaml").unlink()
    store = armada.folder / "home" / "state" / "armada.db"
    armada.run("ps")
    assert sqlite3.connect(store).execute("PRAGMA quick_check").fetchone() == ("ok",)
    store.write_bytes(b"not a store at all" * 1000)
    damaged = armada.run("doctor")
    assert damaged.returncode == 3
    assert "✗ store" in damaged.stdout
