"""Check the training: when it saves, and where it reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.launch.checks.check import Answer, fail, ok, warn

if TYPE_CHECKING:
    from armada.launch.checks.subject import Subject


def check_checkpoints(subject: Subject) -> Answer:
    """Check that at least one checkpoint is saved before the end."""
    checkpoint = subject.experiment.checkpoint
    every_steps = checkpoint.every_steps if checkpoint else None  # minutes cannot be compared with steps
    max_steps = subject.trained.max_steps if subject.trained else None
    if not max_steps or every_steps is None or every_steps <= max_steps:
        return ok("checkpoints are saved before the end")
    return warn(
        f"checkpoint.every_steps {every_steps} is more than train.max_steps {max_steps}: only the end is saved",
        "a run that dies leaves no checkpoint",
    )


def check_wandb(subject: Subject) -> Answer:
    """Check that W&B is not online on hosts whose runs have no internet."""
    host = subject.host
    own = getattr(subject.experiment, "tracking", None)  # of a script or command, where it says any
    wandb = subject.trained.section.tracking.wandb if subject.trained else own.wandb if own else None
    if wandb is None or wandb == "off":
        return ok("the payload reports nothing to W&B")
    if host.has_internet:
        return ok(f"W&B {wandb}")
    if wandb == "online":
        return fail(
            f"tracking.wandb is online, but runs on {host.name} have no internet",
            "tracking.wandb: offline, then `armada wandb sync RUN` from home; or `internet: true` in hosts.yaml",
        )
    return ok("W&B offline: its files come home, `armada wandb sync RUN` uploads them")
