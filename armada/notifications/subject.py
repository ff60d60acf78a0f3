"""Say which run or host a notification is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container

_OF_HOSTS = frozenset({"disk_soon_full", "host_stop"})
"""Kinds of messages that are about a host, not about one of its runs."""


class Subject(NamedTuple):
    """What a message is about: a run or a host. `is_known` is False if it is gone."""

    kind: str
    name: str
    is_known: bool


def subject_of(kind: str, body: str, runs: Container[str], hosts: Container[str]) -> Subject:
    """Return what a message is about; messages name it first, as `RUN on HOST: …` or `HOST: …`.

    Args:
        kind: The message's kind, such as `run_failed`.
        body: Its text.
        runs: The ids of all runs.
        hosts: The names of all hosts.
    """
    first = body.partition("\n")[0].partition(":")[0]
    run_id, on, _ = first.partition(" on ")
    if kind in _OF_HOSTS or not on:
        return Subject("host", first, first in hosts)
    return Subject("run", run_id, run_id in runs)
