"""A run's folder, and the watch over the metrics of its job, without a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from armada_agent.metrics.watch import MetricsWatch
from armada_agent.paths import RunPaths

from tests.agent.conversation import check, spec_of

RECORDINGS = Path(__file__).parent / "recordings"


class WatchedRun:
    """What a job would write is written by the test, and each look is the test's."""

    def __init__(self, root: Path, **watch: Any) -> None:
        self.paths = RunPaths(str(root), "script-1")
        self.folder = Path(self.paths.folder)
        self.work = self.folder / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "output.log"
        spec = spec_of("script-1", "true", watch={"checkpoints": None, "resume": [], **watch})
        (self.folder / "spec.json").write_text(json.dumps(spec))
        self.settings = watch
        self.now = 1000.0
        self.attempt = 0
        self.said: list[str] = []
        self.begin()

    def begin(self) -> MetricsWatch:
        """Begin the next attempt."""
        self.attempt += 1
        return self.take_over()

    def take_over(self) -> MetricsWatch:
        """Begin as a supervisor does whose predecessor was killed."""
        self.watch = MetricsWatch(
            self.paths,
            self.attempt,
            self.settings.get("metrics", ()),
            self.said.append,
            print,
            lambda: True,
            lambda: self.now,
        )
        return self.watch

    def look(self, final: bool = False) -> None:
        self.now += 1
        self.watch.look(final)

    def print(self, text: str) -> None:
        with self.log.open("a", newline="") as stream:
            stream.write(text)

    def print_bytes(self, content: bytes) -> None:
        with self.log.open("ab") as stream:
            stream.write(content)

    def lines(self) -> list[dict[str, Any]]:
        """metrics.jsonl, held against the protocol."""
        path = Path(self.paths.metrics)
        found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        for line in found:
            check(line, "files", "metrics.jsonl")
        return found

    def curve(self, name: str) -> list[tuple[int, float]]:
        """The points of a curve in the order in which home is told of them."""
        found: list[tuple[int, float]] = []
        for line in self.lines():
            if name in line.get("names", ()):
                found.clear()
            elif name in line:
                found.append((line["step"], line[name]))
        return found

    def findings(self) -> list[str]:
        return self.said
