"""A container image as home asks a host for it; the host's answers are given here."""

from __future__ import annotations

import dataclasses
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

import pytest

from armada.config.hosts import Host
from armada.errors import ProvisionFailed
from armada.foundation.progress import NullProgress
from armada.paths import HostPaths
from armada.provision.container import Container, ensure_container
from armada.provision.image_packages import ImageNeeds
from tests.answers import Answering

if TYPE_CHECKING:
    from armada.rpc.session import HostSession

DIGEST = "docker.io/library/x@sha256:" + "a" * 64
IMAGE = Container("x:1", ("torch",), needs_gpus=False, tool="podman", version="5", ready=False)


class Answers(Answering):
    """A session whose host pulls an image."""

    def __init__(self, python: str | None, versions: dict[str, str | None] | None = None) -> None:
        self._versions = versions
        self.host = Host.model_validate({"name": "desk", "ssh": "desk"})
        self.paths = HostPaths(PurePosixPath("/root/.armada"))
        self.asked: list[dict[str, Any]] = []
        self._python = python

    def said(self, method: str, params: dict[str, Any], /, **_: Any) -> dict[str, Any]:
        assert method == "container.ensure"
        self.asked.append(params)
        answer = {"tool": "podman", "version": "5", "id": "b" * 64, "digest": DIGEST}
        more = {} if self._versions is None else {"versions": self._versions}
        return answer | {"outcome": "pulled", "seconds": 2.0, "python": self._python, **more}


def test_the_plan_holds_the_id_and_the_digest_of_what_was_pulled() -> None:
    session = Answers("3.12.1")
    spec, pulled, seconds = ensure_container(cast("HostSession", session), IMAGE, NullProgress())
    assert spec.model_dump() == {"image": "x:1", "tool": "podman", "id": "b" * 64, "digest": DIGEST}
    assert (pulled, seconds) == (True, 2.0)
    assert session.asked == [{"image": "x:1", "gpus": False, "packages": ["torch"]}]


def test_an_image_whose_python_is_too_old_for_the_launcher_is_refused() -> None:
    with pytest.raises(ProvisionFailed, match=r"the image x:1 has Python 3\.8\.10; 3\.9 is the oldest that works"):
        ensure_container(cast("HostSession", Answers("3.8.10")), IMAGE, NullProgress())
    assert ensure_container(cast("HostSession", Answers(None)), IMAGE, NullProgress())[1]


def test_an_image_for_the_bundled_trainer_is_asked_for_versions_which_are_judged() -> None:
    image = dataclasses.replace(IMAGE, packages=(), needs=ImageNeeds({"torch": "2.13.0"}))
    session = Answers("3.12.1", {"torch": "2.13.1"})
    assert ensure_container(cast("HostSession", session), image, NullProgress())[1]
    assert session.asked[0]["asked"] == ["torch"]
    with pytest.raises(ProvisionFailed, match=r"torch 2\.4\.0 is too old"):
        ensure_container(cast("HostSession", Answers("3.12.1", {"torch": "2.4.0"})), image, NullProgress())
    with pytest.raises(ProvisionFailed, match="it has no torch"):
        ensure_container(cast("HostSession", Answers("3.12.1")), image, NullProgress())
