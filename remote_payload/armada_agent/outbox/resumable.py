"""Collect the checkpoints from which an attempt can resume, and put back what a training lost of its own."""

import fnmatch
import glob
import os
import re
import shutil
from typing import Any, Callable, Dict, Iterator, List, Optional

from armada_agent.foundation import files
from armada_agent.foundation.log import say
from armada_agent.outbox.checkpoint_step import find_step
from armada_agent.outbox.finishing import Outbox, announced_step, is_whole
from armada_agent.outbox.inventory import Survey
from armada_agent.outbox.listing import ANNOUNCEMENT, MANIFEST, MANIFEST_LIMIT, list_finished
from armada_agent.outbox.watch_record import read_record
from armada_agent.paths import RunPaths, list_folder
from armada_agent.records.journal import Journal
from armada_agent.verdicts import resuming
from armada_agent.verdicts.resuming import LEFT, OUTBOX, WORK, Candidate, Choice

_OWN = re.compile(r"checkpoint-(\d{1,18})")
_FOLDER = "checkpoints"
_BASE_MODEL = "base_model/"
_MOST_SAID = 5
_MOST_TOLD = 2
_LONGEST = 200  # a job could have written any names


def arguments(paths: RunPaths, template: List[str], outbox: Outbox, journal: Journal) -> List[str]:
    """Return a script's arguments for resuming; none without a checkpoint. What is chosen is recorded, and why nothing is.

    Args:
        paths: The run's files.
        template: The arguments, with `{checkpoint}` and `{step}`; empty for a script that cannot resume.
        outbox: Hashes the chosen checkpoint, if nobody has yet: it then keeps its place while the job reads it.
        journal: The record.
    """
    if not template:
        return []
    choice = choose(paths, outbox.finish_now)
    missed = "; ".join("step %d: %s" % (each.step, each.why_not) for each in choice.missed[:_MOST_TOLD])
    if choice.chosen is None:
        if missed:
            message = "the job starts from the beginning: none of its checkpoints here is whole (%s)" % missed
            journal.record("finding", message=message)
        return []
    checkpoint, step = choice.chosen.path, choice.chosen.step
    later = ": what is later is not whole (%s)" % missed if missed else ""
    journal.record("finding", message="resuming from %s, step %d%s" % (checkpoint, step, later))
    return [word.replace("{checkpoint}", checkpoint).replace("{step}", str(step)) for word in template]


def choose(paths: RunPaths, finish: Callable[[str], Optional[str]]) -> Choice:
    """Choose the newest whole checkpoint. The job's own files come before the outbox, whose files must not be written to.

    Args:
        paths: The run's files.
        finish: Hashes one that was announced, by its folder; returns why it cannot be.
    """
    pattern = _pattern(paths)
    refused: Dict[str, str] = {}
    while True:
        taken = read_record(paths)["taken"]
        found = list(_find_noted(paths, taken)) + list(_find_unnoted(paths, taken, pattern))
        found = [each._replace(why_not=refused.get(each.path, each.why_not)) for each in found]
        choice = resuming.choose(found + list(_find_left(paths, pattern)))
        folder = None if choice.chosen is None else _announced_folder(paths, choice.chosen)
        if choice.chosen is None or folder is None:
            break
        problem = finish(folder)
        if problem is not None:
            refused[choice.chosen.path] = problem
    for reason in choice.reasons[:_MOST_SAID]:
        say("not resumed from %s" % reason)
    return choice


def _announced_folder(paths: RunPaths, chosen: Candidate) -> Optional[str]:
    """Return the folder of a chosen checkpoint that is still to be hashed; None of any other one."""
    folders = [folder for folder in paths.announced() if chosen.path in (folder, _only_file(folder))]
    return folders[0] if folders else None


def _find_noted(paths: RunPaths, taken: List[Dict[str, Any]]) -> Iterator[Candidate]:
    for number in range(len(taken) - 1, -1, -1):
        entry = taken[number]
        place = os.path.join(paths.work, entry["path"])
        if os.path.exists(place):
            is_same = Survey(place, paths.work).signature == entry["signature"]
            yield Candidate(place, WORK, entry["step"], number, None if is_same else "it changed since it was taken")
        for name in (entry["digest"], entry["folder"]):
            folder = paths.checkpoint(name).rstrip("/") if name else ""
            if folder and os.path.isdir(folder):
                path = (_only_file(folder) if entry["is_file"] else None) or folder
                yield Candidate(path, OUTBOX, entry["step"], number, _find_damage(folder))
                break


def _find_unnoted(paths: RunPaths, taken: List[Dict[str, Any]], pattern: Optional[str]) -> Iterator[Candidate]:
    """Find the checkpoints in the outbox that are not in the record: who took one was killed before it wrote that."""
    noted = {entry["digest"] for entry in taken} | {entry["folder"] for entry in taken}
    steps = {paths.checkpoint(entry["digest"]).rstrip("/"): entry["step"] for entry in list_finished(paths)}
    steps.update({folder: announced_step(folder) for folder in paths.announced()})
    for folder, step in steps.items():
        if os.path.basename(folder) in noted or step is None:
            continue
        only = _only_file(folder) if pattern is not None else None
        is_file = only is not None and fnmatch.fnmatch(os.path.basename(only), os.path.basename(pattern or ""))
        yield Candidate((only if is_file else None) or folder, OUTBOX, step, None, _find_damage(folder))


def _find_damage(folder: str) -> Optional[str]:
    """Return which file of a checkpoint in the outbox is not as large as its manifest says; None if none is known to be."""
    try:
        told = (files.read_json(os.path.join(folder, MANIFEST), MANIFEST_LIMIT) or {}).get("files") or []
        for entry in told:
            name, size = str(entry["path"]), entry["size"]
            found = os.lstat(os.path.join(folder, name)).st_size
            if found != size:
                return "its %s is damaged: %d bytes of %d" % (name[-_LONGEST:], found, size)
    except FileNotFoundError as error:
        return "its %s is missing" % os.path.basename(str(error.filename))[-_LONGEST:]
    except (files.UnreadableError, OSError, AttributeError, KeyError, TypeError, ValueError):
        return None  # nothing is known against it
    return None


def _find_left(paths: RunPaths, pattern: Optional[str]) -> Iterator[Candidate]:
    for name in list_folder(paths.left) if pattern is not None else []:
        folder = os.path.join(paths.left, name)
        for match in glob.glob(os.path.join(glob.escape(folder), pattern or "")):
            step = find_step(folder, os.path.relpath(match, folder))
            if step is not None:
                yield Candidate(match, LEFT, step, None, "it may be incomplete")


def _pattern(paths: RunPaths) -> Optional[str]:
    """Return the pattern of a script's checkpoints; None if its plan cannot be read."""
    try:
        watch = (files.read_json(paths.spec) or {}).get("watch") or {}
        return str(watch["checkpoints"]["pattern"]).rstrip("/")
    except (files.UnreadableError, AttributeError, KeyError, TypeError):
        return None


def _only_file(folder: str) -> Optional[str]:
    kept = [item for item in list_folder(folder) if item not in (MANIFEST, ANNOUNCEMENT)]
    return os.path.join(folder, kept[0]) if len(kept) == 1 else None


def put_back(
    paths: RunPaths,
    spec: Dict[str, Any],
    environment: Dict[str, str],
    journal: Journal,
    finish: Callable[[str], Optional[str]],
) -> None:
    """Put back the newest checkpoint of a training, if its own folder lost it and the outbox has it, whole.

    Its files are linked, as those that the training announces: it never writes into a file of a checkpoint. Whoever
    permitted the training to start from the beginning gets that.

    Args:
        paths: The run's files.
        spec: Its plan.
        environment: Its job's.
        journal: The record.
        finish: Hashes one that was announced, by its folder; returns why it cannot be.
    """
    if not spec.get("training") or environment.get("ARMADA_RESTART_IF_DAMAGED"):
        return
    message = _put_back(paths, finish)
    if message is not None:
        journal.record("finding", message=message)


def _put_back(paths: RunPaths, finish: Callable[[str], Optional[str]]) -> Optional[str]:
    folder = os.path.join(paths.folder, _FOLDER)
    if os.path.islink(folder):
        return None
    own = [int(match.group(1)) for match in map(_OWN.fullmatch, list_folder(folder)) if match]
    lost = resuming.find_lost(_finished(paths), own)
    if _finish_lost(paths, own if lost is None else [*own, lost.step], finish):
        lost = resuming.find_lost(_finished(paths), own)
    if lost is None:
        return None
    source, name = paths.checkpoint(lost.digest).rstrip("/"), "checkpoint-%d" % lost.step
    try:
        told = (files.read_json(os.path.join(source, MANIFEST), MANIFEST_LIMIT) or {}).get("files")
        if not isinstance(told, list) or not is_whole(source, told):
            return "%s is missing in %s/, and its copy in the outbox is damaged" % (name, _FOLDER)
        part = os.path.join(folder, ".part-%s" % name)
        shutil.rmtree(part, ignore_errors=True)  # of a supervisor that was killed here
        for entry in told:
            if not entry["path"].startswith(_BASE_MODEL):  # it was put beside the checkpoint for home
                _link(os.path.join(source, entry["path"]), os.path.join(part, entry["path"]))
        os.rename(part, os.path.join(folder, name))
        files.fsync_folder(folder)
    except (OSError, files.UnreadableError) as error:
        return "%s is missing in %s/, and cannot be put back from the outbox: %s" % (name, _FOLDER, error)
    return "%s was missing in %s/: its copy in the outbox, whose bytes are right, was put back" % (name, _FOLDER)


def _finished(paths: RunPaths) -> List[resuming.Kept]:
    return [resuming.Kept(entry["digest"], entry["step"], entry["attempt"]) for entry in list_finished(paths)]


def _finish_lost(paths: RunPaths, had: List[int], finish: Callable[[str], Optional[str]]) -> bool:
    """Hash the newest announced checkpoint beyond these steps: its supervisor may have been killed meanwhile.

    It is recorded as one of the attempt that hashes it, so an earlier step must not be hashed before a later one is put back.
    """
    steps = {folder: announced_step(folder) for folder in paths.announced()}
    newest = max(had, default=-1)
    lost = {folder: step for folder, step in steps.items() if step is not None and step > newest}
    for folder in sorted(lost, key=lambda each: (lost[each], each), reverse=True):
        problem = finish(folder)
        if problem is None:
            return True
        say("%s is not put back: %s" % (folder, problem))
    return False


def _link(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # some file systems have no hard links
        shutil.copyfile(source, target)
