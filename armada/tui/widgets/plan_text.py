"""The checks of a plan as text: what failed first, with its remedy, then warnings, then how many passed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.widgets import Static

from armada.foundation.sanitize import sanitize_text
from armada.tui.widgets import frame
from armada.tui.widgets.text_scroll import TextScroll

if TYPE_CHECKING:
    from collections.abc import Iterator

    from armada.tui.planned import Check, HostPlan
    from armada.tui.symbols import Symbols

_LABEL = 11


class PlanText(TextScroll):
    """Shows the plan for one host, or what is missing for one."""

    def __init__(self, symbols: Symbols, *, id: str) -> None:  # noqa: A002
        self._body = Static(id=f"{id}-text")
        super().__init__(self._body, id=id, classes=frame.FRAME)
        self._symbols = symbols
        self._plan: HostPlan | None = None
        self._head = ""
        self._notes: tuple[str, ...] = ()
        self.lists_passed = False

    def say(self, words: str, style: str = "") -> None:
        """Show a text instead of a plan; it may be any text."""
        self._plan = None
        colour = self.app.theme_variables.get("text-error", "") if style == "error" else "dim"
        self._body.update(Text(f" {self._symbols.text(sanitize_text(words, 8000))}", style=colour))
        frame.facts(self, "")

    def show_plan(self, plan: HostPlan, head: str, notes: tuple[str, ...] = ()) -> None:
        """Show a plan.

        Args:
            plan: The plan.
            head: The key to press, or why there is none.
            notes: What to say below; may be any text.
        """
        self._plan, self._head, self._notes = plan, head, notes
        self._draw()

    def toggle_passed(self) -> None:
        """List the checks that passed, or count them."""
        self.lists_passed = not self.lists_passed
        if self._plan is not None:
            self._draw()

    def _draw(self) -> None:
        plan = self._plan
        if plan is None:
            return
        variables = self.app.theme_variables
        styles = {name: variables.get(f"text-{role}", "") for name, role in _ROLES.items()} | {"dim": "dim", "": ""}
        text = Text()
        for words, style in self._parts(plan):
            text.append(self._symbols.text(words), styles.get(style, style))
        self._body.update(text)
        failed, warned = len(plan.failed), len(plan.warned)
        counts = [f"{failed} failed"] if failed else []
        counts += [f"{warned} to read"] if warned else []
        counts += [f"{len(plan.passed)} passed"] if plan.checks else []
        frame.facts(self, " · ".join(counts))

    def _parts(self, plan: HostPlan) -> Iterator[tuple[str, str]]:
        yield f" {self._head}\n", "bold"
        if plan.error:
            yield f" {self._symbols.states['failed']} {plan.error}\n", "bad"
            if plan.hint:
                yield f"   → {plan.hint}\n", ""
        for check in plan.failed:
            yield from self._check(check, self._symbols.states["failed"], "bad")
        for check in plan.warned:
            yield from self._check(check, self._symbols.attention, "warn")
        if plan.passed:
            sign = self._symbols.opened if self.lists_passed else self._symbols.closed
            yield f" {sign} {len(plan.passed)} checks passed", "good"
            yield f"{'' if self.lists_passed else '   enter lists them'}\n", "dim"
            if self.lists_passed:
                for check in plan.passed:
                    yield f"   {check.code} {check.message}\n", "dim"
        facts = {
            "plan": plan.step,
            "memory": plan.memory,
            "time": f"{plan.time}; from {plan.said}" if plan.time else plan.said,
            "cost": plan.cost if plan.time else "",
            "queue": plan.queue,
            "disk": plan.disk,
            "to send": plan.send,
            "command": plan.command,
        }
        yield "\n", ""
        for label, words in facts.items():
            if words:
                yield f" {label:<{_LABEL}}", "dim"
                yield f"{words}\n", ""
        for note in self._notes:
            yield f" {sanitize_text(note, 2000)}\n", "dim"

    def _check(self, check: Check, sign: str, style: str) -> Iterator[tuple[str, str]]:
        yield f" {sign} {check.code} ", style
        yield f"{check.message}\n", style if style == "bad" else ""
        if check.hint:
            yield f"   → {check.hint}\n", ""


_ROLES = {"bad": "error", "warn": "warning", "good": "success", "accent": "accent"}
