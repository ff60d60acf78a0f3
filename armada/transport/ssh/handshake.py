"""Open SSH connections with Fabric: socket, host key, keys to offer and deadlines are set explicitly."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import fabric
import paramiko
from paramiko.ssh_exception import AuthenticationException, BadHostKeyException, SSHException

from armada.errors import HostUnreachable
from armada.transport.deadline import Deadline, growing_pauses
from armada.transport.ssh.authentication import OfferedKeys
from armada.transport.ssh.host_keys import HostKey, PinnedKeys, pinned_keys
from armada.transport.ssh.login import Login
from armada.transport.ssh.refusals import Refusal, explain
from armada.transport.ssh.sockets import open_socket

if TYPE_CHECKING:
    from armada.paths import HomePaths
    from armada.transport.ssh.resolve import HostSpec

# Without a handler, Paramiko's tracebacks would be printed to the user's terminal.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

# sshd's default MaxStartups (10:30:100) drops handshakes from the eleventh on; other users log in too.
_HANDSHAKES_PER_ADDRESS = 4
_slots: defaultdict[tuple[str, int], threading.BoundedSemaphore] = defaultdict(
    lambda: threading.BoundedSemaphore(_HANDSHAKES_PER_ADDRESS)
)
_slots_lock = threading.Lock()

_TCP_TIMEOUT_S, _BANNER_TIMEOUT_S, _AUTH_TIMEOUT_S, CHANNEL_TIMEOUT_S = 10.0, 15.0, 20.0, 15.0
_SIGNATURES = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}  # one type of key, several signature algorithms
_T = TypeVar("_T")


def connect_chain(spec: HostSpec, pinned: PinnedKeys, *, deadline_s: float) -> list[fabric.Connection]:
    """Connect to every hop in turn and through them to the host; the last connection is the host's.

    Raises:
        HostUnreachable: Or a subclass, naming the machine that failed.
    """
    deadline = Deadline(deadline_s)
    chain: list[fabric.Connection] = []
    try:
        for machine in (*spec.hops, spec):
            chain.append(_connect(machine, chain, pinned.get(machine.alias, ()), deadline, host=spec.name))
    except BaseException:
        close_chain(chain)
        raise
    return chain


def close_chain(chain: Sequence[fabric.Connection]) -> None:
    """Close connections, the farthest first."""
    for connection in reversed(chain):
        connection.close()


def scan(spec: HostSpec, home: HomePaths, deadline_s: float = 30.0) -> list[HostKey]:
    """Fetch the keys that a host, and every hop on the way, show now. Nothing is pinned or compared.

    Reaching a host behind hops requires logging in at each hop, with the key that it just showed. If a key is pinned,
    the same type of key is requested.

    Raises:
        HostUnreachable: A machine does not answer, or a hop refuses the login.
    """
    pinned, deadline, host = pinned_keys(home), Deadline(deadline_s), spec.name
    chain: list[fabric.Connection] = []
    keys: list[HostKey] = []
    try:
        for machine in (*spec.hops, spec):
            shown = _shown_key(machine, chain, pinned.get(machine.alias, ()), deadline, host=host)
            keys.append(shown)
            if machine is not spec:
                chain.append(_connect(machine, chain, [shown], deadline, host=host))
    finally:
        close_chain(chain)
    return keys


def _connect(
    machine: HostSpec, chain: Sequence[fabric.Connection], known: Sequence[HostKey], deadline: Deadline, *, host: str
) -> fabric.Connection:
    def attempt(refusal: Refusal) -> fabric.Connection:
        way = _open_way(machine, chain, deadline)
        with contextlib.closing(OfferedKeys(machine)) as refusal.keys:
            connection = _hardened(machine, way, known, refusal, deadline)
            try:
                connection.open()
            except BaseException:
                connection.client.close()
                raise
        return connection

    return _persist(attempt, machine, known, deadline, host=host)


def _shown_key(
    machine: HostSpec, chain: Sequence[fabric.Connection], known: Sequence[HostKey], deadline: Deadline, *, host: str
) -> HostKey:
    def attempt(_: Refusal) -> HostKey:
        transport = paramiko.Transport(_open_way(machine, chain, deadline))
        options = transport.get_security_options()
        wanted = {algorithm for key in known for algorithm in _SIGNATURES.get(key.algorithm, (key.algorithm,))}
        # A machine may have several keys: another type than the pinned one would look like a changed key.
        options.key_types = sorted(options.key_types, key=lambda algorithm: algorithm not in wanted)
        transport.banner_timeout = deadline.remaining_s(_BANNER_TIMEOUT_S)
        try:
            transport.start_client(timeout=deadline.remaining_s(_BANNER_TIMEOUT_S))
            key = transport.get_remote_server_key()
        finally:
            transport.close()
        return HostKey(alias=machine.alias, algorithm=key.get_name(), blob=key.get_base64())

    return _persist(attempt, machine, (), deadline, host=host)


def _persist(
    attempt: Callable[[Refusal], _T], machine: HostSpec, known: Sequence[HostKey], deadline: Deadline, *, host: str
) -> _T:
    """Retry, after growing random pauses, if sshd was too busy to send its version."""
    pauses = growing_pauses()
    while True:
        refusal = Refusal(machine, known)
        try:
            with _slot(machine, deadline):
                return attempt(refusal)
        except (SSHException, AuthenticationException, BadHostKeyException, OSError, EOFError) as error:
            refusal.error = error
        pause_s = next(pauses)
        if not refusal.is_busy or not deadline.has_room_for(pause_s):
            raise explain(refusal, host=host) from refusal.error
        time.sleep(pause_s)


@contextlib.contextmanager
def _slot(machine: HostSpec, deadline: Deadline) -> Iterator[None]:
    with _slots_lock:
        slot = _slots[machine.hostname, machine.port]
    if not slot.acquire(timeout=deadline.remaining_s(deadline.seconds)):
        raise HostUnreachable("too many connections to it are being made at once", host=machine.name)
    try:
        yield
    finally:
        slot.release()


def _open_way(machine: HostSpec, chain: Sequence[fabric.Connection], deadline: Deadline) -> Any:
    """Open a socket to a machine, or a channel through the last hop that acts as one."""
    if not chain:
        timeout_s = deadline.remaining_s(_TCP_TIMEOUT_S)
        return open_socket(machine.hostname, machine.port, family=machine.address_family, timeout_s=timeout_s)
    return chain[-1].transport.open_channel(
        "direct-tcpip", (machine.hostname, machine.port), ("", 0), timeout=deadline.remaining_s(_TCP_TIMEOUT_S)
    )


def _hardened(
    machine: HostSpec, way: Any, known: Sequence[HostKey], refusal: Refusal, deadline: Deadline
) -> fabric.Connection:
    """Build a Fabric connection that reads no configuration files and accepts only the pinned keys.

    Fabric itself verifies no host keys (AutoAddPolicy, fabric #2071) and waits an hour for a channel (fabric #2197).
    """
    config = fabric.Config(
        ssh_config=paramiko.SSHConfig(),
        lazy=True,
        overrides={"load_ssh_configs": False, "authentication": {"strategy_class": refusal.keys}},
    )
    connection = fabric.Connection(
        machine.hostname,
        user=machine.user,
        port=machine.port,
        config=config,
        gateway=False,
        forward_agent=False,
        connect_timeout=int(deadline.remaining_s(_BANNER_TIMEOUT_S)) or 1,
        connect_kwargs={
            "sock": way,
            "banner_timeout": deadline.remaining_s(_BANNER_TIMEOUT_S),
            "auth_timeout": deadline.remaining_s(_AUTH_TIMEOUT_S),
            "channel_timeout": CHANNEL_TIMEOUT_S,
            "transport_factory": Login,
        },
    )
    connection.client.set_missing_host_key_policy(refusal)
    _trust(connection.client.get_host_keys(), machine, known)
    return connection


def _trust(keys: paramiko.HostKeys, machine: HostSpec, known: Sequence[HostKey]) -> None:
    # Paramiko looks keys up by address. A known key makes it request that algorithm, as OpenSSH does.
    name = machine.hostname if machine.port == 22 else f"[{machine.hostname}]:{machine.port}"
    for key in known:
        entry = paramiko.hostkeys.HostKeyEntry.from_line(f"{name} {key.algorithm} {key.blob}")
        if entry is not None and entry.key is not None:
            keys.add(name, key.algorithm, entry.key)
