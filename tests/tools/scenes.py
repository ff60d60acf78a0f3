"""The scenes of the pictures in docs/: screens and windows of the dashboard, and the keys that lead there."""

from __future__ import annotations

from dataclasses import dataclass

from armada.tui.chart_choices import WALL
from tests.tools import story, ways
from tests.tools.ways import Go, charts, compare, keys, on, run

SIZES = ((80, 24), (120, 36), (160, 48), (250, 70))
LIGHT = ((80, 24), (160, 48))
"""The sizes that are there in light, too."""
PLAIN = ((80, 24), (120, 36))
"""The sizes of what a terminal with settings of its own shows."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A screen, or a window over it.

    Attributes:
        name: Of its files.
        title: Its heading on the page.
        says: A sentence for the page.
        go: Goes there from the first screen.
        words: Stand there when it can be pictured.
        is_window: It is a window: what is under it keeps its size, so it is opened anew for each.
        is_new: In a home where nothing was done yet.
        env: Settings of the terminal, in the environment.
    """

    name: str
    title: str
    says: str
    go: Go
    words: tuple[str, ...]
    is_window: bool = False
    is_new: bool = False
    env: tuple[tuple[str, str], ...] = ()

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """The sizes of the terminal at which it is pictured dark."""
        return PLAIN if self.env else SIZES

    @property
    def light(self) -> tuple[tuple[int, int], ...]:
        """Those at which it is pictured in light."""
        return () if self.env else LIGHT

    @property
    def files(self) -> list[str]:
        """The names of its pictures."""
        dark = [self.file(size) for size in self.sizes]
        return dark + [self.file(size, light=True) for size in self.light]

    def file(self, size: tuple[int, int], *, light: bool = False) -> str:
        """Return the name of a picture."""
        return f"{self.name}-{size[0]}x{size[1]}{'-light' if light else ''}.svg"


SCENES: tuple[Scene, ...] = (
    Scene(
        "welcome",
        "Welcome",
        "Runs before anything was launched.",
        keys(),
        ("Nothing has been launched yet",),
        is_new=True,
    ),
    Scene(
        "tour",
        "The tour",
        "Five steps, once, when the dashboard opens an empty home; `:tour` shows them again.",
        ways.tour,
        ("1 of 5",),
        is_window=True,
        is_new=True,
    ),
    Scene(
        "runs",
        "Runs",
        "What needs you is at the top, with its reason; sweeps share a row.",
        on(story.LONG),
        ("arc-1.5b-r128",),
    ),
    Scene(
        "sweep",
        "A sweep",
        "Its cells, with those that were pruned.",
        on(f"sweep:{story.SWEEP}:", "enter", "down"),
        ("2e-05 r=128",),
    ),
    Scene(
        "runs-no-colour",
        "Runs without colour",
        "With `NO_COLOR` set: each state has a sign of its own, and a word.",
        on(story.LONG),
        ("arc-1.5b-r128",),
        env=(("NO_COLOR", "1"),),
    ),
    Scene(
        "runs-ascii",
        "Runs in ASCII",
        "In a terminal whose locale is not UTF-8 (`LC_ALL=C`).",
        on(story.LONG),
        ("arc-1.5b-r128",),
        env=(("LC_ALL", "C"),),
    ),
    Scene(
        "filter",
        "Filter",
        "What may follow stands under the field; Tab takes it.",
        keys("slash", *"lr>4e-5 state:"),
        ("submitted",),
    ),
    Scene(
        "columns",
        "Columns",
        "Every column that there is, those that are taken first; `learning` finds the learning rate, space takes it.",
        keys("C", *"learning", "space"),
        ("train.learning_rate", "11 columns"),
        is_window=True,
    ),
    Scene(
        "views",
        "Saved views",
        "A filter, columns, an order and groups under a name; `armada ps --view` shows the same.",
        ways.views,
        ("everything",),
        is_window=True,
    ),
    Scene(
        "overview",
        "A run",
        "What needs you, its curve, GPUs, where a step's time goes, its cost, checkpoints and log, at every size.",
        run(story.HUNG),
        ("needs you", "NCCL"),
    ),
    Scene(
        "overview-no-colour",
        "A run without colour",
        "With `NO_COLOR` set: what needs you stands first, with its sign; curves and bars keep their shapes.",
        run(story.HUNG),
        ("needs you", "NCCL"),
        env=(("NO_COLOR", "1"),),
    ),
    Scene(
        "charts",
        "Charts",
        "Four metrics with one crosshair; ↻ marks where the run was resumed.",
        charts(story.LONG, 4, *["comma"] * 12),
        ("loss (1 of", "at step"),
    ),
    Scene(
        "charts-ascii",
        "Charts in ASCII",
        "With `LC_ALL=C`: the same curves, with the signs that there are.",
        charts(story.LONG, 4, *["comma"] * 12),
        ("loss (1 of", "at step"),
        env=(("LC_ALL", "C"),),
    ),
    Scene(
        "wall",
        "A wall of charts",
        "`v` also shows as many metrics as fit.",
        charts(story.LONG, WALL, *["comma"] * 12),
        ("grad_norm (4 of", "at step"),
    ),
    Scene(
        "nan",
        "A loss that is not finite",
        "✗ marks where NaN begins, and the heading says since when.",
        charts(story.NAN, 1),
        ("NaN since step",),
    ),
    Scene("log", "Log", "The copy at home, in the colours of the job.", run(story.OOM, "log"), ("OutOfMemoryError",)),
    Scene(
        "log-search",
        "A log that is followed, and a search in it",
        "Lines of both ranks of a run that goes on: `N` and `n` go from match to match, `r` leaves one rank, `G` follows again.",
        ways.log_search,
        ("was cut", "of 7", "[rank1]"),
        is_window=True,  # what a search shows is for the size at which it was made
    ),
    Scene(
        "checkpoints",
        "Checkpoints",
        "Where each one is, and whether it was verified. One is damaged.",
        run(story.DONE, "checkpoints"),
        ("damaged at home",),
    ),
    Scene(
        "samples",
        "Samples",
        "What the model answered to a prompt, step by step, beside what was expected.",
        run(story.LONG, "samples"),
        ("32",),
    ),
    Scene("events", "Events", "What happened to the run, in words.", run(story.SPENT, "events"), ("budget",)),
    Scene("config", "Config", "The whole plan that was sent.", run(story.LONG, "config"), ("learning_rate",)),
    Scene(
        "stop",
        "A question",
        "Acts that cannot be undone ask first.",
        on(story.HUNG, "x"),
        ("Stop 1 run?",),
        is_window=True,
    ),
    Scene(
        "removal",
        "Remove runs",
        "`d` on marked runs: what is deleted, what stays at home, what a silent host takes with it, and which run may not go.",
        ways.removal,
        ("Remove 3 runs?", "given up"),
        is_window=True,
    ),
    Scene(
        "hosts",
        "Hosts",
        "A line per host: the load of its GPUs now and over the last minutes, who uses them, environment, price, disk.",
        keys("3"),
        ("leonardo", "9 of 392 free"),
    ),
    Scene(
        "hosts-no-colour",
        "Hosts without colour",
        "With `NO_COLOR` set: signs stand in curves where colours would tell them apart.",
        keys("3"),
        ("leonardo", "9 of 392 free"),
        env=(("NO_COLOR", "1"),),
    ),
    Scene(
        "hosts-ascii",
        "Hosts in ASCII",
        "With `LC_ALL=C`: the loads of GPUs as signs of five heights.",
        keys("3"),
        ("leonardo", "9 of 392 free"),
        env=(("LC_ALL", "C"),),
    ),
    Scene(
        "host-card",
        "A host's card",
        "Link, disk, money, environment, what is safe, health, and its GPUs one by one.",
        ways.card,
        ("environment",),
    ),
    Scene(
        "add-host",
        "Add a host",
        "The line that the provider shows is an address, too. Before anything is written, the host's key is shown.",
        keys("3", "a", *"a100-3", "tab", *"ssh -p 50318 root@203.0.113.21"),
        ("203.0.113.21",),
        is_window=True,
    ),
    Scene(
        "host-key",
        "The key of a new host",
        "Enter asks the host for its key. It is pinned only after a yes; nothing was written before.",
        ways.host_key,
        ("Pin this key and add a100-3?", "SHA256:9pXq2mVd0cZr4tLbYw7KfHs1NgEoJuA3iR6vTzQeB5k"),
        is_window=True,
    ),
    Scene(
        "release",
        "May this host go?",
        "What would be lost, and how to bring it home.",
        ways.verdict,
        ("would be lost",),
        is_window=True,
    ),
    Scene(
        "reap",
        "What ended runs left on a host",
        "`x` on Hosts: processes that live on without a supervisor, with their GPUs. Those of other homes are left alone.",
        ways.reap,
        ("End 5 processes of 1 run", "left alone"),
        is_window=True,
    ),
    Scene("sync", "Sync", "What is safe, what travels, and what waits.", keys("4"), ("connection reset by peer",)),
    Scene(
        "launch",
        "Launch",
        "The experiment as a form, hosts side by side, and the checks of the plan.",
        ways.launch,
        ("arc.yaml",),
    ),
    Scene(
        "setting",
        "A setting",
        "Enter on a setting: what it may be and what it does. The loader refuses what cannot be, with its sentence.",
        ways.form("train.learning_rate", "enter", "ctrl+u", *"-5e-5", "enter"),
        ("train.learning_rate", "-5e-5", "must be more"),
        is_window=True,
    ),
    Scene(
        "faulty",
        "A file with errors",
        "The form opens all the same: each error stands under its setting, with the line of the file.",
        ways.faulty,
        ("3 errors", "learning_rte"),
    ),
    Scene(
        "difference",
        "What the changes do to the file",
        "`D` on Launch: the lines that differ. Comments and all other lines stay.",
        ways.form("train", "D", changes="lora.r=64"),
        ("+lora: {r: 64}",),
        is_window=True,
    ),
    Scene(
        "save",
        "Save the changes",
        "`S` on Launch: a new file, under a name that is free; one that exists is replaced only after a question.",
        ways.form("train", "S"),
        ("arc-2.yaml",),
        is_window=True,
    ),
    Scene(
        "chooser",
        "A choice",
        "Lists narrow down as you type: here the host of a launch.",
        ways.choice,
        ("On which host?",),
        is_window=True,
    ),
    Scene(
        "data",
        "The data as the model sees it",
        "`v` on Launch: what is not trained on is grey; below are the lengths in tokens.",
        ways.data,
        ("are trained on",),
        is_window=True,
    ),
    Scene(
        "grid",
        "The cells of a sweep",
        "`v` on Launch, for an experiment with a sweep; with a host in the field, the command also says hours and cost.",
        ways.grid,
        ("8 cells",),
        is_window=True,
    ),
    Scene("compare", "Compare: curves", "Each run keeps its letter and its colour.", compare("c"), ("against step",)),
    Scene(
        "compare-wall",
        "Compare: several metrics",
        "`v` shows as many as fit, each run with the same letter and colour in all.",
        ways.compare_wall(WALL),
        ("against step",),
    ),
    Scene("compare-settings", "Compare: settings", "Only what differs.", compare("f"), ("lora.r",)),
    Scene(
        "compare-parallel",
        "Compare: parallel coordinates",
        "Settings and the metric; the run under the cursor is lit.",
        compare("p"),
        ("lora.r",),
    ),
    Scene("compare-scatter", "Compare: scatter", "A setting against the metric.", compare("t"), ("against",)),
    Scene("compare-pareto", "Compare: Pareto front", "Loss against cost.", compare("o"), ("against cost",)),
    Scene(
        "compare-samples",
        "Compare: samples",
        "What two runs answered to the same prompt.",
        compare("a", story.LONG, story.HUNG),
        ("prompt:",),
    ),
    Scene("history", "History", "What was started here, with its end.", keys("7"), ("armada resume",), is_window=True),
    Scene(
        "notifications",
        "Notifications",
        "What the daemon told, and whether it was sent; Enter opens the run or the host.",
        keys("8"),
        ("disk soon full",),
        is_window=True,
    ),
    Scene(
        "command",
        "The command line",
        "Every command of armada, with completion; what is selected is filled in.",
        on(story.OOM, "colon", *"why "),
        ("armada why",),
        is_window=True,
    ),
    Scene(
        "output",
        "Output of a command",
        "What a command that only reads printed; it scrolls, searches and wraps.",
        on(story.OOM, "colon", *"why ", "enter"),
        ("out of memory", "armada resume"),
        is_window=True,
    ),
    Scene(
        "palette",
        "The palette",
        "Every action, found by its name: those that work here first; one of another screen goes there.",
        keys("ctrl+p", *"copy"),
        ("Copy the run's id",),
        is_window=True,
    ),
    Scene("help", "Help", "The keys of the screen first.", keys("question_mark"), ("Keys",), is_window=True),
)
