"""Correct the steps that Lightning's loggers write, so that an evaluation and the checkpoint of the same moment have the same step.

The loggers count from 0, and checkpoints count the steps that are done: what is logged at step 19 belongs to the
checkpoint of step 20. Beside their files, the loggers of `lightning.pytorch` write hparams.yaml. Those of
`lightning.fabric` do not, and their steps are the user's own.
"""

import os
import re
from typing import Any, Dict, Tuple

TABLES = "**/version_*/metrics.csv"
"""The files of its CSVLogger, which a job has by default where TensorBoard is not installed."""
WANDB_STEP = "trainer/global_step"
"""The key of its WandbLogger for the step."""
_HYPERPARAMETERS = "hparams.yaml"
_TEST = re.compile("^test_")


def is_of_lightning(work: str, path: str) -> bool:
    """Return whether one of Lightning's loggers writes a file, given as a path below the job's working folder."""
    return os.path.isfile(os.path.join(work, os.path.dirname(path), _HYPERPARAMETERS))


def correct(step: int, numbers: Dict[Any, Any]) -> Tuple[int, Dict[Any, Any]]:
    """Return the step of a row as checkpoints count it, and its numbers.

    `trainer.test()` follows the training, so its step is right already. Its loss keeps a name of its own: it must not
    replace the loss of the last validation, by which the best checkpoint is found.
    """
    is_of_a_test = any(isinstance(name, str) and name.startswith(("test_", "test/")) for name in numbers)
    if not is_of_a_test:
        return step + 1, numbers
    return step, {_TEST.sub("test/", name) if isinstance(name, str) else name: each for name, each in numbers.items()}
