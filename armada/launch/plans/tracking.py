"""What W&B is told of a script or command, by the variables that its library reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.config.tasks.own_job import OwnJob
    from armada.launch.plans.task import Place

_MODES = {"online": "online", "offline": "offline", "off": "disabled"}


def tracking_imports(settings: OwnJob) -> dict[str, str]:
    """Return W&B's package, with the place that asks for it, if the experiment insists on W&B."""
    if settings.tracking is None or settings.tracking.wandb not in ("online", "offline"):
        return {}
    return {"wandb": settings.places.get("tracking.wandb", "tracking.wandb")}


def tracking_variables(settings: OwnJob, place: Place) -> dict[str, str]:
    """The variables of the experiment's `tracking`, less those that the experiment or its profile sets itself.

    All attempts of a run are one run at W&B, as those of the bundled trainer are. `auto` leaves the mode to W&B: offline where runs
    have no internet, which every job there is told, and online with a key.
    """
    tracking = settings.tracking
    if tracking is None:
        return {}
    found = {
        "WANDB_DIR": str(place.paths.run(place.run_id)),
        "WANDB_RUN_ID": place.run_id,
        "WANDB_RESUME": "allow",
        "WANDB_NAME": place.title,
    }
    if tracking.project is not None:
        found["WANDB_PROJECT"] = tracking.project
    if tracking.wandb in _MODES:
        found["WANDB_MODE"] = _MODES[tracking.wandb]
    own = {**(place.profile.env if place.profile else {}), **settings.env}
    return {name: value for name, value in found.items() if name not in own}
