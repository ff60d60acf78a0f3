"""Make a name for a new host out of its address."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

    from armada.transport.ssh.resolve import Destination


def name_of(place: Destination, taken: Container[str]) -> str:
    """Make a name of an address: `203.0.113.7-50022`, `gpu-1`, and `gpu-1-2` where that is taken.

    Args:
        place: The address.
        taken: Names that it must not get.
    """
    try:
        base = str(ipaddress.ip_address(place.host))
    except ValueError:
        base = place.host.partition(".")[0]
        if base == "ssh" and place.user:  # ssh.runpod.io is everybody's; the user is the box
            base = place.user
    port = f"-{place.port}" if place.port not in (None, 22) else ""
    base = re.sub(r"[^A-Za-z0-9_.-]+", "-", base).strip("-_.")[:40] or "host"
    first = f"{base}{port}"
    names = (first, *(f"{first}-{number}" for number in range(2, 1000)))
    return next(name for name in names if name not in taken)
