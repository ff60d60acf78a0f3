from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from armada.transport.ssh.sockets import open_socket


def test_a_socket_answers_quickly_and_notices_a_dead_link() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        open_socket("127.0.0.1", server.getsockname()[1], family="inet", timeout_s=5) as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 3
        if sys.platform == "linux":
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 25_000


def test_the_family_that_was_asked_for_is_used() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises((ConnectionRefusedError, socket.gaierror)):
        open_socket("127.0.0.1", server.getsockname()[1], family="inet6", timeout_s=5)


def test_reading_the_command_line_imports_no_ssh_library() -> None:
    program = (
        "import sys, armada.rpc.client, armada.transport.ssh.resolve, armada.transport.ssh.host_keys, armada.transport.local; "
        "print([name for name in sys.modules if name.split('.')[0] in ('fabric', 'invoke', 'paramiko', 'cryptography')])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
