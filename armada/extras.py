"""What armada can use and does not bring: packages by their own names, because `armada` on PyPI is a stranger's."""

from __future__ import annotations

EXTRAS = {
    "notify": "apprise>=1.9,<3",
    "wandb": "wandb>=0.21,<1",
    "web": "textual-serve==1.1.3",
}
"""Requirements by the name of the extra; pyproject.toml has the same."""


def install_command(extra: str) -> str:
    """The command that puts an extra's package beside this armada."""
    import shlex
    import sys

    return f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(EXTRAS[extra])}"
