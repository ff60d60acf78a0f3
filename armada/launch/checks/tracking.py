"""Check that runs that report to W&B have its key and its package."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from armada.launch.checks.check import Answer, ok, warn
from armada.launch.checks.payload import lacks_package

if TYPE_CHECKING:
    from armada.launch.checks.subject import Subject

_KEY = "WANDB_API_KEY"
_LONGEST_NETRC = 1_000_000


def check_key(subject: Subject) -> Answer | None:
    """Report W&B's key that is not sent, or that is sent in vain. None where nothing reports to W&B online."""
    experiment, profile, trained = subject.experiment, subject.profile, subject.trained
    own = getattr(experiment, "tracking", None)
    mode = trained.section.tracking.wandb if trained is not None else own.wandb if own is not None else "off"
    given = {**(profile.env if profile is not None else {}), **experiment.env}
    given |= {name: os.environ.get(name, "") for name in experiment.secrets}
    has_key = bool(given.get(_KEY, "").strip())
    if mode not in ("online", "auto") or not subject.host.has_internet:
        return None
    place = experiment.places.get("tracking.wandb")
    where = f"{place}: " if place else ""
    if mode == "online" and not has_key and not (subject.host.local and _is_logged_in()):
        hint = f"`secrets: [{_KEY}]`; ignore this if `wandb login` was done on the host"
        return warn(f"{where}tracking.wandb is online, but the job gets no {_KEY}: W&B would stop it", hint)
    environment = trained.environment if trained is not None else None
    if mode == "auto" and has_key and environment is not None and lacks_package(environment, "wandb"):
        hint = "add wandb to `environment.packages` of your own profile, or set `tracking: {wandb: off}`"
        return warn(f"the job gets {_KEY}, but its environment has no wandb: nothing is reported to W&B", hint)
    if mode == "auto":
        return None
    return ok("W&B's key is sent" if has_key else "W&B's key is in ~/.netrc")


def _is_logged_in() -> bool:
    """Whether `wandb login` has left a key in this machine's ~/.netrc."""
    try:
        with (Path.home() / ".netrc").open("rb") as stream:
            return b"wandb" in stream.read(_LONGEST_NETRC)
    except (OSError, RuntimeError):
        return False
