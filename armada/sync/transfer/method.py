"""Choose how a host's checkpoints are fetched: by rsync, or by the verified stream. Decided here, and nowhere else."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from armada.errors import RsyncUnusable
from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import mapping
from armada.sync.transfer.streams import TARGET_BYTES_PER_S, WINDOW_BYTES
from armada.transport.rsync.program import OLDEST, check_here

if TYPE_CHECKING:
    from collections.abc import Mapping

Method = Literal["rsync", "stream"]
Setting = Literal["auto", "rsync", "stream"]

_NUMBERS = re.compile(r"(\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True, slots=True)
class Choice:
    """The method, and the reason as a clause for the user."""

    method: Method
    reason: str


def choose_transfer(
    setting: Setting,
    *,
    round_trip_s: float,
    is_local: bool = False,
    shares_limit: bool = False,
    trouble: str | None = None,
    streams: int | str = "auto",
) -> Choice:
    """Choose the method.

    Args:
        setting: `sync.transfer` of the run.
        round_trip_s: The host's round trip, in seconds.
        is_local: The host is this machine.
        shares_limit: hosts.yaml limits the bandwidth, which all transfers share.
        trouble: Why rsync cannot be used, on either machine, as far as known.
        streams: `sync.streams` of the run.
    """
    if setting == "stream":
        return Choice("stream", "set by sync.transfer")
    if shares_limit:
        return Choice("stream", "bwlimit in hosts.yaml is shared by all transfers, which rsync cannot do")
    if setting == "rsync":
        return Choice("rsync", "set by sync.transfer")
    if is_local:
        return Choice("stream", "the host is this machine")
    if trouble is not None:
        return Choice("stream", trouble)
    if streams != "auto":
        return Choice("stream", f"set by sync.streams: {streams}")
    wanted = math.ceil(TARGET_BYTES_PER_S * round_trip_s / WINDOW_BYTES)
    if wanted > 1:
        return Choice("stream", f"a round trip takes {round_trip_s * 1000:.0f} ms: several connections carry more")
    return Choice("rsync", f"a round trip takes {round_trip_s * 1000:.1f} ms: one connection fills the link")


def trouble_here() -> str | None:
    """Return why this machine's rsync cannot be used, or None."""
    try:
        check_here()
    except RsyncUnusable as error:
        return error.message
    return None


def trouble_there(facts: Mapping[str, Any] | None) -> str | None:
    """Return why a host's rsync cannot be used, according to its facts; None if no reason is known."""
    tools = mapping((facts or {}).get("tools"))
    if "rsync" not in tools:
        return None
    version = tools["rsync"]
    if not version:
        return "the host has no rsync"
    found = _NUMBERS.match(str(version))
    if found is not None and (int(found[1]), int(found[2])) < OLDEST:
        return f"the host's rsync {sanitize_line(version, 20)} is older than 3.1"
    return None
