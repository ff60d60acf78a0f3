from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armada.config.sync import Kept
from armada.verdicts.retention import Candidate, decide_home, decide_host, decide_optimizers, is_resume_only


def checkpoint(
    step: int, loss: float | None = None, *, home: bool = True, host: bool = True, ack: bool = True
) -> Candidate:
    return Candidate(f"{step:064x}", step, float(step), loss, at_home=home, on_host=host, acknowledged=ack)


def kept_home(candidates: list[Candidate], **kept: object) -> list[int]:
    return [d.candidate.step for d in decide_home(candidates, Kept.model_validate(kept)) if d.keep]


def test_everything_stays_at_home_unless_somebody_says_otherwise() -> None:
    assert kept_home([checkpoint(step) for step in range(20)]) == list(range(20))


def test_each_rule_keeps_its_own() -> None:
    found = [
        checkpoint(step, loss) for step, loss in ((10, 0.9), (20, 0.1), (30, 0.5), (40, 0.4), (50, 0.8), (60, None))
    ]
    assert kept_home(found, last=1, best=0) == [20, 60]
    assert kept_home(found, last=1, best=2) == [20, 40, 60]
    assert kept_home(found, last=2, best=1, every_steps=30) == [20, 30, 50, 60]


def test_a_step_that_two_attempts_saved_counts_once() -> None:
    again = Candidate("f" * 64, 3, 100.0, at_home=True, on_host=True, acknowledged=True)
    found = [checkpoint(1), checkpoint(2), checkpoint(3), again]
    assert kept_home(found, last=2, best=0) == [2, 3, 3]
    assert [d.candidate.step for d in decide_host(found, 2) if d.keep] == [2, 3, 3]


def test_what_a_resumed_run_wrote_last_stays_although_its_steps_are_lower_and_its_host_s_clock_was_set_back() -> None:
    first = [dataclasses.replace(checkpoint(step), attempt=1) for step in (10, 20, 30)]
    second = [
        Candidate("e" * 64, 15, 5.0, at_home=True, on_host=True, acknowledged=True, attempt=2),
        Candidate("f" * 64, 12, 6.0, at_home=True, on_host=True, acknowledged=True, attempt=2),  # a script may go back
    ]
    assert kept_home([*first, *second], last=1, best=0) == [12, 15, 30]
    assert [d.candidate.step for d in decide_host([*first, *second], 1) if d.keep] == [12, 15, 30]
    assert [d.candidate.step for d in decide_optimizers([*first, *second]) if d.keep] == [12, 15, 30]
    assert kept_home(first, last=1, best=0) == [30]


def test_what_home_has_newest_stays_until_a_newer_one_is_really_here() -> None:
    assert kept_home([checkpoint(1), checkpoint(2, home=False)], last=1, best=0) == [1, 2]


def test_what_has_yet_to_come_takes_no_place_among_the_last_or_the_best_here() -> None:
    here = [checkpoint(step, 1.0 / step) for step in (1, 2, 3)]
    coming = [checkpoint(step, 1.0 / step, home=False) for step in (4, 5)]
    assert kept_home([*here, *coming], last=2, best=0) == [2, 3, 4, 5]
    assert kept_home([*here, *coming], last=1, best=2) == [2, 3, 4, 5]
    reasons = {d.candidate.step: d.reason for d in decide_home([*here, *coming], Kept(last=2, best=1))}
    assert reasons[2] == "one of the last 2 at home: a newer one has yet to come"
    came = [checkpoint(step, 1.0 / step) for step in (1, 2, 3, 4, 5)]
    assert kept_home(came, last=2, best=0) == [4, 5]


def test_what_was_asked_for_by_name_stays_at_home() -> None:
    asked = Candidate("a" * 64, 1, 1.0, at_home=True, on_host=True, acknowledged=True, pinned=True)
    assert kept_home([asked, checkpoint(2), checkpoint(3)], last=1, best=0) == [1, 3]


def test_after_a_resume_from_an_earlier_step_the_younger_one_stays() -> None:
    resumed = Candidate("f" * 64, 5, 100.0, at_home=True, on_host=True, acknowledged=True)
    assert kept_home([checkpoint(10), resumed], last=1, best=0) == [5, 10]


def test_the_newest_by_step_and_by_time_keep_their_optimizers_and_what_was_asked_for() -> None:
    asked = Candidate("a" * 64, 1, 1.0, pinned=True)
    resumed = Candidate("f" * 64, 5, 100.0)
    decisions = decide_optimizers([checkpoint(10), asked, checkpoint(3), resumed])
    assert [d.candidate.step for d in decisions if d.keep] == [1, 5, 10]
    assert [d.reason for d in decisions] == [
        "asked for by name", "a newer one has its own", "the newest by time", "the newest: what a resume needs",
    ]  # fmt: skip
    assert decide_optimizers([]) == []


def test_the_host_loses_only_what_is_verified_acknowledged_and_not_needed() -> None:
    found = [
        checkpoint(1),
        checkpoint(2, home=False),
        checkpoint(3, ack=False),
        checkpoint(4, 0.1),
        checkpoint(5),
        checkpoint(6),
    ]
    decisions = {d.candidate.step: d for d in decide_host(found, 1)}
    assert [step for step, decision in decisions.items() if not decision.keep] == [1, 5]
    assert decisions[2].reason == "not verified at home"
    assert "best" in decisions[4].reason


def test_of_a_host_is_decided_only_what_it_has() -> None:
    found = [checkpoint(1), checkpoint(2), checkpoint(3, host=False)]
    decisions = {d.candidate.step: d for d in decide_host(found, 1)}
    assert {step: decision.keep for step, decision in decisions.items()} == {1: False, 2: True}


CANDIDATES = st.lists(
    st.builds(
        Candidate,
        digest=st.text("0123456789abcdef", min_size=64, max_size=64),
        step=st.integers(0, 50),
        created_at=st.floats(0, 1e9),
        loss=st.none() | st.floats(0, 10),
        at_home=st.booleans(),
        on_host=st.booleans(),
        acknowledged=st.booleans(),
    ),
    unique_by=lambda c: c.digest,
    max_size=30,
)


@given(CANDIDATES, st.integers(1, 5), st.integers(0, 5))
def test_no_setting_ever_deletes_the_newest_the_best_or_what_is_only_there(
    candidates: list[Candidate], last: int, best: int
) -> None:
    home = {d.candidate.digest: d.keep for d in decide_home(candidates, Kept(last=last, best=best))}
    host = {d.candidate.digest: d.keep for d in decide_host(candidates, last)}
    for keep in (home, host):
        here = [c for c in candidates if c.digest in keep and (c.on_host if keep is host else c.at_home)]
        if here:
            assert keep[max(here, key=lambda c: (c.step, c.created_at, c.digest)).digest]
        measured = [c for c in here if c.loss is not None]
        if measured and keep is home:
            assert keep[min(measured, key=lambda c: (c.loss, c.step, c.created_at, c.digest)).digest]
    assert all(host[c.digest] for c in candidates if c.on_host and not (c.at_home and c.acknowledged))


@pytest.mark.parametrize(
    ("path", "resume"),
    [
        ("optimizer.pt", True),
        ("optimizer.bin", True),
        ("scheduler.pt", True),
        ("rng_state_3.pth", True),
        ("global_step100/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", True),
        ("optimizer_0/__0_0.distcp", True),
        ("model.safetensors", False),
        ("adapter_model.safetensors", False),
        ("my_optimizer_notes.txt", False),
        ("trainer_state.json", False),
    ],
)
def test_files_that_serve_only_to_train_on_are_known_by_their_names(path: str, resume: bool) -> None:
    assert is_resume_only(path) is resume
