"""Find out which container tool this host has, pull images, and look at what is in them."""

import json
import os
import time
from typing import Any, Dict, List, Optional

from armada_agent.errors import AgentError
from armada_agent.foundation import parameters
from armada_agent.foundation.session import Call
from armada_agent.host import containers, job_variables, setup_lines

_SHOWN_LINES = 20
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
    """Return the tool that would run an image here, and the image if it is here. Changes nothing.

    Raises:
        AgentError: `environment`: no container tool can be used.
    """
    reference, tool, environment = _begin(params)
    return _answer(tool, containers.find_image(tool.program, reference, environment))


def ensure(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Pull an image if it is missing, and look whether it has the Python packages that the job needs.

    Raises:
        AgentError: `environment`: it cannot be pulled, is for other machines, or lacks a package; `disk_full`.
    """
    begun = time.monotonic()
    reference, tool, environment = _begin(params)
    packages = [
        parameters.text({"package": name}, "package")
        for name in (parameters.sequence(params, "packages") if "packages" in params else [])
    ]
    image = containers.find_image(tool.program, reference, environment)
    outcome = "ready"
    if image is None:
        _pull(call, tool, reference, environment)
        image = containers.find_image(tool.program, containers.full_name(tool.name, reference), environment)
        outcome = "pulled"
    if image is None:
        raise AgentError("environment", "%s pulled %s, but does not have it" % (tool.name, reference))
    containers.require_architecture(image, reference)
    python = _require_packages(tool, image, reference, packages, environment) if packages else None
    return dict(_answer(tool, image), outcome=outcome, seconds=time.monotonic() - begun, python=python)


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


def _require_packages(
    tool: containers.Tool, image: containers.Image, reference: str, packages: List[str], environment: Dict[str, str]
) -> str:
    """Return the version of an image's Python. Refuse an image without the packages that a task needs.

    Nothing of the image but its Python is started.
    """
    words = ["run", "--rm", "--network", "none", "--entrypoint", "python3", image.id, "-c", LOOK] + packages
    try:
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
    lacking = [name for name in packages if not isinstance(found, dict) or found.get(name) is None]
    if lacking:
        message = "the image %s (Python %.20s) has no %s, which this task needs"
        hint = "build an image with it; a script that uses none of them can be a `task: command`"
        raise AgentError("environment", message % (reference, version, " and no ".join(lacking)), hint)
    return str(version)[:20]
