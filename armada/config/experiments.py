"""Read an experiment from its file. `armada.config.tasks` defines the keys of each task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import create_model

from armada.config.documents import Document, read_document
from armada.config.overrides import apply_override
from armada.config.tasks.experiment import Experiment
from armada.config.tasks.registry import TASKS, load, models
from armada.config.validation import Problem, problems_of, validate, written_places
from armada.foundation.user_folder import expanded


def load_experiment(path: Path, overrides: Sequence[str] = ()) -> Experiment:
    """Read an experiment and check that the files it names exist. Relative paths, also in overrides, are relative to its file.

    Args:
        path: The file.
        overrides: `train.seed=7`, each put over the file; later ones win.

    Returns:
        What its `task` makes of it, such as an `armada.config.tasks.sft.Sft`.

    Raises:
        ConfigError: The file, an override, or something they name is wrong.
    """
    document = read_document(expanded(path))
    for text in overrides:
        apply_override(document, text)
    return experiment_of(document)


def experiment_of(document: Document) -> Experiment:
    """Make an experiment of a document, as `load_experiment` does of a file.

    Raises:
        ConfigError: The document, or something it names, is wrong.
    """
    given, context = _about(document)
    return validate(document, model_of(document.data.get("task")), given=given, context=context).find_files(document)


def problems_of_experiment(document: Document) -> list[Problem]:
    """List what is wrong with the settings of a document; the files that they name are not looked for."""
    given, context = _about(document)
    return problems_of(document, model_of(document.data.get("task")), given=given, context=context)


def _about(document: Document) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields that do not stand in the file, and what the validators need."""
    path = document.path.absolute()
    given = {"origin": path, "places": written_places(document), "requirement_lines": (), "follows": None}
    return given, {"folder": path.parent}


def model_of(task: object) -> type[Experiment]:
    """Return the model for an experiment: its task chooses one of the union.

    Args:
        task: What stands after `task:`, if anything.

    Returns:
        The task's own. Where there is no such task, a model that refuses every experiment, and names all that is wrong with this one.
    """
    if isinstance(task, str) and task in TASKS:
        return cast("type[Experiment]", load(TASKS[task].settings))
    return _model_of_no_task()


def _model_of_no_task() -> type[Experiment]:
    fields: dict[str, Any] = {key: (Any, None) for model in models().values() for key in model.model_fields}
    shared = {key: (info.annotation, info) for key, info in Experiment.model_fields.items() if key != "task"}
    known = Literal[tuple(TASKS)]  # type: ignore[valid-type]  # the list above, at run time
    return create_model("NoTask", __base__=Experiment, **{**fields, **shared, "task": (known, ...)})
