"""Take back a submission that was refused: it was never made, so its claim and its secrets go.

Home may have seen the claim. Its record of the refusal stays in the submission's folder, also for a home whose own
request was killed, or which only looked meanwhile: what it saw of that submission was never more than the claim.
"""

import contextlib
import os
import time
from typing import Iterator

from armada_agent.foundation import files
from armada_agent.paths import RunPaths
from armada_agent.runs import repeated
from armada_agent.runs.observation import Evidence


def take_back(paths: RunPaths, number: int, message: str) -> None:
    """Delete a claim, so that a corrected submission can follow. The caller holds the lock of whoever submits.

    Of a run's first submission no record stays: there is no earlier one that counts again.
    """
    if number > 1:
        with contextlib.suppress(OSError):  # home learns of the refusal by the answer
            files.write_json(paths.submission(number, "refused.json"), {"time": time.time(), "message": message[:2000]})
    files.remove(paths.submission(number, "claim.json"))
    files.remove(paths.submission(number, "asked.json"))
    with contextlib.suppress(OSError):  # it contains the record, or something that the user may want to read
        os.rmdir(paths.submission(number))
    forget_secrets(paths, number)


def forget_secrets(paths: RunPaths, number: int) -> None:
    """Delete the secrets of a submission that is not claimed: whoever submits again brings them again.

    Those of a former one without a recorded end stay: it may still need them.
    """
    with contextlib.suppress(OSError, files.UnreadableError):
        if number == 1 or Evidence(paths).has_ended:
            files.remove(paths.secrets)


@contextlib.contextmanager
def without_secrets(paths: RunPaths, number: int) -> Iterator[None]:
    """Leave no secrets if an error ends this block before the submission is claimed."""
    try:
        yield
    except Exception:
        if not repeated.may_be_claimed(paths, number):
            forget_secrets(paths, number)
        raise
