"""Jobs in containers, by the real podman and the real docker."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from armada_agent.foundation import process_identity
from armada_agent.host import processes
from armada_agent.paths import RunPaths

from tests import container_tools, image_registry
from tests.agent.conversation import Host, Refused
from tests.supervisors import kill_all, kill_both
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.agent.conversation import Conversation
    from tests.container_tools import ContainerTool
    from tests.image_registry import Registry

pytestmark = pytest.mark.xdist_group("podman")

LOOP = "echo up; while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def podman() -> Iterator[ContainerTool]:
    with container_tools.podman_or_skip() as found:
        yield found


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerTool]:
    if (reason := container_tools.no_docker()) is not None:
        pytest.skip(reason)
    with container_tools.docker(tmp_path_factory.mktemp("docker") / "d") as found:
        yield found


@pytest.fixture(params=["podman", pytest.param("docker", marks=pytest.mark.long)])
def tool(request: pytest.FixtureRequest) -> ContainerTool:
    """Each container tool in turn."""
    found: ContainerTool = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def box(tool: ContainerTool, converse: Callable[..., Conversation]) -> Iterator[Host]:
    """A host with one container tool."""
    yield Host(converse(environment={**os.environ, "PATH": hide(tool)}))
    tool.clear()


@pytest.fixture
def pod_box(podman: ContainerTool, converse: Callable[..., Conversation]) -> Iterator[Host]:
    """A host with podman."""
    yield Host(converse(environment={**os.environ, "PATH": podman.path}))
    podman.clear()


def planned(host: Host) -> dict[str, Any]:
    """Have the image, and return what a plan says of it."""
    answer = host.call("container.ensure", image=container_tools.IMAGE, gpus=False)
    return {"image": container_tools.IMAGE, "tool": answer["tool"], "id": answer["id"], "digest": answer["digest"]}


def launch(host: Host, run_id: str, *argv: str, **more: Any) -> None:
    host.launch(run_id, *argv, container=planned(host), **more)


def test_a_job_runs_in_its_container_and_its_files_are_the_runs(box: Host, tool: ContainerTool) -> None:
    line = 'echo "as $(id -u) at $PWD run $ARMADA_RUN_ID"; touch made; ls /; exit 3'
    launch(box, "box-1", "sh", "-c", line)
    state = box.await_end("box-1")
    assert (state["state"], state["exit_code"]) == ("failed", 3)
    work = box.folder("box-1") / "work"
    assert f"as {os.getuid()} at {work} run box-1" in box.output("box-1")
    assert (work / "made").stat().st_uid == os.getuid()
    assert tool.containers() == []


@pytest.mark.parametrize("name", ["a,b", 'a"b', "a,target=etc", "a,b:c"])
def test_a_folder_of_the_host_may_have_any_plain_name(box: Host, tmp_path: Path, name: str) -> None:
    corpus = tmp_path / name
    corpus.mkdir()
    (corpus / "words").write_text("corpus\n")
    data = [{"content": str(corpus), "name": "corpus", "outside": True}]
    launch(box, "box-1", "sh", "-c", "cat corpus/words; touch corpus/mine", job={"data": data})
    assert box.await_end("box-1")["state"] == "failed"
    assert "corpus" in box.output("box-1").splitlines()
    assert not (corpus / "mine").exists()


def test_a_stopped_container_ends_by_sigterm_and_its_exit_code_is_told(box: Host, tool: ContainerTool) -> None:
    launch(box, "box-2", "sh", "-c", f"trap 'echo saving; exit 7' TERM; {LOOP}")
    eventually(lambda: "up" in box.output("box-2"))
    box.call("run.stop", run_id="box-2", grace_s=60)
    state = box.await_end("box-2")
    assert (state["state"], state["exit_code"]) == ("cancelled", 7)
    assert "saving" in box.output("box-2")
    assert tool.containers() == []


def test_a_container_that_ignores_sigterm_is_killed_after_the_grace(box: Host, tool: ContainerTool) -> None:
    launch(box, "box-3", "sh", "-c", f"trap '' TERM; {LOOP}")
    eventually(lambda: "up" in box.output("box-3"))
    inside = main_process(tool)
    box.call("run.stop", run_id="box-3", grace_s=0.3)
    assert box.await_end("box-3")["state"] == "cancelled"
    assert process_identity.read_stat(inside) is None
    assert tool.containers() == []


def test_a_killed_supervisor_loses_neither_the_container_nor_its_exit_code(box: Host, tool: ContainerTool) -> None:
    launch(box, "box-4", "sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.05; done; exit 5")
    eventually(lambda: "up" in box.output("box-4"))
    supervisor = box.look("box-4")["evidence"]["submission"]["job"]["supervisor"]["pid"]
    os.kill(supervisor, signal.SIGKILL)
    (box.folder("box-4") / "work" / "go").touch()
    state = box.await_end("box-4")
    assert (state["state"], state["exit_code"]) == ("failed", 5)
    assert tool.containers() == []


def test_without_any_supervisor_the_container_counts_and_is_ended_by_a_stop(box: Host, tool: ContainerTool) -> None:
    launch(box, "box-5", "sh", "-c", f"trap 'echo saving; exit 0' TERM; {LOOP}")
    eventually(lambda: "up" in box.output("box-5"))
    inside = main_process(tool)
    kill_both(box.look("box-5")["evidence"]["submission"]["job"])
    eventually(lambda: box.look("box-5")["evidence"]["supervisor"] == "dead")
    assert inside in members(box, "box-5")
    with pytest.raises(Refused):
        box.call("run.submit", run_id="box-5", submission=2)
    box.call("run.stop", run_id="box-5", grace_s=60)
    eventually(lambda: box.state("box-5").get("state") == "cancelled")
    assert "saving" in box.output("box-5")
    assert not members(box, "box-5")
    assert tool.containers() == []


def test_a_container_whose_own_process_here_is_killed_does_not_run_on(box: Host, tool: ContainerTool) -> None:
    launch(box, "box-6", "sh", "-c", LOOP)
    eventually(lambda: "up" in box.output("box-6"))
    inside = main_process(tool)
    os.kill(first_process(box, "box-6"), signal.SIGKILL)
    state = box.await_end("box-6")
    assert (state["state"], state["signal"]) == ("failed", signal.SIGKILL)
    assert process_identity.read_stat(inside) is None
    assert tool.containers() == []


def test_a_killed_client_is_not_the_end_of_the_container(box: Host, tool: ContainerTool) -> None:
    launch(box, "box-7", "sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.05; done; echo late; exit 9")
    eventually(lambda: "up" in box.output("box-7"))
    kill_all(clients(first_process(box, "box-7")))
    eventually(lambda: "the container runs on" in box.output("box-7"))
    assert box.state("box-7")["state"] == "running"
    (box.folder("box-7") / "work" / "go").touch()
    state = box.await_end("box-7")
    assert (state["state"], state["exit_code"]) == ("failed", 9)
    assert "late" in box.output("box-7").splitlines()
    assert "annot attach" not in box.output("box-7")


@pytest.mark.long
def test_a_restart_of_dockers_daemon_is_not_the_end_of_the_container(
    docker: ContainerTool, converse: Callable[..., Conversation]
) -> None:
    box = Host(converse(environment={**os.environ, "PATH": hide(docker)}))
    launch(box, "box-13", "sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.05; done; exit 9")
    eventually(lambda: "up" in box.output("box-13"))
    docker.restart_daemon()
    assert box.state("box-13")["state"] == "running"
    (box.folder("box-13") / "work" / "go").touch()
    state = box.await_end("box-13")
    assert (state["state"], state["exit_code"]) == ("failed", 9)
    assert docker.containers() == []


def test_the_container_of_a_run_whose_folder_is_gone_is_ended_by_a_stop(box: Host, tool: ContainerTool) -> None:
    launch(box, "box-14", "sh", "-c", LOOP)
    eventually(lambda: "up" in box.output("box-14"))
    root = box.call("host.facts")["root_id"]
    shutil.rmtree(box.folder("box-14"))
    box.call("run.stop", run_id="box-14", grace_s=0.2, root=root)
    eventually(lambda: not members(box, "box-14") and tool.containers() == [])


def test_what_a_program_leaves_in_its_container_ends_with_it(box: Host, tool: ContainerTool) -> None:
    launch(box, "box-8", "sh", "-c", "(trap '' TERM; while :; do sleep 0.05; done) & echo up; exit 0")
    assert box.await_end("box-8")["state"] == "succeeded"
    assert not members(box, "box-8")
    assert tool.containers() == []


def test_secrets_reach_the_container_and_no_argument(box: Host) -> None:
    line = f'echo "token ${{#TOKEN}} $PLAIN $(echo "$TWO" | cat) [$DOCKER_X]"; {LOOP}'
    job = {"secrets": ["TOKEN"], "env": {"PLAIN": "a b", "TWO": "one\ntwo", "DOCKER_X": " hunt3r ='x# \""}}
    launch(box, "box-9", "sh", "-c", line, secrets={"TOKEN": "s3cr3t-value"}, job=job)
    eventually(lambda: "up" in box.output("box-9"))
    assert "token 12 a b one\ntwo [ hunt3r ='x# \"]" in box.output("box-9")
    everywhere = [read(f"/proc/{pid}/cmdline") for pid in process_identity.all_pids()]
    assert not any("s3cr3t-value" in words or "hunt3r" in words for words in everywhere)
    box.call("run.stop", run_id="box-9", grace_s=0)
    box.await_end("box-9")
    assert not (box.folder("box-9") / "container.env").exists()


def test_a_program_that_the_image_lacks_is_named(box: Host, tool: ContainerTool) -> None:
    launch(box, "box-10", "nonesuch", "x")
    state = box.await_end("box-10")
    assert (state["state"], state["reason"], state["exit_code"]) == ("failed", "command_not_found", 127)
    assert "the image has no such program" in state["message"]
    assert tool.containers() == []


def test_a_persons_program_enters_the_container(box: Host, tool: ContainerTool, agent: Path) -> None:
    launch(box, "box-12", "sh", "-c", LOOP, secrets={"TOKEN": "s3cr3t"}, job={"secrets": ["TOKEN"]})
    eventually(lambda: "up" in box.output("box-12"))
    line = 'echo "$(cat /inside) <$TOKEN> <$ARMADA_RUN_ID> $PWD"; exit 4'
    code, said, _ = enter(box, tool, agent, "box-12", "sh", "-c", line)
    assert (code, said.split()) == (4, ["yes", "<>", "<>", str(box.folder("box-12") / "work")])
    box.call("run.stop", run_id="box-12", grace_s=0)
    box.await_end("box-12")
    code, said, noted = enter(box, tool, agent, "box-12", "sh", "-c", "cat /inside || echo no")
    assert (code, said) == (0, "no\n")
    assert "the container of box-12 does not run now; this is the host itself" in noted


def test_a_run_whose_image_was_removed_says_so_before_it_starts(pod_box: Host, podman: ContainerTool) -> None:
    gone = "1" * 64
    pod_box.launch("box-11", "sh", "-c", "true", container={"image": "localhost/x:1", "tool": "podman", "id": gone})
    state = pod_box.await_end("box-11")
    assert (state["state"], state["reason"]) == ("failed", "env_error")
    assert "localhost/x:1 of this run is no longer here" in state["message"]


def test_a_hostile_plan_is_no_option_of_the_tool(pod_box: Host) -> None:
    for number, name in enumerate(("--privileged", "a b", "x\ny", "")):
        run_id = f"box-h{number}"
        pod_box.launch(run_id, "sh", container={"image": "x", "tool": "podman", "id": name})
        state = pod_box.await_end(run_id)
        assert (state["state"], state["reason"]) == ("failed", "env_error")
        assert "is not the name of an image" in state["message"]


@pytest.mark.parametrize(
    "name", ["--privileged", "-v/:/x", "a b", "a\nb", "a;b", "$(x)", "docker://a", "", "x" * 300, "a@sha256:12"]
)
def test_a_hostile_name_is_refused(pod_box: Host, name: str) -> None:
    for method in ("container.examine", "container.ensure"):
        with pytest.raises(Refused, match="is not the name of an image"):
            pod_box.call(method, image=name, gpus=False)


def test_an_image_that_no_registry_has_is_explained(pod_box: Host) -> None:
    answer = pod_box.call("container.examine", image="nope.invalid/x:1", gpus=False)
    assert (answer["tool"], answer["id"]) == ("podman", None)
    with pytest.raises(Refused, match=r"this host cannot reach nope\.invalid"):
        pod_box.call("container.ensure", image="nope.invalid/x:1", gpus=False)


@pytest.fixture
def registry(tool: ContainerTool, podman: ContainerTool, tmp_path: Path) -> Iterator[Registry]:
    tree = tmp_path / "pushed"
    shutil.copytree(podman.program.parent.parent / "tree", tree)
    (tree / "pushed").touch()  # another image than the one that is there, under another id
    podman.import_image("localhost/pushed:1", tree)
    podman("save", "--format", "docker-dir", "--output", str(tmp_path / "saved"), "localhost/pushed:1")
    podman("rmi", "localhost/pushed:1")
    with image_registry.serve(tmp_path / "saved") as found:
        tool.trust(found.place)
        yield found


def test_a_removed_image_is_pulled_again_by_its_digest_before_the_run_starts(
    box: Host, tool: ContainerTool, registry: Registry
) -> None:
    name = registry.name("x:1")
    answer = box.call("container.ensure", image=name, gpus=False)
    assert (answer["outcome"], answer["digest"]) == ("pulled", f"{registry.name('x')}@{registry.digest}")
    assert any("pulling" in said["message"] for said in box.conversation.progress)
    assert box.call("container.ensure", image=name, gpus=False)["outcome"] == "ready"
    tool("rmi", "--force", answer["id"])
    registry.pulled.clear()
    planned = {"image": name, "tool": tool.name, "id": answer["id"], "digest": answer["digest"]}
    box.launch("box-15", "sh", "-c", "cat /inside", container=planned)
    assert box.await_end("box-15")["state"] == "succeeded"
    assert box.output("box-15") == "yes"
    assert set(registry.pulled) == {registry.digest}


def test_a_registry_that_refuses_or_lacks_an_image_is_told_in_a_sentence(
    box: Host, tool: ContainerTool, registry: Registry
) -> None:
    with pytest.raises(Refused, match="has no image") as lacking:
        box.call("container.ensure", image=registry.name("x:2"), gpus=False)
    assert registry.name("x:2") in str(lacking.value)
    with pytest.raises(Refused, match="it is private, or does not exist") as private:
        box.call("container.ensure", image=registry.name("private/x:1"), gpus=False)
    assert private.value.hint == f"log in on the host: {tool.name} login {registry.place}"


def test_the_packages_of_an_image_are_looked_for_by_its_own_python(
    pod_box: Host, podman: ContainerTool, tmp_path: Path
) -> None:
    (tmp_path / "tree").mkdir()
    with_python(podman, tmp_path, 'echo \'["3.12.1", {"torch": "2.4", "accelerate": null}]\'')
    image = "localhost/python:1"
    assert pod_box.call("container.ensure", image=image, gpus=False, packages=["torch"])["python"] == "3.12.1"
    asked = pod_box.call("container.ensure", image=image, gpus=False, asked=["torch", "accelerate"])
    assert (asked["python"], asked["versions"]) == ("3.12.1", {"torch": "2.4", "accelerate": None})
    with pytest.raises(Refused, match="must be names of packages"):
        pod_box.call("container.ensure", image=image, gpus=False, asked=["--help"])
    lacking = r"the image localhost/python:1 \(Python 3\.12\.1\) has no accelerate, which this task needs"
    with pytest.raises(Refused, match=lacking):
        pod_box.call("container.ensure", image=image, gpus=False, packages=["torch", "accelerate"])
    with_python(podman, tmp_path, "echo broken >&2; exit 1")
    with pytest.raises(Refused, match="does not start: broken"):
        pod_box.call("container.ensure", image=image, gpus=False, packages=["torch"])


def test_an_image_without_python_is_refused_where_the_task_needs_it(pod_box: Host) -> None:
    with pytest.raises(Refused, match="has no python3, which this task needs"):
        pod_box.call("container.ensure", image=container_tools.IMAGE, gpus=False, packages=["torch"])


def test_an_image_for_other_machines_is_refused(pod_box: Host, podman: ContainerTool, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    podman.import_image("localhost/foreign:1", tree, "--arch", "s390x")
    with pytest.raises(Refused, match="is for s390x, and this host is"):
        pod_box.call("container.ensure", image="localhost/foreign:1", gpus=False)


def test_gpus_need_a_tool_that_gives_them(pod_box: Host) -> None:
    with pytest.raises(Refused, match="podman is not set up to give GPUs to containers"):
        pod_box.call("container.examine", image=container_tools.IMAGE, gpus=True)


def with_python(podman: ContainerTool, folder: Path, line: str) -> None:
    """Make an image whose python3 is a line of shell."""
    tree = folder / "tree"
    shutil.copytree(podman.program.parent.parent / "tree", tree, dirs_exist_ok=True)
    (tree / "bin" / "python3").write_text(f"#!/bin/sh\n{line}\n")
    (tree / "bin" / "python3").chmod(0o755)
    podman.import_image("localhost/python:1", tree)


def hide(tool: ContainerTool) -> str:
    """Return a PATH on which the other tool cannot be used."""
    other = tool.program.with_name("docker" if tool.name == "podman" else "podman")
    other.write_text("#!/bin/sh\necho not here >&2\nexit 1\n")
    other.chmod(0o755)
    return tool.path


def enter(host: Host, tool: ContainerTool, agent: Path, run_id: str, *argv: str) -> tuple[int, str, str]:
    asked = {"root": str(host.root), "run_id": run_id, "argv": argv}
    code = "import sys, json; sys.path.insert(0, sys.argv[1]); from armada_agent.runs.shell import enter; "
    code += "sys.exit(enter(json.loads(sys.argv[2])))"
    environment = {**os.environ, "PATH": tool.path}
    words = [sys.executable, "-c", code, str(agent), json.dumps(asked)]
    done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def main_process(tool: ContainerTool) -> int:
    (name,) = tool.containers()
    return int(tool("inspect", "--format", "{{.State.Pid}}", name))


def members(host: Host, run_id: str) -> set[int]:
    return {process.pid for process in processes.members(RunPaths(str(host.root), run_id))}


def first_process(host: Host, run_id: str) -> int:
    record = json.loads((host.folder(run_id) / "attempts/1/run.json").read_text())
    pid: int = record["process"]["pid"]
    return pid


def clients(pid: int) -> list[int]:
    stats = map(process_identity.read_stat, process_identity.all_pids())
    return [stat.pid for stat in stats if stat is not None and stat.parent == pid]


def read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""
