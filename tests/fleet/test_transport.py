"""Both transports, rsync and the bootstrap against real SSH servers."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from armada.errors import (
    AuthenticationFailed,
    HostKeyChanged,
    HostUnreachable,
    ProvisionFailed,
)
from armada.paths import HomePaths
from armada.rpc.client import Agent
from armada.transport import connect
from armada.transport.ssh.handshake import scan
from armada.transport.ssh.host_keys import pin, pinned_keys, unpin
from armada.transport.ssh.resolve import resolve
from armada.transport.ssh.shared_connection import end_connections
from tests.fleet import machines
from tests.fleet.conftest import NAMES
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.fleet.conftest import BadLink, Fleet, SshHost

    Known = Callable[..., SshHost]
    PutBadLink = Callable[..., BadLink]


@pytest.fixture(params=["fabric", "openssh"])
def transport_kind(request: pytest.FixtureRequest) -> str:
    """Every test here is about both."""
    return str(request.param)


@pytest.mark.parametrize("machine", ["workstation", "a100-1"])
def test_the_agent_is_brought_to_a_cold_host_and_found_on_a_warm_one(
    machine: str, known: Known, home: HomePaths, fleet: Fleet, there: str
) -> None:
    root = f"{there} it's a root"
    host = known(machine, root=root)
    for _ in ("cold", "warm"):
        with closing(connect(host, home)) as transport, Agent.open(transport, home) as agent:
            facts = agent.call("host.facts", {})
            assert facts["hostname"] == machine
            assert facts["user"] == fleet.host(machine).user
            assert agent.hello.root == root
    assert fleet.run(machine, f'stat -c %a "{root}" "{root}"/agent/*.pyz').split() == ["700", "600"]


def test_many_calls_from_many_threads_are_answered(known: Known, home: HomePaths) -> None:
    with closing(connect(known("workstation"), home)) as transport, Agent.open(transport, home) as agent:
        with ThreadPoolExecutor(24) as pool:
            answers = list(pool.map(lambda _: agent.call("run.list", {}), range(300)))
        assert len(answers) == 300


def test_many_connections_at_once_all_come_about(known: Known, home: HomePaths) -> None:
    host = known("workstation")

    def ask(_: int) -> str:
        with closing(connect(host, home, deadline_s=60)) as transport, Agent.open(transport, home) as agent:
            return str(agent.hello.root)

    # Sessions beyond sshd's MaxSessions, ten, become connections of their own; many of those at once are MaxStartups' to refuse.
    count = 20 if host.transport == "fabric" else 12
    with ThreadPoolExecutor(count) as pool:
        assert len(list(pool.map(ask, range(count)))) == count


@pytest.mark.parametrize(
    "noise",
    [
        "echo 'Welcome to the cluster'; echo to stderr >&2",
        'printf %s \'{"jsonrpc": "2.0", "id": 1, "result": {"hostname": "evil"}}\'',
        r"printf '\377\376\000\033[31m@@ARMADA {'",
        "cd /nowhere; false; export PYTHONPATH=/nowhere PYTHONSTARTUP=/nowhere; head -c 200000 /dev/zero",
    ],
)
def test_start_up_files_that_print_are_noise(noise: str, known: Known, home: HomePaths, fleet: Fleet) -> None:
    with fleet.borrow("a100-2") as machine:
        fleet.run(machine.name, "cat > /root/.bashrc", stdin=f"{noise}\n".encode())
        try:
            with closing(connect(known(machine.name), home)) as transport, Agent.open(transport, home) as agent:
                assert agent.call("host.facts", {})["hostname"] == machine.name
                assert "\x1b" not in agent.noise
        finally:
            fleet.run(machine.name, "rm /root/.bashrc")


@pytest.mark.parametrize("shell", ["/bin/tcsh", "/usr/bin/fish"])
def test_any_login_shell_will_do(shell: str, known: Known, home: HomePaths, fleet: Fleet) -> None:
    if not Path(shell).exists():
        pytest.skip(f"{shell} is not installed")
    with fleet.borrow("a100-2") as machine:
        fleet.run(machine.name, f"usermod -s {shell} root")
        try:
            with closing(connect(known(machine.name), home)) as transport, Agent.open(transport, home) as agent:
                assert agent.call("host.facts", {})["hostname"] == machine.name
        finally:
            fleet.run(machine.name, "usermod -s /bin/bash root")


def test_a_host_without_python_or_rsync_says_so(known: Known, home: HomePaths, source: Path) -> None:
    with closing(connect(known("bare"), home)) as transport:
        with Agent.open(transport, home) as agent, pytest.raises(ProvisionFailed, match="no python3 on this host"):
            agent.call("host.facts", {})
        with pytest.raises(ProvisionFailed, match="no rsync on this host"):
            transport.push(source, NAMES, "/tmp/pushed")


def test_a_host_that_was_never_trusted_is_refused_with_its_fingerprint(
    known: Known, home: HomePaths, source: Path
) -> None:
    host = known("workstation")
    (shown,) = pinned_keys(home)["armada-workstation"]
    with closing(connect(host, home)) as transport:
        unpin(home, host.name)
        with pytest.raises(HostKeyChanged, match="no key is pinned"):
            transport.push(source, NAMES, "/tmp/unpinned")
    with pytest.raises(HostKeyChanged, match="no key is pinned") as caught:
        connect(host, home)
    assert shown.fingerprint in caught.value.message
    assert caught.value.hint == "armada hosts trust workstation"


def test_a_changed_host_key_blocks_new_connections_and_rsync_s_alike_until_it_is_trusted(
    known: Known, home: HomePaths, fleet: Fleet, source: Path
) -> None:
    with fleet.borrow("a100-2") as machine:
        host = known(machine.name)
        (before,) = pinned_keys(home)["armada-a100-2"]
        with closing(connect(host, home)) as transport:
            machines.rekey(machine)
            (after,) = scan(resolve(host), home)
            end_connections(host.name, home)  # a shared one was made under the former key, and goes on
            with pytest.raises(HostKeyChanged) as from_push:
                transport.push(source, NAMES, "/tmp/changed")
        with pytest.raises(HostKeyChanged) as from_connect:
            connect(host, home)
        for caught in (from_connect, from_push):
            assert before.fingerprint in caught.value.message
            assert after.fingerprint in caught.value.message
            assert "armada hosts trust a100-2" in str(caught.value.hint)
        pin(home, host.name, [after])
        with closing(connect(host, home)) as transport:
            transport.push(source, NAMES, "/tmp/changed")


def test_a_wrong_port_and_a_host_that_is_down_are_said_plainly(known: Known, home: HomePaths, fleet: Fleet) -> None:
    workstation = fleet.host("workstation")
    wrong = known("workstation", name="wrong", ssh=workstation.target)
    pinned = dataclasses.replace(wrong, ssh=f"{workstation.user}@{workstation.address}:9")
    with pytest.raises(HostUnreachable, match="nothing listens") as caught:
        connect(pinned, home)
    assert type(caught.value) is HostUnreachable
    assert caught.value.host == "wrong"
    with pytest.raises(HostUnreachable, match="not a host name or address"):
        connect(dataclasses.replace(wrong, ssh="x@no-such-host.invalid"), home)
    with fleet.borrow("a100-2") as machine:
        host = known(machine.name)
        machines.kill(machine)
        with pytest.raises(HostUnreachable):
            connect(host, home)


def test_a_host_that_takes_the_connection_and_says_nothing_is_given_up(
    known: Known, home: HomePaths, fleet: Fleet
) -> None:
    with fleet.borrow("a100-2") as machine:
        host = known(machine.name)
        machines.send(machine, signal.SIGSTOP)
        try:
            with pytest.raises(HostUnreachable, match="did not answer in time"):
                connect(host, home, deadline_s=2)
        finally:
            machines.send(machine, signal.SIGCONT)


def test_another_service_on_the_port_is_no_ssh_server(
    home: HomePaths, fleet: Fleet, known: Known, bad_link: PutBadLink
) -> None:
    host = known("workstation")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):  # the test is over and the socket closed
                while True:
                    connection, _ = server.accept()
                    connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        port = server.getsockname()[1]
        with pytest.raises(HostUnreachable, match="does not answer like an SSH server"):
            connect(dataclasses.replace(host, ssh=f"u@127.0.0.1:{port}"), home, deadline_s=2)
        server.shutdown(socket.SHUT_RDWR)


def test_a_wrong_key_file_is_named(known: Known, home: HomePaths, tmp_path: Path, fleet: Fleet) -> None:
    host = known("workstation")
    stranger, locked, text = tmp_path / "stranger", tmp_path / "locked", tmp_path / "text"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(stranger)], check=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-N", "secret", "-f", str(locked)], check=True)
    text.write_text("not a key")
    for identity, words, hint in (
        (stranger, f"it refused {stranger}", "authorized_keys"),
        (locked, f"{locked} is protected by a passphrase", f"ssh-add {locked}"),
        (text, f"unusable: {text}", "authorized_keys"),
        (tmp_path / "missing", f"not there: {tmp_path}/missing", "authorized_keys"),
    ):
        with pytest.raises(AuthenticationFailed) as caught:
            connect(dataclasses.replace(host, identity=identity), home)
        assert words in caught.value.message
        assert hint in str(caught.value.hint)


@pytest.mark.parametrize("named_by", ["SSH_AUTH_SOCK", "IdentityAgent"])
@pytest.mark.parametrize("public_half", ["beside it", "in the private file alone"])
def test_a_key_with_a_passphrase_works_from_an_agent(
    known: Known,
    home: HomePaths,
    tmp_path: Path,
    fleet: Fleet,
    ssh_config: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: Path,
    there: str,
    named_by: str,
    public_half: str,
) -> None:
    host = known("workstation")
    key, sock = tmp_path / "locked", tmp_path / "agent.sock"
    key.write_bytes(machines.IDENTITY.read_bytes())
    key.chmod(0o600)
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(sock)], stdout=subprocess.DEVNULL)
    try:
        while not sock.exists():
            assert agent.poll() is None
        subprocess.run(["ssh-add", "-q", str(key)], check=True, env={**os.environ, "SSH_AUTH_SOCK": str(sock)})
        if public_half == "beside it":
            (tmp_path / "locked.pub").write_bytes(machines.IDENTITY.with_suffix(".pub").read_bytes())
        subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(key)], check=True)
        host = dataclasses.replace(host, identity=key)
        if named_by == "SSH_AUTH_SOCK":
            monkeypatch.setenv("SSH_AUTH_SOCK", str(sock))
        else:
            ssh_config.write_text(f'Host *\n  IdentityAgent "{sock}"\n{ssh_config.read_text()}')
        with closing(connect(host, home)) as transport:
            transport.push(source, ["plain"], there)
    finally:
        agent.terminate()
        agent.wait()


def test_hops_and_keys_may_stand_in_included_files(
    known: Known, home: HomePaths, fleet: Fleet, ssh_config: Path, source: Path, there: str, tmp_path: Path
) -> None:
    fleet.host("workstation")
    folder = tmp_path / "conf d"
    folder.mkdir()
    (folder / "lab").write_text(
        f"Host lab\n  HostName 127.0.1.2\n  Port 50022\n  User root\n  ProxyJump gate\n  IdentityFile {machines.IDENTITY}\n"
        f"Host gate\n  HostName 127.0.1.1\n  User researcher\n  IdentityFile {machines.IDENTITY}\n"
    )
    ssh_config.write_text(f'Include "{folder}/*"\n')
    host = known("a100-1", name="included", ssh="lab", identity=False)
    assert set(pinned_keys(home)) == {"armada-included", "armada-included+hop1"}
    with closing(connect(host, home)) as transport, Agent.open(transport, home) as agent:
        assert agent.call("host.facts", {})["hostname"] == "a100-1"
        transport.push(source, ["plain"], there)
    assert fleet.run("a100-1", f"cat {there}/plain") == (source / "plain").read_text()


def test_a_host_with_an_ipv6_address_is_reached(
    known: Known, home: HomePaths, fleet: Fleet, source: Path, there: str
) -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as free:
            port = free.getsockname()[1]
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    fleet.host("workstation")
    config = f"/run/sshd-{port}.conf"
    own = f"Port {port}\nListenAddress ::1\nPidFile /run/sshd-{port}.pid\n"
    fleet.run("workstation", f"grep -v -e ^Port -e ^ListenAddress /etc/ssh/sshd_config > {config}; cat >> {config}",
              stdin=own.encode())  # fmt: skip
    fleet.run("workstation", f"/usr/sbin/sshd -f {config}")
    eventually(lambda: fleet.run("workstation", f"cat /run/sshd-{port}.pid 2>/dev/null || true"))  # it listens then
    try:
        host = known("workstation", name="six", ssh=f"researcher@[::1]:{port}")
        with closing(connect(host, home)) as transport, Agent.open(transport, home) as agent:
            assert agent.call("host.facts", {})["hostname"] == "workstation"
            transport.push(source, ["plain"], there)
        unpin(home, host.name)
        with pytest.raises(HostKeyChanged, match=rf"no key is pinned for researcher@\[::1\]:{port}"):
            connect(host, home)
    finally:
        fleet.run("workstation", f"kill $(cat /run/sshd-{port}.pid)")


def test_two_hops_with_users_of_their_own_each_under_its_pinned_key(
    known: Known, home: HomePaths, fleet: Fleet, ssh_config: Path, source: Path, there: str
) -> None:
    for name in ("workstation", "a100-1"):
        fleet.host(name)
    inner = machines.MACHINES["a100-2"].address
    ssh_config.write_text(f"Host inner\n  HostName {inner}\n  Port 50022\n  User root\n"
                          f"  ProxyJump workstation,a100-1\n{ssh_config.read_text()}")  # fmt: skip
    ssh_config.write_text(ssh_config.read_text().replace("Host workstation a100-1", "Host inner workstation a100-1"))
    with fleet.borrow("a100-2"):
        host = known("a100-2", name="far", ssh="inner", identity=False)
        assert set(pinned_keys(home)) == {"armada-far", "armada-far+hop1", "armada-far+hop2"}
        with closing(connect(host, home)) as transport, Agent.open(transport, home) as agent:
            assert agent.call("host.facts", {})["hostname"] == "a100-2"
            transport.push(source, NAMES, there)
        assert fleet.run("a100-2", f"cat {there}/plain") == (source / "plain").read_text()
        keys = pinned_keys(home)
        (target,) = keys["armada-far"]
        swapped = [type(target)("armada-far+hop2", target.algorithm, target.blob)]
        pin(home, "far", [*keys["armada-far"], *keys["armada-far+hop1"], *swapped])
        with pytest.raises(HostKeyChanged, match=r"jump host root@127\.0\.1\.2:50022"):
            connect(host, home)
        pin(home, "far", scan(resolve(host), home))  # what `hosts trust` does
        assert pinned_keys(home) == keys
        connect(host, home).close()


def test_a_hop_that_cannot_reach_the_host_is_named(
    known: Known, home: HomePaths, fleet: Fleet, ssh_config: Path
) -> None:
    host = known("workstation", name="far")
    ssh_config.write_text(
        f"Host inner\n  HostName {machines.MACHINES['a100-2'].address}\n  Port 9\n  ProxyJump workstation\n{ssh_config.read_text()}"
    )
    keys = pinned_keys(home)["armada-far"]
    pin(home, "far", [*keys, *(type(key)("armada-far+hop1", key.algorithm, key.blob) for key in keys)])
    with pytest.raises(HostUnreachable, match="from the hop before it"):
        connect(dataclasses.replace(host, ssh="inner"), home)


def test_a_machine_with_several_keys_shows_the_kind_that_is_pinned(
    known: Known, home: HomePaths, fleet: Fleet, source: Path
) -> None:
    with fleet.borrow("a100-2") as machine:
        host = known(machine.name)
        (ed25519,) = pinned_keys(home)["armada-a100-2"]
        fleet.run(machine.name, "ssh-keygen -A && kill -HUP 1")
        eventually(lambda: machines.shown_key(machine, "rsa"), "sshd to have read its keys anew")
        rsa = fleet.run(machine.name, "cat /etc/ssh/ssh_host_rsa_key.pub").split()
        pinned = type(ed25519)("armada-a100-2", rsa[0], rsa[1])
        try:
            pin(home, host.name, [pinned])
            assert scan(resolve(host), home) == [pinned]
            with closing(connect(host, home)) as transport:
                transport.push(source, ["plain"], "/tmp/pushed")
            unpin(home, host.name)
            assert scan(resolve(host), home) == [ed25519]
        finally:
            fleet.run(machine.name, "rm /etc/ssh/ssh_host_[re][sc]* && kill -HUP 1")
            eventually(lambda: not machines.shown_key(machine, "rsa"), "sshd to have forgotten them")
