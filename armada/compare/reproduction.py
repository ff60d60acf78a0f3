"""Write what a run was launched from into a folder: experiment, code, packages, and the command that launches it again."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armada import __version__
from armada.compare.environment import requirements_of
from armada.compare.experiment_text import experiment_text
from armada.compare.unreproduced import find_missing, sources_of
from armada.errors import PreflightRefused
from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import mapping
from armada.provision.code import NEVER_SENT
from armada.records.code_archive import read_code
from armada.records.launch_record import read_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from armada.paths import HomePaths
    from armada.records.launch_record import LaunchRecord
    from armada.store.runs import Run

EXPERIMENT, CODE, LOCK, README, AS_WRITTEN = (
    "experiment.yaml",
    "code",
    "requirements.lock",
    "README.md",
    "experiment.as-written.yaml",
)
_HEAD = "# The experiment as armada resolved it at its launch, with every default.\n"
_OWN_NAMES = frozenset({EXPERIMENT, CODE, LOCK, README, AS_WRITTEN})


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What can be written of a run, and what cannot be reproduced.

    Attributes:
        experiment: The experiment as resolved at the launch, with paths for the new folder.
        code: The files of the code by path; None if the run had none, or none was recorded.
        links: Files and folders of data that must lie at their place: path below the new folder, and where they are.
        command: The words that launch it, with the experiment's file relative to the folder.
        missing: Sentences about what cannot be reproduced.
    """

    run: Run
    spec: Mapping[str, Any]
    record: LaunchRecord | None
    experiment: dict[str, Any]
    code: Mapping[str, bytes] | None
    links: Mapping[str, str]
    command: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """Of the code, which is nearly all that is written."""
        return sum(map(len, (self.code or {}).values()))


def reproduction_of(home: HomePaths, run: Run, spec: Mapping[str, Any]) -> Reproduction:
    """Gather what home keeps of a run. The data at home is read, to compare it with what was sent.

    Raises:
        PreflightRefused: The run was not launched from an experiment, or the store has none of it.
    """
    if run.task == "merge":
        hint = "run `armada merge` again: its source is in the run's plan (armada show --json)"
        raise PreflightRefused(f"{run.run_id} is a merge, which has no experiment", hint=hint)
    if run.task == "bench":
        hint = "run `armada bench` again: its cells are in the run's plan (armada show --json)"
        raise PreflightRefused(f"{run.run_id} is a bench, whose cells differ from its experiment", hint=hint)
    experiment = spec.get("experiment")
    if not isinstance(experiment, dict) or not experiment:
        raise PreflightRefused(f"nothing is recorded of the experiment of {run.run_id}")
    record = read_record(home, run.run_id)
    sent = record.code if record is not None else None
    code = read_code(home, run.run_id, sent) if sent is not None else None
    base = experiment.get("code") or (str(Path(run.experiment).parent) if run.experiment else None)
    top = CODE if code is not None else "."
    changed, links = _moved(experiment, base if isinstance(base, str) else None, top, set(code or ()))
    if code is not None:
        changed["code"] = CODE
    missing = find_missing(spec, record, code)
    return Reproduction(run, spec, record, changed, code, links, _command(run, spec), missing)


def write_reproduction(folder: Path, found: Reproduction) -> None:
    """Write everything into a folder that exists and is empty, so that only the owner can access it.

    Code and settings may contain keys, and the modes of the sent files were not recorded. The folder must be private
    until the end; each entry is private then, since an empty folder of the user's keeps its mode.

    Raises:
        OSError: The disk refuses it.
    """
    executable = {
        file.path
        for file in (
            found.record.code.files or () if found.record is not None and found.record.code is not None else ()
        )
        if file.executable
    }
    if found.code is not None:
        (folder / CODE).mkdir()
    for name, data in (found.code or {}).items():
        place = folder / CODE / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        place.chmod(0o755 if name in executable else 0o644)
    if found.code:
        _list_files(folder / CODE, found.code)
    (folder / EXPERIMENT).write_text(f"{_HEAD}{experiment_text(found.experiment)}", encoding="utf-8")
    record = found.record
    if record is not None and record.experiment is not None:
        (folder / AS_WRITTEN).write_text(record.experiment, encoding="utf-8", errors="replace")
    if (lock := _lock(record)) is not None:
        (folder / LOCK).write_text(lock, encoding="utf-8")
    (folder / README).write_text(_readme(found), encoding="utf-8")
    for entry in folder.iterdir():
        entry.chmod(0o700 if entry.is_dir() else 0o600)
    # Last, so that nothing is written through a link; a folder before what is in it.
    for name, target in sorted(found.links.items()):
        place = folder / name
        if not os.path.lexists(place) and Path(target).exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)


def _list_files(code: Path, names: Iterable[str]) -> None:
    """Make the code a repository of its own if a launch would not send exactly these files otherwise.

    That is so below another repository, whose rules for ignored files would count, and for folders such as `venv`, which
    are sent only if git tracks them.
    """
    answer = _git(code, "rev-parse", "--is-inside-work-tree")
    if answer is None or (answer.strip() != "true" and not any(set(name.split("/")) & NEVER_SENT for name in names)):
        return
    if _git(code, "init", "--quiet") is not None:
        _git(code, "add", "--force", "--all", ".")


def _git(folder: Path, *arguments: str) -> str | None:
    """Return git's output, empty if it failed; None if git is missing."""
    try:
        answer = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return os.fsdecode(answer.stdout) if answer.returncode == 0 else ""


def _moved(
    experiment: Mapping[str, Any], base: str | None, top: str, sent: set[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the experiment with its data at the place that it had below the code, and the links that put it there."""
    changed: dict[str, Any] = json.loads(json.dumps(experiment))
    links: dict[str, str] = {}
    data = mapping(changed.get("data"))
    for source in sources_of(data):
        path = source.get("path")
        if base is None or not isinstance(path, str) or not Path(path).is_relative_to(base):
            continue
        name = Path(path).relative_to(base).as_posix()
        if ".." in name.split("/") or name == "." or (top == "." and name.split("/")[0] in _OWN_NAMES):
            continue
        source["path"] = f"{top}/{name}" if top != "." else name
        if name not in sent:
            links[source["path"]] = path
    return changed, links


def _command(run: Run, spec: Mapping[str, Any]) -> tuple[str, ...]:
    experiment, profile = mapping(spec.get("experiment")), spec.get("profile")
    words = ["armada", "prepare" if run.task == "prepare" else "launch", "--host", run.host, EXPERIMENT]
    words += ["--profile", profile] if isinstance(profile, str) else []
    name = named_otherwise(run, experiment)
    return (*words, *(["--name", name] if name is not None else []))


def named_otherwise(run: Run, experiment: Mapping[str, Any]) -> str | None:
    """Return the name of a run if it is not its experiment's."""
    own = experiment.get("name")
    return None if run.name in (own, f"{own}: data") else run.name


def _lock(record: LaunchRecord | None) -> str | None:
    environment = record.environment if record is not None else None
    if environment is None:
        return None
    if environment.installed is not None:
        text, what = environment.installed, "what was installed"
    else:
        text, what = requirements_of(environment), "what was asked for"
    index = f"# index of torch: {sanitize_line(environment.torch_index, 300)}\n" if environment.torch_index else ""
    return f"# environment {environment.key}, Python {environment.python}: {what}\n{index}{text.strip()}\n"


def _readme(found: Reproduction) -> str:
    run, record = found.run, found.record
    project = mapping(found.spec.get("project"))
    lines = [
        f"# {sanitize_line(run.run_id, 80)}",
        "",
        f"Written by armada {__version__}. This folder has what the run was launched from. Launch it again here with",
        "",
        f"    {sanitize_line(shlex.join(found.command), 2000)}",
        "",
        "| File | What it is |",
        "|---|---|",
        f"| `{EXPERIMENT}` | the experiment as it was resolved, with what was changed on the command line |",
    ]
    if record is not None and record.experiment is not None:
        lines.append(f"| `{AS_WRITTEN}` | the experiment file as it was written |")
    if found.code is not None:
        revision = project.get("revision")
        of = f", revision {sanitize_line(revision, 40)}" if isinstance(revision, str) else ""
        dirty = " with uncommitted changes" if project.get("dirty") is True else ""
        lines.append(f"| `{CODE}/` | the code as it was sent{of}{dirty} |")
    if found.links:
        lines.append("| links to data | to where the data was, at the places that the job knows |")
    if record is not None and record.environment is not None:
        lines.append(f"| `{LOCK}` | the packages of its environment |")
    secrets = mapping(found.spec.get("job")).get("secrets")
    names = [sanitize_line(name, 80) for name in secrets] if isinstance(secrets, list) else []
    if names:
        lines += ["", f"The job needs these variables, whose values are not recorded: {', '.join(names)}."]
    lines += ["", "Not reproduced:", "", *(f"- {each}" for each in _not_reproduced(found)), ""]
    return "\n".join(lines)


def _not_reproduced(found: Reproduction) -> list[str]:
    adds, models = ("GPUs add", "models of GPUs") if found.run.gpus else ("threads add", "kinds of processors")
    return [*found.missing, f"numbers to the last digit: {adds} in an order that differs between runs and {models}"]
