"""What threads of the dashboard tell its event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.tui.curves import CurveUpdate
    from armada.tui.operations import Answer, Ended
    from armada.tui.snapshot import Snapshot


class Seen(Message):
    """A message from the watcher's thread to the event loop."""

    def __init__(self, snapshot: Snapshot, updates: tuple[CurveUpdate, ...]) -> None:
        super().__init__()
        self.snapshot = snapshot
        self.updates = updates


class OperationEnded(Message):
    """A command that the dashboard started has ended."""

    def __init__(self, ended: Ended, then: Callable[[Ended], None] | None = None) -> None:
        super().__init__()
        self.ended = ended
        self.then = then


class Answered(Message):
    """A command has answered a request of a screen."""

    def __init__(self, answer: Answer, then: Callable[[Answer], None]) -> None:
        super().__init__()
        self.answer = answer
        self.then = then
