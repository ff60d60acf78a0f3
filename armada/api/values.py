"""What `armada.api` returns: frozen values that hold no connection, so a notebook may keep them.

Times are Unix seconds and sizes are bytes. What is not known is None. Texts that hosts influence are sanitized.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it was last seen.

    Attributes:
        run_id: Its id.
        name: Its experiment's name.
        host: The host it runs on.
        task: The experiment's task: `sft`, `script`, `command`, …
        state: Such as `running`, `succeeded`, `failed` or `cancelled`; `armada help states` lists all.
        reason: Why it is in this state, as one word.
        message: Why it is in this state, as a sentence.
        ended: Whether it has ended. False while the end is only guessed from its scheduler's silence.
        step: The newest training step.
        total_steps: The last training step.
        loss: The newest loss; NaN and infinities are values, too.
        tokens_per_s: The newest speed.
        exit_code: Of its job.
        group: The group a person put it into.
        tags: The tags a person gave it.
        created_at: When it was launched.
        started_at: When its job started.
        ended_at: When its job ended.
        observed_at: When its host last told about it.
        unreachable_since: Since when its host has not answered; None if it answers.
    """

    run_id: str
    name: str
    host: str
    task: str
    state: str
    reason: str | None
    message: str | None
    ended: bool
    step: int | None
    total_steps: int | None
    loss: float | None
    tokens_per_s: float | None
    exit_code: int | None
    group: str | None
    tags: tuple[str, ...]
    created_at: float
    started_at: float | None
    ended_at: float | None
    observed_at: float | None
    unreachable_since: float | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint of a run.

    Attributes:
        run_id: The run.
        step: Its training step.
        digest: Identifies its bytes.
        size_bytes: Of all its files.
        path: Its folder at home; None until every byte of it was verified there.
        on_host: Whether its host has it.
    """

    run_id: str
    step: int
    digest: str
    size_bytes: int
    path: Path | None
    on_host: bool


@dataclass(frozen=True, slots=True)
class HostPlan:
    """What an experiment would be on one host.

    Attributes:
        host: The host's name.
        outcome: `possible`, `refused` or `unreachable`.
        problems: Why it is refused or unreachable, a sentence each.
        warnings: What may go wrong, a sentence each.
        gpus: How many it would use.
        profile: The GPU profile.
        hours: How long it would probably take.
        cost: What it would probably cost, in the money of the host's price.
        wait_s: How long it would wait for its start, in seconds.
    """

    host: str
    outcome: str
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    gpus: int | None
    profile: str | None
    hours: float | None
    cost: float | None
    wait_s: float | None


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a metric.

    Attributes:
        run: The run's id.
        step: The training step.
        time: When it was recorded, by the host's clock.
        metric: The metric's name.
        value: NaN and infinities are values, too.
    """

    run: str
    step: int
    time: float
    metric: str
    value: float


class Metrics(Sequence[Point]):
    """The points of runs, ordered by run, metric and step: a sequence of `Point`, or a DataFrame.

    Args:
        points: The points.
    """

    def __init__(self, points: Sequence[Point]) -> None:
        self._points = tuple(points)

    @overload
    def __getitem__(self, index: int) -> Point: ...

    @overload
    def __getitem__(self, index: slice) -> Metrics: ...

    def __getitem__(self, index: int | slice) -> Point | Metrics:
        return Metrics(self._points[index]) if isinstance(index, slice) else self._points[index]

    def __len__(self) -> int:
        return len(self._points)

    def __repr__(self) -> str:
        return f"Metrics({len(self)} points)"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with the columns run, step, time, metric and value; times are in UTC.

        Raises:
            UsageError: pandas is not installed; the hint installs it.
        """
        import importlib

        from armada.errors import UsageError
        from armada.foundation.extras import install_command
        from armada.foundation.validation import YEAR_10000

        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            words = "there is no pandas here to make a DataFrame with; the points themselves need none"
            raise UsageError(words, hint=install_command("pandas")) from None
        rows = [(each.run, each.step, each.time, each.metric, each.value) for each in self._points]
        frame = pandas.DataFrame(rows, columns=["run", "step", "time", "metric", "value"])
        moments = frame["time"].astype("float64").clip(0, YEAR_10000 - 1) * 1e6
        frame["time"] = moments.astype("int64").astype("datetime64[us]").dt.tz_localize("UTC")
        return frame.astype({"step": "int64", "value": "float64"})


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """One run of a comparison.

    Attributes:
        run: The run.
        last: The last value of each metric.
        best: The best value of each metric whose name says whether it should be low or high.
        seconds: How long it ran.
        cost: What it cost, in the money of the host's price.
        tokens: How many it was trained on.
    """

    run: Run
    last: dict[str, float]
    best: dict[str, float]
    seconds: float | None
    cost: float | None
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting in which compared runs differ.

    Attributes:
        key: Such as `train.learning_rate`.
        values: One for each run; None where the setting is missing, `***` where it may be a secret.
    """

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs side by side.

    Attributes:
        runs: In the order of the question.
        settings: Those that differ.
    """

    runs: tuple[RunMetrics, ...]
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What one sync brought home of one run.

    Attributes:
        run_id: The run.
        published: Folders of the checkpoints that it fetched and verified.
        pending: Digests of the checkpoints that are not at home yet.
        problems: What failed, a sentence each; empty if nothing did.
        final: Whether the run has ended and all of it is at home.
        kept: Names of outputs at home of which the host has no later version: they were moved to `runs/<run>/replaced/`.
    """

    run_id: str
    published: tuple[Path, ...]
    pending: tuple[str, ...]
    problems: tuple[str, ...]
    final: bool
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """A long-running command of the last 30 days: a launch, a stop, a pull.

    Attributes:
        kind: Such as `launch` or `stop`.
        run_id: The run.
        host: The host.
        command: The words of the command.
        by: What asked for it: `api`, `mcp` (an assistant), or None for a command and the dashboard.
        state: `running`, `done`, `failed` or `interrupted`.
        message: The newest report, or the error.
        started_at: When it began.
        ended_at: When it ended.
    """

    kind: str
    run_id: str | None
    host: str | None
    command: tuple[str, ...]
    by: str | None
    state: str
    message: str | None
    started_at: float
    ended_at: float | None


@dataclass(frozen=True, slots=True)
class ReleaseItem:
    """What destroying a host would mean for one run.

    Attributes:
        run_id: The run.
        what: A sentence.
        lost: Whether something would be lost.
        hint: What to do.
    """

    run_id: str
    what: str
    lost: bool
    hint: str | None


@dataclass(frozen=True, slots=True)
class ReleaseCheck:
    """Whether a host can be destroyed. `local`, this machine, has home on it: of it, this says only what is not at home yet.

    Attributes:
        host: The host's name.
        safe: Nothing that armada has there would be lost.
        items: What there is, run by run.
        local: Home is on the same machine, and would be lost with it.
    """

    host: str
    safe: bool
    items: tuple[ReleaseItem, ...]
    local: bool = False
