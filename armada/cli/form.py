"""`armada __complete form JSON`: print what the dashboard's Launch screen shows of an experiment, as one JSON object.

The dashboard asks this in a process of its own: the models take longer to import than a screen may take to open. JSON is
`{"experiment": FILE, "changes": ["a.b=c"], "run": ID}`; with `run`, the experiment is that of a run, and the answer has the changes
that make the file the same as the run was.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armada.errors import ArmadaError, ConfigError, NotFound, UsageError
from armada.foundation.user_folder import expanded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.config.tasks.experiment import Experiment

MOST_CELLS = 200
COUNTED_BYTES = 32 << 20
"""Rows of larger data files are not counted here."""
_LONGEST_ROW = 4000


def print_form(asked: str) -> None:
    """Print the form, or the error instead."""
    from armada.cli.printing import error_fields

    try:
        told = _form(_question(asked))
    except ArmadaError as error:
        told = {"error": {**error_fields(error), "line": getattr(error, "line", None)}}
    except OSError as error:
        told = {"error": {"message": f"{error.filename or 'a file'}: {error.strerror}", "hint": None, "line": None}}
    print(json.dumps({"format": 1, **told}))


def _question(asked: str) -> dict[str, Any]:
    try:
        question = json.loads(asked)
    except ValueError:
        question = None
    if not isinstance(question, dict):
        raise UsageError("the form takes one JSON object")
    return question


def _form(question: dict[str, Any]) -> dict[str, object]:
    from armada.cli.experiment import experiment_file
    from armada.config.experiments import load_experiment
    from armada.config.form import differences

    listed = question.get("changes")
    changes = [str(each) for each in listed] if isinstance(listed, list) else []
    told: dict[str, object] = {}
    if question.get("run"):
        path, recorded, told = _of_run(str(question["run"]))
        try:
            changes = differences(recorded, load_experiment(path))
        except ConfigError as error:
            return told | {"path": str(path.absolute()), "changes": []} | _since_faulty(path, told, error)
    else:
        path = expanded(experiment_file(str(question.get("experiment"))))
    told |= {"path": str(path.absolute()), "changes": changes}
    try:
        return told | _right(path, changes)
    except ConfigError as error:
        return told | _faulty(path, changes, error)


def _right(path: Path, changes: list[str]) -> dict[str, object]:
    """What is told of an experiment that can be launched.

    Raises:
        ConfigError: Something in it is wrong.
    """
    from armada.config.experiments import load_experiment
    from armada.config.form import settings_of

    experiment = load_experiment(path, changes)
    return {
        "task": experiment.task,
        "settings": [setting.as_json() for setting in settings_of(experiment)],
        "sweep": _sweep(path, changes) if experiment.sweep is not None else None,
        "data": list(_data(experiment)),
        "faults": [],
    }


def _faulty(path: Path, changes: list[str], error: ConfigError) -> dict[str, object]:
    """What can be read of an experiment, and what is wrong with it.

    Raises:
        ConfigError: It is not YAML, or cannot be read.
    """
    from armada.config.faulty_form import read_faulty

    found = read_faulty(path, changes, error)
    return {
        "task": found.task,
        "settings": [setting.as_json() for setting in found.settings],
        "sweep": None,
        "data": [],
        "faults": [asdict(fault) for fault in found.faults],
    }


def _since_faulty(path: Path, told: Mapping[str, Any], error: ConfigError) -> dict[str, object]:
    """What is told of a run whose file has become faulty: the file as it is, and that it is not what the run was.

    Raises:
        ConfigError: It is not YAML any more, or cannot be read.
    """
    again = f"armada reproduce {told['run']} --to DIR"
    note = f"{path.name} has errors now: these are its settings, not those of the run, which {again} writes"
    kept = [each for each in told["notes"] if not each.startswith(f"{path.name} has changed")]
    return _faulty(path, [], error) | {"notes": [note, *kept]}


def _of_run(run_id: str) -> tuple[Path, dict[str, Any], dict[str, object]]:
    """Return the experiment file of a run, its recorded settings, and what to say about them.

    Raises:
        NotFound: The file is gone, or nothing is recorded.
    """
    from armada.cli.context import Context
    from armada.protocol.recorded import recorded_spec
    from armada.records.launch_record import read_record
    from armada.store import runs

    context = Context(reads=True)
    run = context.run(run_id)
    spec = runs.spec(context.database, run.run_id)
    recorded = spec.get("experiment")
    if run.task in ("merge", "bench", "prepare"):
        raise UsageError(f"{run.run_id} is a {run.task}, not the launch of an experiment")
    if not isinstance(recorded, dict) or not recorded or not run.experiment:
        raise NotFound(f"nothing is recorded of the experiment of {run.run_id}")
    path, again = Path(run.experiment), f"armada reproduce {run.run_id} --to DIR"
    if not path.is_file():
        raise NotFound(
            f"the experiment file of {run.run_id} is gone: {path}", hint=f"{again} writes it into a new folder"
        )
    record = read_record(context.home, run.run_id)
    notes = []
    if record is not None and record.experiment is not None:
        text = path.read_text("utf-8", "replace").removeprefix("\ufeff")
        if text != record.experiment:
            notes.append(f"{path.name} has changed since this run; the changes make its settings those of the run")
    if record is not None and record.code is not None:
        notes.append(f"the code is sent as it is now; {again} writes the code of the run")
    name = run.name
    if (cell := recorded_spec(spec).sweep) is not None and cell.label and name.endswith(f" {cell.label}"):
        # It is made from the cell's settings, and would be wrong as soon as one of them is changed.
        name = name.removesuffix(f" {cell.label}")
        notes.append(f"the name of the cell says its settings; this launch is called {name}")
    # A name given by --name is the run's: as a change, it is its name again.
    return path, {**recorded, "name": name}, {"run": run.run_id, "host": run.host, "notes": notes}


def _sweep(path: Path, changes: list[str]) -> dict[str, object]:
    """The cells of a sweep; asks no host."""
    from armada.sweeps.cells import Words, expand, read_draft
    from armada.sweeps.goal import with_goal

    draft = with_goal(read_draft(path, Words(overrides=tuple(changes))))
    searched = draft.sweep.search is not None
    labels = [] if searched or draft.count > MOST_CELLS else [cell.label for cell in expand(draft)]
    return {
        "count": draft.count if searched or not labels else len(labels),
        "labels": labels,
        "is_search": searched,
        "parallel": draft.sweep.parallel,
        "metric": draft.sweep.metric,
    }


def _data(experiment: Experiment) -> Any:
    """The first row of each data file at home."""
    from armada.config.data import sources_in

    for split in ("train", "eval"):
        for _, source in sources_in(getattr(experiment.data, split, None)):
            path = source.path
            told: dict[str, object] = {"split": split, "source": str(path) if path is not None else _named(source)}
            if path is not None and path.is_file():
                told |= _first_row(path)
            yield told


def _named(source: Any) -> str:
    said = {key: value for key, value in source.model_dump(mode="json", exclude_defaults=True).items() if value}
    return ", ".join(f"{key} {value}" for key, value in said.items())[:500]


def _first_row(path: Path) -> dict[str, object]:
    """Size, rows, columns and the first row of a file of JSON lines; of other files the size alone."""
    size = path.stat().st_size
    told: dict[str, object] = {"size_bytes": size}
    if path.suffix not in (".jsonl", ".json", ".txt", ".csv"):
        return told
    with path.open("rb") as file:
        first = file.readline(_LONGEST_ROW * 4).decode("utf-8", "replace").strip()
        if size <= COUNTED_BYTES and path.suffix != ".json":
            file.seek(0)
            told["rows"] = sum(1 for line in file if line.strip())
    told["first"] = first[:_LONGEST_ROW]
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return told
    return told | {"columns": list(map(str, row))[:50]} if isinstance(row, dict) else told
