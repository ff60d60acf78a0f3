"""`host.facts`: a description of a host. `armada.protocol.recorded` parses the recorded answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from armada.protocol.host import Disk
from armada.protocol.message import (
    Count,
    EnvironmentKey,
    Integer,
    Line,
    Many,
    Message,
    Positive,
    Request,
    RootId,
    RunId,
    Size,
    Text,
    UnixTime,
    Unsaid,
    any_word,
    line,
)
from armada.protocol.records import Identity

CONDITIONS = ("ready", "building", "partial")
"""Conditions of environments, as a host lists them. `partial`: the build was interrupted."""


@dataclass(frozen=True, slots=True)
class GpuKind:
    """The properties of a GPU on which its profile and environment depend. `slices`: its MIG slices, such as `MIG 1g.10gb`."""

    name: str
    compute_capability: str | None = None
    memory_bytes: float | None = None
    slices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hardware:
    """The properties of a host that decide profile and environment. `machine`: its architecture; `glibc`: None with another C library."""

    machine: str
    glibc: str | None = None
    gpus: tuple[GpuKind, ...] = ()


class GpuUser(Message):
    """A process on a GPU. `run_id` is None if it does not belong to armada."""

    pid: Integer
    run_id: Text | None


class Gpu(Message):
    """A GPU and its use at the time of the answer. `slices`: what MIG divides it into, such as `MIG 1g.10gb`."""

    index: Count
    uuid: Text
    name: Line
    memory_total_bytes: Size | None
    memory_used_bytes: Size | None
    utilization: float | None
    compute_capability: Text | None
    driver_version: Line
    processes: Many[GpuUser]
    slices: Many[Line] = ()


class WaitingRun(Message):
    """A run that waits for GPUs."""

    run_id: RunId
    since: UnixTime


class GpuQueue(Message):
    """The runs that wait for GPUs, the first one first."""

    waiting: Many[WaitingRun]


class Tools(Message):
    """Programs on the host: the version, or the path if the version is unknown; None if the program is missing."""

    rsync: Line | None
    git: Line | None
    uv: Text | None
    nvidia_smi: Text | None
    sbatch: Text | None
    condor_submit: Text | None


class Facts(Message):
    """A description of a host.

    Attributes:
        setup: Why the lines of `setup:` failed.
        doubts: Warnings about other users who may write to folders above the root, if that is not refused.
        left_out: Names of variables in the agent's environment that a training may want but that jobs do not see.
        amd_gpus: GPUs of AMD, which armada does not use.
        gpu_trouble: Why nvidia-smi did not say which GPUs there are and who uses them: `gpus` is empty then.
    """

    hostname: Line
    user: Line
    home: Text
    root: Text
    root_id: RootId | None = None
    python: Line
    platform: Line
    machine: Line
    glibc: Line | None
    cpu_count: Positive
    memory_bytes: Size | None
    disk: Disk
    gpus: Many[Gpu]
    queue: GpuQueue = GpuQueue(waiting=())
    environments: dict[EnvironmentKey, Annotated[str, any_word(*CONDITIONS)]] = Field(default_factory=dict)
    tools: Tools
    setup: Text | None = None
    doubts: Many[Annotated[str, line(600)]] = ()
    left_out: Many[Line] = ()
    amd_gpus: Count = 0
    gpu_trouble: Text | None = None
    time: UnixTime
    identity: Unsaid[Identity] = None

    @property
    def hardware(self) -> Hardware:
        kinds = tuple(
            GpuKind(gpu.name, gpu.compute_capability, gpu.memory_total_bytes, gpu.slices) for gpu in self.gpus
        )
        return Hardware(self.machine, self.glibc, kinds)

    def as_json(self) -> dict[str, object]:
        """Return the host's complete answer, as the store keeps it and `--json` prints it."""
        return self.model_dump(exclude_unset=True)


class AskFacts(Request[Facts]):
    """Describe a host."""

    method = "host.facts"
    answer = Facts
