"""A disk that answers a supervisor with errors as long as a test says so, as a network file system does for a while."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.agent.batch_worker import Worker

PREFACE = """
import builtins, json, os
_open = open
_RULE, _LOG = %r, %r
def _refusing(verb, real):
    def call(path, *words, **more):
        name = os.fspath(path) if not isinstance(path, int) else ""
        if isinstance(name, str) and "/runs/" in name and not name.startswith(_RULE):
            try:
                with _open(_RULE) as stream:
                    rule = json.load(stream)
            except FileNotFoundError:
                rule = None
            if rule and name.startswith(rule["below"]) and verb in rule["verbs"]:
                with _open(_LOG, "a") as stream:
                    stream.write(verb + " " + name + "\\n")
                raise OSError(rule["errno"], os.strerror(rule["errno"]), name)
        return real(path, *words, **more)
    return call
for _verb in ("open", "stat", "lstat", "scandir", "listdir", "link", "rename", "mkdir"):
    setattr(os, _verb, _refusing(_verb, getattr(os, _verb)))
builtins.open = _refusing("open", open)
"""
VERBS = ("open", "stat", "lstat", "scandir", "listdir", "link", "rename", "mkdir")


class RefusingDisk:
    """Refuses what is below a path, for the supervisors that a worker starts from now on."""

    def __init__(self, worker: Worker) -> None:
        self._rule, self._log = worker.folder / "refused.json", worker.folder / "refused.log"
        worker.preface = PREFACE % (str(self._rule), str(self._log))

    def refuse(self, below: Path, number: int, verbs: tuple[str, ...] = VERBS) -> None:
        """Answer with an error from now on."""
        part = self._rule.with_suffix(".part")
        part.write_text(json.dumps({"below": str(below), "errno": number, "verbs": verbs}))
        part.rename(self._rule)

    def await_refusals(self, count: int = 5) -> None:
        """Wait until a supervisor met the error that often from now on."""
        before = len(self.refused())
        eventually(lambda: len(self.refused()) >= before + count)

    def refused(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []

    def answer(self) -> None:
        """Be as a disk should be again."""
        self._rule.unlink()
