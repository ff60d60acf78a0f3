"""Continued pre-training: every token of plain text counts, and documents follow each other in full rows."""

from __future__ import annotations

from armada_train.training.objectives.sft import SftTrainer

TRAINER = SftTrainer  # what differs is the data: `text` alone, packed by `wrapped`
