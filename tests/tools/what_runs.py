"""Print which tests cannot run on this machine, and why, before they start. Tests that can run are not listed.

If ARMADA_REQUIRE_FLEET is set, a missing requirement of real hosts or of a browser is a failure; with
ARMADA_REQUIRE_CLUSTERS, also one of batch systems. This tool uses only the standard library.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fleet import machines

_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_AGENT_PYTHONS = range(6, 14)


def main() -> int:
    """Print the lines; return 1 if a required item is missing."""
    hosts, clusters, others = list(_hosts()), list(_clusters()), list(_others())
    for line in hosts + clusters + others:
        print(f"not on this machine: {line}", flush=True)
    required = hosts if os.environ.get("ARMADA_REQUIRE_FLEET") else []
    required += clusters if os.environ.get("ARMADA_REQUIRE_CLUSTERS") else []
    if required:
        print("ARMADA_REQUIRE_FLEET or ARMADA_REQUIRE_CLUSTERS says that these must run: see above")
    return 1 if required else 0


def _hosts() -> Iterator[str]:
    """Yield the tests on real SSH hosts or in a browser that cannot run."""
    if sys.platform == "darwin":
        yield "tests on real SSH hosts: macOS has no namespaces to make hosts with"
    elif reason := machines.why_not():
        yield f"tests on real SSH hosts: {reason}"
    if not any(map(shutil.which, _BROWSERS)):
        yield "tests of the dashboard in a browser: no Chromium (Debian: chromium-headless-shell)"


def _clusters() -> Iterator[str]:
    """Yield the tests on batch systems that cannot run."""
    if machines.why_not():
        return
    if without := os.environ.get("ARMADA_WITHOUT_CLUSTERS"):
        yield f"tests on Slurm and HTCondor: {without}"
        return
    for machine in machines.MACHINES.values():
        if machine not in machines.WITHOUT_SCHEDULER and (reason := machines.why_not_host(machine)):
            yield f"tests on the host {machine.name}: {reason}"


def _others() -> Iterator[str]:
    """Yield the tests that run in fewer variants than they could."""
    if sys.platform != "linux":
        yield f"tests that read /proc: this is {platform.system()}"
    for tool, packages in (("podman", "podman crun catatonit"), ("dockerd", "docker.io tini")):
        if os.getuid() or shutil.which(tool) is None:
            yield f"tests of containers by {tool}: they need root and {tool} (Debian: {packages})"
    own = sys.version_info.minor
    installed = [path.name for path in Path("~/.pyenv/versions").expanduser().glob("3.*")]
    others = [
        f"3.{minor}"
        for minor in _AGENT_PYTHONS
        if minor != own and (shutil.which(f"python3.{minor}") or any(n.startswith(f"3.{minor}.") for n in installed))
    ]
    if not others:
        yield f"tests of the agent on a Python other than 3.{own}: no other interpreter (3.6 to 3.13) is installed"


if __name__ == "__main__":
    sys.exit(main())
