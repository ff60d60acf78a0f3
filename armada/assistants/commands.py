"""Run a command of armada for an assistant, as a process of its own, and read what it prints as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, UsageError
from armada.store.running_operations import BY

if TYPE_CHECKING:
    from collections.abc import Sequence

READING_S = 300.0
ACTING_S = 3600.0
"""How long a command may take, in seconds. An environment may have to be built first; a launch that was ended is
continued by the same launch."""

_LONGEST_WORD = 4_000
_MESSAGES = 2_000


def run_command(command: str, options: Sequence[str], words: Sequence[str], *, timeout_s: float) -> dict[str, object]:
    """Run `armada COMMAND OPTIONS --json -- WORDS` and return its result, with the exit code and the messages beside it.

    Args:
        command: Words of armada alone, such as `hosts ls`.
        options: Of the form `--name=value`, so that no value is taken for an option.
        words: What the command is about. None is taken for an option.
        timeout_s: When the command is ended, in seconds.

    Raises:
        UsageError: A word cannot be one of a command line.
        ArmadaError: The command failed without a result; the sentence is its own.
    """
    if any(not word.strip() for word in words):
        raise UsageError("an argument is empty")  # every run's id begins with it
    for word in (*options, *words):
        if "\0" in word or len(word) > _LONGEST_WORD:
            raise UsageError(f"an argument has a NUL character, or more than {_LONGEST_WORD:,} characters")
    argv = [sys.executable, "-m", "armada", *command.split(), *options, "--json", *(["--", *words] if words else [])]
    try:
        done = subprocess.run(
            argv,
            env=os.environ | {BY: "mcp"},
            stdin=subprocess.DEVNULL,  # the server's own carries the protocol
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ArmadaError(f"armada {command} took longer than {timeout_s:g} s and was ended") from None
    except (UnicodeEncodeError, OSError) as error:
        raise UsageError(f"armada {command} cannot be started with these arguments ({type(error).__name__})") from None
    result = _read(done.stdout)
    if done.returncode != 0 and (
        result is None or (isinstance(result, dict) and "error" in result and len(result) <= 2)
    ):
        raise _failure(command, result, done.stderr, done.returncode)
    answer: dict[str, object] = {"result": result, "exit_code": done.returncode}
    return answer | ({"messages": done.stderr[-_MESSAGES:]} if done.stderr.strip() else {})


def _read(printed: str) -> object:
    """Read a JSON value, or a list of one value on each line; None if nothing was printed.

    Raises:
        ArmadaError: It is no JSON.
    """
    if not printed.strip():
        return None
    with contextlib.suppress(ValueError):
        return json.loads(printed)
    try:
        return [json.loads(line) for line in printed.split("\n") if line.strip()]
    except ValueError:
        raise ArmadaError("the command printed something that is no JSON") from None


def _failure(command: str, result: object, said: str, code: int) -> ArmadaError:
    error = result.get("error") if isinstance(result, dict) else None
    if isinstance(error, dict):
        hint = error.get("hint")
        failure = ArmadaError(str(error.get("message")), hint=str(hint) if hint else None)
    else:
        failure = ArmadaError(f"armada {command} failed: {said[-_MESSAGES:].strip()}")
    failure.exit_code = code
    return failure
