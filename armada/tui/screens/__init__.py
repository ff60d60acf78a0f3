"""The screens, one module for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.tui.app import Dashboard
    from armada.tui.screens.run import RunScreen
    from armada.tui.screens.view import View


def screen_of(place: str, board: Dashboard) -> View:
    """Return the screen of a place, as it was left or new.

    Each is imported when first shown, so that the first paint does not wait for it.
    """
    if place == "run":
        return run_screen(board.chosen or "", board)
    if place == "hosts":
        from armada.tui.screens.hosts import HostsScreen

        return board.left.open(HostsScreen, HostsScreen)
    if place == "sync":
        from armada.tui.screens.sync import SyncScreen

        return board.left.open(SyncScreen, SyncScreen)
    if place == "launch":
        from armada.tui.screens.launch import LaunchScreen

        return board.left.open(LaunchScreen, LaunchScreen)
    from armada.tui.screens.compare import CompareScreen
    from armada.tui.screens.compare_order import marked_on

    return board.left.open(CompareScreen, CompareScreen, marked_on(board))


def import_all() -> None:
    """Import what the screens need, before one is opened: a third of a first opening."""
    from armada.config.tasks import registry  # noqa: F401
    from armada.monitor import step_times  # noqa: F401
    from armada.protocol.recorded import recorded_spec
    from armada.store import checkpoints, metrics, transitions  # noqa: F401
    from armada.store.queries import step_times as of_store  # noqa: F401
    from armada.tui.screens import compare, hosts, launch, run, sync  # noqa: F401

    recorded_spec({})  # pydantic builds what reads a plan at its first use


def made_ahead() -> tuple[type[View], ...]:
    """Return the screens that can be made before they are opened, the one that is opened most first."""
    from armada.tui.screens import compare, hosts, launch, run, sync

    return run.RunScreen, hosts.HostsScreen, sync.SyncScreen, launch.LaunchScreen, compare.CompareScreen


def run_screen(run_id: str, board: Dashboard, tab: str | None = None) -> RunScreen:
    """Return the screen of a run, at a page; by default at the page where it was left, or the first one."""
    from armada.tui.screens.run import RunScreen

    made = board.left.open(RunScreen, lambda: RunScreen(run_id, tab or "overview"), (run_id,))
    if tab is not None:
        made.turn_to(tab)
    return made
