"""Let Textual draw at most 120 frames a second instead of 60: a key then waits half as long for the next frame."""

from __future__ import annotations

import os

FRAMES_PER_S = 120
SETTING = "TEXTUAL_FPS"


def import_textual() -> None:
    """Import Textual's screens with our frame rate, unless the user has set one; programs that we start do not see it.

    Textual reads it once, from the environment, when it is imported.
    """
    if SETTING in os.environ:
        return
    os.environ[SETTING] = str(FRAMES_PER_S)
    try:
        import textual.screen  # noqa: F401  # this is what reads it
    finally:
        del os.environ[SETTING]
