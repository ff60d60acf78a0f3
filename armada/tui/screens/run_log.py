"""The log page of a run: which copy is shown, how old it is, and the keys that search it, jump in it and choose a rank."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.text import Text
from textual import work
from textual.worker import get_current_worker

from armada.tui import logs
from armada.tui.log_file import LogFile
from armada.tui.log_places import HOW
from armada.tui.rank_lines import RankLines, ranks_in
from armada.tui.screens.chooser import Choice, Chooser
from armada.tui.screens.view import View
from armada.tui.widgets import frame

if TYPE_CHECKING:
    from pathlib import Path

    from textual.widgets import Static

    from armada.tui.snapshot import RunRow
    from armada.tui.widgets.log_view import LogView

ALL_RANKS = "all"


class LogPage(View):
    """The actions of the log's keys."""

    run_id: str
    shown: str
    log_view: LogView
    age: Static
    _follower: logs.Follower | None
    _old: str
    """How old the log is; empty while it is followed."""
    _rank: int | None = None
    """The only rank whose lines are shown."""
    _is_searching = False
    """Lines of that rank are searched far from the end."""

    @property
    def row(self) -> RunRow | None:
        raise NotImplementedError

    def action_tab(self, tab: str) -> None:
        raise NotImplementedError

    def action_search(self) -> None:
        raise NotImplementedError

    def _open_field(self, what: str, hint: str, value: str) -> None:
        raise NotImplementedError

    def _say_tabs(self) -> None:
        raise NotImplementedError

    def _draw_log(self, row: RunRow) -> None:
        run, view = row.run, self.log_view
        reason = self._follower.reason if self._follower is not None else ""
        path = logs.at_home(self.board.home, run, local=run.host == "local")
        if self._follower is not None:
            path = self._follower.path if self._follower.is_started else path
            empty = f"armada logs: {reason}" if reason else f"asking {row.host} …"
        elif path is not None:
            empty = "nothing printed yet"
        elif self.board.read_only:
            empty = "its log is not at home, and --read-only fetches nothing"
        else:
            empty = logs.why_none(run)
        file = None
        if path is not None:
            file = LogFile(path) if self._rank is None else RankLines(path, self._rank)
            if self._rank is not None:
                searched = "searching for a line of" if self._is_searching else "no line of"
                empty = f"{searched} rank {self._rank}{' …' if self._is_searching else ' here'}"
        view.grows = not run.ended and not reason
        follower = self._follower
        is_whole = not follower.partial if follower is not None and path == follower.path else None
        is_whole = logs.is_whole(self.board.home, run.run_id, path) if is_whole is None else is_whole
        view.numbers = view.numbers._replace(offered=True, is_whole=is_whole)
        view.show(file, empty=empty, continues=self._is_copied(path))
        self._say_age(row, path, reason)

    def _is_copied(self, path: Path | None) -> bool:
        """Whether the log to show is followed and begins with all of the one that is shown."""
        follower, last = self._follower, self.log_view.file
        is_followed = follower is not None and path == follower.path and not follower.partial
        return is_followed and last is not None and logs.is_whole(self.board.home, self.run_id, last.path)

    def _say_age(self, row: RunRow, path: Path | None, reason: str) -> None:
        """Show how old the log is, unless it is being followed; `reason` says why following it failed, if it did."""
        follower, words = self._follower, ""
        is_live = follower is not None and not reason and row.run.unreachable_since is None
        nothing_came = follower is not None and self.log_view.file is not None and self.log_view.file.size == 0
        if path is not None and not is_live and not nothing_came:
            sync = self.snapshot.syncs.get(self.run_id)
            words = logs.age_of_copy(self.board.home, row.run, path, sync, reason or None, time.time())
        self._old = words
        self.age.set_class(bool(reason) or row.run.unreachable_since is not None, "needs-you")
        self._say_place()

    def _fetch_log(self) -> None:
        row, follower = self.row, self._follower
        if row is None or self.board.read_only:
            return
        if follower is not None:
            if not follower.has_ended or (row.run.ended and follower.trouble is None):
                return
            follower.stop()  # it has failed, or the run was resumed
            self._follower = None
        copy = logs.at_home(self.board.home, row.run, local=row.run.host == "local")
        if copy is None or (row.run.host != "local" and not row.run.ended):
            self._follower = logs.Follower(self.board.home, self.run_id)
            self._start_following(self._follower)

    @work(thread=True, group="follow", exit_on_error=False)
    def _start_following(self, follower: logs.Follower) -> None:
        """Copy what is at home, up to 64 MB, and follow it: on a slow disk that takes seconds."""
        follower.start()
        self.app.call_from_thread(self._show_followed, follower)

    def _show_followed(self, follower: logs.Follower) -> None:
        if self.is_attached and self._follower is follower and self.shown == "log":
            self.take()

    def on_log_view_looked(self) -> None:
        self._say_place()

    def _say_place(self) -> None:
        """Write into the frame which part of the log is visible, and whether its beginning is missing; else above it."""
        text = self.board.symbols.text
        partial = self._follower is not None and self._follower.partial and self.log_view.file is not None
        frame.title(self.log_view, text("Log · its end; the next sync brings all of it" if partial else "Log"))
        frame.facts(self.log_view, text(self.log_view.place))
        place = "" if frame.is_drawn(self.log_view) else self.log_view.place
        words = " · ".join(each for each in (place, self._old) if each)
        self.age.display = self.shown == "log" and bool(words)  # an empty text would take a line
        wraps = self.age.has_class("needs-you")  # why no newer lines come may name a long path
        self.age.update(Text(text(words), no_wrap=not wraps), layout=wraps)

    def _ask_log(self, what: str, hint: str) -> None:
        """Open the text field for a search or a jump in the log."""
        if self.shown != "log":
            self.action_tab("log")
        self._open_field(what, hint, "")

    def _opens(self, tab: str) -> bool:
        """Open the page that a key belongs to; return whether another one was visible. The key then does nothing else."""
        if self.shown == tab:
            return False
        self.action_tab(tab)
        return True

    def action_jump(self) -> None:
        if not self._opens("log"):
            self._ask_log("jump", HOW)

    def action_search_on(self, back: bool) -> None:
        if self.shown != "log" or not self.log_view.word:
            self.action_search()
        else:
            self.log_view.search_on(back=back)

    def _end_search(self) -> None:
        """Mark no word any more."""
        view = self.log_view
        view.workers.cancel_group(view, "seek")
        view.word = ""
        view.follow()

    def action_wrap(self) -> None:
        if not self._opens("log"):
            self.log_view.toggle_wrap()

    def action_numbers(self) -> None:
        if not self._opens("log"):
            self.log_view.toggle_numbers()

    def action_rank(self) -> None:
        """Choose the rank whose lines are shown, or all."""
        if self._opens("log"):
            return
        log = self.log_view.file
        ranks = ranks_in(log) if log is not None else []
        if not ranks and self._rank is None:
            self.notify("no line here names its rank, as [rank3]: does", severity="warning", markup=False)
            return
        choices = [Choice(ALL_RANKS, "all", "the whole log"), *(Choice(str(rank), f"rank {rank}") for rank in ranks)]
        chooser = Chooser("Lines of which rank?", choices, self.board.symbols)
        self.board.push_screen(chooser, self._show_rank)

    def _show_rank(self, chosen: str | None) -> None:
        if chosen is None:
            return
        self._rank = int(chosen) if chosen.isdecimal() else None
        self._is_searching = False
        self.take()
        log = self.log_view.file
        if isinstance(log, RankLines) and not self.log_view.picture:
            self._is_searching = True
            self._search_rank(log)
            self.take()

    @work(thread=True, exclusive=True, group="rank", exit_on_error=False)
    def _search_rank(self, log: RankLines) -> None:
        """Find the last line of a rank, which then is remembered: of a large log, this takes seconds."""
        worker = get_current_worker()
        log.search_last(lambda: worker.is_cancelled or self.log_view.file is not log)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._end_rank_search, log)

    def _end_rank_search(self, log: RankLines) -> None:
        if self.is_attached and self.log_view.file is log:
            self._is_searching = False
            self.take()
            if self.log_view.following:
                self.log_view.action_last()
