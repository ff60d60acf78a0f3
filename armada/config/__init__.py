"""Read the files that people write: hosts, profiles and experiments.

Names are loaded when first used: pydantic and ruamel.yaml cost 0.1 s, which `armada --version` must not pay.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.config.experiments import load_experiment as load_experiment
    from armada.config.hosts import Host as Host
    from armada.config.hosts import load_hosts as load_hosts
    from armada.config.hosts_file import add_host as add_host
    from armada.config.hosts_file import remove_host as remove_host
    from armada.config.profile_choice import choose_profile as choose_profile
    from armada.config.profiles import Profile as Profile
    from armada.config.profiles import list_profiles as list_profiles
    from armada.config.profiles import load_profile as load_profile
    from armada.config.tasks.experiment import Experiment as Experiment

_MODULES = {
    "Experiment": "tasks.experiment",
    "load_experiment": "experiments",
    "Host": "hosts",
    "load_hosts": "hosts",
    "add_host": "hosts_file",
    "remove_host": "hosts_file",
    "Profile": "profiles",
    "choose_profile": "profile_choice",
    "list_profiles": "profiles",
    "load_profile": "profiles",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
