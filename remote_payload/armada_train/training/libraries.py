"""Set the environment variables that libraries read, before any of them is imported."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import MutableMapping

from armada_train.failure import PayloadFailure
from armada_train.runfolder import RunFolder
from armada_train.specification.values import Training

_NEEDED = ("torch", "transformers", "trl", "accelerate", "datasets")


def check_libraries(training: Training, *, trains: bool = True) -> None:
    """Check that packages exist, without importing them; `trains` is false if only data is prepared.

    Raises:
        PayloadFailure: `env_error`, naming the missing packages.
    """
    missing = [name for name in _NEEDED if not _is_installed(name)]
    if trains:
        missing += _missing_for_training(training)
    if missing:
        raise PayloadFailure("env_error", f"the environment lacks {', '.join(missing)}")


def needed_packages(training: Training) -> dict[str, str]:
    """Return the packages that a training needs beyond the common ones, each with the setting that needs it.

    Home compares them with the environment's lists.
    """
    needed = {}
    if training.lora:
        needed["peft"] = "lora"
        if training.lora.quantize != "none":
            needed["bitsandbytes"] = "lora.quantize"
    package = training.schedule.optimizer.kind.package
    if package is not None:
        needed.setdefault(package, "train.optimizer")
    kernels = {"liger": "liger_kernel", "hub": "kernels"}.get(training.schedule.kernels)
    if kernels is not None:
        needed[kernels] = "train.kernels"
    if training.tracking.wandb in {"online", "offline"}:
        needed["wandb"] = "tracking.wandb"
    if training.deepspeed is not None:
        needed["deepspeed"] = "deepspeed"
    if training.objective.settings.get("vllm") is not None:
        needed["vllm"] = f"{training.objective.name}.vllm"
    return needed


def _missing_for_training(training: Training) -> list[str]:
    missing = [f"{name} (for `{key}`)" for name, key in needed_packages(training).items() if not _is_installed(name)]
    if training.attention == "flash_attention_2" and not (_is_installed("flash_attn") or _is_installed("kernels")):
        missing.append("flash_attn (or kernels)")
    return missing


def configure_libraries(training: Training, run: RunFolder, environment: MutableMapping[str, str]) -> bool:
    """Set the variables that Hugging Face's and W&B's libraries read at import.

    Returns:
        Whether this run reports to W&B.
    """
    environment["HF_HUB_DISABLE_TELEMETRY"] = "1"
    environment["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"  # output.log is a file
    environment["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    # Of TRL 1.x, in the log of every training with Liger's kernels: there is nothing that a user could do.
    warnings.filterwarnings("ignore", message="`use_liger_kernel=True` is deprecated", category=FutureWarning)
    if training.model_is_local and training.data_is_local and not _may_fetch_a_kernel(training):
        environment["HF_HUB_OFFLINE"] = "1"  # without it a host without internet retries for 48 s
    return _configure_wandb(training, run, environment)


def _may_fetch_a_kernel(training: Training) -> bool:
    """Whether flash attention may be fetched from the hub; home disables this for hosts without internet."""
    return training.device == "cuda" and training.attention == "auto" and _is_installed("kernels")


def _configure_wandb(training: Training, run: RunFolder, environment: MutableMapping[str, str]) -> bool:
    tracking = training.tracking
    if tracking.wandb == "off" or (tracking.wandb == "auto" and not environment.get("WANDB_API_KEY")):
        return False
    if not _is_installed("wandb"):  # `online` and `offline` were refused by check_libraries
        if run.is_main:
            print("finding: WANDB_API_KEY is set, but the environment has no wandb: nothing is reported to W&B")
        return False
    environment["WANDB_DIR"] = str(run.path)
    environment["WANDB_RUN_ID"] = tracking.id  # one logical run across attempts
    environment["WANDB_RESUME"] = "allow"
    environment["WANDB_NAME"] = tracking.name
    if tracking.project:
        environment["WANDB_PROJECT"] = tracking.project
    if tracking.wandb == "offline":
        environment["WANDB_MODE"] = "offline"
    return True


def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
