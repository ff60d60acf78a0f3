"""Look for what would fail later, or silently do something else, before anything costs time or money.

| check  | refuses or warns                                                                    |
|--------|-------------------------------------------------------------------------------------|
| ARM001 | a GPU is asked for that the host does not have                                      |
| ARM002 | the host's GPUs are not the profile's kind (warns)                                  |
| ARM003 | bf16 on a GPU without it (compute capability below 8.0)                             |
| ARM004 | a secret the experiment names is not in home's environment                          |
| ARM005 | disk on the host: environment, files and checkpoints against what is free           |
| ARM006 | rsync is missing there or here: files travel as a tar stream through the agent        |
| ARM007 | the host's clock is off (warns)                                                     |
| ARM008 | checkpoints farther apart than the run is long (warns: only the last one is kept)   |
| ARM009 | links and other things in the project that do not travel (warns)                    |
| ARM010 | the project has changes that no revision holds (warns: the snapshot has them)       |
| ARM011 | memory: more processes than the host has cores for (warns)                          |
| ARM012 | the host's batch system could never run this; or not now (warns, with the reason)   |
| ARM013 | W&B online where runs have no internet (what they write offline comes home)         |
| ARM014 | a line of the host's `setup:` fails                                                |
| ARM015 | what the payload itself would refuse of settings, model and environment              |
| ARM016 | a hub id that the hub refuses (warns without HF_TOKEN); or too large, or perhaps meant for a folder (warns) |
| ARM017 | variables of the shell that a training may want and the job does not see (warns, with their names) |

Batch arithmetic, files and their lines are refused earlier, where they are read.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

from armada.config.model_names import models_beside
from armada.inert import inert_line
from armada.launch.checks import Check, SchedulerAnswer
from armada.provision.hub import HubAnswer
from armada.units import amount, counted, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.config.experiments import Experiment
    from armada.config.hosts import Host
    from armada.config.profiles import Profile
    from armada.provision.code import Snapshot

ENVIRONMENT_BYTES = {"cpu": 2_000_000_000, "cuda": 12_000_000_000}
"""What an environment takes on disk, its download cache included: 1.2 GB measured for CPU; CUDA's wheels alone unpack to 7."""

FLOOR_BYTES = 1_000_000_000
CLOCK_S = 120.0
_SOON_S = 60.0
_MEANT_FOR_JOBS = re.compile(
    r"HF_TOKEN|(?:WANDB|NCCL|TORCH\w*|PYTORCH|ACCELERATE|DEEPSPEED|TOKENIZERS|TRANSFORMERS|OMP)_\w+"
)
"""Of home's own shell, where runs are elsewhere: its paths and caches mean nothing there."""
_SECRET = re.compile(r".*_(?:TOKEN|KEY|SECRET|PASSWORD)")


def check_launch(
    *,
    experiment: Experiment,
    host: Host,
    profile: Profile | None,
    facts: dict[str, Any],
    gpus: int,
    processes: int,
    precision: str | None,
    travelling_bytes: int,
    environment_missing: bool,
    checkpoint_bytes: int,
    snapshot: Snapshot | None,
    scheduler: SchedulerAnswer,
    hub_bytes: int = 0,
    hub_answer: HubAnswer | None = None,
    wandb: str | None = None,
) -> tuple[Check, ...]:
    """Every check, in the order of their numbers."""
    if host.batch is not None:
        return (
            _secrets(experiment.secrets),
            _disk(facts, travelling_bytes + hub_bytes, environment_missing, gpus, checkpoint_bytes),
            _rsync(host, facts, travelling_bytes),
            _clock(facts),
            _checkpoints(experiment),
            *_project(snapshot),
            _engine(host, scheduler),
            _wandb(host, wandb),
            _setup(host, facts),
            *_hub_id(experiment, facts, hub_answer),
            _shell(experiment, host, profile, facts),
        )
    there: list[dict[str, Any]] = facts["gpus"]
    return (
        _gpus(gpus, there),
        _kind(gpus, profile, there),
        _bf16(gpus, precision, there),
        _secrets(experiment.secrets),
        _disk(facts, travelling_bytes + hub_bytes, environment_missing, gpus, checkpoint_bytes),
        _rsync(host, facts, travelling_bytes),
        _clock(facts),
        _checkpoints(experiment),
        *_project(snapshot),
        _cores(gpus, processes, facts),
        _wandb(host, wandb),
        _setup(host, facts),
        *_hub_id(experiment, facts, hub_answer),
        _shell(experiment, host, profile, facts),
    )


def _gpus(wanted: int, there: Sequence[dict[str, Any]]) -> Check:
    if wanted > len(there):
        return Check(
            "ARM001",
            "fail",
            f"{counted(wanted, 'GPU')} {'is' if wanted == 1 else 'are'} asked for, the host has {len(there)}",
            f"--gpus {len(there)}, or another host",
        )
    return Check("ARM001", "ok", f"{wanted} of the host's {counted(len(there), 'GPU')}")


def _engine(host: Host, answer: SchedulerAnswer) -> Check:
    if answer.refusal is not None:
        return Check(
            "ARM012",
            "fail",
            f"{host.scheduler} would never run this: {answer.refusal}",
            f"`resources:` of the experiment, or `{host.scheduler}:` of the host",
        )
    if answer.wait is not None:
        return Check(
            "ARM012",
            "warn",
            f"{host.scheduler} cannot start this now, and nobody knows for how long: {answer.wait}",
            f"it would wait in the queue until that changes; or change `{host.scheduler}:` of the host (its partition, say)",
        )
    when = answer.starts_in_s
    expected = f", and expects to start it in {span(when)}" if when is not None and when >= _SOON_S else ""
    return Check("ARM012", "ok", f"{host.scheduler} takes the job file{expected}")


def _wandb(host: Host, wandb: str | None) -> Check:
    if wandb is None or wandb == "off":
        return Check("ARM013", "ok", "nothing is reported to W&B by the payload")
    if host.has_internet:
        return Check("ARM013", "ok", f"W&B {wandb}")
    if wandb == "online":
        return Check(
            "ARM013",
            "fail",
            f"tracking.wandb is online, but runs on {host.name} have no internet",
            "tracking.wandb: offline, then `armada wandb sync RUN` from home; or `internet: true` in hosts.yaml",
        )
    return Check("ARM013", "ok", "W&B offline: its files come home, `armada wandb sync RUN` uploads them")


def _kind(wanted: int, profile: Profile | None, there: Sequence[dict[str, Any]]) -> Check:
    if not wanted or profile is None or not profile.match:
        return Check("ARM002", "ok", "no kind of GPU is asked for")
    strange = [gpu["name"] for gpu in there if not any(word.lower() in gpu["name"].lower() for word in profile.match)]
    if strange:
        return Check(
            "ARM002",
            "warn",
            f"profile {profile.name} is for {' or '.join(profile.match)}; this host has {strange[0]}",
            "micro batch and precision may not fit; choose another profile in hosts.yaml",
        )
    return Check("ARM002", "ok", f"GPUs are what profile {profile.name} is for")


def _bf16(wanted: int, precision: str | None, there: Sequence[dict[str, Any]]) -> Check:
    old = [gpu for gpu in there if _capability(gpu) is not None and (_capability(gpu) or 9.0) < 8.0]
    if wanted and precision == "bf16" and old:
        return Check(
            "ARM003",
            "fail",
            f"bf16 needs compute capability 8.0; {old[0]['name']} has {old[0]['compute_capability']}",
            "set precision: fp16 in a profile of your own",
        )
    return Check("ARM003", "ok", f"precision {precision or 'is the command’s own business'}")


def _capability(gpu: dict[str, Any]) -> float | None:
    try:
        return float(gpu.get("compute_capability") or "")
    except ValueError:
        return None


def _setup(host: Host, facts: dict[str, Any]) -> Check:
    if failure := facts.get("setup"):
        return Check("ARM014", "fail", inert_line(failure), f"mend `setup:` of {host.name} in hosts.yaml")
    return Check(
        "ARM014", "ok", f"{counted(len(host.setup), 'line')} of setup" if host.setup else "no setup is asked for"
    )


def _hub_id(experiment: Experiment, facts: dict[str, Any], answer: HubAnswer | None) -> tuple[Check, ...]:
    """Say of a model's name that it is taken for a hub id, and what the hub says of it; nothing where it is a folder."""
    name = experiment.model
    if not isinstance(name, str) or experiment.local_model:
        return ()
    answer = answer or HubAnswer()
    if answer.refused is not None:
        what = f"model {name}: {answer.refused}"
        if answer.token:
            return (Check("ARM016", "fail", what, "mend `model:`, or ask its owner for access"),)
        hint = "mend `model:`; for a gated one add HF_TOKEN to `secrets:`, unless the host has a token of its own"
        return (Check("ARM016", "warn", what, hint),)
    beside = models_beside(name, experiment.origin.parent) if experiment.origin else []
    if beside:
        sentence = f"model {name} is taken for a hub id; here lie {', '.join(beside[:3])}, and no folder of that name"
        return (Check("ARM016", "warn", sentence, "mend `model:` if a folder is meant"),)
    size, free = answer.size_bytes, int(facts["disk"]["free_bytes"])
    if size is not None and size > free:
        sentence = f"model {name} is {amount(size)} at the hub, and the host has {amount(free)} free"
        return (
            Check(
                "ARM016", "warn", sentence, "it fits only if the host's Hugging Face cache has it, or lies elsewhere"
            ),
        )
    return (Check("ARM016", "ok", f"model {name} is a hub id" + (f": {amount(size)}" if size else "")),)


def _shell(experiment: Experiment, host: Host, profile: Profile | None, facts: dict[str, Any]) -> Check:
    """Name what a training may want of the shell and does not see: names, never values."""
    given = {*experiment.env, *experiment.secrets, *(profile.env if profile else ())}
    there = {name for name in facts.get("left_out") or () if isinstance(name, str)}
    here = set() if host.local else {name for name in os.environ if _MEANT_FOR_JOBS.fullmatch(name)}
    missing = sorted(inert_line(name) for name in (there | here) - given)
    if not missing:
        return Check("ARM017", "ok", "the job sees what `env:` and `secrets:` name, and its host's own variables")
    shown = ", ".join(missing[:6]) + (f" and {len(missing) - 6} more" if len(missing) > 6 else "")
    plain = [name for name in missing if not _SECRET.fullmatch(name)]
    hints = [f"`secrets: [{name}]`" for name in missing if name not in plain][:1]
    hints += [f"`env: {{{plain[0]}: …}}`"] if plain else []
    return Check(
        "ARM017", "warn", f"the job does not see {shown} of the shell", f"if it needs them: {', '.join(hints)}"
    )


def _secrets(names: Sequence[str]) -> Check:
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        return Check(
            "ARM004",
            "fail",
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set here, where secrets are taken from",
            f"export {missing[0]}=…, or take it out of `secrets:`",
        )
    return Check("ARM004", "ok", f"{counted(len(names), 'secret')} at hand" if names else "no secrets")


def _disk(facts: dict[str, Any], travelling: int, environment_missing: bool, gpus: int, checkpoints: int) -> Check:
    free = int(facts["disk"]["free_bytes"])
    environment = ENVIRONMENT_BYTES["cuda" if gpus else "cpu"] if environment_missing else 0
    needed = travelling + environment + checkpoints + FLOOR_BYTES
    parts = f"files {amount(travelling)}, environment {amount(environment)}, checkpoints {amount(checkpoints)}"
    what = f"{amount(needed)} of {amount(free)} free ({parts})"
    if needed > free:
        return Check(
            "ARM005", "fail", f"not enough disk on the host: {what}", "free some, or set the host's `root:` elsewhere"
        )
    return Check("ARM005", "ok", f"disk: {what}")


def _rsync(host: Host, facts: dict[str, Any], travelling: int) -> Check:
    if host.local or not travelling:
        return Check("ARM006", "ok", "nothing has to travel by rsync")
    missing = [
        where
        for where, there in (("here", shutil.which("rsync")), ("on the host", facts["tools"]["rsync"]))
        if not there
    ]
    if missing:
        return Check(
            "ARM006", "ok", f"rsync is missing {' and '.join(missing)}: files travel as a tar stream, checked the same"
        )
    return Check("ARM006", "ok", "rsync on both sides")


def _clock(facts: dict[str, Any]) -> Check:
    off = float(facts["time"]) - time.time()
    if abs(off) > CLOCK_S:
        return Check(
            "ARM007",
            "warn",
            f"the host's clock is {span(abs(off))} {'ahead' if off > 0 else 'behind'}",
            "its times are shown as it tells them",
        )
    return Check("ARM007", "ok", "clocks agree")


def _checkpoints(experiment: Experiment) -> Check:
    train, checkpoint = experiment.train, experiment.checkpoint
    every_steps = checkpoint.every_steps if checkpoint else None  # minutes cannot be compared with steps
    if train is None or not train.max_steps or every_steps is None or every_steps <= train.max_steps:
        return Check("ARM008", "ok", "checkpoints come before the end")
    return Check(
        "ARM008",
        "warn",
        f"checkpoint.every_steps {every_steps} is more than train.max_steps {train.max_steps}: only the end is saved",
        "a run that dies leaves nothing",
    )


def _project(snapshot: Snapshot | None) -> tuple[Check, Check]:
    if snapshot is None:
        return Check("ARM009", "ok", "no project travels"), Check("ARM010", "ok", "no project travels")
    ignored = ", except what git ignores: that is named under `data:`" if snapshot.revision else ""
    links = Check("ARM009", "ok", f"all of the project travels{ignored}")
    if snapshot.skipped:
        links = Check(
            "ARM009",
            "warn",
            f"links and submodules stay here: {', '.join(snapshot.skipped[:3])}",
            "copy what the job needs",
        )
    if snapshot.dirty:
        return links, Check(
            "ARM010",
            "warn",
            "the project has uncommitted changes; they travel, but no revision names them",
            "git commit",
        )
    return links, Check("ARM010", "ok", f"project at {(snapshot.revision or 'no revision')[:12]}")


def _cores(gpus: int, processes: int, facts: dict[str, Any]) -> Check:
    cores = int(facts["cpu_count"])
    if not gpus and processes > cores:
        return Check("ARM011", "warn", f"{processes} processes share {cores} cores", f"resources.processes: {cores}")
    return Check("ARM011", "ok", f"{cores} cores")
