"""Begin a launch: the screen Launch, with its first field in focus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.tui.screens.launch import LaunchScreen

if TYPE_CHECKING:
    from armada.tui.app import Dashboard


def begin_launch(board: Dashboard) -> None:
    """Go to Launch, to its first field: letters that are typed then are no keys of the frame that was left."""
    board.action_go("launch")
    view = board.screen
    if isinstance(view, LaunchScreen) and "experiment" in view.fields:
        view.set_focus(view.fields["experiment"])
