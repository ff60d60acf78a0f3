"""Show the effective settings of a launch: host, profile, experiment, and the values computed from them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.config.documents import read_document
from armada.config.experiments import load_experiment
from armada.config.hosts import LOCAL, Host, home_bytes_per_s, load_hosts
from armada.config.one_name import kept_of_own
from armada.config.origins import DEFAULT, Value, trace
from armada.config.profiles import Profile, load_profile
from armada.config.tasks.bundled import BundledTraining
from armada.config.validation import nearest, written_places
from armada.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from armada.config.tasks.experiment import Experiment
    from armada.paths import HomePaths


_SEEN = "the GPUs it had when it was last checked"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of what was resolved: `home`, `host`, `profile`, `experiment`, `together`; `about` says which one."""

    name: str
    about: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of the command line.

    `seen_profile` is the one that fits the GPUs a host showed when it was last looked at, `seen_gpus` their number.
    """

    experiment: Path | None = None
    overrides: tuple[str, ...] = ()
    host: str | None = None
    profile: str | None = None
    gpus: str | None = None
    seen_profile: Profile | None = None
    seen_gpus: int | None = None


def resolve(home: HomePaths, project: Path, asked: Asked) -> list[Section]:
    """Read the requested files, and name the origin of each value.

    Raises:
        ConfigError: A file, or an override, is wrong.
        NotFound: No such host or profile.
    """
    sections = [Section("home", "", tuple(_of_home(home)))]
    host = experiment = None
    if asked.host is not None:
        host, places = _host(home, project, asked.host)
        sections.append(Section("host", asked.host, tuple(trace(host, places))))
    name, why = _profile_name(host, asked, sections)
    profile = load_profile(name, home) if name is not None else asked.seen_profile
    if profile is not None:
        values = [value for value in trace(profile, profile.places) if value.key != "name"]
        sections.append(Section("profile", profile.name, (Value("name", profile.name, why), *values)))
    if asked.experiment is not None:
        gpus = [f"resources.gpus={asked.gpus}"] if asked.gpus else []
        experiment = load_experiment(asked.experiment, [*asked.overrides, *gpus])
        values = [_by_option(value, asked) for value in trace(experiment, experiment.places)]
        sections.append(Section("experiment", str(experiment.origin), tuple(values)))
    together = tuple(_together(experiment, profile, host, sections, asked.seen_gpus))
    return [*sections, *([Section("together", "", together)] if together else [])]


def _of_home(home: HomePaths) -> list[Value]:
    moved = "$ARMADA_HOME" if os.environ.get("ARMADA_HOME") else DEFAULT
    limit = home_bytes_per_s(home)
    where = written_places(read_document(home.hosts_file)).get("bwlimit", DEFAULT) if limit is not None else DEFAULT
    quiet = os.environ.get("ARMADA_NO_DAEMON", "") not in ("", "0")
    return [
        Value("config", str(home.config), moved),
        Value("state", str(home.state), moved),
        Value("bwlimit_bytes_per_s", limit, where),
        Value("daemon", not quiet, "$ARMADA_NO_DAEMON" if quiet else DEFAULT),
    ]


def _host(home: HomePaths, project: Path, name: str) -> tuple[Host, dict[str, str]]:
    hosts = load_hosts(home, project)
    if name not in hosts:
        near = nearest(name, hosts)
        raise NotFound(
            f"no host is called {name!r}", hint=f"did you mean {near}?" if near else f"known: {', '.join(hosts)}"
        )
    places: dict[str, str] = {}
    host = hosts[name]
    if host.origin is not None:
        places = _written(host.origin, name)
    own = load_hosts(home).get(name)
    if own is not None and own.origin is not None and own.origin != host.origin:
        kept = kept_of_own(own, host)
        of_own = {key: place for key, place in _written(own.origin, name).items() if _first(key) in kept}
        places = {key: place for key, place in places.items() if _first(key) not in kept} | of_own
    if not places:
        places = {"name": "built in", "local": "built in"} if name == LOCAL else {}
    return host, places


def _written(file: Path, name: str) -> dict[str, str]:
    """Return where each key of a host stands in a file, and the host itself as `name`."""
    written, below = written_places(read_document(file)), f"hosts.{name}."
    places = {key.removeprefix(below): place for key, place in written.items() if key.startswith(below)}
    return places | {"name": written[f"hosts.{name}"]}


def _first(key: str) -> str:
    return key.partition(".")[0].partition("[")[0]


def _profile_name(host: Host | None, asked: Asked, sections: Sequence[Section]) -> tuple[str | None, str]:
    if asked.profile is not None:
        return asked.profile, f"--profile {asked.profile}"
    if host is not None and host.profile is not None:
        return host.profile, next(v.origin for v in sections[-1].values if v.key == "profile")
    return None, _SEEN


def _by_option(value: Value, asked: Asked) -> Value:
    if asked.gpus and value.key == "resources.gpus":
        return Value(value.key, value.value, f"--gpus {asked.gpus}")
    return value


def _together(
    experiment: Experiment | None,
    profile: Profile | None,
    host: Host | None,
    sections: Sequence[Section],
    seen_gpus: int | None,
) -> list[Value]:
    """What neither file says alone, by the file whose word it is in the end."""
    if experiment is None:
        return []
    said = {section.name: {value.key: value for value in section.values} for section in sections}
    found = [Value("secrets", _secrets(experiment), "the environment of this command")] if experiment.secrets else []
    if isinstance(experiment, BundledTraining) and profile is not None:
        word = "profile" if experiment.train.micro_batch_size == "auto" else "experiment"
        found.append(_named("micro_batch_size", said[word]["train.micro_batch_size"]))
        found.append(_named("precision", said["profile"]["train.precision"]))
        found.append(_named("attention", said["profile"]["train.attention"]))
    gpus = said["experiment"]["resources.gpus"]
    if profile is not None and (gpus.value == "all" or (gpus.value is None and experiment.takes_gpus)):
        gpus = said["profile"]["gpus.count"]
        if seen_gpus and host is not None and host.batch is None and seen_gpus < profile.gpus.count:
            gpus = Value("gpus", seen_gpus, _SEEN)
    found.append(_named("gpus", gpus))
    for name in sorted({*(profile.env if profile else {}), *experiment.env}):
        word = "experiment" if name in experiment.env else "profile"
        found.append(_named(f"env.{name}", said[word][f"env.{name}"]))
    if host is not None:
        limit = said["experiment"]["resources.time_limit"]
        if limit.value is None and host.batch is not None:
            limit = said["host"].get(f"{host.scheduler}.time_limit", limit)
        found.append(_named("time_limit", limit))
    return found


def _named(key: str, value: Value) -> Value:
    return Value(key, value.value, value.origin)


def _secrets(experiment: Experiment) -> Mapping[str, str]:
    """Which are there; never what they are."""
    return {name: "set" if os.environ.get(name) else "not set" for name in experiment.secrets}


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
