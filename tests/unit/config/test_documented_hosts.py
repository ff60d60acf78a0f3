"""The worked hosts of docs/how-to/clusters.md are read as a person would paste them."""

from __future__ import annotations

import re
from pathlib import Path

from armada.config.hosts import Host, load_hosts
from armada.config.profiles import load_profile
from armada.config.schedulers import BatchSettings, HtcondorSettings, SlurmSettings
from armada.paths import HomePaths

DOCS = Path(__file__).parents[3] / "docs"
BLOCKS = re.findall(r"```yaml\n(.*?)```", (DOCS / "how-to" / "clusters.md").read_text("utf-8"), re.DOTALL)


def test_every_worked_host_is_accepted_with_its_profile(tmp_path: Path) -> None:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    home.profiles.mkdir(parents=True)
    hosts: dict[str, Host] = {}
    for block in BLOCKS:
        if named := re.match(r"# profiles/(\S+)\.yaml\n", block):
            (home.profiles / f"{named[1]}.yaml").write_text(block)
        else:
            home.hosts_file.write_text(block)
            hosts |= load_hosts(home)
    assert set(hosts) == {"local", "pool", "leonardo", "leonardo-serial", "lab"}
    assert {host.scheduler for host in hosts.values()} == {"direct", "htcondor", "slurm"}
    assert [host.name for host in hosts.values() if host.has_internet] == ["local", "lab"]
    assert load_profile("leonardo", home).gpus.count == 4
    for host in hosts.values():
        assert host.profile is None or load_profile(host.profile, home)


def test_every_key_of_a_cluster_is_documented() -> None:
    text = (DOCS / "how-to" / "clusters.md").read_text("utf-8")
    keys = {key for kind in (BatchSettings, SlurmSettings, HtcondorSettings) for key in kind.model_fields}
    keys |= {"scheduler", "profile", "internet", "quota"}
    assert {key for key in keys if not re.search(rf"^\|[^|]*`{key}`", text, re.MULTILINE)} == set()


def test_every_key_of_a_host_is_documented() -> None:
    text = (DOCS / "reference" / "experiments.md").read_text("utf-8")
    keys = set(Host.model_fields) - {"name", "origin", "transport", "local"}
    assert {key for key in keys if not re.search(rf"^\|[^|]*`{key}`", text, re.MULTILINE)} == set()
