"""Read `notifications.yaml`, beside hosts.yaml: who gets which messages.

urls: ["ntfy://my-topic", "mailto://me:secret@example.org"]
desktop: true
on: [run_finished, run_failed, run_resumed, run_stalled, sync_failing, disk_soon_full, budget_reached]
sync_failing_hours: 2
disk_full_hours: 12
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field

from armada.config.documents import read_document, shown
from armada.config.settings import FilledText, Settings, problem
from armada.config.validation import validate

if TYPE_CHECKING:
    from armada.paths import HomePaths

Kind = Literal[
    "run_finished", "run_failed", "run_resumed", "run_stalled", "sync_failing", "disk_soon_full", "budget_reached"
]
KINDS: tuple[Kind, ...] = get_args(Kind)


def _address(url: str) -> str:
    if "://" not in url:
        raise problem(
            f"must be an apprise URL such as ntfy://my-topic, not {shown(url)}", hint="see apprise's list of services"
        )
    return url


class NotificationSettings(Settings):
    """The whole file. Without it no notifications are sent."""

    other_names: ClassVar[dict[str, str]] = {"url": "urls", "services": "urls", "events": "on", "kinds": "on"}

    urls: Annotated[tuple[Annotated[FilledText, AfterValidator(_address)], ...], Field(strict=False)] = ()
    """Where to, as apprise writes it; they hold passwords, so the file is for its owner alone."""
    desktop: bool = False
    """A bubble on this machine's screen."""
    on: Annotated[tuple[Kind, ...], Field(strict=False)] = KINDS
    sync_failing_hours: Annotated[float, Field(gt=0)] = 2.0
    disk_full_hours: Annotated[float, Field(gt=0)] = 12.0
    """`disk_soon_full` is told when a host's disk is foreseen to be full within so many."""


def load_settings(home: HomePaths) -> NotificationSettings | None:
    """Read the file; None where there is none.

    Raises:
        ConfigError: It is wrong.
    """
    if not home.notifications_file.exists():
        return None
    return validate(read_document(home.notifications_file), NotificationSettings)
