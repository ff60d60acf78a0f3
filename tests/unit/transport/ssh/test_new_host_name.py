"""The names that new hosts get."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armada.config.hosts import HOST_NAME
from armada.transport.ssh.new_host_name import name_of
from armada.transport.ssh.resolve import Destination, parse_destination


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("root@203.0.113.7:50022", "203.0.113.7-50022"),
        ("ubuntu@203.0.113.7", "203.0.113.7"),
        ("ubuntu@203.0.113.7:22", "203.0.113.7"),
        ("me@[2001:db8::1]:7", "2001-db8-1-7"),
        ("root@ssh5.vast.example:22041", "ssh5-22041"),
        ("abc-123@ssh.runpod.io", "abc-123"),
        ("ssh.example.org", "ssh"),
        ("ubuntu@ec2-203-0-113-7.eu-central-1.compute.amazonaws.com", "ec2-203-0-113-7"),
        ("gpu_1", "gpu_1"),
        ("me@_weird,näme_", "weird-n-me"),
        ("taken", "taken-3"),
        ("local", "local-2"),
        ("auto", "auto-2"),
    ],
)
def test_a_name_tells_the_address(target: str, name: str) -> None:
    assert name_of(parse_destination(target), {"auto", "local", "taken", "taken-2"}) == name


@given(st.text(min_size=1), st.none() | st.text(), st.none() | st.integers(1, 65535))
def test_a_name_is_always_valid(host: str, user: str | None, port: int | None) -> None:
    assert HOST_NAME.fullmatch(name_of(Destination(host, user, port), {"host", "local"}))
