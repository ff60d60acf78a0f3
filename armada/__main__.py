"""`armada` and `python -m armada`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from armada.foundation.standard_streams import checked, guard


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code is one of `armada.errors.EXIT_CODES`."""
    guard()
    return checked(_run(list(sys.argv[1:] if argv is None else argv)))


def _run(arguments: list[str]) -> int:
    if arguments in (
        ["--version"],
        ["-V"],
    ):  # answered before anything is imported: people's prompts and scripts ask it
        from armada import __version__

        sys.stdout.write(f"armada {__version__}\n")
        return 0
    if arguments[:1] == ["__complete"]:  # a shell asks at every Tab
        from armada.cli.candidates import offer

        offer("".join(arguments[1:2]), "".join(arguments[2:3]))
        return 0
    try:
        from armada.cli.main import run

        return run(arguments)
    except KeyboardInterrupt:  # before `run` could take it, or after: nothing had been asked for yet, or all was done
        sys.stderr.write("\narmada: interrupted\n")
        return 130


def _leave(code: int) -> None:
    """End `python -m armada`.

    CPython ends `python -m` by SIGINT, whatever code it was told, where Ctrl-C came inside an `exec` of text (an import that makes a
    dataclass is one) and was caught outside of it: `unhandled_keyboard_interrupt` in its `pylifecycle.c` stays set.
    """
    if code == 130:
        import ctypes

        ctypes.pythonapi.Py_Exit(code)
    sys.exit(code)


if __name__ == "__main__":
    _leave(main())
