"""The list of checks by number. A new check is a function in its family's module, and a line here.

| check  | refuses or warns                                                                                                         |
|--------|--------------------------------------------------------------------------------------------------------------------------|
| ARM001 | more GPUs are requested than the host has                                                                                |
| ARM002 | the host's GPUs are not the profile's kind (warns)                                                                       |
| ARM003 | bf16 on a GPU without it (compute capability below 8.0), or on one of which it is not known (warns)                      |
| ARM004 | a secret the experiment names is not in home's environment                                                               |
| ARM005 | disk on the host: environment, files, the model and checkpoints against what is free                                     |
| ARM006 | rsync is missing there or here: files are sent as a tar stream through the agent                                         |
| ARM007 | the host's clock is off (warns)                                                                                          |
| ARM008 | the checkpoint interval exceeds the run's length (warns: only the last one is saved)                                     |
| ARM009 | links and other files in the project that are not sent; ignored files that the job names (warns)                         |
| ARM010 | the project has uncommitted changes (warns: the snapshot contains them)                                                  |
| ARM011 | memory: more processes than the host has cores for (warns)                                                               |
| ARM012 | the host's batch system could never run the job; or not now (warns, with the reason)                                     |
| ARM013 | W&B online where runs have no internet (offline records are synced home)                                                 |
| ARM014 | a line of the host's `setup:` fails                                                                                      |
| ARM015 | what the payload itself would refuse: settings, model or environment                                                     |
| ARM016 | a hub id that the hub refuses (warns without HF_TOKEN); or one not looked up, is too large, or may mean a folder (warns) |
| ARM017 | variables of the shell that a training may need but the job does not see (warns, with their names)                       |
| ARM018 | an entry of `files:` that neither the host nor home can get                                                              |
| ARM019 | an argument still holds a placeholder that `armada init` wrote                                                           |
| ARM020 | a module that the script imports and its environment lacks (warns where `setup:` or PYTHONPATH may bring it)             |
| ARM021 | memory: weights and optimizer exceed a GPU; or the estimate of the whole training does (warns)                           |
| ARM022 | `train.max_length` is more than the positions of a hub model (warns)                                                     |
| ARM023 | W&B online without its key, or its key without its package (warns)                                                       |
| ARM024 | `budget` cannot be kept: no price, or another currency; or it ends before the first checkpoint (warns)                 |

Batch arithmetic, files and their lines are refused earlier, where they are read.
"""

from __future__ import annotations

from collections.abc import Callable

from armada.launch.checks import (
    budget,
    gpus,
    host,
    memory,
    model,
    payload,
    placeholders,
    project,
    scheduler,
    shell,
    tracking,
    training,
)
from armada.launch.checks.check import Answer, Check
from armada.launch.checks.subject import Subject

CHECKS: dict[str, Callable[[Subject], Answer | None]] = {
    "ARM001": gpus.check_number,
    "ARM002": gpus.check_kind,
    "ARM003": gpus.check_bf16,
    "ARM004": shell.check_secrets,
    "ARM005": host.check_disk,
    "ARM006": host.check_rsync,
    "ARM007": host.check_clock,
    "ARM008": training.check_checkpoints,
    "ARM009": project.check_links,
    "ARM010": project.check_revision,
    "ARM011": host.check_cores,
    "ARM012": scheduler.check_job_file,
    "ARM013": training.check_wandb,
    "ARM014": host.check_setup,
    "ARM015": payload.check_payload,
    "ARM016": model.check_hub_model,
    "ARM017": shell.check_variables,
    "ARM018": project.check_files,
    "ARM019": placeholders.check_placeholders,
    "ARM020": project.check_imports,
    "ARM021": memory.check_memory,
    "ARM022": memory.check_length,
    "ARM023": tracking.check_key,
    "ARM024": budget.check_budget,
}
"""A number is never reused. A check returns None if it does not apply."""


def check_launch(subject: Subject) -> tuple[Check, ...]:
    """Return the results of all checks that apply, ordered by number."""
    answers = ((code, check(subject)) for code, check in CHECKS.items())
    return tuple(
        Check(answer.outcome, answer.message, answer.hint, code) for code, answer in answers if answer is not None
    )
