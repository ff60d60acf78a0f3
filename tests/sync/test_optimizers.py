"""Optimizer states under `include_optimizer: last`: the newest that can be had stays, whatever becomes of newer checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path
from unittest import mock

import pytest

from armada.cli.main import run
from armada.store import checkpoints
from armada.sync.checkpoints import apply_retention, optimizers, published
from armada.sync.checkpoints.published import PARTIAL
from armada.sync.context import HostContext
from armada.sync.release.judge import judge_host, losses
from armada.sync.runs.preview import preview
from tests.sync.conftest import OPTIMIZER, Place

STATE = OPTIMIZER["optimizer.pt"]


@pytest.fixture
def last(place: Place) -> Place:
    place.create(include_optimizer="last", keep_remote=5)
    return place


def states(place: Place) -> dict[str, bytes]:
    """The optimizer states at home, by their checkpoint."""
    return {path.parent.name: path.read_bytes() for path in place.published.glob("checkpoint-*/optimizer.pt")}


def change(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(b"x" * path.stat().st_size)


def clear_outbox(place: Place) -> None:
    shutil.rmtree(place.remote / "outbox")
    (place.remote / "outbox").mkdir()


@pytest.mark.fault("the newest optimizer state at home changes, and the host has it no more", "the older one stays")
def test_an_older_one_stays_while_the_newest_is_not_what_it_was(last: Place) -> None:
    last.save(1, {"model": b"1", **OPTIMIZER})
    last.sync()
    last.save(2, {"model": b"2", **OPTIMIZER, "optimizer.pt": b"p" * 50})  # equal files would be one file
    with (
        mock.patch.object(apply_retention, "retain_home", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        last.sync()  # killed once the second one was home
    change(last.published / "checkpoint-2" / "optimizer.pt")
    clear_outbox(last)
    last.sync()
    assert states(last)["checkpoint-1"] == STATE
    (damaged,) = (c for c in checkpoints.of_run(last.database, last.run_id) if c.trouble)
    assert (damaged.step, str(damaged.trouble)[:15]) == (2, "damaged at home")


def test_a_newer_checkpoint_without_one_takes_nothing_away(last: Place) -> None:
    for step in (1, 2):
        last.save(step, {"model": b"%d" % step, **OPTIMIZER})
        last.sync()
    last.save(3, {"model": b"3"})  # the model alone, at the end
    last.sync()
    assert states(last) == {"checkpoint-2": STATE}


def test_a_newer_checkpoint_that_never_comes_takes_nothing_away(last: Place) -> None:
    last.save(1, {"model": b"1", **OPTIMIZER})
    bad = last.save(2, {"model": b"2", **OPTIMIZER})
    (last.remote / "outbox" / bad / "model").write_bytes(b"x")
    last.sync()
    assert last.home_steps() == [1]
    assert states(last) == {"checkpoint-1": STATE}
    assert not (last.published / "checkpoint-1" / PARTIAL).exists()


def test_one_that_vanished_on_its_host_does_not_count_as_newer(last: Place) -> None:
    last.save(1, {"model": b"1", **OPTIMIZER})
    newer = last.save(2, {"model": b"2", **OPTIMIZER})
    with mock.patch.object(apply_retention, "wanted", return_value=[]):
        last.sync()  # both are known now
    shutil.rmtree(last.remote / "outbox" / newer)
    last.sync()
    assert states(last) == {"checkpoint-1": STATE}


def test_a_host_that_alone_has_the_newest_is_not_let_go(last: Place) -> None:
    last.save(1, {"model": b"1", **OPTIMIZER})
    last.sync()
    published.strip(last.published / "checkpoint-1", sorted(OPTIMIZER))  # as a newer one may have had it done
    assert [(item.what, item.hint) for item in losses(judge_host(last.context))] == [
        (
            "checkpoint-1 is at home without its optimizer state, which a resume needs",
            "armada pull tune-1 --checkpoint 1",
        )
    ]
    last.sync()
    assert losses(judge_host(last.context)) == []
    assert states(last) == {"checkpoint-1": STATE}


def test_a_state_that_does_not_come_is_reported_and_harms_nothing_here(last: Place) -> None:
    digest = last.save(1, {"model": b"1", **OPTIMIZER})
    last.sync()
    published.strip(last.published / "checkpoint-1", sorted(OPTIMIZER))
    (last.remote / "outbox" / digest / "optimizer.pt").write_bytes(b"x" * 50)
    (trouble,) = last.sync().troubles
    assert "optimizer.pt is damaged on the host too" in str(trouble.error)
    (checkpoint,) = checkpoints.of_run(last.database, last.run_id)
    assert checkpoint.trouble is None
    assert states(last) == {}


def test_what_has_to_be_read_is_told(last: Place) -> None:
    for step in (1, 2):
        last.save(step, {"model": b"%d" % step, **OPTIMIZER})
    last.sync()
    told = mock.Mock()
    assert losses(judge_host(last.context, progress=told)) == []
    told.now.assert_not_called()  # all of it was read when it came
    change(last.published / "checkpoint-2" / "model")
    assert len(losses(judge_host(last.context, progress=told))) == 1
    told.now.assert_called_once_with("reading", "tune-1: checkpoint-2/model")


def test_what_would_go_is_listed_before_it_goes(
    last: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    last.save(1, {"model": b"1", **OPTIMIZER})
    last.sync()
    last.save(2, {"model": b"2", **OPTIMIZER, "optimizer.pt": b"p" * 50})
    (seen,) = preview(HostContext(last.database, last.session, last.home), [last.run_id])
    assert (seen.deleted_home, seen.optimizers_home) == ((), (1,))
    with mock.patch.object(optimizers, "shrink"):
        last.sync()  # killed before the older one's state went
    monkeypatch.setenv("ARMADA_NO_DAEMON", "1")
    assert run(["sync", "retention", "--dry-run"]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if "optimizer state" in line)
    assert row.split()[1:3] == ["home", "1"]
    assert set(states(last)) == {"checkpoint-1", "checkpoint-2"}
    assert run(["sync", "retention"]) == 0
    assert set(states(last)) == {"checkpoint-2"}


def test_of_several_that_come_only_what_is_here_is_listed(last: Place) -> None:
    for step in (1, 2, 3):
        last.save(step, {"model": b"%d" % step, **OPTIMIZER, "optimizer.pt": b"%d" % step * 50})
        if step == 1:
            last.sync()
    (seen,) = preview(HostContext(last.database, last.session, last.home), [last.run_id])
    assert ([c.step for c in seen.checkpoints], seen.optimizers_home) == ([2, 3], (1,))


def test_an_older_state_that_is_damaged_goes_all_the_same(last: Place) -> None:
    last.save(1, {"model": b"1", **OPTIMIZER})
    last.sync()
    change(last.published / "checkpoint-1" / "optimizer.pt")
    last.save(2, {"model": b"2", **OPTIMIZER, "optimizer.pt": b"p" * 50})
    last.sync()
    assert set(states(last)) == {"checkpoint-2"}


def test_nothing_is_read_where_none_is_to_go(last: Place) -> None:
    last.save(1, {"model": b"1", **OPTIMIZER})
    last.sync()
    with mock.patch.object(optimizers, "Prover", side_effect=AssertionError):
        optimizers.shrink(last.database, last.run_id)
    assert set(states(last)) == {"checkpoint-1"}


@pytest.mark.parametrize(("wanted", "come"), [(True, {1, 2}), ("last", {2}), (False, set())])
def test_the_settings_say_which_states_come(place: Place, wanted: bool | str, come: set[int]) -> None:
    place.create(include_optimizer=wanted, keep_remote=5)
    for step in (1, 2):
        place.save(step, {"model": b"%d" % step, **OPTIMIZER, "optimizer.pt": b"%d" % step * 50})
    place.sync()
    assert set(states(place)) == {f"checkpoint-{step}" for step in come}


def test_a_checkpoint_of_nothing_else_comes_whole(place: Place) -> None:
    place.create(include_optimizer=False)
    place.save(1, OPTIMIZER)
    place.sync()
    assert states(place) == {"checkpoint-1": STATE}
