"""Correct the steps that Lightning's loggers write, so that an evaluation and the checkpoint of the same moment have the same step.

The loggers count from 0, and checkpoints count the steps that are done: what is logged at step 19 belongs to the
checkpoint of step 20. The loggers of `lightning.pytorch` write into folders called `version_…`, with hparams.yaml beside
their files. Those of `lightning.fabric` write no hparams.yaml, and their steps are the user's own.
"""

import os
import re
from typing import Any, Dict, Tuple

TABLES = "**/version_*/metrics.csv"
"""The files of its CSVLogger, which a job has by default where TensorBoard is not installed."""
WANDB_STEP = "trainer/global_step"
"""The key of its WandbLogger for the step."""
_VERSION, _HYPERPARAMETERS = "version_", "hparams.yaml"
_TEST = re.compile("^test_")


def is_of_lightning(work: str, path: str) -> bool:
    """Return whether one of Lightning's loggers writes a file, given as a path below the job's working folder."""
    folder = os.path.dirname(path)
    is_version = os.path.basename(folder).startswith(_VERSION)
    return is_version and os.path.isfile(os.path.join(work, folder, _HYPERPARAMETERS))


def correct(step: int, numbers: Dict[Any, Any]) -> Tuple[int, Dict[Any, Any]]:
    """Return the step of a row as checkpoints count it, and its numbers.

    `trainer.test()` follows the training, so its step is right already. Its loss keeps a name of its own: it must not
    replace the loss of the last validation, by which the best checkpoint is found.
    """
    is_of_a_test = any(isinstance(name, str) and name.startswith(("test_", "test/")) for name in numbers)
    if not is_of_a_test:
        return step + 1, numbers
    return step, {_TEST.sub("test/", name) if isinstance(name, str) else name: each for name, each in numbers.items()}
