"""What hosts answer, as tests write it, parsed as home parses it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from armada.errors import ArmadaError
from armada.monitor.look import Look, looks
from armada.protocol.message import Misfit, Request, parse
from armada.protocol.observation import Observation, Observations
from armada.protocol.records import Checkpoint
from armada.protocol.sync import RunListing
from armada.rpc.client import Call, parse_answer

HOST = "box"


def observation(entry: Mapping[str, Any]) -> Observation:
    """A run's part of an answer; what a test leaves out is that of a run which is not there."""
    return parse(Observation, {"run_id": "x", "exists": False, **entry}, host=HOST, method="run.observe")


def look(entry: Mapping[str, Any]) -> Look | Misfit:
    """One look at a run: its part, in which the answer's own `root`, `wiped` and `moment` may stand, too."""
    of_all = {name: entry[name] for name in ("root", "wiped", "moment") if name in entry}
    answer = parse(Observations, {**of_all, "runs": [entry]}, host=HOST, method="run.observe")
    return next(iter(looks(answer).values()), Misfit(None, "it does not say whose it is"))


def listing(entry: Mapping[str, Any]) -> RunListing:
    """A run's part of a `sync.look` answer."""
    return parse(RunListing, {"run_id": "x", "exists": True, **entry}, host=HOST, method="sync.look")


def outbox(entries: Iterable[Mapping[str, Any]]) -> list[Checkpoint]:
    """The checkpoints that a host lists."""
    return [parse(Checkpoint, entry, host=HOST, method="run.observe") for entry in entries]


def answered(questions: Sequence[Call[Any]], answers: Sequence[Any]) -> list[Any]:
    """The answers to several questions, parsed as `HostSession.call_all` does."""
    return [
        answer if isinstance(answer, ArmadaError) else parse_answer(question.answer, answer, question.method, HOST)
        for question, answer in zip(questions, answers, strict=True)
    ]


class Answering:
    """A session whose `said` gives each answer as an object of JSON's."""

    def said(self, method: str, params: dict[str, Any], /, **options: Any) -> Any:
        raise NotImplementedError

    def call(self, request: Request[Any] | str, params: dict[str, Any] | None = None, /, **options: Any) -> Any:
        """Answer as `HostSession.call` does."""
        if isinstance(request, str):
            return self.said(request, params or {}, **options)
        answer = self.said(request.method, request.as_params(), **options)
        return parse(request.answer, answer, host=HOST, method=request.method)

    def received_at(self, request: Request[Any]) -> float:
        """The answer came just now."""
        return time.time()

    def call_all(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Answer as `HostSession.call_all` does."""
        return answered(calls, [self.said(call.method, call.params) for call in calls])
