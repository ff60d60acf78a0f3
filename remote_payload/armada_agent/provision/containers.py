"""Find out which container tool this host has, pull images, and look at what is in them."""

import json
import os
import re
import time
from typing import Any, Dict, List, Optional, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import parameters
from armada_agent.foundation.session import Call
from armada_agent.host import containers, job_variables, setup_lines

_SHOWN_LINES = 20
_MOST_PACKAGES = 100
_LONGEST_VERSION = 100
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}\Z")
LOOK = (
    "import json, platform\n"
    "try:\n"
    "    from importlib import metadata\n"
    "except ImportError:\n"
    "    metadata = None\n"
    "def version(name):\n"
    "    try:\n"
    "        return metadata.version(name)\n"
    "    except Exception:\n"
    "        return None\n"
    "import sys\n"
    "print(json.dumps([platform.python_version(), {name: version(name) for name in sys.argv[1:]}]))\n"
)
"""Prints the version of Python, and those of the packages that its arguments name. It runs under any Python 3."""


def examine(_call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Return the tool that would run an image here, and the image if it is here: then a container of it is tried.

    Raises:
        AgentError: `environment`: no container tool can be used, or it cannot start a container.
    """
    reference, tool, environment = _begin(params)
    image = containers.find_image(tool.program, reference, environment)
    if image is not None:
        containers.require_architecture(image, reference)
        containers.try_start(tool, image, params.get("gpus") is True, environment)
    return _answer(tool, image)


def ensure(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Pull an image if it is missing, and look whether it has the Python packages that the job needs.

    Raises:
        AgentError: `environment`: it cannot be pulled, is for other machines, or lacks a package; `disk_full`.
    """
    begun = time.monotonic()
    reference, tool, environment = _begin(params)
    packages, asked = _names(params, "packages"), _names(params, "asked")
    image = containers.find_image(tool.program, reference, environment)
    outcome = "ready"
    if image is None:
        _pull(call, tool, reference, environment)
        image = containers.find_image(tool.program, containers.full_name(tool.name, reference), environment)
        outcome = "pulled"
    if image is None:
        raise AgentError("environment", "%s pulled %s, but does not have it" % (tool.name, reference))
    containers.require_architecture(image, reference)
    if outcome == "pulled":  # otherwise `examine` has tried it
        containers.try_start(tool, image, params.get("gpus") is True, environment)
    python: Optional[str] = None
    found: Dict[str, Optional[str]] = {}
    if packages or asked:
        python, found = _look_into(tool, image, reference, packages + asked, environment)
        _require_packages(reference, python, found, packages)
    versions = {name: found.get(name) for name in asked}
    answer = dict(_answer(tool, image), outcome=outcome, seconds=time.monotonic() - begun)
    return dict(answer, python=python, versions=versions)


def _names(params: Dict[str, Any], key: str) -> List[str]:
    """Return names of packages; one that an interpreter could take for an option is none."""
    found = [
        parameters.text({"package": name}, "package")
        for name in (parameters.sequence(params, key) if key in params else [])
    ]
    if len(found) > _MOST_PACKAGES or not all(_PACKAGE.match(name) for name in found):
        raise AgentError("bad_request", "`%s` must be names of packages" % key)
    return found


def _begin(params: Dict[str, Any]) -> Any:
    reference = containers.checked_reference(params.get("image"))
    setup_lines.apply()
    environment = dict(job_variables.pick_base(os.environ), **setup_lines.exported())
    environment.setdefault("PATH", os.environ.get("PATH", os.defpath))
    return reference, containers.choose(params.get("gpus") is True, environment), environment


def _answer(tool: containers.Tool, image: Optional[containers.Image]) -> Dict[str, Any]:
    return {
        "tool": tool.name,
        "version": tool.version,
        "id": image.id if image else None,
        "digest": image.digest if image else None,
    }


def _pull(call: Call, tool: containers.Tool, reference: str, environment: Dict[str, str]) -> None:
    said: List[str] = []

    def take(line: str) -> None:
        if line.strip():
            said.append(line.strip()[:500])
            del said[:-_SHOWN_LINES]
            call.progress(said[-1])

    name = containers.full_name(tool.name, reference)
    call.progress("pulling %s" % name)
    argv = [tool.program, "pull", name]
    if call.session.children.run(argv, containers.client_environment(environment), take):
        raise containers.explain_pull(reference, tool.name, said)


def _look_into(
    tool: containers.Tool, image: containers.Image, reference: str, packages: List[str], environment: Dict[str, str]
) -> Tuple[str, Dict[str, Optional[str]]]:
    """Return the version of an image's Python, and of packages in it; None for one that is missing.

    Nothing of the image but its Python is started.

    Raises:
        AgentError: `environment`: it has no Python, or does not start.
    """
    words = ["run", "--rm", "--network", "none", "--entrypoint", "python3", image.id, "-I", "-c", LOOK] + packages
    try:
        code, said, complaint = containers.call(tool.program, words, environment)
        if not said and not complaint:  # podman on a busy machine can lose what a short-lived container printed
            code, said, complaint = containers.call(tool.program, words, environment)
        version, found = json.loads(containers.last_line(said)) if not code else ("", {})
    except (containers.NoAnswerError, ValueError, TypeError) as error:
        raise AgentError("environment", "the image %s could not be looked into: %s" % (reference, error))
    if code == 127 or (code and "python3" in complaint and "not found" in complaint):
        hint = "name an image with it, or run the program by `task: command`, which needs no Python"
        raise AgentError("environment", "the image %s has no python3, which this task needs" % reference, hint)
    if code:
        raise AgentError(
            "environment", "the image %s does not start: %s" % (reference, containers.last_line(complaint))
        )
    read = found if isinstance(found, dict) else {}
    return str(version)[:20], {name: _version(read.get(name)) for name in packages}


def _version(said: Any) -> Optional[str]:
    return said[:_LONGEST_VERSION] if isinstance(said, str) else None


def _require_packages(reference: str, version: str, found: Dict[str, Optional[str]], packages: List[str]) -> None:
    """Refuse an image without the packages that a task needs."""
    lacking = [name for name in packages if found.get(name) is None]
    if lacking:
        message = "the image %s (Python %.20s) has no %s, which this task needs"
        hint = "build an image with it; a script that uses none of them can be a `task: command`"
        raise AgentError("environment", message % (reference, version, " and no ".join(lacking)), hint)
