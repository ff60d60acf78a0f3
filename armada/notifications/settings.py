"""Read `notifications.yaml`, next to hosts.yaml: who gets which messages.

urls: ["ntfy://my-topic", "mailto://me:secret@example.org"]
desktop: true
on: [run_finished, run_failed, run_resumed, run_stalled, sync_failing, disk_soon_full, budget_reached, host_stop]
sync_failing_hours: 2
disk_full_hours: 12
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from armada.config.documents import read_private_document
from armada.config.settings import FilledText, Settings, problem
from armada.config.validation import validate

if TYPE_CHECKING:
    from armada.paths import HomePaths

Kind = Literal[
    "run_finished",
    "run_failed",
    "run_resumed",
    "run_stalled",
    "sync_failing",
    "disk_soon_full",
    "budget_reached",
    "host_stop",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def _address(url: str) -> str:
    if not _SCHEME.match(url):
        raise problem("must be an apprise URL such as ntfy://my-topic", hint="see apprise's list of services")
    return url


def _addresses(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class NotificationSettings(Settings):
    """The whole file. Without the file, no notifications are sent."""

    other_names: ClassVar[dict[str, str]] = {"url": "urls", "services": "urls", "events": "on", "kinds": "on"}

    urls: Annotated[
        tuple[Annotated[FilledText, AfterValidator(_address)], ...], Field(strict=False), BeforeValidator(_addresses)
    ] = ()
    """Destinations in apprise's form, or one alone. They contain passwords: only the owner may read the file, and no
    error quotes it."""
    desktop: bool = False
    """Show desktop notifications on this machine."""
    on: Annotated[tuple[Kind, ...], Field(strict=False)] = KINDS
    sync_failing_hours: Annotated[float, Field(gt=0)] = 2.0
    disk_full_hours: Annotated[float, Field(gt=0)] = 12.0
    """Send `disk_soon_full` when a host's disk is expected to be full within this many hours."""


def load_settings(home: HomePaths) -> NotificationSettings | None:
    """Read the file; return None if there is none.

    Raises:
        ConfigError: The file is invalid. The message has none of its values: it goes to the log and onto screens.
    """
    if not home.notifications_file.exists():
        return None
    return validate(read_private_document(home.notifications_file), NotificationSettings)
