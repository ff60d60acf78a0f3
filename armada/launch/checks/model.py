"""Check the model, if it is a hub id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.config.model_names import models_beside
from armada.launch.checks.check import Answer, fail, ok, warn
from armada.units import amount

if TYPE_CHECKING:
    from armada.launch.checks.subject import Subject
    from armada.provision.hub import HubAnswer


def check_hub_model(subject: Subject) -> Answer | None:
    """Report that a model's name is treated as a hub id, and the hub's answer. None if it is a folder."""
    trained, origin = subject.trained, subject.experiment.origin
    name = trained.hub_model if trained is not None else None
    if trained is None or name is None:
        return None
    if trained.answer.refused is not None:
        return _refused(name, trained.answer)
    beside = models_beside(name, origin.parent) if origin else []
    if beside:
        sentence = (
            f"model {name} is treated as a hub id; this machine has {', '.join(beside[:3])}, but no folder of that name"
        )
        return warn(sentence, "fix `model:` if you mean a folder")
    size, free = trained.answer.size_bytes, subject.facts.disk.free_bytes
    if size is not None and size > free:
        sentence = f"model {name} is {amount(size)} at the hub, and the host has {amount(free)} free"
        return warn(sentence, "it fits only if the host's Hugging Face cache already has it, or is on another disk")
    return ok(f"model {name} is a hub id" + (f": {amount(size)}" if size else ""))


def _refused(name: str, answer: HubAnswer) -> Answer:
    what = f"model {name}: {answer.refused}"
    if answer.token:
        return fail(what, "fix `model:`, or ask its owner for access")
    hint = "fix `model:`; for a gated model add HF_TOKEN to `secrets:`, unless the host has its own token"
    return warn(what, hint)
