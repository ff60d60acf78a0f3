"""Facts with labels: all of each where there is room, else what must be in sight is shortened."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.style import Style
from rich.text import Text
from textual.widget import Widget

from armada.tui import heat
from armada.tui.widgets.marked_text import Markable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from textual.geometry import Size

    from armada.tui.symbols import Symbols
    from armada.tui.widgets.table import Span

LABEL = 12
"""Cells of a label."""
EDGES = 4
"""Columns of a frame and its padding."""
STYLES = ("plain", "strong", "dim", "good", "warn", "bad", "accent", "faint", *heat.STYLES)


class Fact(NamedTuple):
    """A line of the overview.

    Attributes:
        label: Its name.
        words: What it says; a style may be several names.
        part: The part of the screen that says it better, if that has a place.
        is_key: It must be in sight, if in one line.
        is_long: It is the first to take more lines, if there are.
    """

    label: str
    words: tuple[Span, ...]
    part: str = ""
    is_key: bool = False
    is_long: bool = False


class FactLines(Markable):
    """Facts below each other; its parent scrolls it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"fact--{name}" for name in STYLES}
    DEFAULT_CSS = """
    FactLines { height: auto; color: $foreground; }
    FactLines > .fact--strong { text-style: bold; }
    FactLines > .fact--dim { color: $text-muted; }
    FactLines > .fact--good { color: $text-success; }
    FactLines > .fact--warn { color: $text-warning; }
    FactLines > .fact--bad { color: $text-error; }
    FactLines > .fact--accent { color: $text-accent; }
    FactLines > .fact--faint { color: $frame; }
    """ + heat.css_of("FactLines", "fact")

    def __init__(self, symbols: Symbols) -> None:
        super().__init__()
        self.symbols = symbols
        self.facts: Sequence[Fact] = ()
        self.elsewhere: Collection[str] = ()
        """Parts that have a place of their own now."""
        self._folded: dict[tuple[Fact, int], list[Text]] = {}

    def show(self, facts: Sequence[Fact]) -> None:
        """Show these facts; they are laid out anew only if they need another number of lines."""
        if facts != self.facts:
            before, self.facts = self._count(), facts
            self.refresh(layout=before != self._count())

    def leave_out(self, elsewhere: Collection[str]) -> None:
        """Leave out what other parts say."""
        if set(elsewhere) != set(self.elsewhere):
            self.elsewhere = elsewhere
            self.refresh(layout=True)

    def lines_at(self, width: int) -> int:
        """Return how many lines the facts have in full in a frame, without those that may be elsewhere."""
        return sum(len(self._fold(each, width - EDGES)) for each in self.facts if not each.part)

    def keys_at(self, width: int) -> int:
        """Return how many lines must be in sight in a frame, without those that may be elsewhere."""
        keys = [each for each in self.facts if each.is_key and not each.part]
        return len(keys) + any(each.is_long and len(self._fold(each, width - EDGES)) > 1 for each in keys)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del viewport
        return max(1, sum(map(len, self._chosen(width, container.height))))

    def notify_style_update(self) -> None:
        self._folded.clear()
        super().notify_style_update()

    def render(self) -> Text:
        height = self.parent.size.height if isinstance(self.parent, Widget) else self.size.height
        lines = [line for lines in self._chosen(self.size.width, height) for line in lines]
        return Text("\n", no_wrap=True).join(lines)

    def _count(self) -> int:
        height = self.parent.size.height if isinstance(self.parent, Widget) else self.size.height
        return sum(map(len, self._chosen(self.size.width, height)))

    def _chosen(self, width: int, height: int) -> list[list[Text]]:
        """Return the lines of each fact: in full if all of them fit, else those that must be in sight shortened."""
        facts = [each for each in self.facts if each.part not in self.elsewhere]
        folded = [self._fold(each, width) for each in facts]
        if sum(map(len, folded)) <= height:
            return folded
        spare, most = height - sum(each.is_key for each in facts), {}
        for place in sorted(range(len(facts)), key=lambda place: not facts[place].is_long):
            more = min(len(folded[place]) - 1, max(0, spare)) if facts[place].is_key else 0
            most[place] = 1 + more
            spare -= more
        return [
            self._short(lines, most[place], width) if facts[place].is_key else lines
            for place, lines in enumerate(folded)
        ]

    def _short(self, lines: list[Text], most: int, width: int) -> list[Text]:
        if len(lines) <= most:
            return lines
        last = lines[most - 1].copy()
        last.truncate(max(1, width - 2), overflow="crop")
        last.rstrip()
        return [*lines[: most - 1], last.append(self.symbols.cut)]

    def _fold(self, fact: Fact, width: int) -> list[Text]:
        """Return a fact's lines; a long one continues under its beginning."""
        if (known := self._folded.get((fact, width))) is not None:
            return known
        if len(self._folded) > 500:  # ages change each second
            self._folded.clear()
        text, label = self.symbols.text, LABEL + 2 if width >= 2 * LABEL else 0  # else it stands before the words
        before = [(text(f"{fact.label} "), self._style("dim"))] if fact.label and not label else []
        value = Text.assemble(*before, *((text(words), self._style(style)) for words, style in fact.words if words))
        folded = list(value.wrap(self.app.console, max(1, width - label - 1), overflow="fold")) or [Text()]
        lines = []
        for number, line in enumerate(folded):
            name = text(fact.label) if not number else ""
            lines.append(Text.assemble((f" {name:<{LABEL}} " if label else "", self._style("dim")), line))
        self._folded[fact, width] = lines
        return lines

    def _style(self, names: str) -> Style:
        return Style.combine(self.get_component_rich_style(f"fact--{name}", partial=True) for name in names.split())
