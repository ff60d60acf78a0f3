"""What armada can use and does not bring, and the command that installs it."""

from __future__ import annotations

DISTRIBUTION = "armada-gpu"
"""What pip calls armada: `armada` on PyPI is a project of strangers. pyproject.toml has the same."""

EXTRAS = ("notify", "stores", "wandb", "web")
"""The extras of that distribution, as in pyproject.toml; `docs` and `dev` are for who works on armada."""


def install_command(extra: str) -> str:
    """Return the command that installs one of `EXTRAS` beside this armada."""
    import shlex
    import sys

    return f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(f'{DISTRIBUTION}[{extra}]')}"
