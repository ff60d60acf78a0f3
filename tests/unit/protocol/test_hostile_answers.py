"""Whatever a host answers to any request: home takes it or refuses it in a sentence, and takes what it says of other runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from armada.errors import UnexpectedAnswer
from armada.protocol import schema
from armada.protocol.message import Misfit, Request, parse
from tests import hostile
from tests.chance import dice
from tests.examples import example


def _requests(above: type[Request[Any]]) -> Iterator[type[Request[Any]]]:
    for each in above.__subclasses__():
        if hasattr(each, "method"):
            yield each
        yield from _requests(each)


REQUESTS = {each.method: each for each in sorted(_requests(Request), key=lambda each: each.method)}
LISTS = {"run.observe": "runs", "sync.look": "runs", "run.list": "runs", "run.specs": "specs"}
"""Answers about several runs, of which one may be hostile."""


def test_every_method_of_the_protocol_is_here() -> None:
    assert set(REQUESTS) == set(schema.requests())


@pytest.mark.parametrize("method", REQUESTS)
def test_an_answer_is_taken_or_refused(method: str) -> None:
    model, chance = REQUESTS[method].answer, dice(541 + list(REQUESTS).index(method))
    right = example(model)
    whole = parse(model, right, host="box", method=method)
    encoded = json.dumps(right).encode()
    refused: list[str] = []
    for _ in range(hostile.CASES):
        try:
            said = json.loads(hostile.content(chance, encoded).decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue  # such a line is no answer, and never gets here
        try:
            parse(model, said, host="box", method=method)
        except UnexpectedAnswer as error:
            refused.append(str(error))
    assert refused or not right
    assert all(words.isprintable() and len(words) < 1000 for words in refused)
    assert parse(model, right, host="box", method=method) == whole


@pytest.mark.parametrize("method", LISTS)
def test_what_is_said_of_another_run_is_taken(method: str) -> None:
    model, chance, name = REQUESTS[method].answer, dice(600 + list(LISTS).index(method)), LISTS[method]
    right = example(model)
    (entry,) = right[name]
    encoded = json.dumps(entry).encode()
    (whole,) = getattr(parse(model, right, host="box", method=method), name)
    assert not isinstance(whole, Misfit)
    for _ in range(hostile.CASES):
        try:
            bent = json.loads(hostile.content(chance, encoded).decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            bent = hostile.value(chance)
        found = getattr(parse(model, {**right, name: [bent, entry, bent]}, host="box", method=method), name)
        assert found.count(whole) >= 1, bent
