"""The checks of a plan as text: what failed first, with its remedy, then warnings, then how many passed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from armada.foundation.sanitize import sanitize_text
from armada.tui.widgets import frame
from armada.tui.widgets.marked_text import MarkedText
from armada.tui.widgets.text_scroll import TextScroll

if TYPE_CHECKING:
    from armada.tui.planned import HostPlan
    from armada.tui.symbols import Symbols

_LABEL = 9


class PlanText(TextScroll):
    """Shows the plan for one host, or what is missing for one."""

    def __init__(self, symbols: Symbols, *, id: str) -> None:  # noqa: A002
        self._body = MarkedText(id=f"{id}-text")
        super().__init__(self._body, id=id, classes=frame.FRAME)
        self._symbols = symbols
        self._plan: HostPlan | None = None
        self._head = ""
        self.lists_passed = False

    def say(self, words: str, style: str = "") -> None:
        """Show a text instead of a plan; it may be any text. Of errors, each line has its sign."""
        self._plan = None
        if style == "error":
            bad = self.app.theme_variables.get("text-error", "")
            shown = Table.grid(padding=(0, 1, 0, 0))
            shown.add_column(width=2, justify="right")
            shown.add_column(overflow="fold", ratio=1)
            for line in words.splitlines():
                shown.add_row(Text(self._symbols.states["failed"], bad), self._text(line, bad))
            self._body.update(shown)
        else:
            self._body.update(Padding(self._text(words, "dim"), (0, 1)))
        frame.facts(self, "")

    def show_plan(self, plan: HostPlan, head: str) -> None:
        """Show a plan, and above it the key to press or why there is none."""
        self._plan, self._head = plan, head
        self._draw()

    def renew(self) -> None:
        """Draw the plan again, in the colours of the theme."""
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
        head = Text.assemble((f"{self._symbols.text(self._head)}", "bold"))
        if plan.step:
            head.append(self._symbols.text(f" · {plan.step}"))
        above = Table.grid()
        above.add_column(width=1)
        above.add_column(ratio=1)
        above.add_row("", head)
        self._body.update(Group(above, self._checks(plan), Text(), self._facts(plan)))
        failed, warned = len(plan.failed), len(plan.warned)
        counts = [f"{failed} failed"] if failed else []
        counts += [f"{warned} to read"] if warned else []
        counts += [f"{len(plan.passed)} passed"] if plan.checks else []
        frame.facts(self, " · ".join(counts))

    def _checks(self, plan: HostPlan) -> Table:
        """Return what failed, what is to be read, and what passed, each text beside its code."""
        symbols, text = self._symbols, self._text
        bad, warn, good = (self.app.theme_variables.get(f"text-{role}", "") for role in ("error", "warning", "success"))
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(width=2, justify="right")
        grid.add_column()
        grid.add_column(overflow="fold", ratio=1)
        if plan.error:
            grid.add_row(Text(symbols.states["failed"], bad), "", text(plan.error, bad))
            if plan.hint:
                grid.add_row("", "", text(f"→ {plan.hint}"))
        for checks, sign, style in (
            (plan.failed, symbols.states["failed"], bad),
            (plan.warned, symbols.attention, warn),
        ):
            for check in checks:
                words = text(check.message, style if checks is plan.failed else "")
                grid.add_row(text(sign, style), text(check.code, style), words)
                if check.hint:
                    grid.add_row("", "", text(f"→ {check.hint}"))
        if plan.passed:
            sign = symbols.opened if self.lists_passed else symbols.closed
            count = text(f"{len(plan.passed)} passed", good)
            grid.add_row(text(sign, good), count, Text("" if self.lists_passed else "enter lists them", "dim"))
            for check in plan.passed if self.lists_passed else ():
                grid.add_row("", text(check.code, "dim"), text(check.message, "dim"))
        return grid

    def _facts(self, plan: HostPlan) -> Table:
        """Return what is planned, by its name."""
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(width=_LABEL, justify="left")
        grid.add_column(overflow="fold", ratio=1)
        facts = {
            "memory": plan.memory,
            "time": f"{plan.time}; from {plan.said}" if plan.time else plan.said,
            "cost": plan.cost if plan.time else "",
            "queue": plan.queue,
            "disk": plan.disk,
            "to send": plan.send,
            "command": plan.command,
        }
        for label, words in facts.items():
            if words:
                grid.add_row(Text(f" {label}", "dim"), self._text(words))
        return grid

    def _text(self, words: str, style: str = "") -> Text:
        return Text(self._symbols.text(sanitize_text(words, 8000)), style)
