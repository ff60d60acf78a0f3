"""One environment, one build: machines that share a root, whether or not its file system locks across machines."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from armada_agent.errors import AgentError
from armada_agent.foundation import process_identity
from armada_agent.foundation.session import Call, Session
from armada_agent.host import mounts
from armada_agent.provision import build_claim, environment, environment_folder

from tests.agent.conversation import Conversation, Host
from tests.package_index import build_wheel

UV_BIN = Path(sys.executable).parent


@pytest.fixture
def claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a claim would be, on a file system that may lock within one machine only."""
    monkeypatch.setattr(mounts, "find", lambda path: mounts.Mount("/", "nfs4", [path]))
    (tmp_path / "envs").mkdir()
    return tmp_path / "envs" / ".cpu-1.claim"


def of_another_machine() -> dict[str, Any]:
    other = {"hostname": "login2", "boot_id": "b", "pid_namespace": "1", "init_start": "1"}
    return {**process_identity.identify(), **other}


class Moments:
    """A clock that moves when somebody waits, and then does something."""

    def __init__(self, then: Callable[[float], None]) -> None:
        self.now = 0.0
        self._then = then

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self._then(self.now)


def test_a_machine_waits_while_another_ones_claim_is_renewed_and_follows_when_it_goes(claim: Path) -> None:
    claim.write_text(json.dumps(of_another_machine()))

    def live(now: float) -> None:
        if now < 2 * build_claim.STALE_S:
            os.utime(claim, (now, now))
        else:
            claim.unlink(missing_ok=True)

    moments, said = Moments(live), list[str]()
    build_claim.take(str(claim), said.append, moments.clock, moments.pause)
    assert moments.now >= 2 * build_claim.STALE_S
    assert said == ["another build is running on login2, which shares this root"]
    assert json.loads(claim.read_text())["pid"] == os.getpid()


def test_a_claim_of_another_machine_that_is_renewed_no_more_is_void_after_minutes(claim: Path) -> None:
    claim.write_text(json.dumps(of_another_machine()))
    moments = Moments(lambda _: None)
    build_claim.take(str(claim), lambda _: None, moments.clock, moments.pause)
    assert build_claim.STALE_S <= moments.now < 2 * build_claim.STALE_S
    assert json.loads(claim.read_text())["hostname"] == process_identity.current_host()["hostname"]
    assert [path.name for path in claim.parent.iterdir()] == [claim.name]


@pytest.mark.parametrize("change", [{"start_time": "1"}, {"boot_id": "earlier"}])
def test_a_claim_of_a_process_of_this_machine_that_is_gone_delays_nobody(claim: Path, change: dict[str, str]) -> None:
    claim.write_text(json.dumps({**process_identity.identify(), **change}))
    moments = Moments(lambda _: pytest.fail("it waits"))
    build_claim.take(str(claim), lambda _: None, moments.clock, moments.pause)


def test_on_a_disk_of_this_machine_the_lock_decides(claim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "find", lambda _: mounts.Mount("/", "ext4", []))
    claim.write_text(json.dumps(of_another_machine()))  # this container, before it got another name
    build_claim.take(str(claim), lambda _: None, lambda: 0.0, lambda _: pytest.fail("it waits"))


def test_a_builder_whose_claim_was_taken_over_finishes_nothing(claim: Path) -> None:
    build_claim.take(str(claim), lambda _: None)
    mine = build_claim.Claim(str(claim), os.open(claim, os.O_RDONLY))
    mine.require()
    claim.unlink()
    with pytest.raises(AgentError, match="has taken over"):
        mine.require()
    claim.write_text(json.dumps(of_another_machine()))
    with pytest.raises(AgentError, match="has taken over"):
        mine.require()
    mine.release()
    assert json.loads(claim.read_text())["hostname"] == "login2"


def test_where_nothing_locks_one_of_many_claims_at_a_time(claim: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def build(number: int) -> None:
        build_claim.take(str(claim), lambda _: None, pause=lambda _: None)
        inside.append(number)
        most.append(len(inside))
        inside.remove(number)
        claim.unlink()

    threads = [threading.Thread(target=build, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


def test_the_status_says_building_for_a_build_on_another_machine(claim: Path) -> None:
    root = str(claim.parents[1])
    assert environment_folder.condition(root, "cpu-1") == "absent"
    claim.write_text(json.dumps(of_another_machine()))
    assert environment_folder.condition(root, "cpu-1") == "building"


@pytest.mark.parametrize("builder", ["login2", None])
def test_an_environment_of_another_machine_is_not_deleted_because_its_python_is_not_here(
    claim: Path, builder: str | None
) -> None:
    folder = claim.parent / "cpu-1"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").symlink_to("/opt/only-on-login2/bin/python3.11")
    (folder / "READY").write_text(json.dumps({"key": "cpu-1", **({"built_on": builder} if builder else {})}))
    if builder is None:  # of an older armada: rebuilt, as it always was
        environment.refuse_others(str(claim.parents[1]), "cpu-1")
        return
    with pytest.raises(AgentError, match=r"built on login2.*/opt/only-on-login2/bin/python3.11") as refused:
        environment.refuse_others(str(claim.parents[1]), "cpu-1")
    assert "install that Python here" in (refused.value.hint or "")
    assert (folder / "READY").exists()


def test_two_agents_with_one_root_build_once_and_leave_no_claim(
    converse: Callable[..., Conversation], tmp_path: Path
) -> None:
    build_wheel(tmp_path / "index", "tiny", "1.0")
    surroundings = {"HOME": str(tmp_path), "PATH": f"{UV_BIN}:/usr/bin:/bin"}
    surroundings["PIP_INDEX_URL"] = f"file://{tmp_path}/index"
    hosts = [Host(converse(environment=surroundings)) for _ in range(2)]
    params = {"key": "cpu-1", "requirements": "tiny\n", "python": sys.base_prefix + "/bin/python3"}
    asked = [(host, host.conversation.ask("environment.ensure", params)) for host in hosts]
    assert sorted(host.conversation.answer(number)["outcome"] for host, number in asked) == ["built", "ready"]
    assert sorted(path.name for path in (hosts[0].root / "envs").iterdir()) == ["cpu-1", "cpu-1.lock"]


def test_a_claim_ends_with_its_block_also_after_a_failure(tmp_path: Path) -> None:
    def build() -> None:
        with build_claim.hold(call, "cpu-1") as claim:
            claim.require()
            assert build_claim.is_held(str(tmp_path), "cpu-1")
            raise OSError("broken")

    call = Call(Session(str(tmp_path), "", 1, sys.stdin.buffer, 0), 1)
    with pytest.raises(OSError, match="broken"):
        build()
    assert not build_claim.is_held(str(tmp_path), "cpu-1")
    assert [path.name for path in (tmp_path / "envs").iterdir()] == ["cpu-1.lock"]
