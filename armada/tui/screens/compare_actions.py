"""What a comparison hands out: the difference of two runs, a picture of the page, a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from armada.errors import ArmadaError
from armada.foundation.sanitize import sanitize_line
from armada.tui.screens.compare_picture import picture_of
from armada.tui.screens.view import View

if TYPE_CHECKING:
    from pathlib import Path

    from armada.tui.screens.compare import CompareScreen
    from armada.tui.screens.compare_text import Compared

PICTURE_PAGES = ("curves", "parallel", "scatter", "pareto")


class Exports(View):
    """The actions of the keys d, E and R."""

    run_ids: list[str]
    shown: str

    @property
    def lit(self) -> Compared | None:
        raise NotImplementedError

    def folder(self) -> Path:
        raise NotImplementedError

    def action_diff(self) -> None:
        """Show how the run under the cursor differs from the pinned one, as `armada diff` prints it."""
        from armada.tui.screens.output import show_output

        lit = self.lit
        if lit is None or len(self.run_ids) < 2:
            self.notify("diff: two runs are needed", severity="warning")
            return
        other = lit.row.id if lit.row.id != self.run_ids[0] else self.run_ids[1]
        show_output(self.board, ["diff", self.run_ids[0], other])

    def action_picture(self) -> None:
        """Write the visible plot as SVG or PNG."""
        if self.board.refuses("picture"):
            return
        if self.shown not in PICTURE_PAGES or not self.run_ids:
            self.notify("picture: press it on curves, parallel, scatter or pareto", severity="warning")
            return
        note = "A name that ends in .svg or .png. A file of that name is not replaced."
        path = str(self.folder() / f"compare-{self.shown}.svg")
        self.board.ask_word("Write a picture of this page to which file?", note, path, self._write_picture)

    def _write_picture(self, word: str | None) -> None:
        from armada.compare.picture import write_picture

        if word is None:
            return
        try:
            path = write_picture(picture_of(cast("CompareScreen", self)), word, self.board.home)
        except ArmadaError as error:
            hint = f"; {error.hint}" if error.hint else ""
            self.notify(sanitize_line(f"{error.message}{hint}", 500), severity="warning", markup=False)
            return
        self.notify(self.board.symbols.text(f"picture written to {sanitize_line(path, 300)}"), markup=False)

    def action_report(self) -> None:
        """Write a report of these runs, as `armada report` does."""
        if self.board.refuses("report") or not self.run_ids:
            return
        note = "It starts armada report. A file of that name is not replaced."
        path = str(self.folder() / "compare.html")
        self.board.ask_word("Write a report of these runs to which file?", note, path, self._write_report)

    def _write_report(self, word: str | None) -> None:
        if word is not None:
            title = f"report to {word}"
            self.board.operate(title, ["report", *self.run_ids, f"--html={word}"])
