"""Runs in containers on this machine, by the real podman, from the launch to the resume."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import container_tools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Armada
    from tests.container_tools import ContainerTool


pytestmark = pytest.mark.xdist_group("podman")


@pytest.fixture(scope="module")
def podman() -> Iterator[ContainerTool]:
    with container_tools.podman_or_skip() as found:
        yield found


@pytest.fixture
def boxed(armada: Armada, podman: ContainerTool) -> Armada:
    """An armada whose `local` has podman."""
    armada.env["PATH"] = f"{podman.program.parent}:{armada.env['PATH']}"
    return armada


def test_a_resume_runs_in_the_image_of_the_launch_whatever_its_tag_means_by_then(
    boxed: Armada, podman: ContainerTool
) -> None:
    line = "cat /inside; [ -e again ] && exit 0; touch again; exit 3"
    boxed.command("sh", "-c", line, environment={"container": container_tools.IMAGE})
    planned = boxed.run("launch", "--host", "local", "exp.yaml", "--dry-run")
    assert f"container {container_tools.IMAGE} by podman" in planned.stdout + planned.stderr
    assert boxed.run("launch", "--host", "local", "exp.yaml", "--follow").returncode != 0
    run_id = boxed.json("ps")[0]["run_id"]
    image_id = podman("image", "inspect", "--format", "{{.Id}}", container_tools.IMAGE)
    assert boxed.json("show", run_id)["spec"]["container"]["id"] == image_id
    assert f"container  {container_tools.IMAGE} (podman)" in boxed.run("show", run_id).stdout
    podman("tag", image_id, "localhost/kept:1")
    tree = boxed.folder / "empty"
    tree.mkdir()
    podman.import_image(container_tools.IMAGE, tree)
    done = boxed.run("resume", run_id, "--follow")
    assert done.returncode == 0, done.stderr
    assert (boxed.local_runs / run_id / "output.log").read_text() == "yesyes"
    assert podman.containers() == []


def test_a_host_that_cannot_run_containers_is_told_and_starts_nothing(armada: Armada) -> None:
    bare = armada.folder / "bin"
    bare.mkdir()
    for name in ("podman", "docker"):
        (bare / name).write_text("#!/bin/sh\necho no daemon here >&2\nexit 1\n")
        (bare / name).chmod(0o755)
    armada.env["PATH"] = f"{bare}:{armada.env['PATH']}"
    armada.command("true", environment={"container": "alpine"})
    done = armada.run("launch", "--host", "local", "exp.yaml")
    assert done.returncode == 5
    assert "this host cannot run containers for you: podman does not work for you: no daemon here" in done.stderr
    assert armada.json("ps") == []
