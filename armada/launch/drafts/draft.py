"""Draft an experiment for a folder, and write it; what is written was read by armada's own loader before."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from armada.config.experiments import load_experiment
from armada.errors import ArmadaError, Conflict, NotFound, UsageError
from armada.foundation.atomic_write import replacing
from armada.launch.drafts import text
from armada.launch.drafts.folder import (
    DataFile,
    find_ignored_data,
    find_scripts,
    find_training_data,
    holds_results,
    is_sent,
    is_too_large,
    missing_packages,
)
from armada.launch.drafts.script import ScriptFacts, named_files, read_script
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.config.hosts import Host
    from armada.launch.drafts.arguments import Argument

_MODEL = "Qwen/Qwen2.5-0.5B-Instruct"


@dataclass(frozen=True, slots=True)
class Draft:
    """An experiment that is not written yet.

    Attributes:
        text: The whole file.
        task: Its task.
        script: The script that it starts, relative to its code; None for `task: sft`.
        data: The data it names, relative to the project's folder.
        to_fill_in: Arguments whose values only a person knows.
        notes: What a person should know, a sentence each.
    """

    text: str
    task: str
    script: str | None
    data: tuple[str, ...]
    to_fill_in: tuple[str, ...]
    notes: tuple[str, ...]


def make_draft(folder: Path, script: Path | None, file: Path, host: Host) -> Draft:
    """Draft an experiment.

    Args:
        folder: The project's folder, if the script does not lie elsewhere.
        script: The script; None to choose by what lies in the folder.
        file: The file that will be written; paths in it are relative to its folder.
        host: Where it is going to be launched.

    Raises:
        UsageError: The script is missing, no Python file, or would not be sent; or several could be meant.
        ConfigError: The script cannot be read, or is no valid Python.
        NotFound: There is neither a script nor data.
    """
    notes: list[str] = []
    if script is None:
        scripts = find_scripts(folder)
        data = find_training_data(folder)
        if len(scripts) == 1:
            script = scripts[0]
            notes.append(f"{script.name} is the only Python file here that can be started, so it is the script")
        elif any(not each.why_not for each in data):
            if scripts:
                names = ", ".join(each.name for each in scripts[:5])
                notes.append(f"several scripts could be meant ({names}); this trains on the data instead")
            return _sft(folder, data, file, host, notes)
        elif scripts:
            names = ", ".join(each.name for each in scripts[:5])
            raise UsageError(f"several scripts could be meant: {names}", hint=f"armada init {scripts[0].name}")
        else:
            raise _nothing(folder, data)
    project = folder if _is_below(script, folder) else Path(os.path.normpath(script.absolute())).parent
    return _script(project, read_script(script), file, host, notes)


def _is_below(script: Path, folder: Path) -> bool:
    return Path(os.path.normpath(script.absolute())).is_relative_to(folder.absolute())


def _nothing(folder: Path, data: list[DataFile]) -> NotFound:
    reasons = "; ".join(f"{each.path}: {each.why_not}" for each in data[:3])
    return NotFound(
        f"{folder} holds neither a Python script that can be started nor data that a training can read"
        + (f" ({reasons})" if reasons else ""),
        hint="name the script: armada init train.py; or put a .jsonl or .parquet file here",
    )


def _script(project: Path, facts: ScriptFacts, file: Path, host: Host, notes: list[str]) -> Draft:
    name = Path(os.path.normpath(facts.path.absolute())).relative_to(project.absolute()).as_posix()
    if facts.path.is_symlink():
        raise UsageError(f"{name} is a link, and links are not sent", hint=f"armada init {facts.path.resolve()}")
    if not is_sent(project, Path(name)):
        raise UsageError(f"git ignores {name}, so it is not sent", hint="remove it from .gitignore")
    data = _script_data(project, facts)
    unfilled = tuple(each.flag for each in _to_show(facts) if each.is_required and each.takes_value and not each.value)
    lines = [
        *_head(file, host, f"{name}, which was read and not run", "script"),
        text.line(f"name: {text.quoted(_title(facts.path.stem))}", "free text; the ids of runs are made from it"),
        text.line("task: script", "accelerate starts the script once per GPU"),
        text.line(f"code: {_relative(project, file)}", "this folder is sent, without what git ignores"),
        text.line(f"script: {text.quoted(name)}", "below `code`"),
        "",
    ]
    if facts.other_parser:
        lines.append(text.note(f"The script reads its arguments with {facts.other_parser}. Add them by hand."))
        notes.append(f"the script's arguments are read by {facts.other_parser}; add them by hand")
    lines += [*text.of_arguments(_to_show(facts), ("fit",) if facts.is_lightning_cli else ()), ""]
    if data:
        lines.append(
            text.note("What git ignores is not sent with the code. This is sent once, to the same place there.")
        )
        lines += ["data:", *text.of_data(_placed(data, project, file)), ""]
    lines += [*_checkpoints(facts), ""]
    if facts.is_distributed:
        lines.append(text.note("armada sets RANK, LOCAL_RANK, WORLD_SIZE and MASTER_ADDR, as torchrun does."))
    missing = missing_packages(project)
    lines += [*_packages(project, file, missing, notes), *_common(host, facts.secrets, own_environment=not missing)]
    if is_too_large(project):
        notes.append("this folder is larger than code may be: keep data out of it, or in a git checkout ignore it")
    return Draft(_joined(lines), "script", name, tuple(str(each.path) for each in data), unfilled, tuple(notes))


def _to_show(facts: ScriptFacts) -> list[Argument]:
    """Its arguments, less those that armada gives it: the rank, and the checkpoint to continue from."""
    resumes = facts.resume[:1] if facts.pattern else ()
    return [each for each in facts.arguments if each.name != "local_rank" and each.flag not in resumes]


def _script_data(project: Path, facts: ScriptFacts) -> list[DataFile]:
    """What the script names, or git ignores, and what does not travel with the code; each once, nothing inside another."""
    named = [path for path in named_files(facts, project) if not is_sent(project, path)]
    named = [path for path in named if not holds_results(path, is_folder=(project / path).is_dir())]
    named = [path for path in named if path != Path(facts.output or "")]
    found: list[Path] = []
    for path in sorted({*named, *find_ignored_data(project)}):
        if not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return [DataFile(path) for path in found]


def _checkpoints(facts: ScriptFacts) -> list[str]:
    resume = ", ".join(text.quoted(word) for word in facts.resume or ("--resume", "{checkpoint}"))
    if facts.pattern is None:
        return [
            text.note(
                "Where the script saves checkpoints was not found. To bring them home, say what they are called:"
            ),
            '# checkpoint: {pattern: "out/checkpoint-*"}',
            text.line(f"# resume: [{resume}]", "added when a run continues"),
        ]
    lines = [
        "checkpoint:",
        text.line(f"  pattern: {text.quoted(facts.pattern)}", "what fits and is complete comes home"),
        text.line("  # quiet_s: 30", "it is complete when nothing was written to it for so long"),
        *(text.note(f"The script also saves {each}. Only one pattern is watched.") for each in facts.also_saved[:3]),
    ]
    if facts.resume:
        return [*lines, text.line(f"resume: [{resume}]", "added to the arguments when a run continues")]
    return [
        *lines,
        text.note(
            "The script shows no argument to continue from a checkpoint; without one a resumed run begins again."
        ),
        text.line(f"# resume: [{resume}]", "added to the arguments when a run continues"),
    ]


def _packages(project: Path, file: Path, missing: Sequence[str], notes: list[str]) -> list[str]:
    if not (project / "requirements.txt").is_file():
        return []
    if not missing:
        return [text.note("requirements.txt: the environments of armada's profiles have all of these packages."), ""]
    listed = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
    notes.append(f"requirements.txt names packages that armada's profiles do not have: {listed}")
    return [
        text.note("requirements.txt is not installed by itself. Hosts have what their profile names."),
        text.note(f"Not among it: {listed}. To have your packages installed, take the `#` away:"),
        text.note(f"environment: {{requirements: {text.quoted(_relative(project / 'requirements.txt', file))}}}"),
        "",
    ]


def _sft(folder: Path, data: list[DataFile], file: Path, host: Host, notes: list[str]) -> Draft:
    usable = [each for each in data if not each.why_not]
    kind = next((each.kind for each in usable if each.kind), "")
    alike = [each for each in usable if each.kind in (kind, "")]
    held_out = [each for each in alike if each.is_for_evaluation]
    train = [each for each in alike if each not in held_out] or held_out
    held_out = [each for each in held_out if each not in train]
    others = [(each, f"its rows are {each.kind}, those above are {kind}") for each in usable if each not in alike]
    others += [(each, each.why_not) for each in data if each.why_not]
    lines = [
        *_head(file, host, "the data in this folder", "sft"),
        text.line(
            f"name: {text.quoted(_title(folder.absolute().name))}", "free text; the ids of runs are made from it"
        ),
        text.line("task: sft", "trains a language model; no code of yours is needed"),
        text.line(f"model: {_MODEL}", "a model of the hub, or a folder of yours; this one is small"),
        "",
        text.line("data:", "each row: messages, conversations, prompt and completion, or text"),
        *text.of_data(_placed(train, folder, file), _placed(held_out, folder, file)),
        *(text.note(f"left out: {each.path}: {why}") for each, why in others),
        "",
        "train:",
        text.line("  global_batch_size: 16", "samples per step over all GPUs, on every host the same"),
        text.line("  epochs: 1", "passes over the data; or `max_steps: 300`"),
        text.line("  max_length: 2048", "tokens; longer samples are dropped and counted"),
        text.line("  learning_rate: 0.0002", "usual for LoRA; a tenth of it to train every weight"),
        *([text.line("  eval_every_steps: 50", "steps between two evaluations")] if held_out else []),
        text.line("lora: {r: 16, alpha: 32}", "without this line every weight is trained"),
        text.line("checkpoint: {every_steps: 100}", "steps between two checkpoints"),
        "",
        *_common(host, (), own_environment=False),
    ]
    notes.append(f"it trains {_MODEL}; write your model in its place")
    notes += [f"{each.path} is left out: {why}" for each, why in others]
    paths = tuple(str(each.path) for each in (*train, *held_out))
    return Draft(_joined(lines), "sft", None, paths, (), tuple(notes))


def _head(file: Path, host: Host, about: str, task: str) -> list[str]:
    name = text.remark(shlex.quote(file.name))
    return [
        text.note(f"A first experiment for {about}. Written by `armada init`: read every line."),
        f"#   armada launch --host {host.name} {name} --dry-run    checks it; sends and starts nothing",
        f"#   armada launch --host {host.name} {name} --follow     starts it and brings its checkpoints home",
        f"# `armada help experiment {task}` lists every key.",
        "",
    ]


def _common(host: Host, secrets: tuple[str, ...], *, own_environment: bool) -> list[str]:
    shown = ", ".join(secrets[:5]) or "WANDB_API_KEY"
    lines = [
        text.note("More that you may want:"),
        text.line("# resources: {gpus: 1}", "default: every GPU of the host"),
        text.line(f"# secrets: [{shown}]", "taken from your shell at the launch; their values are in no file here"),
        text.line('# sync: {outputs: ["results/**"]}', "other files of the run that come home"),
    ]
    if own_environment:
        about = "an environment on the host; default: one that armada builds"
        lines.append(text.line("# environment: {existing: ~/venvs/mine}", about))
    if host.batch is not None:
        lines.append(text.line("# resources: {time_limit: 12h}", f"what {host.name} is asked for; default: its own"))
    return lines


def _placed(data: list[DataFile], project: Path, file: Path) -> list[DataFile]:
    return [DataFile(Path(_relative(project / each.path, file))) for each in data]


def _relative(place: Path, file: Path) -> str:
    return Path(os.path.relpath(place.absolute(), file.absolute().parent)).as_posix()


def _title(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_. -]+", "-", name).strip("-. ") or "experiment"


def _joined(lines: list[str]) -> str:
    return "\n".join(lines).rstrip("\n") + "\n"


def write_draft(draft: Draft, file: Path, alternative: str) -> None:
    """Write a draft to a new file. Nothing is written that armada's own loader refuses.

    Args:
        draft: What is written.
        file: Where to; nothing may be there yet.
        alternative: A command that writes to another file, for the hint.

    Raises:
        Conflict: The file exists already.
        NotFound: Its folder does not exist.
        ArmadaError: The loader refuses the draft, which is a bug.
    """
    taken = Conflict(f"{file} exists already; nothing was written", hint=alternative)
    if os.path.lexists(file):
        raise taken
    if not file.absolute().parent.is_dir():
        raise NotFound(f"there is no folder {file.absolute().parent}", hint="make it, or name another file with -o")
    with replacing(file, keep_first=True) as temporary:
        temporary.write_text(draft.text, "utf-8")
        try:
            load_experiment(temporary)
        except ArmadaError as error:
            message = f"this is a bug in armada: its draft would be refused: {error}"
            raise ArmadaError(message, hint="please report it; nothing was written") from error
    if file.read_text("utf-8") != draft.text:
        raise taken


def summary(draft: Draft) -> str:
    """What the draft holds, in a few words."""
    parts = [f"task {draft.task}", *([draft.script] if draft.script else [])]
    parts += [f"{counted(len(draft.data), 'data entry').replace('entrys', 'entries')}"] if draft.data else []
    return ", ".join(parts)
