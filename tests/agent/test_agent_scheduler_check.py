"""What a batch system says of a job before it is handed over, and what of that is a refusal: never, or only not now."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from armada_agent.engines import htcondor, slurm, slurm_nodes
from armada_agent.engines.engine import EngineError

RECORDED = (Path(__file__).parents[1] / "fleet" / "recordings" / "condor-docker.ad").read_text()
SCRIPT = "#!/bin/bash\n#SBATCH --cpus-per-task=8\n#SBATCH --gres=gpu:a100:2\n#SBATCH --mem=64000M\n"
BUSY = "sbatch: error: Requested nodes are busy\n"
NOT_NOW = "allocation failure: Required node not available (down, drained or reserved)\n"
DOUBTFUL = "allocation failure: Requested node configuration is not available\n"

Say = Callable[..., None]


def node(name: str, state: str, *, cpus: int = 16, gpus: str = "gpu:a100:4(S:0-1)", partition: str = "main*") -> str:
    cells = (partition, name, state, str(cpus), "128000", gpus, "none" if state == "idle" else "new disks")
    return "".join(cell.ljust(30) + "|" for cell in cells) + "\n"


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Put a program on the path that prints something and leaves with a code."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def put(name: str, text: str, code: int = 0, stream: int = 1) -> None:
        (tmp_path / f"{name}.said").write_text(text)
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\ncat "{tmp_path}/{name}.said" >&{stream}\nexit {code}\n')
        program.chmod(0o755)

    return put


# --- Slurm ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [NOT_NOW, DOUBTFUL, BUSY])
def test_nodes_that_are_all_away_are_a_wait_with_its_reason(say: Say, words: str) -> None:
    say("sbatch", words, code=1)
    say(
        "sinfo",
        node("n1", "drain") + node("n2", "down*") + node("small", "drain", cpus=4) + node("n3", "idle", gpus=""),
    )
    answer = slurm.check(SCRIPT)
    assert words.strip() in answer["wait"]
    assert answer["wait"].endswith("these are unavailable: n1 (drain: new disks), n2 (down*: new disks)")


@pytest.mark.parametrize(
    ("words", "nodes"),
    [
        (DOUBTFUL, node("n1", "idle", gpus="gpu:v100:4") + node("n2", "drain", gpus="gpu:v100:4")),
        (DOUBTFUL, node("n1", "drain", cpus=4)),
        (DOUBTFUL, node("n1", "drain", partition="other")),
        ("sbatch: error: invalid partition specified: nope\n", node("n1", "drain")),
        ("sbatch: error: Requested nodes not in this partition\n", node("n1", "drain")),
    ],
)
def test_what_no_node_has_even_when_it_is_back_is_refused(say: Say, words: str, nodes: str) -> None:
    say("sbatch", words, code=1)
    say("sinfo", nodes)
    with pytest.raises(EngineError, match=words.strip().rpartition(": ")[2]) as refused:
        slurm.check(SCRIPT)
    assert refused.value.refused


def test_where_nodes_cannot_be_listed_the_refusal_stands(say: Say) -> None:
    say("sbatch", DOUBTFUL, code=1)
    say("sinfo", "sinfo: error: Invalid field", code=1)
    with pytest.raises(EngineError, match="Requested node configuration"):
        slurm.check(SCRIPT)


def test_a_controller_that_does_not_answer_has_refused_nothing(say: Say) -> None:
    say("sbatch", "sbatch: error: Unable to contact slurm controller (connect failure)\n", code=1)
    with pytest.raises(EngineError) as silent:
        slurm.check(SCRIPT)
    assert not silent.value.refused


def test_when_slurm_expects_to_start_a_job_is_read(say: Say) -> None:
    then = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 7200))
    say("sbatch", f"sbatch: Job 8 to start at {then} using 8 processors on nodes n1 in partition main\n", stream=2)
    assert 3600 < slurm.check(SCRIPT)["starts_in_s"] <= 7200
    say("sbatch", "")
    assert slurm.check(SCRIPT) == {"wait": None, "starts_in_s": None}


def test_a_job_for_named_partitions_waits_for_their_nodes_only_and_few_are_named() -> None:
    script = SCRIPT + "#SBATCH --partition='long,gpu'\n"
    said = "".join(node(f"n{n}", "drain", partition="gpu") for n in range(6)) + node("other", "drain")
    assert slurm_nodes.find_away(script, said) == [f"n{n} (drain: new disks)" for n in range(4)] + ["2 more"]


# --- HTCondor ------------------------------------------------------------------------------------------------------


def slot(**attributes: Any) -> dict[str, Any]:
    return {"Machine": "w", "TotalSlotCpus": 16, "TotalSlotGPUs": 2, **attributes}


def ask_condor(say: Say, advertised: str, *slots: dict[str, Any]) -> dict[str, Any]:
    say("condor_q", "")
    say("condor_submit", advertised)
    say("condor_status", json.dumps(slots))
    return htcondor.check("universe = docker\nqueue\n")


def is_accepted(say: Say, advertised: str, *slots: dict[str, Any]) -> bool:
    """Whether the check passes: this pool could run the job, sooner or later."""
    return ask_condor(say, advertised, *slots) == {"wait": None, "starts_in_s": None}


def test_a_pool_without_docker_is_refused_for_a_job_in_its_universe(say: Say) -> None:
    with pytest.raises(
        EngineError, match=r"the job asks for Docker .* and no worker of the pool has Docker"
    ) as refused:
        ask_condor(say, RECORDED, slot(), slot(HasDocker=False))
    assert refused.value.refused
    assert is_accepted(say, RECORDED, slot(), slot(HasDocker=True))


def test_a_pool_without_containers_is_refused_for_a_job_in_one(say: Say) -> None:
    advertised = RECORDED.replace("TARGET.HasDocker", "TARGET.HasContainer")
    with pytest.raises(EngineError, match="no worker of the pool has containers"):
        ask_condor(say, advertised, slot(HasDocker=True))
    assert is_accepted(say, advertised, slot(HasContainer=True))


def test_a_job_without_a_container_asks_for_none(say: Say) -> None:
    assert is_accepted(say, RECORDED.replace("TARGET.HasDocker && ", ""), slot())
    assert is_accepted(say, RECORDED.replace("TARGET.HasDocker", "(TARGET.HasDocker || TARGET.HasSingularity)"), slot())


def test_gpus_with_more_memory_than_any_of_the_pool_are_refused(say: Say) -> None:
    docker = {"HasDocker": True}
    with pytest.raises(EngineError, match="GPUs with 72479 MB are requested; the largest of the pool have 24000 MB"):
        ask_condor(say, RECORDED, slot(GPUs_GlobalMemoryMb=24000, **docker), slot(TotalSlotGPUs=0))
    assert is_accepted(say, RECORDED, slot(GPUs_GlobalMemoryMb=24000, **docker), slot(GPUs_GlobalMemoryMb=81000))
    assert is_accepted(say, RECORDED, slot(GPUs_GlobalMemoryMb=24000, **docker), slot())  # of one nobody knows it


def test_an_empty_pool_may_grow(say: Say) -> None:
    assert is_accepted(say, RECORDED)


def test_a_schedd_that_is_down_has_refused_nothing_and_is_named_before_a_launch(say: Say) -> None:
    say("condor_q", "Error: Can't find address for schedd worker\n", code=1)
    with pytest.raises(EngineError, match=r"Can.t find address for schedd worker; no job can be submitted now") as down:
        htcondor.check("universe = vanilla\nqueue\n")
    assert not down.value.refused
