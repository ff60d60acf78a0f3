"""What armada says to docker and podman, and what it makes of their answers. Their own words are recorded ones."""

from __future__ import annotations

import itertools
import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from armada_agent.errors import AgentError
from armada_agent.host import containers
from armada_agent.host.containers import Tool
from armada_agent.paths import RunPaths
from armada_agent.provision.containers import LOOK
from armada_agent.supervisor import contain, enclosure

from tests.agent.conversation import spec_of

if TYPE_CHECKING:
    from collections.abc import Iterator

GPUS = [{"index": 1, "uuid": "GPU-aa"}, {"index": 3, "uuid": "GPU-bb"}]
DOCKER = Tool("docker", "/usr/bin/docker", "27.0", is_rootless=False, gives_gpus=True, has_init=True)
PODMAN = Tool("podman", "/usr/bin/podman", "5.0", is_rootless=True, gives_gpus=True, has_init=True)
ID = "c" * 64


def compose(
    root: Path, tool: Tool, environment: dict[str, str] | None = None, **more: Any
) -> tuple[list[str], dict[str, str]]:
    gpus = more.pop("gpus", [])
    paths = RunPaths(str(root), "box-1")
    Path(paths.work).mkdir(parents=True)
    given = {"ARMADA_RUN_ID": "box-1", **(environment or {})}
    return enclosure.compose(paths, spec_of("box-1", "sh", "-c", "x", **more), tool, ID, ["sh", "-c", "x"], given, gpus)


def after(words: list[str], option: str) -> list[str]:
    return [then for word, then in itertools.pairwise(words) if word == option]


def test_docker_gives_the_allotted_gpus_by_their_uuids_and_counts_them_anew_inside(tmp_path: Path) -> None:
    words, client = compose(tmp_path, DOCKER, gpus=GPUS)
    assert after(words, "--gpus") == ['"device=GPU-aa,GPU-bb"']
    assert client["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_podman_gives_them_by_cdi(tmp_path: Path) -> None:
    words, _ = compose(tmp_path, PODMAN, gpus=GPUS)
    assert after(words, "--device") == ["nvidia.com/gpu=1", "nvidia.com/gpu=3"]


@pytest.mark.parametrize(
    ("version", "driver"),
    [("5.0", "passthrough"), ("4.0.0-rc1", "passthrough"), ("3.4.4", "none"), ("", "none"), ("v5", "none")],
)
def test_a_container_of_podman_writes_its_output_itself_where_podman_can(
    tmp_path: Path, version: str, driver: str
) -> None:
    """Its client loses the output of containers that end at once: 2 of 1,300 with podman 4.3.1."""
    podman = Tool("podman", "/usr/bin/podman", version, is_rootless=True, gives_gpus=False, has_init=True)
    words, _ = compose(tmp_path, podman)
    assert after(words, "--log-driver") == [driver]
    assert containers.passes_through(words) is (driver == "passthrough")


def test_docker_has_its_client_copy_it(tmp_path: Path) -> None:
    words, _ = compose(tmp_path, DOCKER)
    assert after(words, "--log-driver") == ["none"]
    assert not containers.passes_through([*words, "--log-driver", "passthrough"])


def test_a_run_without_gpus_sees_none_whatever_its_image_says(tmp_path: Path) -> None:
    words, client = compose(tmp_path, DOCKER)
    assert "NVIDIA_VISIBLE_DEVICES=void" in after(words, "--env")
    assert client["CUDA_VISIBLE_DEVICES"] == ""


def test_files_are_the_users_by_either_tool(tmp_path: Path) -> None:
    me = f"{os.getuid()}:{os.getgid()}"
    assert after(compose(tmp_path / "a", DOCKER)[0], "--user") == [me]
    words = compose(tmp_path / "b", PODMAN)[0]
    assert (after(words, "--userns"), after(words, "--user")) == (["keep-id"], [me])
    rootless = Tool("docker", "/usr/bin/docker", "27.0", is_rootless=True, gives_gpus=False, has_init=True)
    assert after(compose(tmp_path / "c", rootless)[0], "--user") == ["0:0"]


def test_the_run_is_writable_and_contents_and_the_hosts_own_files_are_not(tmp_path: Path) -> None:
    root = tmp_path / "root"
    corpus = tmp_path / "corpus"
    for folder in (root / "data", corpus):
        folder.mkdir(parents=True)
    job = {"data": [{"content": str(corpus), "name": "c", "outside": True}]}
    words, _ = compose(root, DOCKER, job=job)
    mounts = after(words, "--mount")
    run = root / "runs" / "box-1"
    assert f"type=bind,source={run},target={run}" in mounts
    assert f"type=bind,source={root}/data,target={root}/data,readonly" in mounts
    assert f"type=bind,source={corpus},target={corpus},readonly" in mounts
    assert after(words, "--workdir") == [str(run / "work")]


def test_the_bundled_trainer_writes_tokenised_data_and_reads_checkpoints_of_other_runs(tmp_path: Path) -> None:
    root = tmp_path / "root"
    start, adapter = (root / "runs" / name / "outbox" / ID for name in ("start-1", "lora-1"))
    for folder in (start, adapter):
        folder.mkdir(parents=True)
    training = {"prepared": f"{root}/prepared", "start_from": {"path": str(start)}, "merge": {"adapter": str(adapter)}}
    mounts = after(compose(root, DOCKER, training=training)[0], "--mount")
    assert f"type=bind,source={root}/prepared,target={root}/prepared" in mounts
    for folder in (start, adapter):
        assert f"type=bind,source={folder},target={folder},readonly" in mounts
    assert (root / "prepared").is_dir()


@pytest.mark.parametrize("path", [None, 7, "/etc", "{root}/runs/../../secret", "{root}/runs", "relative", {}])
def test_a_training_is_given_nothing_of_the_host_beyond_runs(tmp_path: Path, path: object) -> None:
    root = tmp_path / "root"
    (tmp_path / "secret").mkdir()
    named = path.replace("{root}", str(root)) if isinstance(path, str) else path
    training = {"prepared": named, "start_from": {"path": named}, "merge": named}
    words, _ = compose(root, DOCKER, training=training)
    plain, _ = compose(tmp_path / "plain", DOCKER)
    assert len(after(words, "--mount")) == len(after(plain, "--mount"))


def test_a_path_that_would_be_another_option_of_the_mount_is_none(tmp_path: Path) -> None:
    odd = tmp_path / "a,target=/etc"
    words, _ = compose(odd, DOCKER)
    run = odd / "runs" / "box-1"
    assert f"{run}:{run}" in after(words, "--volume")
    assert not [mount for mount in after(words, "--mount") if str(odd) in mount]


def test_a_path_with_comma_and_colon_is_quoted() -> None:
    quoted = 'type=bind,"source=/a,b:""c""","target=/a,b:""c""",readonly'
    assert containers.mount_words('/a,b:"c"', True) == ["--mount", quoted]
    with pytest.raises(AgentError, match="cannot be mounted: it has a control character"):
        containers.mount_words("/a\nb", True)


def test_no_value_of_a_variable_is_an_argument_but_the_hosts_own_folders(tmp_path: Path) -> None:
    given = {"PLAIN": "p-value", "LD_LIBRARY_PATH": "/inside", "DOCKER_PASSWORD": "hunter2", "XDG_DATA_HOME": "/xdg"}
    environment = {**given, "TOKEN": "s3cr3t", "MODULEPATH": "/of/the/host", "HOME": str(tmp_path / "h")}
    words, client = compose(tmp_path / "root", DOCKER, environment, job={"env": given, "secrets": ["TOKEN"]})
    assert {"PLAIN", "TOKEN", "ARMADA_RUN_ID"} <= set(after(words, "--env"))
    assert (client["PLAIN"], client["TOKEN"]) == ("p-value", "s3cr3t")
    assert not any(value in word for value in (*given.values(), "s3cr3t", "/of/the/host") for word in words)
    assert f"HOME={tmp_path}/root/containers/home" in after(words, "--env")


def test_a_variable_that_the_tool_would_obey_reaches_the_container_in_a_file_of_the_users_own(tmp_path: Path) -> None:
    given = {"DOCKER_HOST": "tcp://x:y@z", "LD_LIBRARY_PATH": "/inside", "PATH": "/bin"}
    words, client = compose(tmp_path, DOCKER, given, job={"env": given})
    [path] = after(words, "--env-file")
    assert Path(path).read_text() == "DOCKER_HOST=tcp://x:y@z\nLD_LIBRARY_PATH=/inside\nPATH=/bin\n"
    assert Path(path).stat().st_mode & 0o777 == 0o600
    assert not any(client.get(name) == value for name, value in given.items())
    assert enclosure.clear(RunPaths(str(tmp_path), "box-1")) is None
    assert not Path(path).exists()


@pytest.mark.parametrize("name", ["https_proxy", "ALL_PROXY", "HTTP_PROXY", "ftp_proxy", "HF_ENDPOINT"])
def test_the_password_of_a_proxy_is_no_argument(tmp_path: Path, name: str) -> None:
    address = "http://alice:hunter2@proxy:3128"
    words, client = compose(tmp_path, PODMAN, {name: address})
    assert name in after(words, "--env")
    assert client[name] == address
    assert not any("hunter2" in word for word in words)


def test_a_variable_that_a_container_cannot_be_given_is_refused_without_its_value(tmp_path: Path) -> None:
    given = {"REGISTRY_KEY": "one\ntwo"}
    with pytest.raises(
        AgentError, match="`env:` gives REGISTRY_KEY a value of several lines; a container gets"
    ) as error:
        compose(tmp_path, DOCKER, given, job={"env": given})
    assert "two" not in str(error.value)


def test_the_image_and_the_program_stand_where_no_option_does(tmp_path: Path) -> None:
    words, _ = compose(tmp_path, DOCKER)
    assert words[-3:] == [ID, "-c", "x"]
    assert after(words, "--entrypoint") == ["sh"]


def test_runs_of_the_same_name_under_two_roots_have_two_containers(tmp_path: Path) -> None:
    names = {containers.name_of(RunPaths(str(tmp_path / root), "box-1")) for root in ("a", "b")}
    assert len(names) == 2


def test_the_shared_memory_is_the_hosts_with_and_without_message_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "_QUEUES", str(tmp_path))
    assert after(compose(tmp_path / "a", PODMAN)[0], "--ipc") == ["host"]
    monkeypatch.setattr(containers, "_QUEUES", str(tmp_path / "none"))
    words, _ = compose(tmp_path / "b", PODMAN)
    assert "--ipc" not in words
    assert "type=bind,source=/dev/shm,target=/dev/shm" in after(words, "--mount")


def test_what_looks_into_an_image_tells_the_versions_of_what_is_there() -> None:
    words = [sys.executable, "-c", LOOK, "pytest", "nonesuch"]
    version, found = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert version == platform.python_version()
    assert found == {"pytest": pytest.__version__, "nonesuch": None}


@pytest.mark.parametrize(
    ("tool", "name", "full"),
    [
        ("docker", "alpine", "alpine"),
        ("podman", "alpine:3", "docker.io/library/alpine:3"),
        ("podman", "me/x", "docker.io/me/x"),
        ("podman", "nvcr.io/nvidia/pytorch:24.10-py3", "nvcr.io/nvidia/pytorch:24.10-py3"),
        ("podman", "localhost/x", "localhost/x"),
        ("podman", "box:5000/x", "box:5000/x"),
    ],
)
def test_a_name_without_a_registry_is_docker_hubs_for_both_tools(tool: str, name: str, full: str) -> None:
    assert containers.full_name(tool, name) == full


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        (
            "Error response from daemon: pull access denied for me/x, repository does not exist or may require 'docker login'",
            "environment",
            "docker.io does not give out me/x: it is private, or does not exist",
        ),
        ("Error: reading manifest 9 in docker.io/me/x: manifest unknown", "environment", "docker.io has no image me/x"),
        (
            "Error: initializing source: unable to retrieve auth token: invalid username/password: unauthorized",
            "environment",
            "does not give out",
        ),
        ("toomanyrequests: You have reached your pull rate limit.", "environment", "refuses more downloads"),
        ("write /var/lib/docker/tmp/x: no space left on device", "disk_full", "the disk is full"),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", "environment", "has no variant"),
        (
            "Get https://registry-1.docker.io/v2/: dial tcp: lookup registry-1.docker.io: no such host",
            "environment",
            "this host cannot reach docker.io",
        ),
        ("something else", "environment", "docker pull me/x failed: something else"),
    ],
)
def test_a_pull_that_fails_is_told_in_a_sentence(said: str, kind: str, sentence: str) -> None:
    error = containers.explain_pull("me/x", "docker", ["pulling", said])
    assert error.kind == kind
    assert sentence in error.message


def fake(folder: Path, name: str, code: int, out: str = "", complaint: str = "") -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.out").write_text(out)
    (folder / f"{name}.err").write_text(complaint)
    program = folder / name
    program.write_text(f'#!/bin/sh\n/bin/cat "{folder}/{name}.out"\n/bin/cat "{folder}/{name}.err" >&2\nexit {code}\n')
    program.chmod(0o755)


def docker_info(**changes: Any) -> str:
    return json.dumps({"ServerVersion": "27.0", "SecurityOptions": [], "Runtimes": {"runc": {}}} | changes)


@pytest.mark.parametrize(
    ("info", "code", "complaint", "sentence"),
    [
        (
            docker_info(
                ServerVersion="", ServerErrors=["permission denied while trying to connect to the Docker daemon"]
            ),
            1,
            "",
            "docker is installed, but .* may not use it: ask for membership in the group `docker`",
        ),
        ("", 1, "Got permission denied while trying to connect", ".*ask for membership in the group `docker`"),
        ("", 1, "Cannot connect to the Docker daemon at unix:///x.", "docker does not work for you: Cannot connect"),
        (docker_info(SecurityOptions=["name=userns"]), 0, "", ".*your files would not be yours"),
        (docker_info(), 0, "", "docker is not set up to give GPUs to containers"),
    ],
)
def test_a_docker_that_cannot_be_used_is_told_in_a_sentence(
    tmp_path: Path, info: str, code: int, complaint: str, sentence: str
) -> None:
    fake(tmp_path / "bin", "docker", code, info, complaint)
    with pytest.raises(AgentError, match=f"podman is not installed; {sentence}"):
        containers.choose(needs_gpus=True, environment={"PATH": str(tmp_path / "bin")})


def test_where_docker_is_not_for_this_user_podman_is_taken(tmp_path: Path) -> None:
    fake(tmp_path / "bin", "docker", 1, "", "permission denied")
    described = {"host": {"security": {"rootless": False}}, "version": {"Version": "4.3.1"}}
    fake(tmp_path / "bin", "podman", 0, json.dumps(described))
    assert containers.choose(needs_gpus=False, environment={"PATH": str(tmp_path / "bin")}).name == "podman"


def test_where_only_docker_gives_gpus_docker_is_taken(tmp_path: Path) -> None:
    fake(tmp_path / "bin", "docker", 0, docker_info(Runtimes={"nvidia": {}}))
    fake(tmp_path / "bin", "podman", 0, json.dumps({"host": {}, "version": {}}))
    environment = {"PATH": str(tmp_path / "bin")}
    assert containers.choose(needs_gpus=True, environment=environment).name == "docker"
    assert containers.choose(needs_gpus=False, environment=environment).name == "podman"
    assert containers.choose(needs_gpus=False, environment=environment, preferred="docker").name == "docker"


def test_the_hubs_cache_is_shared_with_the_host_where_there_is_a_home(tmp_path: Path) -> None:
    words, client = compose(tmp_path / "a", DOCKER, {"HOME": str(tmp_path / "me")})
    cache = f"{tmp_path}/me/.cache/huggingface"
    assert "HF_HOME" not in client
    assert f"HF_HOME={cache}" in after(words, "--env")
    assert f"type=bind,source={cache},target={cache}" in after(words, "--mount")
    words, _ = compose(tmp_path / "b", DOCKER, {"HOME": "/proc/nobody"})
    assert not any("huggingface" in word for word in words)


@pytest.fixture
def signals() -> Iterator[None]:
    """Signal handlers as before, after a test has run what installs its own."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
def test_a_tool_whose_containers_are_not_seen_here_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docker inside a container that was given the socket of its machine: nothing here could end the processes."""
    monkeypatch.setattr(contain, "_SEEN_WITHIN_S", 0.0)
    monkeypatch.setattr(contain, "_LOOK_AGAIN_S", 0.0)
    paths = RunPaths(str(tmp_path), "box-1")
    Path(paths.attempt(1)).mkdir(parents=True)
    docker = tmp_path / "docker"
    elsewhere = '[{"State": {"Running": true, "Pid": 1}}]'
    docker.write_text(f"#!/bin/sh\n[ $1 = run ] && exec sleep 1000\n[ $1 = container ] && echo '{elsewhere}'\nexit 0\n")
    docker.chmod(0o755)
    assert contain.contain(str(tmp_path), "box-1", 1, str(docker), ["run"]) == containers.REFUSED
    told = json.loads(Path(paths.attempt(1, "failure.json")).read_text())
    assert told["reason"] == "env_error"
    assert "runs containers where armada cannot see their processes" in told["message"]


@pytest.mark.parametrize("answer", ["", "[]", "null", "[1]", '[{"Id": 5}]', '[{"Id": "--help"}]', "{"])
def test_a_tool_that_answers_nonsense_is_no_traceback(tmp_path: Path, answer: str) -> None:
    fake(tmp_path / "bin", "docker", 0, answer)
    program = str(tmp_path / "bin" / "docker")
    with pytest.raises(AgentError, match="docker"):
        containers.find_image(program, "x")
    with pytest.raises(containers.NoAnswerError):
        containers.find_state(program, "x")


TOOL = ("9.9", True, True, False)
NO_RUNTIME = "Error: OCI runtime error: crun: mount proc: Operation not permitted"


def scripted(folder: Path, name: str, on_run: str) -> str:
    """Write a container tool that knows no container and runs none."""
    program = folder / name
    program.write_text(f"#!/bin/sh\n[ $1 = run ] && {{ {on_run}; }}\necho 'no such container' >&2\nexit 1\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("code", [125, 126, 127])
def test_a_tool_that_cannot_start_a_container_is_refused_before_the_launch(tmp_path: Path, code: int) -> None:
    program = scripted(tmp_path, "podman", f"echo '{NO_RUNTIME}' >&2; echo \"$@\" > {tmp_path}/words; exit {code}")
    image = containers.Image("a" * 64, None, "")
    with pytest.raises(
        AgentError, match=r"a container does not start on this host: .*Operation not permitted"
    ) as raised:
        containers.try_start(containers.Tool("podman", program, *TOOL), image, True)
    assert "podman run --rm aaaa" in str(raised.value.hint)
    words = (tmp_path / "words").read_text().split()
    assert words[-3:] == ["--entrypoint", "true", "a" * 64]
    assert "nvidia.com/gpu=all" in words
    assert "keep-id" in words


@pytest.mark.parametrize(
    "said", ['exec: "true": executable file not found in $PATH', "Error: crun: executable file `true` not found"]
)
def test_an_image_without_the_tried_program_is_no_tool_that_fails(tmp_path: Path, said: str) -> None:
    (tmp_path / "said").write_text(said)
    program = scripted(tmp_path, "docker", f"cat {tmp_path}/said >&2; exit 127")
    containers.try_start(containers.Tool("docker", program, *TOOL), containers.Image("a" * 64, None, ""), False)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("code", [125, 126, 127])
def test_a_container_that_did_not_start_has_a_reason_of_its_own(tmp_path: Path, code: int) -> None:
    paths = RunPaths(str(tmp_path), "box-1")
    Path(paths.attempt(1)).mkdir(parents=True)
    Path(paths.output).write_text(NO_RUNTIME + "\n")
    program = scripted(tmp_path, "podman", f"exit {code}")
    assert contain.contain(str(tmp_path), "box-1", 1, program, ["run"]) == code
    told = json.loads(Path(paths.attempt(1, "failure.json")).read_text())
    assert told["reason"] == "container_not_started"
    assert told["message"] == f"the container did not start: {NO_RUNTIME}"


@pytest.mark.usefixtures("signals")
def test_a_job_that_ends_with_127_in_its_container_has_started(tmp_path: Path) -> None:
    paths = RunPaths(str(tmp_path), "box-1")
    Path(paths.attempt(1)).mkdir(parents=True)
    Path(paths.output).write_text("sh: 1: nope: not found\n")
    docker = tmp_path / "docker"
    ended = '[{"State": {"Status": "exited", "Running": false, "ExitCode": 127}}]'
    docker.write_text(f"#!/bin/sh\n[ $1 = run ] && exit 127\n[ $1 = container ] && echo '{ended}'\nexit 0\n")
    docker.chmod(0o755)
    assert contain.contain(str(tmp_path), "box-1", 1, str(docker), ["run"]) == 127
    assert not Path(paths.attempt(1, "failure.json")).exists()


GO = '2026/11/30 exec: "git": executable file not found in $PATH'
CATATONIT = "ERROR (catatonit:2): failed to exec pid1: No such file or directory"
CRUN = "Error: crun: executable file `nonesuch` not found in $PATH"


def ended(folder: Path, said: str, code: int, status: str) -> tuple[int, Path]:
    """Let a tool end a container; return the run's exit code, and the place of failure.json."""
    paths = RunPaths(str(folder), "box-1")
    Path(paths.attempt(1)).mkdir(parents=True, exist_ok=True)
    Path(paths.output).write_text(f"step 1\n{said}\n")
    # Podman's record of a container that did not start has exit code 0.
    state = json.dumps([{"State": {"Status": status, "Running": False, "ExitCode": code * (status == "exited")}}])
    docker = folder / "docker"
    docker.write_text(f"#!/bin/sh\n[ $1 = run ] && exit {code}\n[ $1 = container ] && echo '{state}'\nexit 0\n")
    docker.chmod(0o755)
    return contain.contain(str(folder), "box-1", 1, str(docker), ["run"]), Path(paths.attempt(1, "failure.json"))


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("code", [1, 126, 127])
@pytest.mark.parametrize("said", [GO, CRUN])
def test_what_a_job_prints_at_its_end_is_not_taken_for_the_containers_start(
    tmp_path: Path, said: str, code: int
) -> None:
    """Programs in Go print the runtime's own sentence when one of their helpers is missing."""
    exit_code, failure = ended(tmp_path, said, code, "exited")
    assert exit_code == code
    assert not failure.exists()


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize(("said", "code", "status"), [(CATATONIT, 1, "exited"), (CRUN, 127, "created")])
def test_a_program_that_an_image_lacks_is_told_with_and_without_an_init_process(
    tmp_path: Path, said: str, code: int, status: str
) -> None:
    exit_code, failure = ended(tmp_path, said, code, status)
    assert (exit_code, json.loads(failure.read_text())["reason"]) == (127, "command_not_found")
    failure.write_text('{"reason": "the job\'s own"}')
    ended(tmp_path, said, code, status)
    assert json.loads(failure.read_text()) == {"reason": "the job's own"}


def test_a_layer_whose_id_holds_429_is_no_limit_of_the_registry() -> None:
    said = ["a1b2c3429def: Pulling fs layer", "Error response from daemon: unauthorized: authentication required"]
    error = containers.explain_pull("ghcr.io/me/x:1", "docker", said)
    assert error.message == "ghcr.io does not give out ghcr.io/me/x:1: it is private, or does not exist"
    said[1] = "Error response from daemon: received unexpected HTTP status: 429"
    assert "refuses more downloads for now" in containers.explain_pull("ghcr.io/me/x:1", "docker", said).message
