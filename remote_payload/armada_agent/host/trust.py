"""Apply the ownership rules. An error names the path, its owner, its mode, and the remedy."""

import contextlib
import os
from typing import Iterator, List

from armada_agent.errors import AgentError
from armada_agent.host import ownership


def require_root(root: str) -> List[str]:
    """Check a root, all folders above it, and its content down to each run, environment and content.

    Returns:
        A warning for each folder above it to which others may write and that is not refused.

    Raises:
        AgentError: `environment`.
    """
    with _in_our_words():
        doubts = ownership.require_way(root)
        ownership.require_below(root, deep=True)
        return doubts


def require_tree(top: str, root: str) -> None:
    """Check every file and folder below `top`, `top` itself, and each folder between it and the root.

    Raises:
        AgentError: `environment`.
    """
    require_program(top, root)
    with _in_our_words():
        ownership.require_tree(top)


def require_environment(folder: str) -> None:
    """Check a Python environment: its own folder, and the folders where Python and its start-up files are found.

    It does not check each of the 40,000 files: only armada writes into a folder that is ours and closed to others. It
    does not check the host's Python to which the environment links: clusters keep theirs under a software account.

    Raises:
        AgentError: `environment`.
    """
    names = [".", "bin", "lib"]
    library = os.path.join(folder, "lib")
    for name in sorted(os.listdir(library)) if os.path.isdir(library) else []:
        names += [os.path.join("lib", name), os.path.join("lib", name, "site-packages")]
    with _in_our_words():
        ownership.require_inside(folder, names)


def require_foreign(folder: str) -> None:
    """Check a Python environment that armada did not make, as `require_environment` does, and every folder above it.

    Raises:
        AgentError: `environment`. The environment's owner must correct the problem.
    """
    real = os.path.realpath(folder)
    try:
        ownership.require_way(real)
        require_environment(real)
    except (ownership.UntrustedError, AgentError) as error:
        said = error.message if isinstance(error, AgentError) else str(error)
        said = said.replace("above armada's root", "above the environment").replace("armada's root", "the environment")
        hint = "armada runs only what nobody but you and root can write: chmod go-w there, or make an environment of your own"
        raise AgentError("environment", said, hint)


def require_program(path: str, root: str) -> None:
    """Check a program below the root, and each folder between them.

    Raises:
        AgentError: `environment`.
    """
    parts = os.path.relpath(path, root).split(os.sep)
    with _in_our_words():
        ownership.require_below(root, [os.path.join(*parts[:count]) for count in range(1, len(parts) + 1)])


@contextlib.contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except ownership.UntrustedError as error:
        raise AgentError("environment", str(error), error.hint)
