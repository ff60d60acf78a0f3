"""flash-attn and optional packages in an environment: fetched if they can be, compiled only within the memory there is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from armada_agent.errors import AgentError
from armada_agent.provision import flash_attention
from armada_agent.provision.flash_attention import GIB, plan_build

from tests.agent.conversation import Host, Refused
from tests.agent.test_agent_environment import index, surroundings, with_uv
from tests.package_index import build_wheel

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.agent.conversation import Conversation

__all__ = ["index", "surroundings", "with_uv"]  # fixtures, which pytest finds by name

NOWHERE = "file:///no/such/folder/flash_attn-2.8.3-{python}-{python}-linux_x86_64.whl"


def ensure(host: Host, **wanted: Any) -> dict[str, Any]:
    python = sys.base_prefix + "/bin/python3"
    return host.call("environment.ensure", key="cu-1", requirements="tiny==1.0\n", python=python, **wanted)


def request(url: str, *, required: bool) -> dict[str, Any]:
    return {"mode": "wheel", "url": url, "version": "2.8.3", "capabilities": ["8.6"], "required": required}


@pytest.mark.parametrize(
    ("memory_gib", "cores", "capabilities", "jobs", "threads", "architectures"),
    [
        (64, 20, ["8.6"], 7, 4, ["80"]),  # the slot in which MAX_JOBS from the machine's memory died
        (128, 40, ["8.0", "9.0"], 14, 4, ["80", "90"]),
        (32, 2, ["8.9", "8.6"], 2, 4, ["80"]),
        (8, 16, ["12.0"], 1, 1, ["120"]),
        (900, 64, [], 64, 4, ["80", "90"]),
    ],
)
def test_as_many_compilers_run_as_there_is_memory_for(
    memory_gib: int, cores: int, capabilities: list[str], jobs: int, threads: int, architectures: list[str]
) -> None:
    plan = plan_build(memory_gib * GIB, cores, capabilities)
    assert (plan.jobs, plan.threads, plan.architectures) == (jobs, threads, architectures)


def test_the_estimate_is_what_was_measured() -> None:
    # 5 h with MAX_JOBS=2, an hour with ten; for code of two generations of GPUs.
    assert plan_build(19 * GIB, 20, ["8.0", "9.0"]).hours == pytest.approx(5.0)
    assert plan_build(95 * GIB, 20, ["8.0", "9.0"]).hours == pytest.approx(1.0)
    assert plan_build(19 * GIB, 20, ["8.6"]).hours == pytest.approx(2.5)


def test_too_little_memory_is_refused_before_anything_is_compiled() -> None:
    with pytest.raises(AgentError, match="takes 5 GiB of memory, and this job may have 3"):
        plan_build(3 * GIB, 8, ["8.6"])


def test_the_memory_is_the_jobs_and_not_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armada_agent.host.limits.memory_bytes", lambda: 7)
    assert flash_attention.free_memory_bytes() == 7
    monkeypatch.setattr("armada_agent.host.limits.memory_bytes", lambda: 1 << 60)
    assert 7 < flash_attention.free_memory_bytes() < 1 << 60


def test_a_host_without_a_compiler_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flash_attention, "_find_nvcc", lambda: None)
    wanted = {"mode": "build", "url": None, "version": "2.8.3.post2", "capabilities": ["8.6"], "required": True}
    with pytest.raises(AgentError, match="could not be installed") as refused:
        flash_attention.install(wanted, "cp312", [], lambda *_: [], lambda _: None)
    assert "no nvcc" in refused.value.message


def test_a_build_is_told_its_jobs_and_architectures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without CUDA nothing can be compiled here; what the compiler would be started with can be seen."""
    ran: list[tuple[list[str], dict[str, str]]] = []
    said: list[str] = []
    monkeypatch.setattr(flash_attention, "_find_nvcc", lambda: "/opt/cuda/bin/nvcc")
    monkeypatch.setattr(flash_attention, "free_memory_bytes", lambda: 20 * GIB)
    monkeypatch.setattr("armada_agent.host.limits.cpu_count", lambda: 8)

    def run(argv: list[str], variables: dict[str, str]) -> list[str]:
        ran.append((argv, variables))
        return []

    wanted = {"mode": "build", "url": None, "version": "2.8.3.post2", "capabilities": ["8.6"], "required": True}
    flash_attention.install(wanted, "cp312", ["uv", "pip", "install"], run, said.append)
    argv, variables = ran[-1]
    assert argv == ["uv", "pip", "install", "--no-deps", "--no-build-isolation", "flash-attn==2.8.3.post2"]
    assert (variables["MAX_JOBS"], variables["FLASH_ATTN_CUDA_ARCHS"]) == ("2", "80")
    assert variables["CUDA_HOME"] == "/opt/cuda"
    assert said == ["compiling flash-attn 2.8.3.post2 for sm_80, 2 at once: about 2.5 h"]


def test_a_wheel_is_fetched_for_the_pythons_own_tag(
    with_uv: dict[str, str], converse: Callable[..., Conversation], tmp_path: Path
) -> None:
    host = Host(converse(environment=with_uv))
    build_wheel(tmp_path, "flash_attn", "2.8.3")
    plain = tmp_path / "flash_attn" / "flash_attn-2.8.3-py3-none-any.whl"
    tag = f"cp3{sys.version_info.minor}"
    folder = tmp_path / tag
    folder.mkdir()
    plain.rename(folder / plain.name)
    answer = ensure(host, flash_attn=request(f"file://{tmp_path}/{{python}}/{plain.name}", required=True))
    assert answer["freeze"].splitlines()[0] == f"flash-attn @ file://{folder}/{plain.name}"
    assert answer["notes"] == [f"flash-attn 2.8.3 from file://{folder}/{plain.name}"]


def test_a_wheel_that_cannot_be_fetched_is_left_out_aloud_or_refused(
    with_uv: dict[str, str], converse: Callable[..., Conversation]
) -> None:
    host = Host(converse(environment=with_uv))
    with pytest.raises(Refused) as refused:
        ensure(host, flash_attn=request(NOWHERE, required=True))
    assert "could not be fetched; check that this host reaches" in str(refused.value)
    assert "environment.flash_attn_url" in (refused.value.hint or "")
    assert host.call("environment.status", keys=["cu-1"]) == {"cu-1": "partial"}

    answer = ensure(host, flash_attn=request(NOWHERE, required=False))
    assert answer["outcome"] == "built"
    assert answer["notes"][0].startswith("left out: flash-attn's wheel for cp3")
    assert any("built without it" in entry["message"] for entry in host.conversation.progress)


def test_optional_packages_are_there_where_the_index_has_them(
    with_uv: dict[str, str], converse: Callable[..., Conversation]
) -> None:
    host = Host(converse(environment=with_uv))
    answer = ensure(host, optional="small==1.0\n")
    assert answer["freeze"].splitlines() == ["small==1.0", "tiny==1.0"]
    assert answer["notes"] == ["optional: small==1.0"]
    ready = json.loads((host.root / "envs/cu-1/READY").read_text())
    assert ready["notes"] == answer["notes"]


def test_optional_packages_that_the_index_lacks_are_left_out_aloud(
    with_uv: dict[str, str], converse: Callable[..., Conversation]
) -> None:
    host = Host(converse(environment=with_uv))
    answer = ensure(host, optional="small==2.0\n")
    assert answer["freeze"] == "tiny==1.0"
    assert answer["notes"] == ["left out because this host's index does not have it: small==2.0"]
    assert any("has no small==2.0" in entry["message"] for entry in host.conversation.progress)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "magic"},
        {"url": "http://plain.example/x.whl"},
        {"url": "--index-url=https://x/y.whl"},
        {"version": "2.8.3; rm -rf /"},
        {"capabilities": ["8.6 -O0"]},
    ],
)
def test_what_is_no_wheel_is_refused(shared_host: Host, wrong: dict[str, Any]) -> None:
    asked = {"key": "cu-1", "requirements": "", "python": "3", "flash_attn": request(NOWHERE, required=True) | wrong}
    number = shared_host.conversation.ask("environment.ensure", asked)
    with pytest.raises(Refused) as refused:
        shared_host.conversation.answer(number)
    assert refused.value.kind == "bad_request"
