"""The frames of Launch: side by side, or one at a time where the terminal is narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.widgets import Input

from armada.tui.screens.view import View

if TYPE_CHECKING:
    from textual.containers import Horizontal
    from textual.widget import Widget
    from textual.widgets import Static

    from armada.tui.screens.experiment_form import ExperimentForm
    from armada.tui.widgets.host_plans import HostPlans
    from armada.tui.widgets.plan_text import PlanText

PARTS = ("form", "hosts", "plan")
"""The frames, by their ids."""


class LaunchParts(View):
    """The part of Launch that goes from frame to frame; `LaunchScreen` fills them."""

    DEFAULT_CSS = """
    LaunchParts #tabs { height: 1; padding: 0 1; display: none; color: $text-muted; }
    LaunchParts.-narrow #tabs, LaunchParts.-slim #tabs { display: block; }
    LaunchParts.-narrow #form, LaunchParts.-slim #form { display: none; }
    LaunchParts.-narrow #hosts, LaunchParts.-slim #hosts { display: none; }
    LaunchParts.-narrow #plan, LaunchParts.-slim #plan { display: none; }
    LaunchParts.-narrow #right, LaunchParts.-slim #right { display: none; }
    LaunchParts.-narrow .-at-form #form, LaunchParts.-slim .-at-form #form { display: block; }
    LaunchParts.-narrow .-at-hosts #right, LaunchParts.-slim .-at-hosts #right { display: block; }
    LaunchParts.-narrow .-at-plan #right, LaunchParts.-slim .-at-plan #right { display: block; }
    LaunchParts.-narrow .-at-hosts #hosts, LaunchParts.-slim .-at-hosts #hosts { display: block; }
    LaunchParts.-narrow .-at-plan #plan, LaunchParts.-slim .-at-plan #plan { display: block; }
    """

    tabs: Static
    form: ExperimentForm
    hosts: HostPlans
    plan: PlanText
    frames: Horizontal

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, Input] = {}
        self.part = "plan"
        """The frame that a narrow terminal shows."""

    @property
    def changes(self) -> list[str] | None:
        """The changes so far; None while their line is not finished."""
        raise NotImplementedError

    def show_part(self, part: str) -> None:
        """Show a frame: in a narrow terminal they share one place."""
        if part != self.part:
            self.frames.update_classes({f"-at-{self.part}": False, f"-at-{part}": True})
            self.part = part
        self._draw_tabs()

    def action_show_part(self, part: str) -> None:
        self.show_part(part)
        self.call_after_refresh(self._widget(part).focus)

    def action_part(self, by: int) -> None:
        """Go to the next field or frame."""
        order: list[Widget] = [*self.fields.values(), self.form.table, self.hosts, self.plan]
        here = order.index(self.focused) if self.focused in order else -1
        there = order[(here + by) % len(order)]
        for part in PARTS:
            if self._widget(part) is there:
                self.show_part(part)
        self.call_after_refresh(there.focus)

    def _widget(self, part: str) -> Widget:
        return {"form": self.form.table, "hosts": self.hosts, "plan": self.plan}[part]

    @property
    def page(self) -> str:
        return next((part for part in PARTS if self._widget(part) is self.focused), "")

    def back(self) -> bool:
        if isinstance(self.focused, Input) and self.form.is_told:
            self.action_show_part("form")
            return True
        return False

    def _draw_tabs(self) -> None:
        line, listed = Text(no_wrap=True), self.changes
        counts = {"form": f" {len(listed)} changed" if listed else "", "hosts": "", "plan": ""}
        names = {"form": "Experiment", "hosts": "Hosts", "plan": "Checks"}
        for part in PARTS:
            style = "bold underline" if part == self.part else "dim"
            shown = Text(names[part] + counts[part], style)
            shown.apply_meta({"@click": f"screen.show_part('{part}')"})
            line.append_text(shown).append("   ")
        self.tabs.update(line)

    def on_descendant_focus(self) -> None:
        """Show the frame that has the focus: the terminal may become narrow."""
        for part in PARTS:
            if self._widget(part) is self.focused:
                self.show_part(part)
