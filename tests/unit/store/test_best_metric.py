"""What runs say of their best, as the store holds their plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from armada.foundation.metric_goals import BestBy
from armada.store import runs
from armada.store.best_metric import best_by, common_best, stated_best
from armada.store.database import Database


def spec(best: Any) -> dict[str, Any]:
    return {"training": {"train": {"best_metric": best}}}


@pytest.mark.parametrize("best", [None, 3, {"name": "eval_x"}, {"name": 4, "goal": "max"}, {"name": "x", "goal": "up"}])
def test_a_plan_that_does_not_say_it_means_the_evaluation_loss(best: Any) -> None:
    assert stated_best(spec(best)) is None


def test_runs_that_agree_have_a_common_best_and_others_have_none(tmp_path: Path) -> None:
    said = {"name": "eval_wer", "goal": "max"}
    with Database(tmp_path / "store.db") as database:
        for name, best in (("a", said), ("b", said), ("c", None)):
            runs.insert(database, run_id=name, name=name, host="h", task="sft", experiment=None, spec=spec(best))
        assert best_by(database, "a") == BestBy("eval_wer", "max")
        assert best_by(database, "c") == BestBy("eval_loss", "min")
        assert common_best(database, ["a", "b"]) == BestBy("eval_wer", "max")
        assert common_best(database, ["a", "b", "c"]) is None
        assert common_best(database, []) is None
