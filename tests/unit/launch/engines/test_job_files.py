"""What batch systems are handed, and what hosts.yaml may add to it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from armada_agent.engines import htcondor

from armada.config.documents import yaml_text
from armada.config.hosts import Host, load_hosts
from armada.config.profiles import load_profile
from armada.config.tasks.experiment import Resources
from armada.errors import ConfigError, PreflightRefused
from armada.launch.engines import htcondor as job_htcondor
from armada.launch.engines import slurm as job_slurm
from armada.launch.engines.request import JobRequest, job_request, time_limit_s
from armada.paths import HomePaths, HostPaths

SLURM = {"partition": "boost_usr_prod", "account": "IscrB_x", "qos": "normal", "setup": ["module load cuda/12.4"]}


def host(scheduler: str, **settings: Any) -> Host:
    return Host.model_validate({"name": "h", "ssh": "h", "scheduler": scheduler, scheduler: settings})


def request(on: Host, home: HomePaths, gpus: int = 0, root: str = "/scratch/me", **resources: Any) -> JobRequest:
    profile = load_profile("a100-80gb-8x" if gpus else "cpu", home)
    return job_request(
        on,
        HostPaths(PurePosixPath(root)),
        profile,
        Resources(**resources),
        run_id="run-1",
        gpus=gpus,
        processes=gpus or 2,
        grace_s=60.0,
        agent_sha="ab" * 32,
    )


@pytest.fixture
def home(tmp_path: Any) -> HomePaths:
    return HomePaths(tmp_path / "config", tmp_path / "state")


def options(script: str) -> dict[str, str]:
    lines = [line.removeprefix("#SBATCH --") for line in script.splitlines() if line.startswith("#SBATCH --")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_the_job_script_asks_for_what_the_run_needs(home: HomePaths) -> None:
    cluster = host("slurm", **SLURM, exclude=["bad1", "bad2"], lines=["#SBATCH --exclusive"])
    asked = request(cluster, home, gpus=4, memory="64G", time_limit="24h")
    script = job_slurm.render(asked, cluster.slurm)["launch/job.sbatch"]  # type: ignore[arg-type]
    found = options(script)
    assert {
        name: found[name] for name in ("gres", "cpus-per-task", "mem", "time", "partition", "account", "exclude")
    } == {
        "gres": "gpu:4",
        "cpus-per-task": "16",
        "mem": "65536M",
        "time": "1440",
        "partition": "boost_usr_prod",
        "account": "IscrB_x",
        "exclude": "bad1,bad2",
    }
    assert found["signal"] == "B:USR1@120"
    assert found["open-mode"] == "append"
    assert {"requeue", "exclusive"} <= set(found)
    assert script.startswith("#!/bin/bash -l\n")
    assert script.index("module load cuda/12.4") < script.index("exec python3 -I /scratch/me/agent/")
    assert script.endswith('--run run-1 --submission "$armada_submission" --job "$SLURM_JOB_ID"\n')
    assert script.index("armada_submission=${1:-1}\n") < script.index("module load cuda/12.4")


@pytest.mark.parametrize(
    ("limit", "warning"), [("1m", "30"), ("2m", "60"), ("150s", "90"), ("4m", "120"), (None, "120")]
)
def test_a_short_time_limit_leaves_half_of_it_for_the_job(home: HomePaths, limit: str | None, warning: str) -> None:
    cluster = host("slurm")
    script = job_slurm.render(request(cluster, home, time_limit=limit), cluster.slurm)["launch/job.sbatch"]  # type: ignore[arg-type]
    assert options(script)["signal"] == f"B:USR1@{warning}"


@pytest.mark.parametrize(
    ("on", "asked", "expected_s"),
    [
        (host("slurm", time_limit="24h"), "2h", 7200.0),
        (host("htcondor", time_limit="24h"), None, 86400.0),
        (host("slurm"), None, None),
        (Host(name="h", ssh="h"), "2h", 7200.0),
        (Host(name="h", ssh="h"), None, None),
    ],
)
def test_the_supervisors_own_clock_is_told_the_limit_on_every_host(
    on: Host, asked: str | None, expected_s: float | None
) -> None:
    assert time_limit_s(on, Resources(time_limit=asked)) == expected_s


def test_gpus_may_be_asked_for_by_node_and_kind(home: HomePaths) -> None:
    cluster = host("slurm", gpus="gpus-per-node", gpu_type="a100")
    found = options(job_slurm.render(request(cluster, home, gpus=2), cluster.slurm)["launch/job.sbatch"])  # type: ignore[arg-type]
    assert (found["gpus-per-node"], "gres" in found) == ("a100:2", False)


def test_the_submit_file_asks_for_what_the_run_needs(home: HomePaths) -> None:
    pool = host(
        "htcondor",
        universe="docker",
        image="me/train:1",
        requirements='TARGET.Machine != "bad"',
        rank="Memory",
        getenv=["WANDB_*", "HF_HOME"],
        max_retries=2,
        time_limit="2d",
        lines=['+ProjectName = "mine"'],
    )
    files = job_htcondor.render(request(pool, home, gpus=8, disk="20G"), pool.htcondor)  # type: ignore[arg-type]
    lines = dict(line.split(" = ", 1) for line in files["launch/job.sub"].splitlines() if " = " in line)
    expected = {
        "universe": "docker",
        "docker_image": "me/train:1",
        "request_gpus": "8",
        "request_cpus": "32",
        "request_memory": "32768MB",
        "request_disk": "20480MB",
        "requirements": 'TARGET.Machine != "bad"',
        "getenv": "WANDB_*, HF_HOME",
        "on_exit_remove": f"ExitCode =!= {htcondor.REQUEUE_EXIT_CODE}",
        "allowed_execute_duration": "172800",
        "My.ArmadaSubmission": '"armada.run-1.$(armada_submission)"',
        "+ProjectName": '"mine"',
        "should_transfer_files": "NO",
    }
    assert {name: lines[name] for name in expected} == expected
    assert "max_retries" not in lines  # whose conditions would be added; the supervisor counts by itself
    assert int(lines["gpus_minimum_memory"]) in range(70_000, 80_000)  # MiB, of 80 GB
    assert files["launch/job.sub"].endswith("queue\n")
    assert files["launch/job.sh"].endswith('--submission "$armada_submission" --job "$armada_job"\n')


def test_a_root_that_job_files_cannot_hold_is_refused(home: HomePaths) -> None:
    cluster = host("slurm")
    with pytest.raises(PreflightRefused, match="root folder cannot be used in job files"):
        request(cluster, home, root="/scratch/my files")


@pytest.mark.parametrize(
    ("scheduler", "settings", "words"),
    [
        ("slurm", {"partition": "a b"}, "one word"),
        ("slurm", {"account": "x\n#SBATCH --wrap=rm"}, "one word"),
        ("slurm", {"lines": ["#SBATCH --output=/dev/null"]}, "decided by armada"),
        ("slurm", {"lines": ["rm -rf /"]}, "must be a line such as"),
        ("slurm", {"setup": ["a\nb"]}, "one line"),
        ("slurm", {"time_limit": "soon"}, "not a duration"),
        ("slurm", {"poll": "10ms"}, "not a duration"),
        ("slurm", {"queue": "x"}, "partition"),
        ("htcondor", {"getenv": ["PATH; rm"]}, "names of variables"),
        ("htcondor", {"lines": ["executable = /bin/evil"]}, "decided elsewhere"),
        ("htcondor", {"lines": ["on_exit_remove = True"]}, "decided elsewhere"),
        ("htcondor", {"lines": ["queue 100"]}, "must be a line such as"),
        ("slurm", {"max_attempts_without_progress": 0}, "max_attempts_without_progress"),
        ("htcondor", {"universe": "docker"}, "needs an `image`"),
        ("htcondor", {"image": "x"}, "needs `universe"),
        ("htcondor", {"requirements": "true\nqueue 5"}, "one line"),
    ],
)
def test_what_hosts_yaml_may_not_say(home: HomePaths, scheduler: str, settings: dict[str, Any], words: str) -> None:
    home.config.mkdir(parents=True)
    entry = {"hosts": {"h": {"ssh": "h", "scheduler": scheduler, scheduler: settings}}}
    home.hosts_file.write_text(yaml_text(entry))
    with pytest.raises(ConfigError) as caught:
        load_hosts(home)
    assert words in f"{caught.value} {caught.value.hint}"
    assert caught.value.line


def test_settings_of_another_scheduler_are_refused() -> None:
    with pytest.raises(ValueError, match="is for `scheduler: slurm`"):
        Host.model_validate({"name": "h", "ssh": "h", "scheduler": "htcondor", "slurm": {}})


@pytest.mark.parametrize(
    ("scheduler", "internet", "expected"), [("direct", None, True), ("slurm", None, False), ("slurm", True, True)]
)
def test_workers_of_a_cluster_have_no_internet_unless_told(
    scheduler: str, internet: bool | None, expected: bool
) -> None:
    assert Host(name="h", ssh="h", scheduler=scheduler, internet=internet).has_internet is expected  # type: ignore[arg-type]


def test_the_script_of_an_array_names_no_run_and_equal_requests_are_one_array(home: HomePaths) -> None:
    cluster = host("slurm", **SLURM)
    script = job_slurm.array_files(request(cluster, home, gpus=4), cluster)["job.sbatch"]
    assert "run-1" not in script
    assert not {"job-name", "chdir", "output", "comment"} & set(options(script))
    assert options(script)["gres"] == "gpu:4"
    assert script.index('cd "/scratch/me/runs/$armada_run"') < script.index("module load cuda/12.4")
    assert script.endswith('--submission 1 --job "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"\n')
    assert script != job_slurm.array_files(request(cluster, home, gpus=2), cluster)["job.sbatch"]


def test_the_submit_file_of_an_array_names_no_run(home: HomePaths) -> None:
    cluster = host("htcondor", requirements="HasGlidein", lines=["+Project = 1"])
    (text,) = job_htcondor.array_files(request(cluster, home), cluster).values()
    assert "run-1" not in text
    assert text.endswith('My.ArmadaArray = "$(armada_array)"\nqueue armada_run from cells.txt\n')
    assert 'My.ArmadaSubmission = "armada.$(armada_run).1"\n' in text
    assert "log = /scratch/me/runs/$(armada_run)/submissions/$(armada_submission)/job.log\n" in text
