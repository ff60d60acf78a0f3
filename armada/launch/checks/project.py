"""Check the project's code before it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.launch.checks.check import Answer, fail, ok, warn
from armada.provision.script_imports import brings_modules, describe
from armada.units import amount

if TYPE_CHECKING:
    from armada.launch.checks.subject import Subject


_SHOWN = 5


def check_links(subject: Subject) -> Answer:
    """Name links and other files that are not sent."""
    snapshot = subject.snapshot
    if snapshot is None:
        return ok("no project is sent")
    if left := subject.left_behind:
        names = ", ".join(f"{each.path} (named in {each.named_in})" for each in left[:_SHOWN])
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        return warn(f"git ignores {names}{more}: not sent", f"files: {{{left[0].path}: {left[0].path}}}")
    if snapshot.skipped:
        return warn(f"links and submodules are not sent: {', '.join(snapshot.skipped[:3])}", "copy what the job needs")
    ignored = ", except files that git ignores: name those under `files:`" if snapshot.revision else ""
    return ok(f"the whole project is sent{ignored}")


def check_revision(subject: Subject) -> Answer:
    """Warn of uncommitted changes."""
    snapshot = subject.snapshot
    if snapshot is None:
        return ok("no project is sent")
    if snapshot.dirty:
        return warn("the project has uncommitted changes; they are sent, but no revision contains them", "git commit")
    return ok(f"project at {(snapshot.revision or 'no revision')[:12]}")


def check_files(subject: Subject) -> Answer | None:
    """Report the entries of `files:` that cannot be fetched. None if all of them are at home."""
    if not subject.files:
        return None
    if wrong := [file for file in subject.files if file.problem is not None]:
        first = wrong[0]
        more = f"; {len(wrong) - 1} more: {', '.join(file.name for file in wrong[1:6])}" if len(wrong) > 1 else ""
        return fail(f"`files.{first.name}`: {first.problem}{more}", first.remedy or "correct `files:`")
    waiting = [file for file in subject.files if file.link is None]
    size = sum(file.size_bytes or 0 for file in waiting)
    unknown = " and more, of unknown size," if any(file.size_bytes is None for file in waiting) else ""
    through = sum(file.through_home for file in waiting)
    way = f", {through} of them through home" if through else ""
    there = f"{len(subject.files) - len(waiting)} already there"
    return ok(f"files: {there}" + (f", {len(waiting)} to download: {amount(size)}{unknown}{way}" if waiting else ""))


def check_imports(subject: Subject) -> Answer | None:
    """Name modules that the job imports and its environment lacks. None if nothing is missing."""
    if not subject.missing_modules:
        return None
    sentence = f"the environment lacks what the job imports: {describe(subject.missing_modules)}"
    if brings_modules(subject.experiment, subject.host, subject.profile):
        return warn(sentence, "ignore this if `setup:` or PYTHONPATH provides them")
    return fail(
        sentence, f"add the packages to `environment:`, such as {{requirements: [{subject.missing_modules[0].name}]}}"
    )
