"""Read an experiment from its file. `armada.config.tasks` defines the keys of each task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from armada.config.documents import read_document
from armada.config.overrides import apply_override
from armada.config.tasks.experiment import Experiment
from armada.config.tasks.registry import model_of
from armada.config.validation import validate, written_places


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
    document = read_document(path.expanduser())
    folder = document.path.absolute().parent
    for text in overrides:
        apply_override(document, text)
    given = {"origin": document.path.absolute(), "places": written_places(document)}
    model = model_of(document.data.get("task"))
    return validate(document, model, given=given, context={"folder": folder}).find_files(document)
