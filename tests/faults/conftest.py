from __future__ import annotations

from tests.sync.conftest import home, place

__all__ = ["home", "place"]
