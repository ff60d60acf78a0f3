"""Print protocol.json as generated from the models: `python -m armada.protocol`."""

from __future__ import annotations

import sys

from armada.protocol.schema import text

sys.stdout.write(text())
