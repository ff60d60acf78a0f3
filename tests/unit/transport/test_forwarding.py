"""Ports to forward that cannot be meant are refused before a host is asked."""

from __future__ import annotations

import pytest

from armada.cli.main import build_parser
from armada.errors import UsageError


@pytest.mark.parametrize(
    ("ports", "said"),
    [
        (["٣٣"], "is not a port"),
        (["80:٣٣"], "is not a port"),
        (["80:8099", "81:8099"], "port 8099 of this machine is given twice"),
        (["8099", "81:08099"], "port 8099 of this machine is given twice"),
    ],
)
def test_a_wrong_port_is_a_usage_error(ports: list[str], said: str) -> None:
    options = build_parser("forward").parse_args(["forward", "b2", *ports])
    with pytest.raises(UsageError, match=said):
        options.handler(options)
