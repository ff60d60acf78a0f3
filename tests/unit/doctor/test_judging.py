"""Every row of the doctor's judgement: what a host says, what a person is told, and what to do about it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from armada.config.hosts import Host
from armada.doctor.findings import Finding
from armada.doctor.host import examine, judge
from armada.doctor.measure import Measured
from armada.paths import HomePaths
from armada.protocol.host import Examination
from armada.protocol.scheduler import ClusterQueue
from armada.rpc.session import HostSession
from tests import host_facts
from tests.answers import Answering
from tests.host_facts import IDENTITY, TOOLS

HOST = Host(name="box", ssh="me@box")
LINK = Measured(0.02, (0.018, 0.3), 0.004, 5e6, 2e6, limited=False)
FOLDER: dict[str, Any] = {
    "path": "/home/me/.armada", "kind": "ext4", "is_shared": False, "options": [], "is_writable": True,
    "free_bytes": 9 * 10**11, "total_bytes": 10**12, "free_inodes": 10**7, "total_inodes": 10**8, "problem": None, "has_locks": True,
}  # fmt: skip
SEEN: dict[str, Any] = {
    "shell": "/bin/bash", "umask": "0022", "variables": {}, "root": FOLDER, "home": FOLDER, "tmp": FOLDER, "quota": None,
    "max_sessions": None, "max_startups": None, "ends_processes_at_logout": False,
    "leftovers": {"count": 0, "size_bytes": 0, "names": []}, "identity": IDENTITY,
}  # fmt: skip


def found(
    seen: dict[str, Any] | None = None,
    facts: dict[str, Any] | None = None,
    link: Measured = LINK,
    host: Host = HOST,
    **more: Any,
) -> list[Finding]:
    whole = copy.deepcopy(SEEN)
    for key, value in (seen or {}).items():
        place, _, name = key.partition(".")
        if name:
            whole[place] = {**whole[place], name: value}
        else:
            whole[place] = value
    return judge(host, host_facts.facts(**(facts or {})), Examination.model_validate(whole), link, **more)


def test_a_host_in_order_has_nothing_to_mend() -> None:
    assert {finding.outcome for finding in found()} == {"ok"}
    (connection,) = (finding for finding in found() if finding.subject == "connection")
    assert "20.0 ms (median of 7, 18.0 ms to 300 ms), 5.0 MB/s from it, 2.0 MB/s to it" in connection.message


@pytest.mark.parametrize(
    ("changed", "subject", "outcome", "says", "remedy"),
    [
        ({"seen": {"root.problem": "programs there do not run: Permission denied"}}, "root", "fail", "do not run", "root:"),
        ({"seen": {"root.is_shared": True, "root.kind": "nfs4"}}, "root", "warn", "nfs4", "local disk"),
        ({"seen": {"root.free_bytes": 10**9}}, "disk", "warn", "1.0 GB of", "du -xh"),
        ({"seen": {"root.free_inodes": 100}}, "inodes", "warn", "100 of", "du --inodes"),
        ({"seen": {"root.has_locks": False}}, "locks", "warn", "no locks", "local_lock=flock"),
        ({"seen": {"home.options": ["ro"]}}, "home folder", "warn", "is not writable", "HF_HOME"),
        ({"seen": {"tmp.is_writable": False}}, "tmp", "warn", "cannot be written", "TMPDIR"),
        ({"seen": {"variables": {"LD_LIBRARY_PATH": "/x"}}}, "libraries", "warn", "=/x is set", "LD_LIBRARY_PATH"),
        ({"seen": {"variables": {"ARMADA_LEFT_OUT": "/y"}}}, "libraries", "warn", "=/y keeps", "start-up files"),
        ({"seen": {"variables": {"LD_PRELOAD": "/z.so"}}}, "libraries", "warn", "LD_PRELOAD=/z.so", "LD_PRELOAD"),
        ({"seen": {"variables": {"CONDA_PREFIX": "/c", "CONDA_DEFAULT_ENV": "base"}}}, "conda", "warn", "base is active",
         "auto_activate_base"),
        ({"seen": {"max_sessions": 1}}, "sshd", "warn", "MaxSessions 1", "sshd_config"),
        ({"seen": {"ends_processes_at_logout": True}}, "logout", "fail", "KillUserProcesses", "loginctl enable-linger"),
        ({"seen": {"leftovers": {"count": 2, "size_bytes": 5, "names": ["code/.new-1"]}}}, "leftovers", "warn",
         "code/.new-1", "find /home/me/.armada"),
        ({"seen": {"quota": "Disk quotas\n  /dev/sda1 100* 90 95"}}, "quota", "warn", "100*", "quota -s"),
        ({"facts": {"doubts": ["/scratch can be written by group lab"]}}, "owners", "warn", "group lab", "`root:`"),
        ({"facts": {"setup": "setup line 1 failed"}}, "setup", "fail", "line 1", "`setup:` of box"),
        ({"facts": {"tools": {**TOOLS, "rsync": None}}}, "rsync", "warn", "tar stream", "apt-get install rsync"),
        ({"facts": {"tools": {**TOOLS, "rsync": "3.0.9"}}}, "rsync", "warn", "older than 3.1", "apt-get install rsync"),
        ({"link": Measured(0.02, (0.01, 0.03), 7200.0, 1.0, 1.0, limited=True)}, "clock", "warn", "2 h 00 m ahead", "set-ntp"),
        ({"link": Measured(0.02, (0.01, 0.03), -7200.0, 1.0, 1.0, limited=True)}, "clock", "warn", "2 h 00 m behind", "set-ntp"),
        ({"noise": "Welcome"}, "shell", "warn", "print 7 bytes", ".bashrc"),
    ],
)  # fmt: skip
def test_each_trouble_is_said_with_its_remedy(
    changed: dict[str, Any], subject: str, outcome: str, says: str, remedy: str
) -> None:
    troubles = [finding for finding in found(**changed) if finding.outcome != "ok"]
    assert [(finding.subject, finding.outcome) for finding in troubles] == [(subject, outcome)]
    assert says in troubles[0].message
    assert remedy in (troubles[0].remedy or "")


def test_a_batch_system_that_is_silent_is_a_failure_and_a_local_root_on_a_cluster_a_question() -> None:
    cluster = Host(name="hpc", ssh="me@hpc", scheduler="slurm")
    troubles = {
        f.subject: f for f in found(host=cluster, queue=ClusterQueue(error="slurmctld: timed out")) if f.outcome != "ok"
    }
    assert set(troubles) == {"root", "batch system"}
    assert troubles["batch system"].outcome == "fail"
    assert "timed out" in troubles["batch system"].message
    shared = found({"root.is_shared": True}, host=cluster, queue=ClusterQueue())
    assert {finding.outcome for finding in shared} == {"ok"}


@pytest.mark.parametrize(
    ("scheduler", "remedy"),
    [
        ("slurm", "srun ls -d /home/me/.armada  # on the host"),
        (
            "htcondor",
            "condor_submit -interactive  # on the host; then, on the worker that you get: ls -d /home/me/.armada",
        ),
    ],
)
def test_whether_workers_see_the_root_is_asked_with_the_clusters_own_command(scheduler: str, remedy: str) -> None:
    cluster = Host.model_validate({"name": "hpc", "ssh": "me@hpc", "scheduler": scheduler})
    (root,) = (finding for finding in found(host=cluster, queue=ClusterQueue()) if finding.subject == "root")
    assert root.remedy == remedy


def test_what_a_host_says_is_inert_in_messages_and_in_commands_to_paste() -> None:
    evil = "/x'; rm -rf ~; '\x1b]52;c;!\x07"
    said = found({"root.path": evil, "root.free_bytes": 10**6, "shell": evil, "variables": {"LD_LIBRARY_PATH": evil}})
    for finding in said:
        assert "\x1b" not in finding.message + (finding.remedy or "")
    (disk,) = (finding for finding in said if finding.subject == "disk")
    assert "--max-depth=2 '/x'\"'\"'; rm -rf ~; '\"'\"'" in str(disk.remedy)


def test_an_answer_out_of_shape_is_a_finding_and_no_end_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    home.make()
    answers: dict[str, dict[str, Any]] = {"host.facts": {"user": 7}, "host.examine": {}, "host.probe": {"time": "soon"}}
    answering = Answering()
    monkeypatch.setattr(answering, "said", lambda method, _params, **_options: answers[method])
    monkeypatch.setattr(HostSession, "call", lambda _self, request, **options: answering.call(request, **options))
    report = examine(Host(name="local", local=True), home, lambda _: None)
    assert (report.exit_code, [finding.subject for finding in report.findings]) == (3, ["agent"])
