"""The dashboard's application: hold the newest snapshot, switch screens, start operations. The screens are in screens/."""

from __future__ import annotations

import asyncio
import gc
from functools import cached_property
from typing import TYPE_CHECKING

from rich.text import Text
from textual import events
from textual.app import App
from textual.widgets import Input

from armada.foundation.sanitize import sanitize_line
from armada.tui import chart_choices, hung_up, isolates, operations, remembered, terminal_input
from armada.tui import theme as themes
from armada.tui.answer_keys import AnswerKeys
from armada.tui.ascii_filter import InAscii
from armada.tui.bindings import bindings
from armada.tui.host_runs import HostRuns
from armada.tui.inverse import undoing
from armada.tui.left_screens import LeftScreens
from armada.tui.lending import heed_signals
from armada.tui.lookout import Lookout
from armada.tui.messages import Answered, OperationEnded, Seen
from armada.tui.screens.runs import RunsScreen
from armada.tui.screens.view import View
from armada.tui.snapshot import EMPTY, Snapshot, has_many_new
from armada.tui.start_folder import start_folder
from armada.tui.symbols import of_terminal
from armada.tui.waiting_acts import WaitingActs
from armada.tui.watcher import Subscription, Watcher
from armada.tui.widgets import frame
from armada.tui.widgets.answers import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from rich.console import RenderableType
    from textual.app import SystemCommand
    from textual.filter import LineFilter
    from textual.message import Message
    from textual.screen import Screen

    from armada.paths import HomePaths
    from armada.tui.commander import Commander
    from armada.tui.screens.host_text import GpuLines
    from armada.tui.snapshot import RunRow

OPEN_FIELDS = frozenset(":/C")
OF_VIEWS = frozenset({"go", "help", "command", "history", "notifications", "undo"})
"""Actions that wait while a window is open."""


class Dashboard(App[None]):
    """One terminal over all hosts.

    Args:
        home: The home whose store is shown.
        read_only: Nothing is started, stopped, fetched or checked; keys that would do so are dim and say why.
        watch: Start a daemon if none watches the hosts.
        first: The runs at the top of the first screen, if they were read already: the first paint shows them.
    """

    TITLE = "armada"
    BINDINGS = bindings("everywhere")
    CSS = f"""
    Screen {{ layout: vertical; overflow: hidden; }}
    Toast {{ max-width: 80%; }}
    VerticalScroll {{ scrollbar-size-vertical: 1; }}
    {frame.CSS}
    """

    def __init__(
        self, home: HomePaths, *, read_only: bool = False, watch: bool = True, first: Snapshot | None = None
    ) -> None:
        super().__init__()
        terminal_input.forgive(self.driver_class)
        self.driver_class = isolates.isolating(self.driver_class)
        self.home = home
        self.folder = start_folder()
        themes.register(self)
        # Before the start: a theme that is set later styles everything twice.
        self.set_reactive(App.theme, themes.of_terminal(remembered.theme(home)))
        self.stylesheet.set_variables(self.get_css_variables())
        self.read_only = read_only
        self._answer_keys = AnswerKeys()
        self._watch = watch
        self.symbols = of_terminal()
        self._ascii = [] if self.symbols.utf8 else [InAscii()]
        self.snapshot: Snapshot = first or EMPTY
        self.chosen: str | None = None
        self.host_runs = HostRuns()
        self.tally = Tally()
        self.left = LeftScreens(self)
        self.charts = chart_choices.of_home(home, writes=not read_only)
        self._lookout, self.last_input_at = Lookout(self), 0.0
        self.waiting = WaitingActs(self)
        self._is_new = True
        """No snapshot was seen yet."""
        self.notified_until = remembered.notified_until(home)
        self._watcher = Watcher(home, lambda snapshot, updates: self._tell(Seen(snapshot, updates)), self.folder)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.USUAL

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *self._ascii]

    def get_default_screen(self) -> Screen[None]:
        return RunsScreen()

    def on_mount(self) -> None:
        gc.disable()  # until the first paint: nothing that is created before becomes garbage
        if self.snapshot is EMPTY:
            self._watcher.start()
        else:  # it would take half of the time of the first paint
            self.call_after_refresh(self._watcher.start)
        self.set_interval(1.0, self._tick)
        themes.say_unknown(self)
        if not (self.is_headless or self.is_web):
            hung_up.watch(asyncio.get_running_loop(), lambda: self.exit(return_code=1))
        if self._watch and not self.read_only:
            self._lookout.start()
        heed_signals(self)  # screens then end the commands that only read

    def is_screen_installed(self, screen: Screen[object] | str) -> bool:
        """Whether a screen that another replaces stays. Textual asks."""
        return self.left.holds(screen) or super().is_screen_installed(screen)

    def make(self, view: View) -> None:
        """Make the widgets of a screen that is not shown yet."""
        self._register(self, view)

    def on_resize(self) -> None:
        self.left.outdate()
        if (view := self._view) is not None and not view.is_active:
            view.fit()

    async def on_event(self, event: events.Event) -> None:
        """Open fields at once: the keys behind `:`, `/` and `C` may have come already, and are meant for them."""
        if isinstance(event, events.InputEvent):
            self.last_input_at = event.time
        if self._answer_keys.holds_back(event, self):
            return
        is_opened = False
        if isinstance(event, events.Key) and event.character in OPEN_FIELDS and not event.is_forwarded:
            is_opened = self._takes_keys and await self._check_bindings(event.key)
        if not is_opened:
            await super().on_event(event)

    @property
    def _takes_keys(self) -> bool:
        """Whether keys are not typed into a field."""
        return isinstance(self.screen, View) and not isinstance(self.focused, Input)

    def on_unmount(self) -> None:
        gc.enable()
        self._watcher.stop()

    # News -----------------------------------------------------------------------------------------------------------

    def _tell(self, message: Message) -> bool:
        """Post a message, from any thread; ignored after the end. Return whether it was posted."""
        return self.is_running and self.post_message(message)

    @property
    def _uppermost(self) -> View | None:
        """The visible screen; windows may be open over it."""
        return next((each for each in reversed(self.screen_stack) if isinstance(each, View)), None)

    @property
    def _view(self) -> View | None:
        """The visible screen, if it can draw: it cannot before it has its widgets (it then draws itself), nor at the very end."""
        view = self._uppermost
        # Textual removes the widgets before the screen when it ends, and a timer may come between.
        return view if view is not None and view.is_mounted and self.is_running else None

    def want(self, wants: Subscription) -> None:
        view = self._uppermost
        self._watcher.want(wants, view.asks_as if view is not None else None)

    def on_seen(self, message: Seen) -> None:
        before, self.snapshot = self.snapshot, message.snapshot
        self._watcher.taken()
        if (view := self._view) is not None:
            with self.batch_update():
                view.take(message.updates)
        if self._is_new and message.snapshot.taken_at and isinstance(self.screen, View):
            self._is_new = False
            self.left.make_ahead()
            self._welcome()
        if has_many_new(before, message.snapshot):
            # These objects stay. Python's garbage collector would scan them again and again: 120 ms with 10,000 runs.
            # It also never frees what else is frozen with them, such as a screen that is closed later.
            gc.freeze()
            gc.enable()

    def _tick(self) -> None:
        if (view := self._view) is not None:
            view.tick()

    def on_operation_ended(self, message: OperationEnded) -> None:
        ended = message.ended
        if self._lookout.take(ended):
            return
        good = ended.exit_code == 0
        self.notify(
            self.symbols.text(ended.words),
            severity="information" if good else "error",
            markup=False,
            timeout=6 if good else 15,
        )
        if message.then is not None:
            message.then(ended)

    def on_answered(self, message: Answered) -> None:
        message.then(message.answer)

    # Navigation -----------------------------------------------------------------------------------------------------

    def action_go(self, place: str) -> None:
        from armada.tui.screens import screen_of

        if place == "runs":
            while len(self.screen_stack) > 1:
                self.pop_screen()
            return
        if not isinstance(self.screen, View):
            return  # a question is open and needs an answer first
        if place == "run" and self._run_meant() is None:
            self.notify("no run under the cursor", severity="warning")
            return
        if isinstance(self.screen, View) and place == self.screen.PLACE:
            return
        while len(self.screen_stack) > 2:
            self.pop_screen()
        if isinstance(self.screen, View) and place == self.screen.PLACE:
            return  # a run was open above it
        made = screen_of(place, self)
        if len(self.screen_stack) > 1:
            self.switch_screen(made)
        else:
            self.push_screen(made)

    def open_run(self, run_id: str | None, tab: str = "overview") -> None:
        if run_id is not None:
            self.chosen = run_id
            from armada.tui.screens import run_screen

            made = run_screen(run_id, self, tab)
            # Escape comes back to these:
            stays = isinstance(self.screen, View) and self.screen.PLACE in ("runs", "hosts", "sync", "compare")
            self.push_screen(made) if stays else self.switch_screen(made)

    def open_launch(self, again: str) -> None:
        """Open Launch, filled from a run."""
        from armada.tui.screens.launch import LaunchScreen

        self.left.forget(LaunchScreen.PLACE)
        made = self.left.open(LaunchScreen, lambda: LaunchScreen(again))
        self.switch_screen(made) if len(self.screen_stack) > 1 else self.push_screen(made)

    def show_runs_of(self, host: str) -> None:
        self.action_go("runs")
        if isinstance(self.screen, RunsScreen):
            self.screen.only_host(host)

    def await_run(self, host: str | None) -> Callable[[], None]:
        """Put the cursor of Runs on the next new run of a host; return what ends the wait."""
        first = self.screen_stack[0]
        return first.await_run(host) if isinstance(first, RunsScreen) else lambda: None

    def _run_meant(self) -> str | None:
        screen = self.screen
        is_list = isinstance(screen, RunsScreen) and screen.table.cursor  # what is under its cursor may be no run
        if isinstance(screen, View) and (is_list or screen.cursor_run is not None):
            self.chosen = screen.cursor_run
        return self.chosen if self.snapshot.row(self.chosen) else None

    @property
    def marked(self) -> list[RunRow]:
        """The runs for Compare: the marked ones, else the one under the cursor; pinned ones first."""
        first = self.screen_stack[0]
        return first.compared() if isinstance(first, RunsScreen) else []

    async def action_back(self) -> None:
        if isinstance(self.screen, View) and self.screen.back():
            return
        if len(self.screen_stack) > 1:
            self.pop_screen()

    def action_help(self) -> None:
        if isinstance(self.screen, View):
            self.show_help(self.screen.PLACE)

    def show_help(self, place: str) -> None:
        """Show all keys, those of a place, or of the window on top, and of what is under the cursor first."""
        from armada.tui.screens.dialog import Dialog
        from armada.tui.screens.help import HelpScreen, keys_of_window, what_is_here

        here = what_is_here(self.screen) if isinstance(self.screen, View) else None
        window = keys_of_window(self.screen) if isinstance(self.screen, Dialog) and not place else ()
        self.push_screen(HelpScreen(place, self.symbols, read_only=self.read_only, here=here, window=window))

    @cached_property
    def commander(self) -> Commander:
        """What the command line can do; created when it is first needed."""
        from armada.tui.commander import Commander

        return Commander(self)

    @cached_property
    def gpu_lines(self) -> GpuLines:
        """The lines of hosts' GPUs, kept from one opening of Hosts to the next."""
        from armada.tui.screens.host_text import GpuLines

        return GpuLines(self.symbols)

    async def action_command(self, text: str = "") -> None:
        from armada.tui.screens.command_line import CommandLine

        await self.push_screen(CommandLine(self.commander, text))  # what is typed at once is meant for it

    def action_history(self) -> None:
        from armada.tui.screens.history import HistoryWindow

        self.push_screen(HistoryWindow())

    def action_notifications(self) -> None:
        from armada.tui.screens.notifications import NotificationsWindow

        self.push_screen(NotificationsWindow())

    def action_undo(self) -> None:
        from armada.tui.screens.history import undo_last

        if not (isinstance(self.screen, View) and self.screen.undo()):
            undo_last(self)

    def _welcome(self) -> None:
        """Show the tour, once in the life of a home, if nothing was done there yet."""
        seen = self.snapshot
        is_empty = not seen.runs and seen.trouble is None and not self.home.hosts_file.exists()
        if is_empty and not self.read_only and not remembered.has_toured(self.home):
            remembered.keep_toured(self.home)
            self.show_tour()

    def ask_word(self, title: str, note: str, value: str, then: Callable[[str | None], None]) -> None:
        """Ask for one line of text, and call `then` with it; None if the user cancels."""
        from armada.tui.screens.prompt import Prompt

        self.push_screen(Prompt(title, note, value, self.symbols), then)

    def show_tour(self) -> None:
        from armada.tui.screens.tour import Tour

        self.push_screen(Tour(self.symbols))

    @property
    def can_suspend(self) -> bool:
        """Whether the terminal can be given to another program."""
        return self._driver is not None and self._driver.can_suspend

    def read_notifications(self) -> None:
        """Remember that all notifications so far were read."""
        newest = max((each.id for each in self.snapshot.told), default=0)
        if newest > self.notified_until:
            self.notified_until = newest
            if not self.read_only:
                remembered.keep_notified_until(self.home, newest)

    @property
    def unread(self) -> int:
        """How many notifications were not read."""
        return sum(each.id > self.notified_until for each in self.snapshot.told)

    def action_next_theme(self) -> None:
        self.choose_theme(themes.after(self.theme))
        self.notify(f"theme {self.theme}", timeout=2)

    def choose_theme(self, name: str) -> None:
        """Set a theme and remember it."""
        self.theme = name
        self.left.outdate()
        if (view := self._view) is not None:
            self.call_after_refresh(view.renew)  # some lines are texts in the colours before
        if not self.read_only:
            remembered.keep_theme(self.home, name)

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Close the dashboard; what still waits is not started, and the terminal, if it is still there, says so."""
        left = Text(self.symbols.text(self.waiting.drop()))
        super().exit(result, return_code, message if return_code else message or left)

    def action_leave(self) -> None:
        self.exit()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Return what the palette offers."""
        from armada.tui.screens.palette import commands

        return commands(self, screen)

    def action_command_palette(self) -> None:
        from armada.tui.screens.palette import Palette

        if not any(isinstance(each, Palette) for each in self.screen_stack):
            self.push_screen(palette := Palette(placeholder="words of its name", id="--command-palette"))
            self.commander.fetch(lambda: palette.look_again() if palette.is_active else None)

    # Actions --------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        return not (action in OF_VIEWS and not isinstance(self.screen, View))

    def refuses(self, what: str) -> bool:
        """Refuse a change under `--read-only`, or while the store is gone, and say why."""
        if self.read_only:
            self.notify(f"{what}: disabled, because this dashboard was started with --read-only", severity="warning")
            return True
        if not self.home.store.exists():  # a command would make it anew, empty
            self.notify(f"{what}: {operations.GONE}", severity="error", markup=False)
            return True
        return False

    def operate(
        self,
        title: str,
        words: Sequence[str],
        ended: Callable[[operations.Ended], None] | None = None,
        *,
        undoes: str | None = None,
    ) -> Path | None:
        """Start an armada command in a separate process; call `ended` when it has ended.

        Args:
            title: Its name for the user.
            words: The arguments after `armada`.
            ended: Called in the event loop.
            undoes: The name of the act that it undoes.

        Returns:
            The file with its output; None if it was refused.
        """
        if self.refuses(title):
            return None
        shown = sanitize_line(title, 200)
        self.notify(self.symbols.text(f"{shown} …"), markup=False, timeout=2)
        undo = undoing(words, self.snapshot.by_id)

        def tell(end: operations.Ended) -> None:
            self._tell(OperationEnded(end, ended))

        return operations.start(self.home, shown, words, tell, undo=undo, undoes=undoes)

    def read(self, words: Sequence[str], then: Callable[[operations.Answer], None]) -> Callable[[], None]:
        """Run an armada command that only reads, and call `then` with its answer; return what ends it earlier."""
        if not self.home.store.exists():
            self.call_later(then, operations.Answer(7, "", operations.GONE))
            return lambda: None

        def tell(answer: operations.Answer) -> None:
            self._tell(Answered(answer, then))

        return operations.ask(words, tell)

    def tell_end(self, ended: operations.Ended) -> None:
        """Take the end of a command that nobody waits for, from any thread."""
        self._tell(OperationEnded(ended))
