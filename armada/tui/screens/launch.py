"""Launch: type an experiment, a host and changes; the screen shows the plan of `armada launch --dry-run` as you type."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text
from textual import work
from textual.containers import Horizontal
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.protocol.recorded import recorded_facts
from armada.tui.bindings import bindings
from armada.tui.gpu_strips import gpu_names
from armada.tui.operations import command
from armada.tui.screens.chooser import Choice, Chooser
from armada.tui.screens.view import View
from armada.tui.watcher import Subscription
from armada.tui.widgets import frame
from armada.tui.widgets.text_scroll import TextScroll
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from textual.timer import Timer
    from textual.widget import Widget

    from armada.tui.curves import CurveUpdate
    from armada.tui.snapshot import HostView

WAIT_S = 0.5
PLAN_TIMEOUT_S = 120.0
_MARGIN = 5
"""Columns of the scroll bar, the border and the frame."""


class Planned(Message):
    """A plan, or why there is none."""

    def __init__(self, words: tuple[str, ...], code: int, said: str, spec: Mapping[str, object]) -> None:
        super().__init__()
        self.words = words
        self.code = code
        self.said = said
        self.command_line = _command_line(spec)
        self.host = str(spec.get("host"))


class LaunchScreen(View):
    """Three fields and the resulting plan."""

    PLACE = "launch"
    BINDINGS = bindings("launch")
    DEFAULT_CSS = """
    LaunchScreen Horizontal { height: 1; }
    LaunchScreen .label { width: 14; padding: 0 1; color: $text-muted; }
    LaunchScreen Input { height: 1; border: none; padding: 0 1; background: $boost; width: 1fr; }
    LaunchScreen Input:focus { border: none; background: $primary 40%; }
    LaunchScreen TextScroll { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._timer: Timer | None = None
        self._is_new = True
        """The hosts were not read yet."""
        self._asking: subprocess.Popen[str] | None = None
        self.fields: dict[str, Input] = {}
        self.ready: tuple[str, ...] | None = None
        self.ready_host = ""

    def body(self) -> Iterable[Widget]:
        files = experiments()
        hosts = [host.name for host in self.snapshot.hosts]
        for name, label, more, hints in (
            ("experiment", "experiment", "a YAML file, or quickstart (→ takes the suggestion)", files),
            ("host", "host", "its name; local is this machine", hosts),
            ("set", "changes", "train.learning_rate=5e-5 lora.r=128", []),
        ):
            field = Input(placeholder=more, id=name, suggester=SuggestFromList(hints) if hints else None)
            self.fields[name] = field
            yield Horizontal(Static(label, classes="label", markup=False), field)
        self.plan_text = Static(id="plan")
        self.plan = TextScroll(self.plan_text, classes=frame.FRAME)
        frame.title(self.plan, "Plan")
        yield self.plan

    def on_mount(self) -> None:
        super().on_mount()
        self.fields["experiment"].focus()
        self._say(
            "Type an experiment and a host; the plan appears by itself. ctrl+o opens a list, ctrl+l launches, esc goes back.\n"
            " Enter in an empty host field compares all hosts; the host `auto` is the one that ends first."
        )

    def wants(self) -> Subscription:
        return Subscription()

    def draw(self, updates: Sequence[CurveUpdate] = ()) -> None:
        del updates
        names = "  ".join(host.name for host in self.snapshot.hosts)
        if self._is_new and self.snapshot.hosts:
            self._is_new = False
            if [host.name for host in self.snapshot.hosts] == ["local"] and not self.fields["host"].value:
                self.fields["host"].value = "local"  # the only one; typing replaces it
        frame.facts(self.plan, self.board.symbols.text(f"hosts: {sanitize_line(names, 500)}"))

    # The plan -------------------------------------------------------------------------------------------------------

    @property
    def words(self) -> tuple[str, ...] | None:
        """Return the command line so far, after `armada`; without a host, that of the comparison."""
        value = {name: field.value.strip() for name, field in self.fields.items()}
        if not value["experiment"]:
            return None
        try:
            changes = shlex.split(value["set"])
        except ValueError:
            return None
        # With `=`, so that no input can become an option.
        options = [f"--set={change}" for change in changes]
        if not value["host"]:
            return ("plan", *options, "--", value["experiment"])
        return ("launch", f"--host={value['host']}", *options, "--", value["experiment"])

    def on_input_changed(self, event: Input.Changed) -> None:
        del event
        self.ready = None
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(WAIT_S, self.action_plan) if self.fields["host"].value.strip() else None

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input is self.fields["host"] and not event.value.strip():
            self.action_plan()  # all hosts are asked only when somebody wants it
        else:
            self.focus_next()

    def action_choose(self) -> None:
        """Open a list for the focused field: experiments in the current folder, or hosts."""
        if self.focused is self.fields["host"]:
            choices = [
                Choice(host.name, host.name, self._about(host)) for host in self.snapshot.hosts if host.configured
            ]
            field, following, title = self.fields["host"], self.fields["set"], "On which host?"
        else:
            choices = [Choice(name, name, _folder_of(name)) for name in experiments()]
            field, following, title = self.fields["experiment"], self.fields["host"], "Which experiment?"

        def take(chosen: str | None) -> None:
            if chosen is not None:
                field.value = chosen
                self.call_after_refresh(following.focus)  # on return, the screen restores the old focus first

        self.board.push_screen(Chooser(title, choices, self.board.symbols), take)

    def _about(self, host: HostView) -> str:
        record = host.record
        facts = record.facts if record is not None else None
        words = [gpu_names(recorded_facts(facts)) if facts is not None else "not checked yet"]
        words += ["unreachable"] if record is not None and record.unreachable_since is not None else []
        busy = sum(row.run.host == host.name and not row.run.ended for row in self.snapshot.runs)
        price = host.tariff.price_at(time.time()) if host.tariff is not None else None
        words += [counted(busy, "run") if busy else "idle", price.text if price is not None else ""]
        return " · ".join(word for word in words if word)

    def action_plan(self) -> None:
        if self.words is not None and not self.board.refuses("a plan asks the host; it"):
            self._say("planning …")
            self._plan(self.words)

    @work(thread=True, exclusive=True, group="plan", exit_on_error=False)
    def _plan(self, words: tuple[str, ...]) -> None:
        """Request a plan with `--dry-run`; an older request is cancelled."""
        if self._asking is not None and self._asking.poll() is None:
            self._asking.terminate()
        compares = words[0] == "plan"
        argv = command(*words) if compares else command(words[0], "--dry-run", "--json", *words[1:])
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "COLUMNS": str(self.size.width - _MARGIN)},
        )
        self._asking = process
        try:
            out, err = process.communicate(timeout=PLAN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = "", f"no plan within {PLAN_TIMEOUT_S:.0f} s"
        said = out + err if compares else err
        self.post_message(Planned(words, process.returncode or 0, said, {} if compares else _spec(out)))

    def on_planned(self, message: Planned) -> None:
        if message.words != self.words:
            return
        self.ready = message.words if message.code == 0 and message.words[0] == "launch" else None
        self.ready_host = message.host
        # First the key to press: of a long plan only the beginning is visible.
        text = Text(" ctrl+l launches this plan\n\n" if self.ready is not None else "", style="bold")
        text.append(self.board.symbols.text(sanitize_text(message.said)), style="not bold")
        if message.command_line:
            text.append(f"\n command    {self.board.symbols.text(message.command_line)}\n", style="not bold dim")
        self.plan_text.update(text)

    def _say(self, words: str) -> None:
        self.plan_text.update(Text(f" {words}", style="dim"))

    def action_launch(self) -> None:
        if self.words is None or self.words[0] != "launch":
            self.notify("an experiment and a host are needed", severity="warning")
        elif self.ready != self.words:
            self.notify("there is no plan for this yet, or it was refused (see below)", severity="warning")
        else:
            # The host whose plan is shown: with `auto`, another one may be the best by now.
            host, (verb, _, *rest) = self.ready_host, self.words
            self.board.await_run(host)
            self.board.operate(f"launch {self.words[-1]} on {host}", (verb, f"--host={host}", *rest))
            self.board.action_go("runs")

    def on_unmount(self) -> None:
        if self._asking is not None and self._asking.poll() is None:
            self._asking.terminate()


def experiments() -> list[str]:
    """Return the experiments near the folder in which the dashboard was started, and the bundled one."""
    here = sorted(str(path) for path in Path().glob("*.y*ml"))
    below = sorted(str(path) for path in Path().glob("*/*.y*ml"))[:200]
    return ["quickstart", *here, *below]


def _folder_of(name: str) -> str:
    if name == "quickstart" and not Path(name).exists():
        return "bundled: trains a tiny model, in about a minute"
    return str(Path(name).absolute().parent)


def _spec(out: str) -> dict[str, object]:
    """The plan that a dry run has printed; empty if it was refused."""
    try:
        spec = json.loads(out)["spec"]
    except (ValueError, KeyError, TypeError):
        return {}
    return spec if isinstance(spec, dict) else {}


def _command_line(spec: Mapping[str, object]) -> str:
    job = spec.get("job")
    argv = job.get("argv") if isinstance(job, dict) else None
    return sanitize_line(shlex.join(map(str, argv)), 1000) if isinstance(argv, list) else ""
