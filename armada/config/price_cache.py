"""What hosts cost, without reading hosts.yaml each time: that takes 0.2 s, and `armada ps --cached` has no more."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armada.costs.price import Price
from armada.costs.tariff import Tariff
from armada.errors import ConfigError

if TYPE_CHECKING:
    from armada.paths import HomePaths

_PROJECT_FILE, _LOCAL = "armada.yaml", "local"
"""As `armada.config.hosts` has them, which takes too long to import."""


def read_tariffs(home: HomePaths, project: Path, gpus: dict[str, int]) -> dict[str, Tariff]:
    """Return what the configured hosts cost, by name; nothing if a file is wrong, which other commands say.

    Args:
        home: Whose hosts.yaml is read.
        project: A folder; the hosts of its armada.yaml count, too.
        gpus: How many GPUs each host has, as far as that is known.
    """
    found = {}
    for name, told in _known(home, project)["hosts"].items():
        prices = tuple(Price(*each) for each in told["prices"])
        found[name] = Tariff(prices, gpus.get(name), is_box=told["is_box"])
    return found


def read_names(home: HomePaths, project: Path) -> frozenset[str] | None:
    """Return the names of the configured hosts, with or without a price; None if a file is wrong.

    Args:
        home: Whose hosts.yaml is read.
        project: A folder; the hosts of its armada.yaml count, too.
    """
    names = _known(home, project)["names"]
    return None if names is None else frozenset(names)


def _known(home: HomePaths, project: Path) -> dict[str, Any]:
    """Return `hosts` (those with a price) and `names` (of all) from the cache, which is made anew if a file changed."""
    stamps = [_stamp(file) for file in (home.hosts_file, project / _PROJECT_FILE)]
    if stamps == [None, None]:
        return {"hosts": {}, "names": [_LOCAL]}
    known = _read(home.price_cache, stamps)
    if known is None:
        known = {"stamps": stamps, **_ask(home, project)}
        with contextlib.suppress(OSError):  # a home that cannot be written is asked again each time
            from armada.foundation.atomic_write import write_atomically

            write_atomically(home.price_cache, json.dumps(known), durable=False)
    return known


def _stamp(file: Path) -> list[Any] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return [str(file), found.st_mtime_ns, found.st_size, found.st_ino]


def _read(cache: Path, stamps: list[list[Any] | None]) -> dict[str, Any] | None:
    try:
        told: dict[str, Any] = json.loads(cache.read_text(encoding="utf-8"))
        if told["stamps"] != stamps:
            return None
        if told["names"] is not None:  # an older armada wrote none
            "".join(told["names"])
        for each in told["hosts"].values():
            bool(each["is_box"])
            [Price(*price) for price in each["prices"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return told


def _ask(home: HomePaths, project: Path) -> dict[str, Any]:
    from armada.config.hosts import load_hosts

    try:
        hosts = load_hosts(home, project)
    except ConfigError:
        return {"hosts": {}, "names": None}
    priced = {
        name: {
            "is_box": host.scheduler == "direct",
            "prices": [[price.amount, price.currency, price.per, price.valid_from] for price in host.prices],
        }
        for name, host in hosts.items()
        if host.prices
    }
    return {"hosts": priced, "names": list(hosts)}
