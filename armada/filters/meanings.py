"""What each key of a run shows, in a few words, for lists of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.filters.keys import Key

MEANINGS = {
    "id": "its id",
    "name": "its name, with its place under a sweep or a chain",
    "host": "the host it runs on",
    "state": "queued, running, succeeded, failed …",
    "reason": "why it failed, in a word: oom, hang …",
    "message": "why it failed, in a sentence",
    "task": "sft, pretrain, dpo, script …",
    "experiment": "the file it was launched from",
    "phase": "what it does now: loading, training …",
    "note": "your note",
    "group": "the group that you put it into",
    "follows": "the run that it was launched again from, or starts from",
    "tag": "your tags",
    "is": "every condition that it meets: active, starred, trouble …",
    "starred": "whether you starred it",
    "archived": "whether you archived it",
    "ended": "whether it has ended",
    "active": "whether it has not ended",
    "trouble": "whether it needs you",
    "loss": "the newest loss",
    "step": "its newest step",
    "steps": "how many steps it will have",
    "progress": "how much of its steps is done",
    "speed": "tokens a second",
    "gpus": "how many GPUs it holds",
    "attempt": "which attempt this is",
    "exit_code": "the exit code of its job",
    "checkpoints": "how many checkpoints are at home",
    "cost": "what it has cost so far",
    "forecast": "what it will have cost at its last step",
    "price": "what it costs an hour",
    "age": "since its launch",
    "lasted": "how long it has been on the host",
    "eta": "how long until its last step",
    "seen": "since its host last answered",
    "log": "the size of its log",
    "created": "when it was launched",
    "started": "when it began on the host",
    "finished": "when it ended",
}


def meaning(key: Key) -> str:
    """Say what a key shows."""
    if key.source == "setting":
        return "a setting of the experiment"
    if key.source == "metric":
        return f"{_VALUES.get(key.of_series, 'the newest value')} of a metric"
    return MEANINGS.get(key.name, "")


_VALUES = {"min": "the lowest value", "max": "the highest value"}
