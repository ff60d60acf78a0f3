"""The screens, one module for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.tui.app import Dashboard
    from armada.tui.screens.view import View


def screen_of(place: str, board: Dashboard) -> View:
    """Create the screen of a place. Each is imported when first shown, so that the first paint does not wait for it."""
    if place == "run":
        from armada.tui.screens.run import RunScreen

        return RunScreen(board.chosen or "")
    if place == "hosts":
        from armada.tui.screens.hosts import HostsScreen

        return HostsScreen()
    if place == "sync":
        from armada.tui.screens.sync import SyncScreen

        return SyncScreen()
    if place == "launch":
        from armada.tui.screens.launch import LaunchScreen

        return LaunchScreen()
    from armada.tui.screens.compare import CompareScreen

    return CompareScreen()
