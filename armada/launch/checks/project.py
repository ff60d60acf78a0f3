"""Check the project's code before it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.launch.checks.check import Answer, ok, warn

if TYPE_CHECKING:
    from armada.launch.checks.subject import Subject


def check_links(subject: Subject) -> Answer:
    """Name links and other files that are not sent."""
    snapshot = subject.snapshot
    if snapshot is None:
        return ok("no project is sent")
    if snapshot.skipped:
        return warn(f"links and submodules are not sent: {', '.join(snapshot.skipped[:3])}", "copy what the job needs")
    ignored = ", except files that git ignores: name those under `data:`" if snapshot.revision else ""
    return ok(f"the whole project is sent{ignored}")


def check_revision(subject: Subject) -> Answer:
    """Warn of uncommitted changes."""
    snapshot = subject.snapshot
    if snapshot is None:
        return ok("no project is sent")
    if snapshot.dirty:
        return warn("the project has uncommitted changes; they are sent, but no revision contains them", "git commit")
    return ok(f"project at {(snapshot.revision or 'no revision')[:12]}")
