"""`armada doctor` after `hosts release --wipe`: nothing of armada's is put back there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conftest import Armada


def test_a_wiped_host_stays_empty(armada: Armada) -> None:
    armada.json("hosts", "release", "local", "--wipe", "--yes")
    root = armada.local_runs.parent
    assert not root.exists()
    everybody = armada.json("doctor")
    [report] = everybody["hosts"]
    [finding] = report["findings"]
    assert (finding["outcome"], report["exit_code"]) == ("ok", 0)
    assert finding["message"].startswith("not asked: this home deleted everything there on ")
    assert not root.exists()
    named = armada.json("doctor", "local")
    [report] = named["hosts"]
    assert [finding["outcome"] for finding in report["findings"]] == ["ok", "ok"]
    assert "nothing of armada's is there: this home deleted everything there on" in report["findings"][1]["message"]
    assert not root.exists()
