"""A field for one line of text, into which no control character comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Input

from armada.foundation.sanitize import without_controls

if TYPE_CHECKING:
    from textual import events


BLINKS = 20
"""So often the cursor appears or disappears after the last key, each half a second; to blink on costs 0.3 % of a core."""


class Field(Input):
    """Drops control characters that are typed, pasted or filled in: a terminal would obey them, and no value has any."""

    _blinks = 0

    def validate_value(self, value: str) -> str:
        return without_controls(value)

    def replace(self, text: str, start: int, end: int) -> None:
        """Replace a part of the text; the cursor stands after what is left of the new one."""
        super().replace(without_controls(text), start, end)

    def _toggle_cursor(self) -> None:
        """Blink for a while; then, and on a screen that nobody sees, stand still: it wakes the program twice a second."""
        self._blinks += 1
        if self.screen.is_active and self._blinks < BLINKS:
            super()._toggle_cursor()
        else:
            self._pause_blink(visible=True)

    def _restart_blink(self) -> None:
        self._blinks = 0
        super()._restart_blink()

    def blink(self) -> None:
        """Blink again: the screen is seen once more."""
        self._restart_blink()

    async def on_key(self, event: events.Key) -> None:
        """Obey the field's own keys in the order in which all came: Textual obeys letters at once, and others later."""
        found = self._bindings.key_to_bindings.get(event.key)
        if found and event.key != "enter":
            event.stop()
            event.prevent_default()
            await self.run_action(found[0].action)
