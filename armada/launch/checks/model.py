"""Check the model, if it is a hub id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.config.model_names import models_beside
from armada.launch.checks.check import Answer, fail, ok, warn
from armada.provision.hub import near_models
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
    if trained.answer.refused is not None or trained.answer.denied is not None:
        return _refused(name, trained.answer)
    beside = models_beside(name, origin.parent) if origin else []
    if beside:
        sentence = (
            f"model {name} is treated as a hub id; this machine has {', '.join(beside[:3])}, but no folder of that name"
        )
        return warn(sentence, "fix `model:` if you mean a folder")
    if trained.answer.unreachable is not None:
        sentence = f"model {name} was not looked up: {trained.answer.unreachable}"
        return warn(
            sentence, "the run starts only if the host can reach the hub by then, or has the model in its cache"
        )
    size, cached, free = trained.answer.size_bytes, trained.answer.cache, subject.facts.disk.free_bytes
    if size is not None and cached is None and size > free:
        sentence = f"model {name} is {amount(size)} at the hub, and the host has {amount(free)} free"
        return warn(sentence, "it fits only if the host's Hugging Face cache already has it, or is on another disk")
    there = ", which the host has" if size and cached and cached.size_bytes >= size else ""
    return ok(f"model {name} is a hub id" + (f": {amount(size)}{there}" if size else ""))


def _refused(name: str, answer: HubAnswer) -> Answer:
    near = None if answer.denied else near_models(name)
    meant = f"; did you mean {near}?" if near else ""
    what = f"model {name}: {answer.refused or _denied(answer)}"
    if answer.token:
        fix = (
            "ask its owner for access with the account of HF_TOKEN"
            if answer.denied
            else "fix `model:`, or ask its owner for access"
        )
        return fail(what, fix + meant)
    gated = "accept its terms on its page at the hub, and add HF_TOKEN to `secrets:`, unless the host has its own token"
    hint = (
        gated
        if answer.denied
        else "fix `model:`; for a gated model add HF_TOKEN to `secrets:`, unless the host has its own token"
    )
    return warn(what, hint + meant)


def _denied(answer: HubAnswer) -> str:
    return f"the hub shows it, but lets only some users read its files ({answer.denied})"
