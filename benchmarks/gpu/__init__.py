"""What only a GPU can show, measured on any machine that has one: docs/how-to/gpu.md."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - people name any Python by `make gpu PYTHON=…`
    sys.exit(
        f"gpu: armada needs Python 3.11 or newer, and {sys.executable} is {sys.version.split()[0]}: name another by PYTHON="
    )
