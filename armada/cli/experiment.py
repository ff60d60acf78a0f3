"""The experiment that a command line names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from armada.config.tasks.experiment import Experiment


def read_experiment(options: argparse.Namespace) -> Experiment:
    """Read the experiment that a command line names, with what it changes."""
    from armada.config.experiments import load_experiment

    return load_experiment(experiment_file(options.experiment), changes_of(options))


def changes_of(options: argparse.Namespace) -> list[str]:
    """Return what a command line changes of its experiment."""
    return [*options.overrides, *([f"resources.gpus={options.gpus}"] if options.gpus else [])]


def experiment_file(text: str) -> Path:
    """Find the experiment file that a command-line argument names."""
    from armada.paths import bundled

    path = Path(text)
    if not path.exists() and text == "quickstart":
        return bundled("quickstart", "quickstart.yaml")
    if path.is_dir():
        raise UsageError(f"{text} is a folder, but an experiment is a YAML file", hint=f"{path / 'experiment.yaml'}?")
    return path
