"""Options of `armada hosts add` and `armada hosts set` that say what a host is, and the settings they stand for."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from armada.costs.price import MOST
from armada.errors import NotFound, UsageError
from armada.foundation.user_folder import expanded

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from armada.config.hosts import Host
    from armada.paths import HomePaths

SCHEDULERS = ("direct", "slurm", "htcondor")
TRANSPORTS = ("fabric", "openssh")
TARGET = "user@address:port, a name from your ssh_config, or a whole ssh command in quotes: 'ssh -p 50022 root@…'"

_NAMES = "letters, digits, `-`, `_` and `.`, and a letter or digit first: armada hosts add a100-1 user@address:port"
_EXAMPLES = {
    "root": "--root /scratch/me/armada",
    "price_per_hour": "--price 12.40",
    "price": "--price '12.40 EUR'",
    "since": "--price '12.40 EUR' --price-since 2026-06-01",
    "budget": "--price '12.40 EUR' --budget '100 EUR'",
    "stop_when_idle": "--stop-when-idle 30m --stop-command 'vastai stop instance 123'",
    "stop_command": "--stop-when-idle 30m --stop-command 'vastai stop instance 123'",
}


def add_settings(parser: argparse.ArgumentParser, *, defaults: bool) -> None:
    """Add the options for settings.

    Args:
        parser: The command's.
        defaults: Whether the help names what holds without the option.
    """

    def default(words: str) -> str:
        return f" (default: {words})" if defaults else ""

    parser.add_argument("--profile", metavar="NAME", help=f"GPU profile of the machine{default('chosen by its GPUs')}")
    parser.add_argument("--identity", type=Path, metavar="FILE", help="Private key to log in with")
    parser.add_argument("--root", metavar="PATH", help=f"armada's folder on the host{default('~/.armada')}")
    parser.add_argument(
        "--price", metavar="PER_HOUR", help="Price per hour: 12.40 (dollars), '12.40 EUR', '2.50 EUR per gpu'"
    )
    parser.add_argument(
        "--budget", metavar="MONEY", help="What the host may cost, '100 EUR': then its runs are stopped"
    )
    parser.add_argument(
        "--stop-when-idle", metavar="SPAN", help="With --stop-command: idle for so long (30m), the daemon runs that"
    )
    parser.add_argument(
        "--stop-command",
        metavar="COMMAND",
        help="Your own command that stops the host, run here, without a shell, once `hosts release` says that nothing is lost",
    )
    parser.add_argument(
        "--scheduler",
        choices=SCHEDULERS,
        help="What starts runs there: armada itself (direct), Slurm or HTCondor" + default("direct"),
    )
    parser.add_argument(
        "--environments-from",
        metavar="HOST",
        help="Host that builds the Python environments and sends them: for a host that reaches no package index",
    )
    parser.add_argument(
        "--transport",
        choices=TRANSPORTS,
        help="openssh: use your ssh program and keep one connection open for everything" + default("fabric"),
    )
    parser.add_argument(
        "--reuse-only",
        action="store_true",
        default=None,
        help="With --transport openssh: only `armada hosts connect` opens the connection (sites with one-time codes)",
    )


def given_settings(options: argparse.Namespace, target: str | None, home: HomePaths) -> dict[str, object]:
    """Return the settings that a command line names, by their keys in hosts.yaml.

    Args:
        options: What `add_settings` added.
        target: An address, or a line of ssh.
        home: Where profiles are.

    Raises:
        UsageError: A word cannot be what it is meant as.
        NotFound: There is no such profile.
    """
    from armada.config.hosts import load_hosts
    from armada.config.profiles import load_profile

    source = options.environments_from
    if source is not None and source not in (known := load_hosts(home, Path.cwd())):
        raise NotFound(f"no host is called {source!r}", hint=f"known: {', '.join(known)}")
    if options.profile:
        load_profile(options.profile, home)  # a name nobody knows is said now, not at the first launch
    settings: dict[str, object] = {
        **(given_target(target, options.identity) if target is not None else {}),
        "profile": options.profile,
        "root": options.root,
        "scheduler": options.scheduler,
        "environments_from": source,
        **_given_price(options.price),
        "budget": options.budget,
        "stop_when_idle": options.stop_when_idle,
        "stop_command": options.stop_command,
        "transport": options.transport,
        "reuse_only": options.reuse_only,
    }
    if options.identity is not None:
        settings["identity"] = _checked_identity(options.identity)
    return {key: value for key, value in settings.items() if value is not None}


def _given_price(text: str | None) -> dict[str, object]:
    """A bare number is dollars for the box, under the key that it always had.

    Raises:
        UsageError: No hour costs that.
    """
    if text is None:
        return {}
    try:
        dollars = float(text)
    except ValueError:
        return {"price": text}
    if not 0 <= dollars <= MOST:
        raise UsageError(f"--price {text}: an hour costs from 0 to {MOST:,.0f} dollars", hint="--price 12.40")
    return {"price_per_hour": dollars}


def one_price(known: Host, settings: dict[str, object], since: str | None = None) -> None:
    """Have a new price replace the former one, or follow it.

    Args:
        known: The host as configured.
        settings: What was given; changed in place.
        since: From when the new price is valid; the former prices stay valid before that.

    Raises:
        UsageError: There is no new price, or no such time.
    """
    if since is not None:
        _follow(known, settings, since)
    if settings.get("price_per_hour") is not None and known.price:
        settings["price"] = None
    elif "price" in settings and known.price_per_hour is not None:
        settings["price_per_hour"] = None
    elif settings.get("price_per_hour", 0) is None and known.price:
        settings["price"] = None


def _follow(known: Host, settings: dict[str, object], since: str) -> None:
    from datetime import datetime

    new = settings.pop("price", None) or settings.pop("price_per_hour", None)
    if new is None:
        raise UsageError("--price-since says from when --price is valid, and needs it", hint="--price '12.40 EUR'")
    if since == "now":
        since = datetime.now().astimezone().isoformat(timespec="seconds")
    former: list[object] = [each.model_dump(exclude_none=True) for each in known.price]
    if known.price_per_hour is not None:
        former = [{"price": f"{known.price_per_hour:.12f}".rstrip("0").rstrip(".")}]
    settings["price"] = [
        *former,
        {"price": f"{new:.12f}".rstrip("0").rstrip(".") if isinstance(new, float) else new, "since": since},
    ]


def given_target(target: str, identity: Path | None = None) -> dict[str, object]:
    """Return the settings that an address or a line of ssh stands for.

    Args:
        target: As pasted.
        identity: A private key that counts instead of the one that the line names.

    Raises:
        UsageError: It is no address, or names no private key.
    """
    from armada.config.ssh_line import read_ssh_line

    line = read_ssh_line(target)
    key = identity or line.identity
    return {"ssh": line.target, **({"identity": _checked_identity(key)} if key is not None else {})}


def checked_host(make: Callable[[], Host], example: str) -> Host:
    """Make a host of the command line's words.

    Args:
        make: Makes it.
        example: A right command, for the hint.

    Raises:
        UsageError: A word cannot be what it is meant as.
    """
    from pydantic import ValidationError

    try:
        return make()
    except ValidationError as error:
        first = error.errors()[0]
        key = (first.get("ctx") or {}).get("key")
        where = ".".join(str(part) for part in (*first["loc"], *([key] if key else []))) or "host"
        right = _EXAMPLES.get(where.rpartition(".")[2])
        hint = _NAMES if where == "name" else " ".join(filter(None, (example, right)))
        raise UsageError(f"{where}: {first['msg']}", hint=hint) from None


def _checked_identity(given: Path) -> Path:
    """Return the absolute path of a private key; refuse a file that no program would log in with.

    Raises:
        UsageError: It is no file, the public half of a key, or others can read it.
    """
    from armada.transport.ssh.authentication import exposed_words, is_exposed

    path = expanded(given)
    if not path.is_file():
        raise UsageError(f"{given} is no file", hint="--identity takes a private key, such as ~/.ssh/id_ed25519")
    with path.open("rb") as stream:
        head = stream.read(100)
    if head.startswith((b"ssh-", b"ecdsa-", b"sk-")):
        private = path.with_suffix("") if path.suffix == ".pub" else None
        hint = f"--identity {private}" if private is not None else "the private key has the same name without .pub"
        raise UsageError(f"{path} is a public key; --identity needs the private key", hint=hint)
    if is_exposed(path):
        raise UsageError(exposed_words(path), hint=f"chmod 600 {shlex.quote(str(path))}")
    return path.absolute()
