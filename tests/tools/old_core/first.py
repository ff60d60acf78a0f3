"""Tell the first simulation's stories to the core in the current folder: direct hosts, and trainings. Run by its path."""

from __future__ import annotations

import importlib
import json


def main() -> None:
    """Print a line of JSON for each story: the finding, its words, and the rule that broke."""
    runs = importlib.import_module("armada.store.runs")
    vars(runs).setdefault("set_root", lambda *_args, **_options: None)  # that core noted no root
    stories = importlib.import_module("tests.simulation.stories")
    told = importlib.import_module("tests.simulation.test_histories")
    for name, words in told.FOUND.items():
        try:
            broke = stories.outcome(told.read(words))
        except Exception as error:
            broke = f"could not be told: {type(error).__name__}: {error}"
        print(json.dumps([name, words, broke]), flush=True)


main()
