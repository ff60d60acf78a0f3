"""What is said of this machine's own files."""

from __future__ import annotations

import errno
import os

import pytest

from armada.cli.printing import as_error


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "free space"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "who may"),
        (errno.EMFILE, "ulimit"),
    ],
)
def test_the_hint_fits_what_the_system_refused(number: int, hint: str) -> None:
    error = as_error(OSError(number, os.strerror(number), "/x/y"))
    assert str(error) == f"/x/y: {os.strerror(number)}"
    assert hint in (error.hint or "")


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EISDIR, errno.ENOTDIR])
def test_a_file_that_is_not_there_is_no_full_disk(number: int) -> None:
    assert as_error(OSError(number, os.strerror(number), "/x/y")).hint is None
    assert as_error(OSError("no number")).hint is None
