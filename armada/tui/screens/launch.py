"""Launch: an experiment as a form, the hosts side by side, and the checks of the plan. Nothing starts before `ctrl+l`."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from armada.foundation.sanitize import sanitize_line
from armada.tui import changes, planned
from armada.tui.asking import Asking
from armada.tui.bindings import bindings
from armada.tui.experiment_files import experiments, folder_of
from armada.tui.host_runs import NO_RUNS
from armada.tui.screens import launch_acts as acts
from armada.tui.screens.chooser import Choice, Chooser
from armada.tui.screens.experiment_form import ExperimentForm
from armada.tui.screens.launch_parts import LaunchParts
from armada.tui.watcher import Subscription
from armada.tui.widgets import frame
from armada.tui.widgets.field import Field
from armada.tui.widgets.host_plans import HostPlans
from armada.tui.widgets.plan_text import PlanText

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.timer import Timer
    from textual.widget import Widget

    from armada.tui.curves import CurveUpdate
    from armada.tui.form import Form
    from armada.tui.operations import Answer
    from armada.tui.widgets.table import Table

WAIT_S = 0.5
PRICE_S = 60.0
"""So often another price may be valid, in seconds."""
AUTO = "auto"


class Planned(Message):
    """A plan, or why there is none."""

    def __init__(self, words: tuple[str, ...], answer: Answer) -> None:
        super().__init__()
        self.words = words
        self.answer = answer


class LaunchScreen(LaunchParts):
    """Three fields and three frames.

    Args:
        again: The run whose experiment, host and settings fill the fields.
    """

    PLACE = "launch"
    BINDINGS = bindings("launch")
    DEFAULT_CSS = """
    LaunchScreen .field { height: 1; }
    LaunchScreen .label { width: 14; padding: 0 1; color: $text-muted; }
    LaunchScreen Input { height: 1; border: none; padding: 0 1; background: $boost; width: 1fr; }
    LaunchScreen Input:focus { border: none; background: $accent 20%; }
    LaunchScreen #frames { height: 1fr; }
    LaunchScreen #form { width: 1fr; }
    LaunchScreen #right { width: 1fr; }
    LaunchScreen #hosts { height: 2fr; }
    LaunchScreen #plan { height: 3fr; }
    """

    def __init__(self, again: str | None = None) -> None:
        super().__init__()
        self.again = again
        self._again_from = ""
        """The experiment's file of `again`: another file is no launch of it."""
        self._timer: Timer | None = None
        self._is_new = True
        """The hosts were not read yet."""
        self._told_hosts: tuple[object, ...] = ()
        """From what the hosts were drawn."""
        self._former_host: str | None = None  # of `again`, until the hosts are read
        self._asking = Asking(self._answered)
        self.asked: tuple[str, ...] | None = None
        self.plans = planned.Plans()
        self.ready: tuple[str, ...] | None = None
        self.ready_host = ""

    def body(self) -> Iterable[Widget]:
        symbols = self.board.symbols
        for name, label, more in (
            ("experiment", "experiment", "a YAML file, or quickstart (→ takes the suggestion)"),
            ("host", "host", "its name; local is this machine"),
            ("set", "changes", "train.learning_rate=5e-5 lora.r=128"),
        ):
            self.fields[name] = field = Field(placeholder=more, id=name, max_length=changes.LONGEST)
            yield Horizontal(Static(label, classes="label", markup=False), field, classes="field")
        if not self.is_ahead:  # a large folder takes its time, and nobody has asked yet
            self.fields["experiment"].suggester = SuggestFromList(experiments())
        self.tabs = Static(id="tabs")
        self.tabs.auto_links = False
        yield self.tabs
        self.form = ExperimentForm(symbols, id="form")
        self.hosts = HostPlans(symbols, id="hosts")
        self.hosts.add_class(frame.FRAME)
        self.plan = PlanText(symbols, id="plan")
        right = Vertical(self.hosts, self.plan, id="right")
        self.frames = Horizontal(self.form, right, id="frames", classes=f"-at-{self.part}")
        yield self.frames
        frame.title(self.hosts, "Hosts")

    def on_mount(self) -> None:
        self._draw_tabs()
        self.set_focus(self.fields["experiment"])
        self._say_begin()
        if self.again is not None:
            self.form.read_run(self.again)

    def _say_begin(self) -> None:
        frame.title(self.plan, "Checks")
        self.plan.say(
            "Type an experiment and a host; the plan appears by itself. ^o opens a list, ^l launches, esc goes back.\n"
            "Enter in an empty host field compares all hosts; the host `auto` is the one that ends first."
        )

    def wants(self) -> Subscription:
        return Subscription()

    def draw(self, updates: Sequence[CurveUpdate] = ()) -> None:
        del updates
        if self._is_new and self.snapshot.are_hosts_read and not self.is_ahead:
            self._is_new = False
            self.fields["host"].suggester = SuggestFromList([host.name for host in self.snapshot.hosts])
            only_here = [host.name for host in self.snapshot.hosts] == ["local"]
            if only_here and not self.fields["host"].value and self.again is None:
                self.fields["host"].value = "local"  # the only one; typing replaces it
            if self._former_host is not None:
                self._fill_host(self._former_host)
        self._draw_hosts()

    def renew(self) -> None:
        self._told_hosts = ()
        super().renew()
        self.plan.renew()

    def tick(self) -> None:
        super().tick()
        if self.is_active and self.form.has_changed_on_disk():  # not under a window that edits it
            self._changed()

    # The form -------------------------------------------------------------------------------------------------------

    @property
    def changes(self) -> list[str] | None:
        """The changes so far; None while the line is not finished."""
        return changes.parse(self.fields["set"].value)

    @property
    def experiment(self) -> str:
        return self.fields["experiment"].value.strip()

    @property
    def _is_sweep(self) -> bool:
        return self.form.form is not None and self.form.form.cells is not None

    def on_experiment_form_wanted(self, event: ExperimentForm.Wanted) -> None:
        self.fields["set"].value = changes.line(event.wanted)

    def on_experiment_form_loaded(self, event: ExperimentForm.Loaded) -> None:
        if event.is_run:
            self._fill(event.found)
        elif self.plans.hosts:
            self._draw_plan()  # now it is known whether it is a sweep
        self._draw_tabs()

    def _fill(self, found: Form) -> None:
        """Fill the fields from the run that is launched again."""
        path, here = Path(found.path), self.board.folder
        self.fields["set"].value = changes.line(found.changes)
        self._again_from = str(path.relative_to(here) if here is not None and path.is_relative_to(here) else path)
        self.fields["experiment"].value = self._again_from
        if self.snapshot.are_hosts_read:
            self._fill_host(found.host or "")
        else:
            self._former_host = found.host or ""
        for note in found.notes:
            self._tell(note, good=True)
        self.action_show_part("form")

    def _fill_host(self, name: str) -> None:
        """Fill in the host of the run that is launched again, unless another one was typed meanwhile."""
        self._former_host = None
        if self.fields["host"].value:
            return
        if any(host.name == name and host.configured for host in self.snapshot.hosts):
            self.fields["host"].value = name
        elif self.snapshot.config_trouble:
            self._tell(f"{name}, its host, is not among the hosts known now: {self.snapshot.config_trouble}")
        else:
            self._tell(f"{name}, its host, is not in hosts.yaml any more; choose another")

    def action_open(self) -> None:
        """Edit the setting, unfold the section, take the host, or list what passed."""
        if self.focused is self.hosts and self.hosts.cursor is not None:
            self.fields["host"].value = self.hosts.cursor
        elif self.focused is self.plan:
            self.plan.toggle_passed()
        elif self.focused is self.form.table:
            self.form.open()

    def on_table_chosen(self, event: Table.Chosen) -> None:
        event.stop()
        self.action_open()

    def action_unfold(self, is_open: bool) -> None:
        """Open or close the section under the cursor."""
        if self.focused is self.form.table:
            self.form.unfold(is_open=is_open)

    def action_undo_change(self) -> None:
        """Take the change of the setting under the cursor away."""
        self.form.undo()

    def action_difference(self) -> None:
        if self._has_experiment():
            acts.show_difference(self.board, self.experiment, self.changes or [])

    def action_save(self) -> None:
        experiment, written = self.experiment, self.changes or []

        def saved(name: str) -> None:
            if self.is_attached and self.experiment == experiment:  # another one may have been typed meanwhile
                if (listed := self.changes) is not None:
                    self.fields["set"].value = changes.line([each for each in listed if each not in written])
                self.fields["experiment"].value = name

        if self._has_experiment() and acts.may_save(self.board, self.form):
            acts.save_as(self.board, experiment, written, saved)

    def action_preview(self) -> None:
        acts.preview(self.board, self.experiment, self.changes or [], self.form.form, self.fields["host"].value.strip())

    def action_edit_file(self) -> None:
        if self.board.refuses("editor") or not self._has_experiment() or self.form.file is None:
            return
        acts.edit_file(self.board, *self.form.file)
        self.tick()

    def action_copy(self) -> None:
        if (command := acts.copied(self.words)) is not None:
            self.app.copy_to_clipboard(command)
            self._tell(f"copied: {command}", good=True)
        else:
            self._tell("an experiment is needed")

    def _has_experiment(self) -> bool:
        if not self.experiment:
            self._tell("choose an experiment first: ^o")
        return bool(self.experiment)

    # The plan -------------------------------------------------------------------------------------------------------

    @property
    def words(self) -> tuple[str, ...] | None:
        """Return the command so far, after `armada`; without a host, that of the comparison."""
        listed = self.changes
        if not self.experiment or listed is None:
            return None
        # With `=`, so that no input can become an option.
        options = [f"--set={change}" for change in listed]
        host = self.fields["host"].value.strip()
        if not host:
            return ("plan", *options, "--", self.experiment)
        if self._is_sweep:
            return ("sweep", f"--host={host}", *options, "--", self.experiment)
        follows = [f"--follows={self.again}"] if self.again is not None and self.experiment == self._again_from else []
        return ("launch", f"--host={host}", *options, *follows, "--", self.experiment)

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input in self.fields.values():
            self._changed()

    def _changed(self) -> None:
        """The question is another one: what was planned is not for it."""
        self.ready = None
        self._asking.stop()
        self.asked = None
        self.plans = planned.Plans()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(WAIT_S, self._settled)
        self._draw_hosts()

    def _settled(self) -> None:
        """Ask when nothing was typed for a moment."""
        if self.changes is not None:
            self.form.mean(self.experiment, self.changes)
            self.form.read()
        if self.fields["host"].value.strip() and self.words is not None:
            self.action_plan()
        else:
            self._say_begin()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input is self.fields["host"] and not event.value.strip():
            self.action_plan()  # all hosts are asked only when somebody wants it
            self.show_part("hosts")
        else:
            self.action_part(1)

    def action_choose(self) -> None:
        """Open a list for the focused field: experiments in the current folder, or hosts."""
        if self.focused in (self.fields["host"], self.hosts):
            choices = [
                Choice(host.name, host.name, acts.about_host(host, self.snapshot))
                for host in self.snapshot.hosts
                if host.configured
            ]
            field, following, title = self.fields["host"], self.fields["set"], "On which host?"
        else:
            choices = [Choice(name, name, folder_of(name)) for name in experiments()]
            field, following, title = self.fields["experiment"], self.fields["host"], "Which experiment?"

        def take(chosen: str | None) -> None:
            if chosen is not None:
                field.value = chosen
                self.call_after_refresh(following.focus)  # on return, the screen restores the old focus first

        self.board.push_screen(Chooser(title, choices, self.board.symbols), take)

    def action_plan(self) -> None:
        host = self.fields["host"].value.strip()
        self._ask([] if host in ("", AUTO) else [host])

    def action_plan_all(self) -> None:
        """Plan for all hosts, also if one is chosen."""
        self._ask([])

    def _ask(self, hosts: Sequence[str]) -> None:
        words = self.words
        if words is None or self.board.refuses("plan"):
            return
        options = [word for word in words if word.startswith("--set=")]
        self.asked = ("plan", "--json", *options, *(f"--host={host}" for host in hosts), "--", self.experiment)
        frame.title(
            self.plan, self.board.symbols.text(f"Checks on {sanitize_line(hosts[0], 80)}" if hosts else "Checks")
        )
        self.plan.say("planning …")
        self._asking.ask(self.asked)
        self._draw_hosts()

    def _answered(self, words: tuple[str, ...], answer: Answer) -> None:
        if self.is_attached:
            self.post_message(Planned(words, answer))

    def on_planned(self, message: Planned) -> None:
        if message.words != self.asked:
            return
        self.asked = None
        self.plans = planned.parse(message.answer)
        self._draw_hosts()
        self._draw_plan()

    def _draw_plan(self) -> None:
        host = self.fields["host"].value.strip()
        is_named, self.ready = host not in ("", AUTO), None
        best = self.plans.of(host if is_named else self.plans.fastest or "")
        # Without a best one, the first plan is shown for its reasons, and `auto` would refuse to choose: nothing starts.
        plan = best if is_named else best or next(iter(self.plans.hosts), None)
        if plan is None:
            self.plan.say(self.plans.error or f"no plan names the host {sanitize_line(host, 80)}", "error")
            return
        frame.title(self.plan, self.board.symbols.text(f"Checks on {plan.name}"))
        can_launch = any(each.can_launch for each in self.plans.hosts)
        if host and plan is best and plan.can_launch:
            self.ready, self.ready_host = self.words, plan.name
            head = "^l launches this plan" if not self._is_sweep else "^l launches the sweep; v shows its cells"
        elif is_named:
            head = f"{plan.name} refuses it"
        elif not can_launch:
            head = "no host can run it"
        else:
            head = (
                "choose a host: enter on its row" if not host else "auto cannot tell which host ends first: choose one"
            )
        self.plan.show_plan(plan, head)

    def _draw_hosts(self) -> None:
        asked = [word.removeprefix("--host=") for word in self.asked or () if word.startswith("--host=")]
        names = asked or [host.name for host in self.snapshot.hosts] if self.asked is not None else []
        chosen = self.fields["host"].value.strip()
        if chosen == AUTO and self.plans.fastest is not None:
            chosen = self.plans.fastest
        runs, now = self.board.host_runs.read(self.snapshot), time.time()
        busy = tuple(len(runs.get(host.name, NO_RUNS).active) for host in self.snapshot.hosts)
        told = (
            self.snapshot.are_hosts_read,
            self.snapshot.hosts,
            busy,
            self.plans,
            chosen,
            tuple(names),
            now // PRICE_S,
        )
        if told == self._told_hosts:
            return  # each tick of the daemon makes a new snapshot; 50 hosts take 10 ms
        self._told_hosts = told
        self.hosts.show_hosts(self.snapshot, runs, self.plans, chosen, frozenset(names), now)
        named = {"fastest": self.plans.fastest} if len(self.plans.hosts) > 1 else {}
        words = [f"{rule}: {name}" for rule, name in named.items() if name]
        frame.facts(self.hosts, self.board.symbols.text(sanitize_line("  ".join(words), 100)))

    def action_launch(self) -> None:
        words = self.words
        if words is None or words[0] == "plan":
            self.notify("an experiment and a host are needed", severity="warning")
        elif self.ready != words:
            self.notify("there is no plan for this yet, or it was refused (see below)", severity="warning")
        elif self.form.has_changed_on_disk():
            self._changed()
        else:
            # The host whose plan is shown: with `auto`, another one may be the best by now.
            host, (verb, _, *rest) = self.ready_host, words
            started = (verb, f"--host={host}", *rest)
            if acts.launch(self.board, f"{verb} {words[-1]} on {host}", host, started, partial(self._launched, words)):
                self.board.action_go("runs")

    def _launched(self, words: tuple[str, ...]) -> None:
        """Forget the form: it has done its work, unless it is open again, or says something else by now."""
        if self.board.left.holds(self) and self not in self.board.screen_stack and self.words == words:
            self.board.left.forget(self.PLACE)

    def _tell(self, words: str, *, good: bool = False) -> None:
        text = self.board.symbols.text(sanitize_line(words, 700))
        self.notify(text, severity="information" if good else "warning", markup=False, timeout=10)

    def on_unmount(self) -> None:
        self.leave()

    def leave(self) -> None:
        self._asking.stop()
        if self._timer is not None:
            self._timer.stop()

    def come_back(self) -> None:
        self.fields["experiment"].suggester = SuggestFromList(experiments())
        if self.experiment:
            self._changed()  # hosts and queues are others by now
