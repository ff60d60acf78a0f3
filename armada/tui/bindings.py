"""The table of all keys. Dispatch, the key line, `?` help, the palette and dashboard.md read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.binding import BindingType

SCREENS: dict[str, str] = {
    "everywhere": "Everywhere",
    "lists": "Lists and texts",
    "find": "Search in lists and texts",
    "text": "Logs and output",
    "runs": "Runs",
    "run": "Run",
    "hosts": "Hosts",
    "sync": "Sync",
    "launch": "Launch",
    "compare": "Compare",
    "columns": "Columns of Runs",
    "history": "History of acts",
    "notifications": "Notifications",
    "output": "Output of a command",
}
"""Where keys work, in the order of the help."""


class Key(NamedTuple):
    """One row.

    Args:
        where: Name of a place in `SCREENS`.
        keys: The names in Textual, separated by commas.
        shown: The names for the user.
        action: The method `action_<action>` of the screen, or of the app for `everywhere`; its argument in parentheses.
        text: One or two words for the key line; empty if it is not shown there.
        help: A sentence.
        changes: It changes something on a host or at home: disabled by `--read-only`.
        always: It works even while the user types into a field.
        page: The pages of its screen that it belongs to, separated by commas; the key line shows it only there.
    """

    where: str
    keys: str
    shown: str
    action: str
    text: str
    help: str
    changes: bool = False
    always: bool = False
    page: str = ""


KEYS: tuple[Key, ...] = (
    Key("everywhere", "1", "1", "go('runs')", "", "Runs"),
    Key("everywhere", "2", "2", "go('run')", "", "Run: the one under the cursor"),
    Key("everywhere", "3", "3", "go('hosts')", "", "Hosts"),
    Key("everywhere", "4", "4", "go('sync')", "", "Sync"),
    Key("everywhere", "5", "5", "go('launch')", "", "Launch"),
    Key("everywhere", "6", "6", "go('compare')", "", "Compare marked runs"),
    Key(
        "everywhere", "7", "7", "history", "", "History: what was started here, with commands to copy, output and undo"
    ),
    Key("everywhere", "8", "8", "notifications", "", "Notifications from the daemon"),
    Key("everywhere", "colon", ":", "command", "", "Type any command; what is selected is filled in"),
    Key("everywhere", "U,shift+u", "U", "undo", "", "Undo the last act that can be undone", changes=True),
    Key("everywhere", "escape", "esc", "back", "", "Back; on Runs, clear the filter and the marks"),
    Key(
        "everywhere",
        "question_mark,f1",
        "?",
        "help",
        "help",
        "Keys: first those of this screen and of what is under the cursor",
    ),
    Key("everywhere", "ctrl+p", "^p", "command_palette", "all", "Find an action by its name", always=True),
    Key("everywhere", "ctrl+t", "^t", "next_theme", "", "Next theme", always=True),
    Key("everywhere", "q", "q", "leave", "quit", "Quit at once; runs, operations and the daemon continue"),
    Key("everywhere", "ctrl+c,ctrl+q", "^c", "leave", "", "Quit, from any field", always=True),
    Key("lists", "up,k", "↑ k", "move(-1)", "", "Up"),
    Key("lists", "down,j", "↓ j", "move(1)", "", "Down"),
    Key("lists", "pageup", "PgUp", "page(-1)", "", "A page up"),
    Key("lists", "pagedown", "PgDn", "page(1)", "", "A page down"),
    Key("lists", "home,g", "Home g", "edge(-1)", "", "To the first"),
    Key("lists", "end,G,shift+g", "End G", "edge(1)", "", "To the last"),
    Key("find", "slash", "/", "find", "", "Search; on Runs, filter"),
    Key("find", "n", "n", "find_on(1)", "", "Next match (on Runs, n launches: the filter lists all matches)"),
    Key("find", "N,shift+n", "N", "find_on(-1)", "", "Match before"),
    Key("text", "left", "←", "sideways(-1)", "", "To the left, along long lines"),
    Key("text", "right", "→", "sideways(1)", "", "To the right"),
    Key("runs", "enter", "enter", "open", "open", "Open the run; on a sweep or folded group, list its runs"),
    Key("runs", "right", "→", "unfold(True)", "", "List the cells of the sweep, or the runs of the group"),
    Key("runs", "left", "←", "unfold(False)", "", "Put the cells of the sweep, or the group, back into one row"),
    Key("runs", "l", "l", "logs", "logs", "Follow the run's log"),
    Key(
        "runs",
        "slash",
        "/",
        "filter",
        "filter",
        "Filter: words (fuzzy), -word, host:… tag:… loss<0.4 lr>1e-5 age<2d starred or (…); Tab completes",
    ),
    Key("runs", "x", "x", "stop", "stop", "Stop these runs (asks first)", changes=True),
    Key(
        "runs",
        "u",
        "u",
        "resume",
        "resume",
        "Resume these runs, which failed or were stopped (asks first)",
        changes=True,
    ),
    Key("runs", "space", "space", "mark", "mark", "Mark or unmark, to act on several runs"),
    Key("runs", "a", "a", "mark_all", "", "Mark all runs that the filter shows, or none"),
    Key("runs", "n", "n", "launch", "launch", "Launch an experiment", changes=True),
    Key("runs", "R,shift+r", "R", "relaunch", "", "Launch its experiment again, with changes", changes=True),
    Key("runs", "y", "y", "sync", "sync now", "Bring new checkpoints of these runs home now", changes=True),
    Key("runs", "c", "c", "compare", "compare", "Overlay the curves of the marked runs"),
    Key("runs", "s", "s", "sort", "sort", "Sort by the next column"),
    Key("runs", "S,shift+s", "S", "reverse", "", "Reverse the order"),
    Key(
        "runs",
        "b",
        "b",
        "group",
        "group",
        "Group by host, state, group, tag, chain or a setting among the columns, or not at all",
    ),
    Key(
        "runs",
        "d,delete",
        "d",
        "remove",
        "remove",
        "Remove these runs: forget them here and delete them on their hosts (asks first)",
        changes=True,
    ),
    Key("runs", "asterisk", "*", "label('star')", "", "Star these runs, or take the stars away", changes=True),
    Key("runs", "P,shift+p", "P", "pin", "", "Pin these runs to the top of the list, or take the pins away"),
    Key("runs", "t", "t", "label('tag')", "", "Add tags to these runs, or remove them", changes=True),
    Key("runs", "i", "i", "label('note')", "", "Write a note about the run", changes=True),
    Key("runs", "B,shift+b", "B", "label('group')", "", "Put these runs into a group, or take them out", changes=True),
    Key(
        "runs",
        "z",
        "z",
        "label('archive')",
        "",
        "Archive these runs: hide them until the filter says archived",
        changes=True,
    ),
    Key("runs", "C,shift+c", "C", "columns", "", "Choose the columns from a list: facts of runs, settings and metrics"),
    Key("runs", "v", "v", "views", "", "Choose a saved view: filter, columns, order and groups; Ctrl-D deletes it"),
    Key("runs", "V,shift+v", "V", "save_view", "", "Save the present view under a name"),
    Key("runs", "p", "p", "preview", "", "Show or hide the preview"),
    Key("runs", "e", "e", "newest", "", "Go to the newest run"),
    Key("runs", "r", "r", "look", "", "Check all hosts now", changes=True),
    Key("runs", "w", "w", "web", "", "Open its page at W&B or on the hub"),
    Key("runs", "exclamation_mark", "!", "shell", "", "Open a shell in the run's folder on its host", changes=True),
    Key("runs", "Y,shift+y", "Y", "copy", "", "Copy the run's id to the clipboard"),
    Key("run", "tab", "tab", "next_tab", "", "Next page: overview, charts, log, checkpoints, samples, events, config"),
    Key("run", "shift+tab", "S-tab", "previous_tab", "", "Page before"),
    Key("run", "o", "o", "tab('overview')", "", "Overview"),
    Key("run", "c", "c", "tab('charts')", "charts", "Charts"),
    Key("run", "l", "l", "tab('log')", "log", "Log: fetch it from the host and follow it"),
    Key("run", "h", "h", "tab('checkpoints')", "checkpoints", "Checkpoints"),
    Key("run", "a", "a", "tab('samples')", "", "Samples: what the model answered to some prompts, step by step"),
    Key("run", "e", "e", "tab('events')", "", "Events"),
    Key("run", "f", "f", "tab('config')", "", "Config"),
    Key("run", "m", "m", "metric", "metric", "Charts: next metric", page="charts"),
    Key("run", "M,shift+m", "M", "metric_before", "", "Charts: previous metric", page="charts"),
    Key(
        "run",
        "plus,equals_sign",
        "+",
        "zoom(0.5)",
        "zoom",
        "Charts: zoom in; so does dragging with the mouse",
        page="charts",
    ),
    Key("run", "minus", "-", "zoom(2.0)", "", "Charts: zoom out", page="charts"),
    Key("run", "left", "←", "pan(-0.25)", "", "Charts: earlier; Samples: earlier steps", page="charts,samples"),
    Key("run", "right", "→", "pan(0.25)", "move", "Charts: later; Samples: later steps", page="charts,samples"),
    Key(
        "run",
        "enter",
        "enter",
        "read",
        "read",
        "Samples: scroll the answers; esc goes back to the prompts",
        page="samples",
    ),
    Key("run", "0", "0", "whole", "", "Charts: the whole curve", page="charts"),
    Key(
        "run",
        "full_stop",
        ".",
        "cross(1)",
        "",
        "Charts: the crosshair to the right; the mouse moves it, too",
        page="charts",
    ),
    Key(
        "run",
        "comma",
        ",",
        "cross(-1)",
        "values",
        "Charts: the crosshair to the left, from the newest point",
        page="charts",
    ),
    Key("run", "greater_than_sign", ">", "cross(10)", "", "Charts: the crosshair ten columns right", page="charts"),
    Key("run", "less_than_sign", "<", "cross(-10)", "", "Charts: the crosshair ten columns left", page="charts"),
    Key("run", "s", "s", "smooth", "smooth", "Charts: smoothing 0, 0.6, 0.9, 0.97", page="charts"),
    Key("run", "b", "b", "against", "axis", "Charts: horizontal axis: step, time, tokens or cost", page="charts"),
    Key("run", "v", "v", "panels", "panels", "Charts: 1, 2, 4 or as many at once as fit", page="charts"),
    Key("run", "L,shift+l", "L", "log_scale", "scale", "Charts: logarithmic scale", page="charts"),
    Key("run", "slash", "/", "search", "search", "Charts: filter the metrics; Log: search", page="charts,log"),
    Key("run", "N,shift+n", "N", "search_on(True)", "", "Log: next match towards the beginning", page="log"),
    Key("run", "n", "n", "search_on(False)", "", "Log: next match towards the end", page="log"),
    Key(
        "run",
        "J,shift+j",
        "J",
        "jump",
        "jump",
        "Log: go to a line, a share (45%), a byte (@4096), a time or a step (step 1200)",
        page="log",
    ),
    Key("run", "r", "r", "rank", "rank", "Log: only the lines of one rank, or of all", page="log"),
    Key("run", "number_sign", "#", "numbers", "", "Log: line numbers; 120 columns show them at once", page="log"),
    Key("run", "W,shift+w", "W", "wrap", "wrap", "Log: wrap long lines; without it, ← and → scroll", page="log"),
    Key(
        "run",
        "p",
        "p",
        "pull",
        "pull",
        "Checkpoints: bring the one under the cursor home now",
        changes=True,
        page="checkpoints",
    ),
    Key(
        "run",
        "P,shift+p",
        "P",
        "pull_to",
        "pull to",
        "Checkpoints: copy it into a folder",
        changes=True,
        page="checkpoints",
    ),
    Key("run", "d", "d", "difference", "compare", "Config: differences from another run", page="config"),
    Key("run", "y", "y", "sync", "sync now", "Bring its new checkpoints home now", changes=True),
    Key("run", "x", "x", "stop", "stop", "Stop it (asks first)", changes=True),
    Key("run", "u", "u", "resume", "resume", "Resume it, if it failed or was stopped (asks first)", changes=True),
    Key(
        "run",
        "D,shift+d,delete",
        "D",
        "remove",
        "remove",
        "Remove it: forget it here and delete it on its host (asks first)",
        changes=True,
    ),
    Key("run", "R,shift+r", "R", "relaunch", "", "Launch its experiment again, with changes", changes=True),
    Key("run", "asterisk", "*", "label('star')", "", "Star it, or take the star away", changes=True),
    Key("run", "t", "t", "label('tag')", "", "Add tags to it, or remove some", changes=True),
    Key("run", "i", "i", "label('note')", "", "Write a note about it", changes=True),
    Key("run", "B,shift+b", "B", "label('group')", "", "Put it into a group, or take it out", changes=True),
    Key("run", "z", "z", "label('archive')", "", "Archive it: hide it until the filter says archived", changes=True),
    Key("run", "w", "w", "web", "", "Open its page at W&B or on the hub"),
    Key("run", "exclamation_mark", "!", "shell", "", "Open a shell in its folder on its host", changes=True),
    Key(
        "run",
        "Y,shift+y",
        "Y",
        "copy",
        "",
        "Copy to the clipboard: on Log its lines, on Checkpoints the path, else the run's id",
    ),
    Key("hosts", "enter", "enter", "unfold", "unfold", "Its card, with its GPUs one by one; or one line again"),
    Key(
        "hosts",
        "right",
        "→",
        "unfold(True)",
        "",
        "Its card: link, disk, money, environment, what is safe, health, GPUs",
    ),
    Key("hosts", "left", "←", "unfold(False)", "", "Close its card"),
    Key(
        "hosts",
        "r",
        "r",
        "release",
        "release?",
        "Check what would be lost with it, then drain or release it",
        changes=True,
    ),
    Key("hosts", "exclamation_mark", "!", "shell", "shell", "Open a shell there", changes=True),
    Key("hosts", "l", "l", "runs", "its runs", "Runs of this host"),
    Key("hosts", "c", "c", "check", "check", "Test the connection and inspect the host under the cursor", changes=True),
    Key("hosts", "d", "d", "doctor", "doctor", "Diagnose it: every known problem, with what to do", changes=True),
    Key("hosts", "a", "a", "add", "add", "Add a host: shows its key, asks, then inspects it", changes=True),
    Key("hosts", "p", "p", "provision", "provision", "Build the environment of its profile there", changes=True),
    Key(
        "hosts", "t", "t", "trust", "trust", "Show its key beside the pinned one, and pin it (asks first)", changes=True
    ),
    Key("hosts", "x", "x", "reap", "reap", "End processes that ended runs left there (asks first)", changes=True),
    Key("hosts", "D,shift+d,delete", "D", "forget", "remove", "Remove it from hosts.yaml (asks first)", changes=True),
    Key("hosts", "v", "v", "history", "history", "Show or hide the history of its GPUs"),
    Key("hosts", "minus", "-", "span(1)", "", "History: a longer span"),
    Key("hosts", "plus,equals_sign", "+", "span(-1)", "", "History: a shorter span"),
    Key("hosts", "Y,shift+y", "Y", "copy", "", "Copy its address to the clipboard"),
    Key("sync", "enter", "enter", "open", "open", "Open the run"),
    Key("sync", "y", "y", "sync", "sync now", "Sync the run under the cursor now", changes=True),
    Key(
        "sync",
        "r",
        "r",
        "release",
        "release?",
        "Check what would be lost with the host of the run, then drain or release it",
        changes=True,
    ),
    Key("sync", "l", "l", "logs", "logs", "Follow the run's log"),
    Key(
        "sync", "exclamation_mark", "!", "shell", "shell", "Open a shell in the run's folder on its host", changes=True
    ),
    Key("sync", "w", "w", "web", "web", "Open its page at W&B or on the hub"),
    Key("sync", "Y,shift+y", "Y", "copy", "", "Copy the run's id to the clipboard"),
    Key("launch", "ctrl+l", "^l", "launch", "launch", "Launch what the plan shows", changes=True, always=True),
    Key("launch", "enter", "enter", "open", "open", "Edit the setting or unfold it; take the host; list what passed"),
    Key(
        "launch", "tab", "tab", "part(1)", "next", "To the next field or frame: experiment, hosts, checks", always=True
    ),
    Key("launch", "shift+tab", "S-tab", "part(-1)", "", "To the field or frame before"),
    Key("launch", "ctrl+o", "^o", "choose", "choose", "Choose experiment or host from a list", always=True),
    Key("launch", "D,shift+d", "D", "difference", "diff", "Show what the changes do to the file"),
    Key("launch", "S,shift+s", "S", "save", "save as", "Save the file with the changes as a new one", changes=True),
    Key("launch", "u", "u", "undo_change", "undo", "Experiment: take the change of the setting back"),
    Key("launch", "v", "v", "preview", "preview", "Show the first rows of the data, or the cells of the sweep"),
    Key("launch", "p", "p", "plan_all", "all hosts", "Plan for all hosts and compare them"),
    Key("launch", "e", "e", "edit_file", "editor", "Open the file in your editor, at the setting", changes=True),
    Key("launch", "ctrl+r", "^r", "plan", "plan again", "Resolve the plan again", always=True),
    Key("launch", "right", "→", "unfold(True)", "", "Experiment: unfold the section"),
    Key("launch", "left", "←", "unfold(False)", "", "Experiment: fold the section, or go to it"),
    Key("launch", "Y,shift+y", "Y", "copy", "", "Copy the command to the clipboard"),
    Key("compare", "tab", "tab", "next_tab", "page", "Next page: curves, settings, parallel, scatter, pareto, samples"),
    Key("compare", "shift+tab", "S-tab", "previous_tab", "", "Page before"),
    Key("compare", "m", "m", "metric(1)", "metric", "Next metric; on Samples, the next prompt"),
    Key("compare", "M,shift+m", "M", "metric(-1)", "", "Metric or prompt before"),
    Key("compare", "c", "c", "tab('curves')", "", "Curves"),
    Key("compare", "f", "f", "tab('settings')", "", "Settings that differ"),
    Key("compare", "p", "p", "tab('parallel')", "parallel", "Parallel coordinates: settings and the metric"),
    Key(
        "compare", "t", "t", "tab('scatter')", "scatter", "Scatter: a setting, cost, hours or steps against the metric"
    ),
    Key("compare", "o", "o", "tab('pareto')", "pareto", "Pareto front of the metric and cost"),
    Key("compare", "a", "a", "tab('samples')", "", "Samples of the pinned run and the one under the cursor"),
    Key("compare", "L,shift+l", "L", "log_scale", "scale", "Logarithmic scale of the metric"),
    Key(
        "compare",
        "P,shift+p",
        "P",
        "pin",
        "pin",
        "Pin the run under the cursor: it comes first, others are compared with it",
    ),
    Key("compare", "d", "d", "diff", "diff", "Code, settings, packages and data: armada diff of it and the pinned run"),
    Key("compare", "E,shift+e", "E", "picture", "picture", "Write a picture of the page, as SVG or PNG", changes=True),
    Key("compare", "R,shift+r", "R", "report", "report", "Write a report of these runs (armada report)", changes=True),
    Key("compare", "enter", "enter", "open", "", "Open the run under the cursor"),
    Key("compare", "Y,shift+y", "Y", "copy", "", "Copy the ids of the runs to the clipboard"),
    Key("compare", "plus,equals_sign", "+", "zoom(0.5)", "zoom", "Curves: zoom in", page="curves"),
    Key("compare", "minus", "-", "zoom(2.0)", "", "Curves: zoom out", page="curves"),
    Key(
        "compare",
        "left",
        "←",
        "pan(-0.25)",
        "",
        "Curves: earlier; Settings: the run before; Samples: up",
        page="curves,settings,samples",
    ),
    Key(
        "compare",
        "right",
        "→",
        "pan(0.25)",
        "move",
        "Curves: later; Settings: next run; Samples: down",
        page="curves,settings,samples",
    ),
    Key("compare", "0", "0", "whole", "", "The whole curves", page="curves"),
    Key(
        "compare",
        "full_stop",
        ".",
        "cross(1)",
        "",
        "The crosshair to the right; the mouse moves it, too",
        page="curves",
    ),
    Key(
        "compare",
        "comma",
        ",",
        "cross(-1)",
        "values",
        "The crosshair to the left, from the newest point",
        page="curves",
    ),
    Key("compare", "greater_than_sign", ">", "cross(10)", "", "The crosshair ten columns right", page="curves"),
    Key("compare", "less_than_sign", "<", "cross(-10)", "", "The crosshair ten columns left", page="curves"),
    Key("compare", "s", "s", "smooth", "smooth", "Curves: smoothing 0, 0.6, 0.9, 0.97", page="curves"),
    Key("compare", "b", "b", "against", "axis", "Curves: horizontal axis: step, time, tokens or cost", page="curves"),
    Key(
        "compare",
        "slash",
        "/",
        "filter",
        "filter",
        "Filter the metrics: m and M go through those that match; Settings: search",
        page="curves,parallel,scatter,pareto",
    ),
    Key("compare", "v", "v", "variable(1)", "panels", "Curves: 1, 2, 4 or as many metrics as fit", page="curves"),
    Key("compare", "v", "v", "variable(1)", "setting", "Scatter: next setting", page="scatter"),
    Key("compare", "V,shift+v", "V", "variable(-1)", "", "Scatter: setting before", page="scatter"),
    Key("columns", "space", "space", "choose", "take", "Take the column, or leave it out"),
    Key("columns", "less_than_sign,shift+up", "<", "shift(-1)", "", "Move it to the left"),
    Key("columns", "greater_than_sign,shift+down", ">", "shift(1)", "", "Move it to the right"),
    Key("columns", "up", "↑", "step(-1)", "", "Up"),
    Key("columns", "down", "↓", "step(1)", "", "Down"),
    Key("columns", "pageup", "PgUp", "page(-1)", "", "A page up"),
    Key("columns", "pagedown", "PgDn", "page(1)", "", "A page down"),
    Key("columns", "enter", "enter", "keep", "keep", "Keep the columns; a name that was typed is taken"),
    Key("columns", "escape", "esc", "close", "cancel", "Leave all columns as they were", always=True),
    Key("history", "y", "y", "copy", "copy", "Copy the command under the cursor"),
    Key("history", "o", "o", "output", "output", "Show its output"),
    Key("history", "enter", "enter", "again", "again", "Start it again (asks first)", changes=True),
    Key(
        "history",
        "x",
        "x",
        "interrupt",
        "interrupt",
        "Interrupt it while it runs, as Ctrl-C does (asks first)",
        changes=True,
    ),
    Key("history", "u", "u", "undo_act", "undo", "Undo it, or say why it cannot be undone", changes=True),
    Key("history", "escape,q,7", "esc", "close", "close", "Close"),
    Key("output", "slash", "/", "search", "search", "Search"),
    Key("output", "n", "n", "search_on(False)", "", "Next match"),
    Key("output", "N,shift+n", "N", "search_on(True)", "", "Match before"),
    Key("output", "W,shift+w", "W", "wrap", "wrap", "Wrap long lines"),
    Key("output", "y", "y", "copy", "copy command", "Copy the command"),
    Key("output", "escape,q,enter", "esc", "close", "close", "Close; this ends a command that only reads"),
    Key("notifications", "y", "y", "copy", "copy", "Copy the message under the cursor"),
    Key("notifications", "enter", "enter", "open", "open", "Open the run, or the host, that the message is about"),
    Key("notifications", "escape,q,8", "esc", "close", "close", "Close"),
)


def on_page(key: Key, page: str) -> bool:
    """Whether a key works on a page of its screen."""
    return not key.page or page in key.page.split(",")


def of(where: str) -> Iterator[Key]:
    return (key for key in KEYS if key.where == where)


def bindings(where: str) -> list[BindingType]:
    """Return the keys of one screen as Textual's bindings."""
    from textual.binding import Binding

    return [Binding(key.keys, key.action, key.help, show=bool(key.text), priority=key.always) for key in of(where)]


def markdown() -> str:
    """Return the table for docs/reference/dashboard.md."""
    parts = []
    for where, title in SCREENS.items():
        parts.append(f"### {title}\n\n| key | what it does |\n|---|---|")
        parts += [f"| `{key.shown}` | {key.help.replace('|', chr(92) + '|')} |" for key in of(where)]
        parts.append("")
    return "\n".join(parts)
