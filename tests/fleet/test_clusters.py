"""What a person learns about a cluster: what is free, what a run cost, why it waits; and models where no run has internet."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Armada, eventually
from tests.fleet.batch_hosts import ROOT, Cluster, add_cluster
from tests.fleet.conftest import Fleet
from tests.fleet.test_launch import ROWS, TRAINING
from tests.hub_server import COMMIT, Hub, serving

pytestmark = [pytest.mark.timeout(1500)]
SLURM = pytest.mark.xdist_group("slurm")  # one at a time there: others fill it, and stop its daemons
ENGINES = [pytest.param(engine, marks=pytest.mark.xdist_group(engine)) for engine in ("slurm", "htcondor")]
NEVER: dict[str, dict[str, Any]] = {
    "slurm": {"lines": ["#SBATCH --begin=now+1hour"]},
    "htcondor": {"requirements": 'Machine == "nowhere"'},
}
"""What makes a job wait without keeping anybody else from anything."""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def amend(armada: Armada, host: str, **keys: Any) -> None:
    """Write more keys of a host into hosts.yaml."""
    file = armada.folder / "home" / "config" / "hosts.yaml"
    lines = "".join(f"    {key}: {json.dumps(value)}\n" for key, value in keys.items())
    file.write_text(file.read_text().replace(f"  {host}:\n", f"  {host}:\n{lines}"))


def without_profile(armada: Armada) -> None:
    file = armada.folder / "home" / "config" / "hosts.yaml"
    file.write_text(file.read_text().replace("    profile: cpu\n", ""))


def queue_of(cluster: Cluster, root: str) -> dict[str, Any]:
    """A look of now; the agent would repeat its last for two minutes."""
    cluster.shell(f"rm -f {root}/schedulers/queue.json")
    (checked,) = cluster.armada.json("hosts", "check", cluster.host)
    found: dict[str, Any] = checked["queue"]
    return found


def free_gpus(cluster: Cluster) -> dict[str, int]:
    """GPUs that the engine's own tools show as free, by partition or worker."""
    if cluster.engine == "htcondor":
        said = cluster.shell("condor_status -af Machine SlotType State GPUs").split("\n")
        slots = [line.split() for line in said if line.split()]
        return {m: int(gpus) for m, kind, _, gpus in slots if kind == "Partitionable"}
    free: dict[str, int] = {}
    for line in cluster.shell("scontrol --details --oneliner show nodes").splitlines():
        fields = dict(word.partition("=")[::2] for word in line.split())
        used = int((re.search(r"gpu:(?:[^:(]+:)?(\d+)", fields.get("GresUsed", "")) or [0, 0])[1])
        for partition in fields["Partitions"].split(","):
            free[partition] = free.get(partition, 0) + int(fields["Gres"].removeprefix("gpu:")) - used
    return free


def test_hosts_check_shows_what_is_free_as_the_engine_itself_says_it(
    armada: Armada, fleet: Fleet, engine: str, there: str
) -> None:
    cluster = add_cluster(armada, fleet, engine)
    root = there.replace("/tmp", "/home/researcher")
    without_profile(armada)  # a command needs none to be given GPUs
    amend(armada, cluster.host, root=root, quota=["echo", "Budget\x1b]0;x\x07 left: 42"])
    armada.command("sh", "-c", "echo ready; sleep 600", resources={"gpus": 3, "cpus": 2, "memory": "200M"})
    run_id = cluster.launch()
    cluster.says(run_id, "ready")

    def agree() -> dict[str, Any] | None:
        before, queue, after = free_gpus(cluster), queue_of(cluster, root), free_gpus(cluster)
        shown = {part["name"]: part["gpus_free"] for part in queue["partitions"]}
        # The collector hears of a claimed slot a while after the job has begun.
        used = sum(part["gpus"] - part["gpus_free"] for part in queue["partitions"])
        return queue if before == shown == after and queue["mine"].get("RUNNING") and used >= 3 else None

    queue = eventually(agree, within_s=90)
    assert queue is not None
    assert all(
        0 <= part["cpus_free"] < part["cpus"] for part in queue["partitions"] if part["gpus"] > part["gpus_free"]
    )
    text = armada.run("hosts", "check", cluster.host).stdout
    assert re.search(r"free \d+ of \d+ cores, \d+ of \d+ GPUs", text)
    assert re.search(r"my jobs: .*\d+ running · others: ", text)
    assert "Budget�]0;x� left: 42" in text
    assert "no NVIDIA GPUs" not in text
    assert armada.run("stop", run_id, "--grace", "0").returncode == 0
    listed = {host["name"]: host for host in armada.json("hosts", "ls")}
    assert listed[cluster.host]["facts"]["queue"]["partitions"]


@SLURM
def test_hosts_check_says_that_a_clusters_profile_is_missing(armada: Armada, fleet: Fleet) -> None:
    add_cluster(armada, fleet, "slurm")
    assert "profile cpu" in armada.run("hosts", "check", "slurm").stdout
    without_profile(armada)
    said = armada.run("hosts", "check", "slurm")
    assert said.returncode == 0
    assert "`profile:` is missing" in said.stdout
    assert "no profile fits" not in said.stdout


@SLURM
def test_an_engine_that_is_not_there_is_a_sentence(armada: Armada, fleet: Fleet, there: str) -> None:
    add_cluster(armada, fleet, "slurm")
    file = armada.folder / "home" / "config" / "hosts.yaml"
    file.write_text(re.sub(r"(?m)^    (scheduler|slurm): .*\n", "", file.read_text()))
    amend(armada, "slurm", root=there, scheduler="htcondor", quota=["/nonexistent/saldo", "-b"])
    said = armada.run("hosts", "check", "slurm")
    assert said.returncode == 0, said.stderr
    assert re.search("htcondor does not answer: condor_[a-z]+ is not installed on this host", said.stdout)
    assert "/nonexistent/saldo is not installed" in said.stdout
    assert "Traceback" not in said.stdout + said.stderr


@SLURM
def test_the_daemon_carries_the_queue_into_the_hosts_facts(armada: Armada, fleet: Fleet) -> None:
    add_cluster(armada, fleet, "slurm")
    env = {key: value for key, value in armada.env.items() if key != "ARMADA_NO_DAEMON"}
    program = Armada(armada.folder, env)
    assert program.run("daemon", "start").returncode == 0
    try:

        def carried() -> bool:
            (slurm,) = (host for host in program.json("hosts", "ls") if host["name"] == "slurm")
            partitions = ((slurm.get("facts") or {}).get("queue") or {}).get("partitions") or []
            return {"boost_usr_prod", "lrd_all_serial"} <= {part["name"] for part in partitions}

        eventually(carried, within_s=150)
    finally:
        assert program.run("daemon", "stop").returncode == 0


def test_what_a_run_used_of_its_allowance_is_kept(armada: Armada, fleet: Fleet, engine: str, there: str) -> None:
    cluster = add_cluster(armada, fleet, engine)
    root = there.replace("/tmp", "/home/researcher")
    cluster.shell(f"mkdir -p {root}; echo 'local hours left: 1,000' > {root}/allowance")
    amend(armada, cluster.host, root=root, quota=["cat", f"{root}/allowance"])
    armada.command(
        "sh", "-c", f"echo 'local hours left: 987.5' > {root}/allowance", resources={"cpus": 1, "memory": "200M"}
    )
    run_id = cluster.launch()
    assert cluster.becomes(run_id, "succeeded", "failed")["state"] == "succeeded"
    quota = eventually(lambda: (q := cluster.look(run_id)["quota"])["after"] and q)
    assert (quota["before"]["text"], quota["after"]["text"]) == ("local hours left: 1,000", "local hours left: 987.5")
    shown = armada.run("show", run_id).stdout
    assert "quota before: local hours left: 1,000" in shown
    assert "the last number went from 1,000 to 987.5 (-12.5)" in shown
    kept = json.loads(cluster.shell(f"cat {root}/runs/{run_id}/submissions/1/quota.json"))
    assert kept["command"] == ["cat", f"{root}/allowance"]


def test_why_shows_the_evidence_and_the_engines_own_words(armada: Armada, fleet: Fleet, engine: str) -> None:
    cluster = add_cluster(armada, fleet, engine, **NEVER[engine])
    armada.command("true", resources={"cpus": 1, "memory": "200M"})
    run_id = cluster.launch()
    cluster.becomes(run_id, "queued")
    why = armada.run("why", run_id)
    assert why.returncode == 0, why.stderr
    assert f"because    {engine} says" in why.stdout
    assert ("BeginTime" if engine == "slurm" else "nowhere") in why.stdout
    told = armada.json("why", run_id)
    assert (told["state"], told["engine"], told["error"]) == ("queued", engine, None)
    assert armada.run("stop", run_id).returncode == 0
    ended = armada.run("why", run_id)
    assert ended.returncode == 0
    assert "says\n" not in ended.stdout
    assert armada.run("why", "no-such-run").returncode == 7


def make_model(folder: Path) -> dict[str, bytes]:
    """A tiny Qwen2 with a tokenizer, as the hub would hold it."""
    python = os.environ.get("ARMADA_PAYLOAD_PYTHON")
    if python is None:
        if os.environ.get("CI"):
            pytest.fail("set ARMADA_PAYLOAD_PYTHON: a model is made with it")
        pytest.skip("ARMADA_PAYLOAD_PYTHON is not set: a model is made with it")
    script = (
        "import sys; from tokenizers import Tokenizer, models, pre_tokenizers, trainers\n"
        "from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM\n"
        "t = Tokenizer(models.BPE()); t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)\n"
        "t.train_from_iterator(['red apple'], trainers.BpeTrainer(vocab_size=300, special_tokens=['<pad>', '<end>'],\n"
        "    initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))\n"
        "t = PreTrainedTokenizerFast(tokenizer_object=t, eos_token='<end>', pad_token='<pad>',\n"
        "    chat_template=\"{% for m in messages %}{% if m['role'] == 'assistant' %}{% generation %}{{ m['content'] + '<end>' }}\"\n"
        "    \"{% endgeneration %}{% else %}{{ m['content'] }}{% endif %}{% endfor %}\")\n"
        "Qwen2ForCausalLM(Qwen2Config(vocab_size=300, hidden_size=32, intermediate_size=64, num_hidden_layers=2,\n"
        "    num_attention_heads=2, num_key_value_heads=1, eos_token_id=1, pad_token_id=0)).save_pretrained(sys.argv[1])\n"
        "t.save_pretrained(sys.argv[1])\n"
    )
    subprocess.run([python, "-c", script, str(folder)], check=True, capture_output=True, timeout=300)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def train_from_hub(armada: Armada, endpoint: str) -> None:
    armada.write("train.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS * 8))
    short = {**TRAINING["train"], "max_steps": 2}
    training = {**TRAINING, "model": "acme/tiny", "train": short, "checkpoint": {"every_steps": 2}}
    training |= {"tracking": {"wandb": "auto"}, "env": {"HF_ENDPOINT": endpoint}}
    armada.write("exp.yaml", json.dumps({**training, "resources": {"processes": 1, "cpus": 2, "memory": "2G"}}))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", [pytest.param("slurm", marks=pytest.mark.xdist_group("slurm"))])
@pytest.mark.takes_long("a real training with torch")
def test_a_hub_model_is_staged_at_the_login_node_and_trains_without_internet(
    armada: Armada, fleet: Fleet, engine: str, tmp_path: Path
) -> None:
    cluster = add_cluster(armada, fleet, engine)
    files = make_model(tmp_path / "made")
    with serving(Hub("acme/tiny", files)) as hub:
        train_from_hub(armada, hub.address)
        cluster.shell(f"rm -rf {ROOT}/models/hub/acme--tiny")
        run_id = cluster.launch()
        asked = len(hub.asked)
        run = cluster.becomes(run_id, "succeeded", "failed", within_s=600)
        assert run["state"] == "succeeded", armada.run("logs", run_id).stdout
        assert len(hub.asked) == asked > 0
    spec = run["spec"]
    assert spec["training"]["model"]["path"] == f"{ROOT}/models/hub/acme--tiny/{COMMIT}"
    assert spec["job"]["env"]["HF_HUB_OFFLINE"] == "1"
    assert spec["training"]["tracking"]["wandb"] == "off"  # profile cpu's environment has no wandb


@SLURM
@pytest.mark.timeout(1800)
@pytest.mark.takes_long("a real training with torch")
def test_a_model_of_homes_own_cache_is_sent_where_the_login_node_has_no_internet(
    armada: Armada, fleet: Fleet, tmp_path: Path
) -> None:
    cluster = add_cluster(armada, fleet, "slurm")
    cluster.shell(f"rm -rf {ROOT}/models/hub/acme--tiny")
    train_from_hub(armada, "http://127.0.0.1:9")
    cache = tmp_path / "hf"
    armada.env["HF_HOME"] = str(cache)
    refused = armada.run("launch", "--host", "slurm", "exp.yaml", "--dry-run")
    assert refused.returncode == 3
    assert "hf download acme/tiny here at home" in refused.stderr
    folder = cache / "hub" / "models--acme--tiny"
    fill_cache(folder, make_model(tmp_path / "made"))
    run_id = cluster.launch()
    run = cluster.becomes(run_id, "succeeded", "failed", within_s=600)
    assert run["state"] == "succeeded", armada.run("logs", run_id).stdout
    assert re.fullmatch(rf"{ROOT}/models/[0-9a-f]{{64}}", run["spec"]["training"]["model"]["path"])


def fill_cache(folder: Path, files: dict[str, bytes]) -> None:
    """Lay a model down as huggingface_hub does: blobs, and links to them under the commit."""
    for part in ("blobs", "refs", f"snapshots/{COMMIT}"):
        (folder / part).mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    for number, (name, content) in enumerate(files.items()):
        (folder / "blobs" / f"{number:040x}").write_bytes(content)
        (folder / "snapshots" / COMMIT / name).symlink_to(f"../../blobs/{number:040x}")


DOCKER: dict[str, Any] = {
    "universe": "docker",
    "image": "registry.example.org/lab/train:2.6",
    "requirements": "CUDADriverVersion >= 12.4",
    "rank": "GPUs_GlobalMemoryMb",
    "accounting_group": "group_lab.me",
    "getenv": ["WANDB_*", "HF_HOME"],
    "lines": ['+ProjectName = "arc"'],
    "max_retries": 2,
    "time_limit": "24h",
}
GOLDEN = Path(__file__).parent / "recordings" / "condor-docker.ad"


@pytest.mark.xdist_group("htcondor")
def test_condor_understands_a_docker_universe_job_as_it_is_meant(
    armada: Armada, fleet: Fleet, render: Callable[[dict[str, Any]], str]
) -> None:
    """`condor_submit -dry-run` against a golden file: what HTCondor makes of the submit file, less what changes by itself."""
    fleet.host("condor")
    text = render(DOCKER)
    lines = [
        line for line in text.splitlines() if line.partition(" ")[0] not in ("initialdir", "log", "output", "error")
    ]
    said = fleet.run(
        "condor",
        "cat > /tmp/$$.sub; condor_submit -dry-run - /tmp/$$.sub",
        user="researcher",
        stdin="\n".join(lines).encode(),
    )
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(normalised(said))
    assert normalised(said) == GOLDEN.read_text()


_OF_THE_DAY = {
    *("QDate", "EnteredCurrentStatus", "Iwd", "Owner", "User", "OsUser", "NTDomain", "CondorVersion", "CondorPlatform"),
    *("ClusterId", "ProcId", "JobSubmitFile", "SubmitterGlobalJobId", "JobSubmitMethod", "ImageSize", "ExecutableSize"),
}


def normalised(said: str) -> str:
    pairs = (line.partition("=") for line in said.splitlines())
    kept = {name.strip(): value.strip() for name, middle, value in pairs if middle and name.strip() not in _OF_THE_DAY}
    return "".join(f"{name}={kept[name]}\n" for name in sorted(kept))


@pytest.fixture
def render() -> Callable[[dict[str, Any]], str]:
    from pathlib import PurePosixPath

    from armada.config.hosts import Host
    from armada.config.profiles import load_profile
    from armada.config.tasks.experiment import Resources
    from armada.launch.engines import htcondor
    from armada.launch.engines.request import job_request
    from armada.paths import HomePaths, HostPaths

    def make(settings: dict[str, Any]) -> str:
        host = Host.model_validate({"name": "pool", "ssh": "pool", "scheduler": "htcondor", "htcondor": settings})
        assert host.htcondor is not None
        request = job_request(
            host,
            HostPaths(PurePosixPath("/scratch/me")),
            load_profile("a100-80gb-8x", HomePaths(Path("/nonexistent"), Path("/nonexistent"))),
            Resources(memory="64G", disk="100G"),
            run_id="run-1",
            gpus=2,
            processes=2,
            grace_s=60.0,
            agent_sha="ab" * 32,
        )
        return htcondor.render(request, host.htcondor)["launch/job.sub"]

    return make
