"""`armada recover` of runs whose plan somebody changed on their host."""

from __future__ import annotations

import json

import pytest

from armada.paths import HomePaths
from armada.store import runs
from armada.store.database import Database
from tests.commands.test_recover import lose
from tests.conftest import Armada


@pytest.mark.fault(
    "a host rewrites the plan of a run before `armada recover`",
    "what it adds to the secrets is not sent, and what home keeps stays home's own",
)
def test_what_a_host_adds_to_a_plan_does_not_count(armada: Armada) -> None:
    home = HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state")
    rules = {"keep_home": {"last": 3, "best": 1, "every_steps": None}}
    armada.env.update(OWN_TOKEN="own", OTHER_TOKEN="other")
    experiment = armada.command("false", secrets=["OWN_TOKEN"], sync=rules)
    run_id = armada.json("launch", "--host", "local", experiment)["run_id"]
    armada.await_end(run_id)
    armada.json("ps")
    lose(home)
    armada.json("recover")
    assert armada.run("resume", run_id).returncode == 0, "a home resumes its own run as before"
    armada.await_end(run_id)
    armada.json("ps")

    file = armada.local_runs / run_id / "spec.json"
    spec = json.loads(file.read_text())
    spec["job"]["secrets"].append("OTHER_TOKEN")
    spec["sync"]["keep_home"] = {"last": 1, "best": 0}
    file.write_text(json.dumps(spec))
    lose(home)
    armada.json("recover")
    with Database(home.store) as database:
        assert runs.spec(database, run_id)["sync"]["keep_home"] == rules["keep_home"]
    refused = armada.run("resume", run_id, "--json")
    assert refused.returncode == 8
    assert "only its host, local, says that it needs these variables of your environment: OTHER_TOKEN" in refused.stderr
    assert f"armada resume {run_id} --secrets OTHER_TOKEN" in refused.stderr
    assert armada.run("resume", run_id, "--secrets", "OTHER_TOKEN").returncode == 0
    armada.await_end(run_id)
