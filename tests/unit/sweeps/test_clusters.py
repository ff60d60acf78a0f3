"""How many cells a cluster has room for."""

from __future__ import annotations

from typing import Any

import pytest

from armada.config.hosts import Host
from armada.protocol.scheduler import ClusterQueue
from armada.sweeps.clusters import room_of

QUEUE = ClusterQueue.model_validate(
    {
        "partitions": [
            {"name": "gpu", "gpus": 16, "cpus": 64},
            {"name": "gpu-long", "gpus": 8, "cpus": 32},
            {"name": "serial", "gpus": 0, "cpus": 8},
        ]
    }
)


def host(scheduler: str, **settings: Any) -> Host:
    return Host.model_validate({"name": "h", "ssh": "h", "scheduler": scheduler, scheduler: settings})


@pytest.mark.parametrize(
    ("on", "gpus", "cpus", "room"),
    [
        (host("slurm"), 4, 1, 4),
        (host("slurm", partition="gpu-long"), 4, 1, 2),
        (host("slurm", partition="serial,gpu-long"), 4, 1, 2),
        (host("slurm", partition="serial"), 0, 2, 4),
        (host("slurm", partition="serial"), 1, 1, 1),
        (host("slurm", partition="absent"), 1, 1, 1),
        (host("htcondor"), 4, 1, 6),
        (host("htcondor"), 0, 0, 104),
    ],
)
def test_the_room_is_that_of_the_partition_or_of_all_machines(on: Host, gpus: int, cpus: int, room: int) -> None:
    assert room_of(QUEUE, on, gpus, cpus) == room


def test_a_cluster_that_shows_nothing_has_room_for_one() -> None:
    assert room_of(ClusterQueue(), host("slurm"), 8, 1) == 1
