"""Check the host: disk, clock, cores, tools and `setup:`."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.launch.checks.check import Answer, fail, ok, warn
from armada.units import amount, counted, span

if TYPE_CHECKING:
    from armada.launch.checks.subject import Subject

ENVIRONMENT_BYTES = {"cpu": 2_000_000_000, "cuda": 12_000_000_000}
"""Size of an environment on disk in bytes, including its download cache. CPU: 1.2 GB measured; CUDA's wheels alone unpack to 7 GB."""

FLOOR_BYTES = 1_000_000_000
CLOCK_S = 120.0


@dataclass(frozen=True, slots=True)
class DiskNeed:
    """What a run needs on the disk of its host's root, in bytes."""

    files: int
    environment: int
    checkpoints: int
    model: int = 0

    @property
    def total_bytes(self) -> int:
        return self.files + self.model + self.environment + self.checkpoints + FLOOR_BYTES


def count_disk(subject: Subject) -> DiskNeed:
    """Count what a run needs on the disk of its host's root."""
    downloads = sum(file.size_bytes or 0 for file in subject.files if file.link is None)
    environment = ENVIRONMENT_BYTES["cuda" if subject.gpus else "cpu"] if subject.environment_missing else 0
    files = subject.travelling_bytes + subject.fetched_bytes + downloads
    return DiskNeed(files, environment, subject.checkpoint_bytes, _model_download(subject)[0])


def check_disk(subject: Subject) -> Answer:
    """Compare the size of environment, files and checkpoints with the free space."""
    free = subject.facts.disk.free_bytes
    _, elsewhere = _model_download(subject)
    if elsewhere is not None:
        return elsewhere
    need = count_disk(subject)
    parts = (
        f"files {amount(need.files)}, environment {amount(need.environment)}, checkpoints {amount(need.checkpoints)}"
    )
    parts += f", model {amount(need.model)}" if need.model else ""
    what = f"{amount(need.total_bytes)} of {amount(free)} free ({parts})"
    if need.total_bytes > free:
        return fail(
            f"not enough disk on the host: {what}", "free some space, or move the host's `root:` to another disk"
        )
    return ok(f"disk: needs {what}")


def _model_download(subject: Subject) -> tuple[int, Answer | None]:
    """Return what the run downloads of its model to the disk of the host's root, or a failure if the cache's own disk is full."""
    answer = subject.trained.answer if subject.trained is not None else None
    if answer is None or answer.cache is None:
        return 0, None  # ARM016 compares the whole model with the disk
    missing, free = answer.missing_bytes, answer.cache.free_bytes
    if answer.cache.shares_disk:
        return missing, None
    if missing <= free:
        return 0, None
    disk = f"the disk of the host's Hugging Face cache has {amount(free)} free"
    hint = "free some space, or set HF_HOME in `env:` to a folder on another disk"
    return 0, fail(f"the model is {amount(missing)} to download, and {disk}", hint)


def check_rsync(subject: Subject) -> Answer:
    """Report how files will be sent."""
    if subject.host.local or not subject.travelling_bytes:
        return ok("nothing needs rsync")
    sides = (("here", shutil.which("rsync")), ("on the host", subject.facts.tools.rsync))
    missing = [where for where, there in sides if not there]
    if missing:
        return ok(f"rsync is missing {' and '.join(missing)}: files are sent as a tar stream, with the same checks")
    return ok("rsync on both sides")


def check_clock(subject: Subject) -> Answer:
    """Check that the host's clock is right."""
    off = subject.clock_off_s
    if abs(off) > CLOCK_S:
        ahead = "ahead" if off > 0 else "behind"
        return warn(f"the host's clock is {span(abs(off))} {ahead}", "its times are shown as its own clock gives them")
    return ok("clocks agree")


def check_cores(subject: Subject) -> Answer | None:
    """Check that there are not more processes than cores, unless a batch system assigns cores."""
    if subject.host.batch is not None:
        return None
    cores = subject.facts.cpu_count
    if not subject.gpus and subject.processes > cores:
        return warn(f"{subject.processes} processes share {cores} cores", f"resources.processes: {cores}")
    if subject.threads is None or subject.threads >= cores // subject.processes:
        return ok(f"{cores} cores")
    each = " of each process" if subject.processes > 1 else ""
    return ok(f"{cores} cores, shared with other runs: {counted(subject.threads, 'thread')}{each}")


def check_setup(subject: Subject) -> Answer:
    """Check that no line of the host's `setup:` fails."""
    host = subject.host
    if failure := subject.facts.setup:
        return fail(sanitize_line(failure), f"fix `setup:` of {host.name} in hosts.yaml")
    return ok(f"{counted(len(host.setup), 'line')} of setup" if host.setup else "no setup is configured")
