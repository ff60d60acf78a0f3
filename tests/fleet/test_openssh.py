"""The connection that `transport: openssh` keeps open: made once, shared, ended; and the one that only a person may make."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from armada.config.hosts import Host
from armada.errors import HostKeyChanged, HostUnreachable, LinkLost, LoginNeeded
from armada.paths import HomePaths
from armada.rpc.client import Agent
from armada.rpc.session import HostSession
from armada.transport import connect
from armada.transport.ssh.host_keys import HostKey, pin, pinned_keys, unpin
from armada.transport.ssh.resolve import resolve
from armada.transport.ssh.shared_connection import SharedConnection, end_connections
from tests.conftest import Armada, eventually
from tests.fleet import machines
from tests.fleet.typist import Typist

if TYPE_CHECKING:
    from tests.fleet.conftest import BadLink, Fleet, SshHost

    Known = Callable[..., SshHost]
    PutBadLink = Callable[..., BadLink]
    Add = Callable[..., str]


@pytest.fixture
def transport_kind() -> str:
    return "openssh"


def holder(host: SshHost, home: HomePaths) -> int | None:
    """The process that holds a host's connection."""
    return SharedConnection(resolve(host), home).pid()


def call_for_ever(agent: Agent) -> None:
    while True:
        agent.call("run.list", {})


class Logins:
    """A key of the test's own for root of a host, and how often that has been let in by it."""

    def __init__(self, fleet: Fleet, machine: machines.Machine, folder: Path) -> None:
        self.identity = folder / "own_key"
        Typist.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.identity))
        public = self.identity.with_suffix(".pub").read_text()
        fleet.run(machine.name, "cat >> /root/.ssh/authorized_keys", stdin=public.encode())
        self._fingerprint = HostKey("", *public.split()[:2]).fingerprint
        self._log = machine.place / "console.log"

    def count(self) -> int:
        accepted = (line for line in self._log.read_text(errors="replace").splitlines() if "Accepted publickey" in line)
        return sum(self._fingerprint in line for line in accepted)


def reload(fleet: Fleet, machine: machines.Machine, script: str) -> None:
    """Change the configuration of a host's sshd, and wait until it goes by that."""
    log = machine.place / "console.log"

    def starts() -> int:
        return log.read_text(errors="replace").count("Server listening on")

    before = starts()
    fleet.run(machine.name, f"{script}; kill -HUP 1")
    eventually(lambda: starts() > before)


@pytest.mark.takes_long("six connections, agents, pushes, and sshd writes its log of logins")
def test_one_connection_serves_agents_pushes_streams_and_many_armadas(
    known: Known, home: HomePaths, fleet: Fleet, source: Path, there: str, tmp_path: Path
) -> None:
    with fleet.borrow("a100-2") as machine:
        logins = Logins(fleet, machine, tmp_path)
        host = dataclasses.replace(known(machine.name), identity=logins.identity)
        with ThreadPoolExecutor(6) as pool:
            transports = list(pool.map(lambda _: connect(host, home), range(6)))
        pid = holder(host, home)
        for transport in transports:
            with closing(transport), Agent.open(transport, home) as agent:
                assert agent.call("run.list", {}) is not None
                with closing(transport.open_bulk_channel()):
                    transport.push(source, ["plain"], there)
        assert logins.count() == 1
        assert holder(host, home) == pid  # it stays when they have gone
        assert end_connections(host.name, home) == 1
        assert holder(host, home) is None
        assert end_connections(host.name, home) == 0


@pytest.mark.fault(
    "kill -9 of the shared connection", "every caller is told; it is made anew once, by whoever comes first"
)
def test_a_killed_connection_is_made_anew_once(known: Known, home: HomePaths, fleet: Fleet, tmp_path: Path) -> None:
    with fleet.borrow("a100-2") as machine:
        logins = Logins(fleet, machine, tmp_path)
        host = dataclasses.replace(known(machine.name), identity=logins.identity)
        made = Host(name=host.name, ssh=host.ssh, identity=host.identity, transport="openssh")
        sessions = [HostSession(made, home) for _ in range(4)]
        with closing(connect(host, home)) as transport, Agent.open(transport, home) as agent:
            for session in sessions:
                session.call("run.list", {})
            pid = holder(host, home)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(LinkLost, match="connection was lost"):
                call_for_ever(agent)
            with pytest.raises(LinkLost):
                transport.open_channel()
        with ThreadPoolExecutor(4) as pool:
            assert len(list(pool.map(lambda session: session.call("run.list", {}), sessions))) == 4
        assert holder(host, home) not in {pid, None}
        assert logins.count() == 2
        for session in sessions:
            session.close()


def test_a_connection_made_under_other_settings_or_keys_serves_nobody(
    known: Known, home: HomePaths, fleet: Fleet
) -> None:
    host = known("workstation")
    elsewhere = dataclasses.replace(host, ssh=fleet.host("a100-1").target)
    with closing(connect(host, home)):
        with pytest.raises(HostKeyChanged):  # not the old connection, which would answer for another machine
            connect(elsewhere, home)
        keys = pinned_keys(home)["armada-workstation"]
        unpin(home, host.name)
        with pytest.raises(HostKeyChanged, match="no key is pinned"):
            connect(host, home)
        pin(home, host.name, keys)
        pid = holder(host, home)
        connect(host, home).close()
        assert holder(host, home) == pid


@pytest.fixture
def few_sessions(fleet: Fleet) -> Iterator[machines.Machine]:
    """A host whose sshd takes two sessions on a connection."""
    with fleet.borrow("a100-2") as machine:
        own, include = "/etc/ssh/sshd_config.d/few.conf", "Include /etc/ssh/sshd_config.d/*.conf"
        reload(fleet, machine, f"echo MaxSessions 2 > {own}; sed -i '1i {include}' /etc/ssh/sshd_config")
        yield machine
        reload(fleet, machine, f"sed -i 1d /etc/ssh/sshd_config; rm {own}")


def test_sessions_beyond_maxsessions_become_connections_or_are_said(
    known: Known, home: HomePaths, few_sessions: machines.Machine, source: Path, fleet: Fleet, tmp_path: Path
) -> None:
    host = known(few_sessions.name)

    def use(transport_of: SshHost, count: int) -> None:
        with closing(connect(transport_of, home)) as transport:
            agents = [Agent.open(transport, home) for _ in range(count)]
            try:
                for agent in agents:
                    agent.call("run.list", {})
                transport.push(source, ["plain"], "/tmp/pushed")
            finally:
                for agent in agents:
                    agent.close()

    use(host, 3)
    logins = Logins(fleet, few_sessions, tmp_path)
    only = dataclasses.replace(host, reuse_only=True, identity=logins.identity)
    SharedConnection(resolve(only), home).ask_and_open()  # nobody is asked: the key does
    use(only, 1)
    for count in (2, 3):  # the push is one too many, or the third agent
        with pytest.raises(HostUnreachable, match="opens no more sessions") as caught:
            use(only, count)
        assert "MaxSessions" in str(caught.value.hint)
        assert not isinstance(caught.value, LinkLost)
    assert logins.count() == 1


def _greeted(machine: machines.Machine) -> socket.socket | None:
    connection = socket.create_connection((machine.address, machine.port))
    if connection.recv(4) == b"SSH-":
        return connection
    connection.close()
    return None


def test_a_session_that_finds_no_other_way_either_is_tried_again(
    known: Known, home: HomePaths, few_sessions: machines.Machine, fleet: Fleet
) -> None:
    """It says nothing about the host's Python, for which the same silence would be taken."""
    with closing(connect(known(few_sessions.name), home)) as transport:
        agents = [Agent.open(transport, home) for _ in range(2)]
        for agent in agents:
            agent.call("run.list", {})
        reload(fleet, few_sessions, "echo MaxStartups 1 >> /etc/ssh/sshd_config.d/few.conf")
        idle = eventually(lambda: _greeted(few_sessions))
        assert idle is not None
        # The one login that may be under way, and one too many.
        with idle, Agent.open(transport, home) as late, pytest.raises(LinkLost, match="nor another connection"):
            late.call("run.list", {})
        for agent in agents:
            agent.close()


def test_a_transfer_goes_on_with_the_streams_it_got(
    armada: Armada, add: Add, few_sessions: machines.Machine, fleet: Fleet, tmp_path: Path
) -> None:
    logins = Logins(fleet, few_sessions, tmp_path)
    add(few_sessions.target, "--reuse-only", rc=4, identity=logins.identity)
    assert armada.run("hosts", "connect", "box").returncode == 0  # the key does; nobody is asked
    _use_from_launch_to_checkpoint(armada)
    assert logins.count() == 1


one_site = pytest.mark.xdist_group("one-time codes")
"""For tests that use up its codes."""

# The login of sites with one-time codes: a key and a code, each of which works once.
CHECK_CODE = """#!/bin/sh
code=$(tr -d '\\0')
grep -qx "$code" /etc/codes || exit 1
sed -i "/^$code$/d" /etc/codes
"""
PAM = """auth required pam_exec.so expose_authtok quiet /usr/local/bin/check-code
auth required pam_permit.so
account required pam_permit.so
session required pam_permit.so
"""


@pytest.fixture
def code_port(fleet: Fleet) -> Iterator[int]:
    """The port of an sshd on `workstation` that wants a key and a one-time code: 111111, 222222 or 333333."""
    if not list(Path("/lib").glob("*/security/pam_exec.so")):
        pytest.skip("no pam_exec here")
    with socket.create_server(("127.0.1.1", 0)) as free:
        port = int(free.getsockname()[1])
    machine = "workstation"
    config, pam = f"/run/sshd-{port}.conf", "/etc/pam.d/sshd"
    own = (
        f"Port {port}\nListenAddress 127.0.1.1\nPidFile /run/sshd-{port}.pid\nUsePAM yes\n"
        "KbdInteractiveAuthentication yes\nAuthenticationMethods publickey,keyboard-interactive\n"
    )
    fleet.run(machine, f"cat > {pam}", stdin=PAM.encode())
    fleet.run(
        machine, "cat > /usr/local/bin/check-code; chmod 755 /usr/local/bin/check-code", stdin=CHECK_CODE.encode()
    )
    fleet.run(machine, "printf '111111\\n222222\\n333333\\n' > /etc/codes; chmod 600 /etc/codes")
    fleet.run(machine, f"grep -v -e ^Port -e ^ListenAddress -e ^UsePAM /etc/ssh/sshd_config > {config}; cat >> {config}",
              stdin=own.encode())  # fmt: skip
    fleet.run(machine, f"/usr/sbin/sshd -f {config}")
    yield port
    fleet.run(machine, f"kill $(cat /run/sshd-{port}.pid)")


@pytest.fixture
def add(armada: Armada, fleet: Fleet) -> Iterator[Add]:
    """A function that adds a host with `transport: openssh`; its connection ends with the test."""
    added = []

    def add_host(target: str, *more: str, rc: int = 0, identity: Path = machines.IDENTITY) -> str:
        words = ["hosts", "add", "box", target, "--identity", str(identity), "--yes", "--transport", "openssh"]
        done = armada.run(*words, *more)
        added.append("box")
        assert done.returncode == rc, done.stdout + done.stderr
        return done.stdout + done.stderr

    yield add_host
    for name in added:
        assert armada.run("hosts", "disconnect", name).returncode == 0


@pytest.mark.parametrize("rsync", ["there", "missing"])
def test_a_launch_with_code_and_a_checkpoint_go_through_one_connection(
    rsync: str, armada: Armada, add: Add, fleet: Fleet, tmp_path: Path
) -> None:
    with fleet.borrow("a100-2") as machine:
        logins = Logins(fleet, machine, tmp_path)
        add(machine.target, identity=logins.identity)
        if rsync == "missing":
            fleet.run(machine.name, "mv /usr/bin/rsync /usr/bin/rsync.away")
        try:
            _use_from_launch_to_checkpoint(armada)
        finally:
            if rsync == "missing":
                fleet.run(machine.name, "mv /usr/bin/rsync.away /usr/bin/rsync")
        assert logins.count() == 1
        assert "disconnected" in armada.run("hosts", "disconnect", "box").stdout
        assert armada.run("hosts", "disconnect", "box").stdout == "box: no connection was open\n"


def _use_from_launch_to_checkpoint(armada: Armada) -> None:
    (armada.folder / "project").mkdir()
    armada.write(
        "project/job.py",
        "import pathlib\npathlib.Path('out').mkdir()\npathlib.Path('out/w').write_bytes(b'w' * 9_000_000)\n",
    )
    experiment = armada.command(
        "python3", "job.py", code="project", checkpoint={"pattern": "out", "quiet_s": 1}, sync={"streams": 3}
    )
    launched = armada.run("launch", "--host", "box", experiment, "--follow", "--json", timeout_s=300)
    assert launched.returncode == 0, launched.stderr
    run_id = json.loads(launched.stdout)["run_id"]
    pulled = armada.run("pull", run_id)
    assert pulled.returncode == 0, pulled.stderr
    (checkpoint,) = armada.json("show", run_id)["checkpoints"]
    assert (Path(checkpoint["home_path"]) / "w").stat().st_size == 9_000_000


@one_site
@pytest.mark.fault(
    "the connection of a site with one-time codes ends",
    "exit 4 with the command that opens it; armada makes none itself",
)
def test_a_site_with_one_time_codes_is_used_through_the_connection_a_person_opened(
    armada: Armada, add: Add, fleet: Fleet, code_port: int
) -> None:
    def codes() -> list[str]:
        return fleet.run("workstation", "cat /etc/codes").split()

    said = add(f"researcher@127.0.1.1:{code_port}", "--reuse-only", rc=4)
    assert "no connection to it is open" in said
    assert "armada hosts connect box" in said
    with Typist(armada, "hosts", "connect", "box") as person:
        person.waits_for("assword:")
        person.types("000000")  # no code of ours
        person.waits_for("assword:")
        person.types("111111")
        person.waits_for("box: connected, until it is ended; armada hosts disconnect box ends it")
        assert person.status() == 0
    assert codes() == ["222222", "333333"]
    _use_from_launch_to_checkpoint(armada)
    with Typist(armada, "hosts", "connect", "box") as person:  # once more asks nothing
        person.waits_for("box: connected")
        assert person.status() == 0
    assert codes() == ["222222", "333333"]

    armada.run("hosts", "disconnect", "box")
    refused = armada.run("hosts", "check", "box")
    assert refused.returncode == 4
    assert "armada hosts connect box" in refused.stdout
    assert armada.run("pull", armada.json("ps", "--cached")[0]["run_id"]).returncode == 4
    fleet.run("workstation", ": > /etc/codes")
    with Typist(armada, "hosts", "connect", "box") as person:
        for _ in range(3):
            person.waits_for("assword:")
            person.types("111111")  # it was used
        person.waits_for("refused the login")
        assert person.status() == 4


@one_site
def test_a_hop_that_wants_a_code_asks_for_it_too(armada: Armada, fleet: Fleet, code_port: int) -> None:
    far = fleet.host("a100-1")
    armada.env["ARMADA_SSH_CONFIG"] = str(armada.folder / "ssh_config")
    armada.write(
        "ssh_config",
        f"Host far\n  HostName {far.address}\n  Port {far.port}\n  User root\n  ProxyJump gate\n"
        f"Host gate\n  HostName 127.0.1.1\n  Port {code_port}\n  User researcher\n"
        f"Host *\n  IdentityFile {machines.IDENTITY}\n  IdentitiesOnly yes\n",
    )
    home = HomePaths(config=armada.folder / "home/config", state=armada.folder / "home/state")
    home.make()
    home.hosts_file.write_text("hosts: {box: {ssh: far, transport: openssh, reuse_only: true}}\n")
    # By hand, as docs/how-to/hosts.md has it: to read the host's key one would have to log in at the hop.
    shown = {alias: fleet.run(name, "cat /etc/ssh/ssh_host_ed25519_key.pub").split()
             for alias, name in (("armada-box+hop1", "workstation"), ("armada-box", "a100-1"))}  # fmt: skip
    home.known_hosts.write_text("".join(f"{alias} {kind} {blob}\n" for alias, (kind, blob, *_) in shown.items()))
    try:
        with Typist(armada, "hosts", "connect", "box") as person:
            person.waits_for("assword:")
            person.types("111111")
            person.waits_for("box: connected")
            assert person.status() == 0
        assert " root at a100-1" in armada.run("hosts", "check", "box").stdout
    finally:
        armada.run("hosts", "disconnect", "box")


@one_site
def test_ctrl_c_at_the_question_ends_the_login(armada: Armada, add: Add, fleet: Fleet, code_port: int) -> None:
    add(f"researcher@127.0.1.1:{code_port}", "--reuse-only", rc=4)
    with Typist(armada, "hosts", "connect", "box") as person:
        person.waits_for("assword:")
        assert person.interrupts() == 130
    assert armada.run("hosts", "check", "box").returncode == 4


def test_a_reuse_only_host_is_never_connected_to_by_itself(
    known: Known, home: HomePaths, fleet: Fleet, source: Path, bad_link: PutBadLink
) -> None:
    link = bad_link(fleet.host("workstation"))
    host = dataclasses.replace(
        known("workstation", name="via", ssh=f"researcher@127.0.0.1:{link.port}"), reuse_only=True
    )
    connection = SharedConnection(resolve(host), home)
    with pytest.raises(LoginNeeded):
        connect(host, home)
    connection.ask_and_open()
    transport = connect(host, home)
    agent = Agent.open(transport, home)
    assert agent.call("host.facts", {})["hostname"] == "workstation"
    link.reset()
    with pytest.raises(LinkLost, match="connection was lost"):
        call_for_ever(agent)
    for attempt in (
        lambda: connect(host, home),
        lambda: transport.push(source, ["plain"], "/tmp/pushed"),
        transport.open_bulk_channel,
    ):
        with pytest.raises(LoginNeeded) as caught:
            attempt()
        assert caught.value.hint == "armada hosts connect via"
    with pytest.raises(LinkLost):
        transport.open_channel()
    made = Host(name="via", ssh=host.ssh, identity=host.identity, transport="openssh", reuse_only=True)
    with HostSession(made, home) as session, pytest.raises(LoginNeeded):  # at once, without a minute's patience
        session.call("run.list", {})
    agent.close()
    transport.close()


def test_a_passphrase_is_asked_for_once(armada: Armada, add: Add, fleet: Fleet, tmp_path: Path) -> None:
    key = tmp_path / "locked"
    key.write_bytes(machines.IDENTITY.read_bytes())
    key.chmod(0o600)
    Typist.run("ssh-keygen", "-q", "-p", "-P", "", "-N", "secret words", "-f", str(key))
    said = add(fleet.host("workstation").target, rc=4, identity=key)
    assert f"{key} is protected by a passphrase" in said
    assert f"armada hosts connect box (asks for the passphrase once), or ssh-add {key}" in said
    with Typist(armada, "hosts", "connect", "box") as person:
        person.waits_for(f"Enter passphrase for key '{key}':")
        person.types("secret words")
        person.waits_for("box: connected, until 10 minutes after its last use")
        assert person.status() == 0
    for _ in range(2):
        assert armada.run("hosts", "check", "box").returncode == 0


def test_a_fabric_host_has_nothing_to_connect(armada: Armada, fleet: Fleet) -> None:
    target = fleet.host("workstation").target
    armada.run("hosts", "add", "box", target, "--identity", str(machines.IDENTITY), "--yes")
    refused = armada.run("hosts", "connect", "box")
    assert refused.returncode == 2
    assert "`transport: openssh` for box in" in refused.stderr
    assert armada.run("hosts", "connect", "local").returncode == 2
