"""`python -m tests.tools.old_core`."""

from __future__ import annotations

import sys

from tests.tools.old_core import main

sys.exit(main())
