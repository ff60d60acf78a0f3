"""Delete folders with all that is in them, also where a job took the rights on them away from itself."""

import contextlib
import os
import shlex
import shutil
import stat
from typing import List, Optional

from armada_agent.errors import AgentError

_NAMED = 3
_RIGHTS = stat.S_IRWXU
_AS_IT_IS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def delete_folder(folder: str, known_as: str) -> None:
    """Delete a folder; give oneself the rights on folders that one owns. No link is followed, and no failure stops the rest.

    Args:
        folder: The folder.
        known_as: Its name for the user; it may have been renamed just before.

    Raises:
        AgentError: `io`: something could not be deleted; it names that, and what to do.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.lexists(folder):
        return
    _take_rights(folder)
    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.lexists(folder):
        return
    left = _try_again(folder)
    if not os.path.lexists(folder):
        return
    more = " and %d more" % (len(left) - _NAMED) if len(left) > _NAMED else ""
    raise AgentError(
        "io",
        "%s could not be deleted as a whole; there remains %s%s" % (known_as, ", ".join(left[:_NAMED]) or folder, more),
        "delete it on the host as root, or as its owner: rm -rf %s" % shlex.quote(folder),
    )


def _take_rights(folder: str) -> None:
    """Give the owner all rights on a folder and on the folders in it, as far as this user owns them."""
    _take_right(folder, None)
    for _, names, _, descriptor in os.fwalk(folder):  # opens each only after this loop's body
        for name in names:
            _take_right(name, descriptor)


def _take_right(name: str, parent: Optional[int]) -> None:
    with contextlib.suppress(OSError):
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _RIGHTS == _RIGHTS:
            return
        mode = stat.S_IMODE(found.st_mode) | _RIGHTS
        if not hasattr(os, "O_PATH"):  # macOS
            os.chmod(name, mode, dir_fd=parent, follow_symlinks=False)
            return
        # Linux changes no mode by a name that it does not follow.
        descriptor = os.open(name, os.O_PATH | _AS_IT_IS, dir_fd=parent)
        try:
            if os.path.samestat(os.fstat(descriptor), found):
                os.chmod("/proc/self/fd/%d" % descriptor, mode)
        finally:
            os.close(descriptor)


def _try_again(folder: str) -> List[str]:
    """Delete what is left one by one; return what cannot be deleted, each with the reason."""
    left: List[str] = []

    def delete(place: str, name: str, parent: int) -> None:
        path = os.path.join(place, name)
        try:
            with contextlib.suppress(FileNotFoundError):  # it is gone, as it should be
                _delete_one(name, parent)
        except OSError as error:
            if not any(each.startswith(path + os.sep) for each in left):
                left.append("%s (%s)" % (path, (error.strerror or str(error)).lower()))

    for place, folders, names, descriptor in os.fwalk(folder, topdown=False):
        for name in names + folders:
            delete(place, name, descriptor)
    with contextlib.suppress(OSError):
        parent = os.open(os.path.dirname(folder), _AS_IT_IS)
        try:
            delete(os.path.dirname(folder), os.path.basename(folder), parent)
        finally:
            os.close(parent)
    return left


def _delete_one(name: str, parent: int) -> None:
    """Delete a file, a link or an empty folder.

    Raises:
        OSError: Why not; of a folder that cannot be read, that.
    """
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=parent)
        return
    try:
        os.rmdir(name, dir_fd=parent)
    except OSError:
        os.close(os.open(name, _AS_IT_IS, dir_fd=parent))
        raise
