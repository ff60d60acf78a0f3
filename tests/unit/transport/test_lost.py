"""Why a connection was lost is never left empty."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from armada.transport.fabric_transport import Link


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        (None, "the host closed the connection"),
        (EOFError(), "EOFError"),
        (OSError(" \n"), "OSError"),
        (OSError("Broken \x1b[31mpipe"), "Broken \N{REPLACEMENT CHARACTER}[31mpipe"),
    ],
)
def test_it_says_at_least_the_kind_of_the_error(saved: Exception | None, said: str) -> None:
    link = Link(SimpleNamespace(saved_exception=saved, is_active=lambda: False), "box")  # type: ignore[arg-type]  # as much of it as is asked
    link.close()
    assert link.lost().message.startswith(f"the connection was lost: {said}")
