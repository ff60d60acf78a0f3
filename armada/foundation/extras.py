"""Optional dependencies of armada, and the command that installs them."""

from __future__ import annotations

DISTRIBUTION = "armada-gpu"
"""The distribution's name: `armada` on PyPI is an unrelated project. pyproject.toml has the same name."""

EXTRAS = ("hub", "mcp", "notify", "pandas", "parquet", "search", "stores", "wandb", "web")
"""The extras of that distribution, as in pyproject.toml. `docs` and `dev` are for armada's developers."""


def install_command(extra: str) -> str:
    """Return the command that installs one of `EXTRAS` for this armada."""
    import shlex
    import sys

    return f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(f'{DISTRIBUTION}[{extra}]')}"
