"""The data and settings of one attempt, in the two groups that the Trainer takes."""

from __future__ import annotations

from dataclasses import dataclass

from armada_train.checkpoints.evaluated import Evaluated
from armada_train.checkpoints.manifest import Settings
from armada_train.data.preparation import Splits
from armada_train.data.stream import StreamDataset
from armada_train.reporting.heartbeat import Heartbeat
from armada_train.reporting.metrics import Metrics
from armada_train.reporting.samples import Samples
from armada_train.runfolder import RunFolder
from armada_train.training.preemption import Preemption
from armada_train.training.scoring import Scoring


@dataclass(frozen=True, slots=True)
class Attempt:
    """Where an attempt runs, what it reports to, and what it resumes from.

    Attributes:
        run: The run's folder, and this process's rank.
        heartbeat: Receives what the process does.
        preemption: Records the signals that end the attempt early.
        metrics: Receives the losses and gauges.
        settings: Written into each checkpoint's manifest; a resume compares them.
        settings_win: Settings were changed with permission: they override those in the checkpoint.
        train_tokens: How many tokens earlier attempts trained on.
        evaluated: What it evaluates, and since which step.
    """

    run: RunFolder
    heartbeat: Heartbeat
    preemption: Preemption
    metrics: Metrics
    settings: Settings
    settings_win: bool
    train_tokens: int
    evaluated: Evaluated


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The rows of a training.

    Attributes:
        splits: Prepared rows for training and evaluation, if they come from files.
        stream: Rows that a hook creates during training; None for rows of files.
        samples: Writes the model's answers to evaluation rows; None if not requested.
        scoring: Has the user's function measure answers to evaluation rows; None if not requested.
    """

    splits: Splits
    stream: StreamDataset | None
    samples: Samples | None
    scoring: Scoring | None = None
