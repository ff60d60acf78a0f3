"""Connect to a host: directly on this machine, or by SSH. Only this package imports Fabric."""

from __future__ import annotations

from armada.paths import HomePaths
from armada.transport.interface import Channel, HostLike, ProgressCallback, Pull, Transport, root_of

__all__ = ["Channel", "HostLike", "ProgressCallback", "Pull", "Transport", "connect", "root_of"]


def connect(host: HostLike, home: HomePaths, deadline_s: float = 30.0) -> Transport:
    """Connect to a host.

    Args:
        host: The host's configuration.
        home: The folders with the pinned keys and the generated SSH configurations.
        deadline_s: How long connecting may take, all jump hosts and retries together, in seconds.

    Raises:
        HostUnreachable: The host does not answer in time.
        HostKeyChanged: Its key is not the pinned one, or none is pinned.
        AuthenticationFailed: It accepts none of our keys, or (LoginNeeded) a person has to log in first.
        ConfigError: Its SSH configuration cannot be used.
    """
    if host.local:
        from armada.transport.local import LocalTransport

        return LocalTransport(host)
    if host.transport == "openssh":
        from armada.transport.openssh_transport import connect_openssh

        return connect_openssh(host, home, deadline_s=deadline_s)
    from armada.transport.fabric_transport import connect_fabric

    return connect_fabric(host, home, deadline_s=deadline_s)
