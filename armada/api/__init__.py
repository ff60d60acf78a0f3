"""armada from Python, for notebooks and scripts. It does what the commands do, over the same store, hosts and checks.

    from armada.api import Armada

    fleet = Armada()
    for plan in fleet.plan("exp.yaml"):
        print(plan.host, plan.outcome, plan.hours, plan.cost)
    run = fleet.launch("exp.yaml", host="a100-1")
    run = fleet.wait(run)
    fleet.sync(run)
    curves = fleet.metrics(run, names=["loss"]).to_pandas()

Every failure is an `ArmadaError` with a sentence, a `hint` and the exit code that the command would have. Names and
signatures here are stable: they may get new optional arguments, and values may get new fields.
"""

from __future__ import annotations

from armada.api.client import Armada
from armada.api.cost_values import Costs, HostCosts, RunCosts, SweepCosts
from armada.api.values import (
    Checkpoint,
    Comparison,
    HostPlan,
    Metrics,
    Operation,
    Point,
    ReleaseCheck,
    ReleaseItem,
    Run,
    RunMetrics,
    Setting,
    SyncResult,
)
from armada.errors import (
    ArmadaError,
    ConfigError,
    Conflict,
    HostUnreachable,
    NotFound,
    OutcomeUnknown,
    PreflightRefused,
    ProvisionFailed,
    RunFailed,
    UsageError,
)

__all__ = [
    "Armada",
    "ArmadaError",
    "Checkpoint",
    "Comparison",
    "ConfigError",
    "Conflict",
    "Costs",
    "HostCosts",
    "HostPlan",
    "HostUnreachable",
    "Metrics",
    "NotFound",
    "Operation",
    "OutcomeUnknown",
    "Point",
    "PreflightRefused",
    "ProvisionFailed",
    "ReleaseCheck",
    "ReleaseItem",
    "Run",
    "RunCosts",
    "RunFailed",
    "RunMetrics",
    "Setting",
    "SweepCosts",
    "SyncResult",
    "UsageError",
]
