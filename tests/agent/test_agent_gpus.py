"""GPUs: read from nvidia-smi, given out in order, never two runs on one."""

from __future__ import annotations

import json
import os
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from armada_agent.host import gpu_tickets, gpus
from armada_agent.provision.facts import describe_gpus

from tests.agent.conversation import Conversation, Host, check
from tests.supervisors import kill_both
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NVIDIA_SMI = """#!/bin/sh
case "$1" in
  --query-gpu=index,uuid,*) cat "{folder}/inventory";;
  --query-gpu=*) cat "{folder}/load";;
  --query-compute-apps=*) cat "{folder}/users";;
  -L) cat "{folder}/list";;
esac
"""
SLEEP = ("sh", "-c", "echo $CUDA_VISIBLE_DEVICES $ARMADA_GPUS; exec sleep 1000")


class Machine:
    """A pretended set of GPUs, and who sits on them."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        program = folder / "nvidia-smi"
        program.write_text(NVIDIA_SMI.format(folder=folder))
        program.chmod(0o755)
        rows = [f"{i}, {self.uuid(i)}, NVIDIA A100-SXM4-80GB, 81920, 3, 0, 580.159.03, 8.0" for i in range(count)]
        (folder / "inventory").write_text("\n".join(rows) + "\n")
        (folder / "load").write_text("".join(f"{i}, 97, 18000, 312.40, 71\n" for i in range(count)))
        self.seat()

    def uuid(self, index: int) -> str:
        # Its own in all the world: whoever runs beside us on this machine, in a fleet's host too, shows in one process table.
        return f"GPU-{zlib.crc32(str(self.folder).encode()):08x}-0000-0000-0000-{index:012d}"

    def seat(self, **users: int) -> None:
        """Put processes on GPUs: `seat(gpu1=4242)`."""
        rows = [f"{self.uuid(int(name[3:]))}, {pid}\n" for name, pid in users.items()]
        new = self.folder / "users.new"
        new.write_text("".join(rows))
        new.rename(self.folder / "users")

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "bin").mkdir()
    return Machine(tmp_path / "bin", 2)


@pytest.fixture
def gpu_host(machine: Machine, converse: Callable[..., Conversation]) -> Host:
    return Host(converse(environment=machine.environment))


def await_message(host: Host, run_id: str, message: str) -> None:
    eventually(lambda: host.state(run_id).get("message") == message)


def waiting(host: Host) -> list[str]:
    """Who waits for GPUs, as the host's facts say."""
    return [place["run_id"] for place in host.call("host.facts")["queue"]["waiting"]]


def test_a_run_gets_its_gpus_and_tells_its_job(
    machine: Machine, converse: Callable[..., Conversation], some_python: str
) -> None:
    host = Host(converse(some_python, environment=machine.environment))
    host.launch("gpu-1", *SLEEP, gpus=2)
    state = host.await_state("gpu-1", "running")
    assert state["gpus"] == [0, 1]
    expected = f"0,1 {machine.uuid(0)},{machine.uuid(1)}\n"
    eventually(lambda: host.output("gpu-1") == expected)
    telemetry = host.folder("gpu-1") / "telemetry.jsonl"
    eventually(lambda: telemetry.exists() and telemetry.read_text().endswith("\n"))
    sample = json.loads(telemetry.read_text().splitlines()[0])
    check(sample, "files", "telemetry.jsonl")
    assert sample["gpus"][1] == {
        "index": 1,
        "utilization": 97,
        "memory_used_bytes": 18000 * 2**20,
        "power_w": 312.4,
        "temperature_c": 71,
    }


def test_runs_wait_in_order_and_the_next_gets_what_the_last_had(gpu_host: Host) -> None:
    gpu_host.launch("first-1", *SLEEP, gpus=2)
    gpu_host.await_state("first-1", "running")
    gpu_host.launch("second-1", *SLEEP, gpus=2)
    await_message(gpu_host, "second-1", "waiting for 2 GPUs, position 1")
    gpu_host.launch("third-1", *SLEEP, gpus=1)
    await_message(gpu_host, "third-1", "waiting for 1 GPU, position 2")
    assert waiting(gpu_host) == ["second-1", "third-1"]
    gpu_host.call("run.stop", run_id="first-1", grace_s=1)
    assert gpu_host.await_state("second-1", "running")["gpus"] == [0, 1]
    assert gpu_host.state("third-1")["state"] == "queued"
    gpu_host.call("run.stop", run_id="second-1", grace_s=1)
    assert gpu_host.await_state("third-1", "running")["gpus"] == [0]
    assert waiting(gpu_host) == []


def test_two_launches_for_the_last_gpu_give_it_to_one(machine: Machine, gpu_host: Host) -> None:
    machine.seat(gpu0=4242)
    for run_id in ("rival-1", "rival-2"):
        gpu_host.create(run_id, *SLEEP, gpus=1)
    asked = [gpu_host.conversation.ask("run.submit", {"run_id": r, "submission": 1}) for r in ("rival-1", "rival-2")]
    for number in asked:
        gpu_host.conversation.answer(number)

    def states() -> dict[str, str | None]:
        return {r: gpu_host.state(r).get("state") for r in ("rival-1", "rival-2")}

    eventually(lambda: sorted(map(str, states().values())) == ["queued", "running"])
    winner = next(run_id for run_id, state in states().items() if state == "running")
    loser = "rival-2" if winner == "rival-1" else "rival-1"
    assert gpu_host.state(winner)["gpus"] == [1]
    await_message(gpu_host, loser, "waiting for 1 GPU, position 1")
    gpu_host.call("run.stop", run_id=winner, grace_s=0)
    assert gpu_host.await_state(loser, "running")["gpus"] == [1]


def test_a_strangers_gpu_is_left_alone(machine: Machine, gpu_host: Host) -> None:
    machine.seat(gpu0=4242)
    gpu_host.launch("strange-1", *SLEEP, gpus=1)
    assert gpu_host.await_state("strange-1", "running")["gpus"] == [1]
    gpu_host.launch("strange-2", *SLEEP, gpus=1)
    await_message(gpu_host, "strange-2", "waiting for 1 GPU, position 1")
    machine.seat()
    assert gpu_host.await_state("strange-2", "running")["gpus"] == [0]


def test_the_gpus_of_a_killed_supervisors_job_are_not_given_away(gpu_host: Host) -> None:
    gpu_host.launch("orphan-1", *SLEEP, gpus=2)
    gpu_host.await_state("orphan-1", "running")
    kill_both(gpu_host.look("orphan-1")["evidence"]["submission"]["job"])
    gpu_host.launch("heir-1", *SLEEP, gpus=1)
    await_message(gpu_host, "heir-1", "waiting for 1 GPU, position 1")
    gpu_host.call("run.stop", run_id="orphan-1", grace_s=0)
    assert gpu_host.await_state("heir-1", "running")["gpus"] == [0]


def test_a_waiting_run_can_be_stopped_and_frees_its_place(gpu_host: Host) -> None:
    gpu_host.launch("holder-1", *SLEEP, gpus=2)
    gpu_host.await_state("holder-1", "running")
    gpu_host.launch("waiter-1", *SLEEP, gpus=1)
    await_message(gpu_host, "waiter-1", "waiting for 1 GPU, position 1")
    gpu_host.launch("waiter-2", *SLEEP, gpus=1)
    await_message(gpu_host, "waiter-2", "waiting for 1 GPU, position 2")
    gpu_host.call("run.stop", run_id="waiter-1", grace_s=60)
    state = gpu_host.await_end("waiter-1")
    assert (state["state"], state["attempt"]) == ("cancelled", 0)
    await_message(gpu_host, "waiter-2", "waiting for 1 GPU, position 1")


def test_the_place_of_a_killed_waiter_is_free(gpu_host: Host) -> None:
    gpu_host.launch("holder-2", *SLEEP, gpus=2)
    gpu_host.await_state("holder-2", "running")
    gpu_host.launch("waiter-3", *SLEEP, gpus=1)
    await_message(gpu_host, "waiter-3", "waiting for 1 GPU, position 1")
    gpu_host.launch("waiter-4", *SLEEP, gpus=1)
    await_message(gpu_host, "waiter-4", "waiting for 1 GPU, position 2")
    kill_both(gpu_host.look("waiter-3")["evidence"]["submission"]["job"])
    assert eventually(lambda: waiting(gpu_host) == ["waiter-4"])
    await_message(gpu_host, "waiter-4", "waiting for 1 GPU, position 1")


def test_more_gpus_than_there_are_fail_at_once(gpu_host: Host) -> None:
    gpu_host.launch("many-1", "true", gpus=3)
    state = gpu_host.await_end("many-1")
    assert (state["state"], state["reason"]) == ("failed", "not_enough_gpus")


def test_gpus_on_a_host_without_nvidia_smi_fail_at_once(this_host: Host) -> None:
    this_host.launch("none-1", "true", gpus=1)
    state = this_host.await_end("none-1")
    assert (state["state"], state["reason"]) == ("failed", "env_error")
    assert state["message"] == "the run needs 1 GPU, but this host has no nvidia-smi"


def test_facts_show_gpus_and_whose_processes_sit_on_them(machine: Machine, gpu_host: Host) -> None:
    machine.seat(gpu1=4242)
    gpu_host.launch("seen-1", *SLEEP, gpus=1)
    gpu_host.await_state("seen-1", "running")
    shown = gpu_host.call("host.facts")["gpus"]
    assert [gpu["compute_capability"] for gpu in shown] == ["8.0", "8.0"]
    assert shown[0]["memory_total_bytes"] == 81920 * 2**20
    assert [process["run_id"] for process in shown[0]["processes"]] == ["seen-1"]
    assert shown[1]["processes"] == [{"pid": 4242, "run_id": None}]


def test_facts_show_the_slices_of_a_divided_gpu(machine: Machine, gpu_host: Host) -> None:
    """With MIG, nvidia-smi shows the whole GPU, without a utilization, and its slices with -L alone."""
    rows = [f"{i}, {machine.uuid(i)}, NVIDIA A100-SXM4-80GB, 81920, 3, [N/A], 580.159.03, 8.0\n" for i in range(2)]
    (machine.folder / "inventory").write_text("".join(rows))
    (machine.folder / "list").write_text(
        f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {machine.uuid(0)})\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)\n"
        "  MIG 1g.10gb+me  Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)\n"
        f"GPU 1: NVIDIA A100-SXM4-80GB (UUID: {machine.uuid(1)})\n"
    )
    first, second = gpu_host.call("host.facts")["gpus"]
    assert first["slices"] == ["MIG 3g.40gb", "MIG 1g.10gb+me"]
    assert second["slices"] == []


def test_a_machine_without_a_device_of_nvidia_has_no_gpu_whatever_nvidia_smi_says(tmp_path: Path) -> None:
    assert gpus.may_have_gpus(str(tmp_path / "none")), "nobody can tell"
    for name, vendor, kind in (("a", "0x10de", "0x020700"), ("b", "0x1002", "0x030000")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(f"{vendor}\n")
        (tmp_path / name / "class").write_text(f"{kind}\n")
    assert not gpus.may_have_gpus(str(tmp_path))
    (tmp_path / "a" / "class").write_text("0x030200\n")
    assert gpus.may_have_gpus(str(tmp_path))


@pytest.mark.parametrize(
    ("said", "has_device", "trouble"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", True, "nvidia-smi: Failed to initialize NVML"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver", False, None),
        ("No devices were found", True, None),
    ],
)
def test_facts_tell_a_driver_that_does_not_answer_from_a_machine_without_a_gpu(
    machine: Machine, gpu_host: Host, monkeypatch: pytest.MonkeyPatch, said: str, has_device: bool, trouble: str | None
) -> None:
    assert gpu_host.call("host.facts")["gpu_trouble"] is None
    (machine.folder / "nvidia-smi").write_text(f'#!/bin/sh\necho "{said}"; exit 9\n')
    monkeypatch.setenv("PATH", machine.environment["PATH"])
    monkeypatch.setattr(gpus, "may_have_gpus", lambda: has_device)
    found, told = describe_gpus()
    assert (found, told and told.partition(":")[0]) == ([], trouble and trouble.partition(":")[0])
    assert trouble is None or str(told).startswith(trouble)


@pytest.mark.parametrize("text", [None, "", "[N/A]", "nan", "inf", "-inf", "1e999"])
def test_a_number_that_is_none_is_not_known(text: str | None) -> None:
    assert gpus.parse_number(text) is None


def test_a_list_of_slices_that_is_none_is_empty() -> None:
    assert gpus.parse_slices("") == {}
    assert gpus.parse_slices("  MIG 1g.10gb  Device 0: (UUID: MIG-1)\nFailed to initialize NVML\n") == {}
    assert gpus.parse_slices("GPU 0: a (UUID: b) (UUID: GPU-c)\n  MIG 1g.10gb\tDevice\n") == {"GPU-c": ["MIG 1g.10gb"]}


def test_gpus_of_amd_are_counted_by_the_kernel_s_nodes(tmp_path: Path) -> None:
    nodes = {
        "0": "cpu_cores_count 64\nsimd_count 0\nvendor_id 0\n",
        "1": "cpu_cores_count 0\nsimd_count 440\nvendor_id 4098\ndevice_id 29772\n",
        "2": "simd_count 440\nvendor_id 4098\n",
        "3": "simd_count 440\nvendor_id 1\nnonsense\n\n",
        "4": "",
    }
    for name, text in nodes.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "properties").write_text(text)
    (tmp_path / "5" / "properties").mkdir(parents=True)
    assert gpus.count_amd(str(tmp_path)) == 2
    assert gpus.count_amd(str(tmp_path / "nothing")) == 0


def test_places_are_taken_all_or_none(tmp_path: Path) -> None:
    present: list[dict[str, Any]] = [{"index": i, "uuid": f"GPU-{i}"} for i in range(4)]
    first = gpu_tickets.take(str(tmp_path), "a", 2, present, {"GPU-0"})
    assert first is not None
    assert [gpu["index"] for gpu in first.gpus] == [1, 2]
    assert gpu_tickets.take(str(tmp_path), "b", 2, present, {"GPU-0"}) is None
    second = gpu_tickets.take(str(tmp_path), "b", 1, present, set())
    assert second is not None
    assert [gpu["index"] for gpu in second.gpus] == [0]
    first.release()
    third = gpu_tickets.take(str(tmp_path), "c", 3, present, set())
    assert third is not None
    assert [gpu["index"] for gpu in third.gpus] == [1, 2, 3]


def test_rows_that_are_no_rows_and_unknown_numbers_are_survived() -> None:
    text = "Unable to determine the device handle\n0, [N/A], [Not Supported], N/A\n"
    rows = gpus.parse_rows(text, ("index", "a", "b", "c"))
    assert rows == [{"index": "0", "a": "[N/A]", "b": "[Not Supported]", "c": "N/A"}]
    assert gpus.parse_number(rows[0]["a"]) is None
    assert gpus.parse_users("GPU-1, 12\nGPU-2, [N/A]\nNo running processes found\n") == [("GPU-1", 12), ("GPU-2", 0)]
