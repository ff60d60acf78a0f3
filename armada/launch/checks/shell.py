"""Check the environment at home: which secrets are set, and which variables the job will not see."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.launch.checks.check import Answer, fail, ok, warn
from armada.units import counted

if TYPE_CHECKING:
    from armada.launch.checks.subject import Subject

_MEANT_FOR_JOBS = re.compile(
    r"HF_TOKEN|(?:WANDB|NCCL|TORCH\w*|PYTORCH|ACCELERATE|DEEPSPEED|TOKENIZERS|TRANSFORMERS|OMP)_\w+"
)
"""Variables of home's shell that are meant for jobs. Its paths and caches mean nothing on other machines."""
_SECRET = re.compile(r".*_(?:TOKEN|KEY|SECRET|PASSWORD)")


def check_secrets(subject: Subject) -> Answer:
    """Check that every secret that the experiment names is set."""
    names = subject.experiment.secrets
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        return fail(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set in this shell, from which secrets are read",
            f"export {missing[0]}=…, or remove it from `secrets:`",
        )
    return ok(f"{counted(len(names), 'secret')} found" if names else "no secrets")


def check_variables(subject: Subject) -> Answer:
    """Name variables of the shell that a training may need but does not see. Names only, never values."""
    experiment, profile = subject.experiment, subject.profile
    given = {*experiment.env, *experiment.secrets, *(profile.env if profile else ())}
    there = set(subject.facts.left_out)
    here = set() if subject.host.local else {name for name in os.environ if _MEANT_FOR_JOBS.fullmatch(name)}
    missing = sorted(sanitize_line(name) for name in (there | here) - given)
    if not missing:
        return ok("the job sees the variables in `env:` and `secrets:`, and those of its host")
    shown = ", ".join(missing[:6]) + (f" and {len(missing) - 6} more" if len(missing) > 6 else "")
    plain = [name for name in missing if not _SECRET.fullmatch(name)]
    hints = [f"`secrets: [{name}]`" for name in missing if name not in plain][:1]
    hints += [f"`env: {{{plain[0]}: …}}`"] if plain else []
    return warn(f"the job does not see {shown} of the shell", f"if it needs them: {', '.join(hints)}")
