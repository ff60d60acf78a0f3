"""Carry out what is typed into the command line: as an operation, in an output pane, or in the terminal itself."""

from __future__ import annotations

import shlex
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, UsageError
from armada.foundation.sanitize import sanitize_line
from armada.tui import operations
from armada.tui.commands import checks, rules
from armada.tui.commands.completion import Known
from armada.tui.commands.registry import Registry, parse
from armada.tui.commands.typed import Selected, Typed, fill_in, understand
from armada.tui.inverse import undoing_edit
from armada.tui.screens.view import View
from armada.tui.waiting_acts import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.tui.app import Dashboard
    from armada.tui.commands.typed import Words
    from armada.tui.snapshot import RunRow

STARTS_RUNS = frozenset({"launch", "prepare", "sweep", "sweep launch"})
"""Commands that make new runs: the cursor of Runs goes to the first one."""
MOST_READ = 20
"""Commands whose outputs one pane shows."""


class Commander:
    """The commands of one dashboard.

    Args:
        board: Shows the results.
    """

    def __init__(self, board: Dashboard) -> None:
        self._board = board
        self.registry: Registry | None = None
        self.trouble: str | None = None
        self._waiting: list[Callable[[], None]] = []
        """What is to be called once the commands are read."""
        self.known = Known()

    # What can be typed ----------------------------------------------------------------------------------------------

    def fetch(self, then: Callable[[], None]) -> None:
        """Read armada's commands, once, in a process of its own; then call `then` in the event loop, for each who waits."""
        if self.registry is not None:
            return
        self._waiting.append(then)
        if len(self._waiting) > 1:
            return

        def take(answer: operations.Answer) -> None:
            self.registry = parse(answer.out) if answer.exit_code == 0 else None
            self.trouble = None if self.registry is not None else f"the commands cannot be read: {answer.said}"
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each()

        self._board.read(["__complete", "commands"], take)

    def find_experiments(self) -> None:
        """Find the experiments that can be completed, once."""
        from armada.tui.experiment_files import experiments

        self.known.experiments = self.known.experiments or experiments()

    def selected(self) -> Selected:
        """Return what the screen below has marked or under its cursor."""
        if (view := self._view) is None:
            return Selected()
        index = self._board.snapshot.by_id
        rows = [row for row in view.concerned() if row.run.run_id in index]
        hosts, sweeps = {row.run.host for row in rows}, {row.run.sweep for row in rows}
        return Selected(
            tuple(row.run.run_id for row in rows),
            tuple(row.run.run_id for row in rows if not row.run.ended),
            view.host_meant,
            next(iter(hosts)) if len(hosts) == 1 else None,
            self._is_run,
            next(iter(sweeps)) if len(sweeps) == 1 else None,
        )

    @property
    def _view(self) -> View | None:
        """The screen below the windows."""
        return next((each for each in reversed(self._board.screen_stack) if isinstance(each, View)), None)

    def _is_run(self, word: str) -> bool:
        index = self._board.snapshot.by_id
        return word in index or any(run_id.startswith(word) for run_id in index)

    def understood(self, text: str) -> tuple[Typed | None, list[Words]]:
        """Return what a line means, and the commands that Enter starts.

        Raises:
            UsageError: It means nothing, cannot be started from here, or lacks an argument.
            NotFound: It names a run or a host that does not exist.
        """
        if self.registry is None:
            raise UsageError(self.trouble or "the commands are being read …")
        typed = understand(text, self.registry)
        if typed is None:
            return None, []
        if (why := rules.refusal(typed)) is not None:
            raise UsageError(why)
        started = fill_in(typed, self.selected())
        if not rules.form(typed):
            checks.check_options(typed)
            checks.check_named(typed, self._board.snapshot)
            checks.check_complete(typed, started[0])
        if len(started) > 1 and rules.manner(typed) == "lent":
            what = f"{typed.command.name}: {len(started):,} runs are selected, and it gets the terminal for one"
            raise UsageError(what, hint="name the run")
        if self._board.read_only:
            started = [rules.from_home_alone(typed, words) for words in started]
        return typed, started

    def shown(self, typed: Typed, words: Words) -> str:
        """Return what Enter does, as the line above the text says it."""
        if (form := rules.form(typed)) is not None:
            return form
        return shlex.join(words if rules.manner(typed) == "own" else ["armada", *words])

    # What Enter does ------------------------------------------------------------------------------------------------

    def carry_out(self, typed: Typed, started: list[Words]) -> None:
        """Carry out a command that was understood."""
        board, how = self._board, rules.manner(typed)
        if board.read_only and rules.changes(typed) and board.refuses(typed.command.name):
            return
        if rules.form(typed) is not None:
            self._open_form(typed.command.name)
        elif how == "own":
            self._own(typed)
        elif how == "lent":
            self._lend(typed, started[0])
        elif how == "reads":
            self._show(started)
        elif how == "prints":
            self._print(started)
        elif rules.asks(typed) and "--where" in typed.flags:
            from armada.tui.screens.matching import Matching

            Matching(board, typed).begin()
        elif not self._as_its_key(typed, started):
            self._act(typed, started)

    def _own(self, typed: Typed) -> None:
        board = self._board
        does: dict[str, Callable[[], object]] = {
            "history": board.action_history,
            "notifications": board.action_notifications,
            "pin": partial(self._pin, typed),
            "quit": board.action_leave,
            "tour": board.show_tour,
            "undo": board.action_undo,
        }
        does[typed.command.name]()

    def _open_form(self, name: str) -> None:
        board = self._board
        if name == "launch":
            from armada.tui.screens.begin_launch import begin_launch

            begin_launch(board)
            return
        from armada.tui.screens.hosts import HostsScreen

        board.action_go("hosts")
        if isinstance(board.screen, HostsScreen):
            board.screen.action_add()

    def _pin(self, typed: Typed) -> None:
        """Pin the named runs, or those of the screen below, on Runs: it is always the first one."""
        from armada.tui.screens.runs import RunsScreen

        first = self._board.screen_stack[0]
        view = next(each for each in reversed(self._board.screen_stack) if isinstance(each, View))
        if not isinstance(first, RunsScreen):
            return
        if typed.given:
            first.pin(self._rows(typed, typed.given) or ())
        else:
            first.action_pin() if view is first else first.pin(view.concerned())

    def _show(self, started: list[Words]) -> None:
        from armada.tui.screens.output import show_output

        window = show_output(self._board, *started[:MOST_READ])
        if window is not None and len(started) > MOST_READ:
            words = f"{len(started)} runs are selected; this shows the first {MOST_READ}"
            window.call_after_refresh(self._board.notify, words, severity="warning")  # else it goes as the window opens

    def _lend(self, typed: Typed, words: Words) -> None:
        """Give the terminal to a command; an edited note goes into the history, as every change of labels does."""
        from armada.tui import acts
        from armada.tui.screens.outside import give_terminal

        board, name = self._board, typed.command.name
        if board.refuses(name):
            return
        whole = checks.with_whole_ids(typed, words, board.snapshot)
        undo = undoing_edit(whole, board.snapshot.by_id) if name == "note" else []
        code = give_terminal(board, words, "a shell" if name == "ssh" else name)
        if code == 0 and name == "note":
            acts.record_done(board.home, _title(words), whole, undo)

    def _print(self, started: list[Words]) -> None:
        from armada.tui import acts
        from armada.tui.screens.output import OutputWindow

        first, *others = started
        log = self._board.operate(_title(first), first)
        if log is None:
            return
        if others:
            self._board.waiting.start([Waiting(_title(words), words) for words in others])
        self._board.push_screen(OutputWindow(first, log, partial(acts.exit_code, log)))

    def _as_its_key(self, typed: Typed, started: list[Words]) -> bool:
        """Carry out a command as the key does that asks better; return whether there is one."""
        name = typed.command.name
        words = started[0][len(typed.command.path) :]
        if typed.flags or len(started[0]) == len(typed.command.path):
            return False
        if name == "hosts release" and len(started) == 1 and len(words) == 1:
            from armada.tui.screens.verdict import ask_release

            ask_release(self._board, words[0])
            return True
        if name == "hosts reap" and len(started) == 1 and len(words) == 1:
            from armada.tui.screens.reap import ask_reap

            ask_reap(self._board, words[0])
            return True
        if name not in ("stop", "resume", "rm"):
            return False
        rows = self._rows(typed, [run_id for each in started for run_id in each[len(typed.command.path) :]])
        if rows is None:
            return False
        hidden = {} if typed.given or (view := self._view) is None else view.out_of_view
        if name == "rm":
            from armada.tui.screens.removal import Removal

            Removal(self._board, rows, hidden).begin()
        else:
            from armada.tui.screens.run_acts import act_on_runs

            act_on_runs(self._board, name, rows, hidden)
        return True

    def _rows(self, typed: Typed, names: Sequence[str]) -> list[RunRow] | None:
        """Return the runs that these words of a command name; None if one names none."""
        try:
            rows = [checks.find_run(typed, name, self._board.snapshot) for name in names]
        except ArmadaError:
            return None
        return list({row.id: row for row in rows}.values())

    def _act(self, typed: Typed, started: list[Words]) -> None:
        board = self._board

        def go(yes: bool | None = True) -> None:
            if yes and not board.refuses(typed.command.name):
                stop_waiting = board.await_run(_host_of(typed)) if typed.command.name in STARTS_RUNS else None

                def ended(end: operations.Ended) -> None:
                    if end.exit_code and stop_waiting is not None:
                        stop_waiting()

                whole = [checks.with_whole_ids(typed, words, board.snapshot) for words in started]
                board.waiting.start(
                    [
                        Waiting(_title(words), rules.confirmed(typed, each), ended)
                        for words, each in zip(started, whole, strict=True)
                    ]
                )

        if not rules.asks(typed):
            go()
            return
        from armada.tui.screens.question import Question

        lines = [shlex.join(["armada", *words]) for words in started]
        note = typed.command.about + ". It starts as typed in a shell."
        board.push_screen(Question(f"{typed.command.name}?", lines, note, typed.command.name, board.symbols), go)


def _host_of(typed: Typed) -> str | None:
    """Return the host that a command names for its runs; None if it names none, several, or lets armada choose."""
    named = [word.removeprefix("--host=") for word in typed.words if word.startswith("--host=")]
    named += [word for flag, word in pairwise(typed.words) if flag == "--host"]
    return named[0] if len(named) == 1 and named[0] != "auto" else None


def _title(words: Words) -> str:
    return sanitize_line(shlex.join(words), 100)
