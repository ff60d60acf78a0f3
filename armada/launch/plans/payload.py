"""The environment variables of every run of the bundled payload."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.paths import HostPaths
    from armada.provision.content import Content


def payload_variables(paths: HostPaths, payload: Content, *, in_container: bool = False) -> dict[str, str]:
    """Return the variables with which Python finds the payload and no other module of that name.

    Args:
        paths: Of the host.
        payload: The trainer.
        in_container: An image has bytecode of its own beside its modules. One cache for several images would mix them,
            because builds often give all files of an image the same time.
    """
    cache = {} if in_container else {"PYTHONPYCACHEPREFIX": str(paths.bytecode)}
    return {
        # The payload alone: a project's own datasets.py must not stand in for the library of that name.
        "PYTHONPATH": str(paths.content("code", payload.sha)),
        "PYTHONSAFEPATH": "1",
        "PYTHONNOUSERSITE": "1",
        **cache,  # or each start compiles torch's family anew: 14 s
        "PYTHONDONTWRITEBYTECODE": "",  # which whoever logged in may have set
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
