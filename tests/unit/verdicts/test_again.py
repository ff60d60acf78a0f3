"""Whether a lost run may be run again by itself."""

from __future__ import annotations

import pytest
from armada_agent.verdicts import doubt

from armada.verdicts.again import announces, is_copied, may_have_succeeded, resumes_from, resuming_words


@pytest.mark.parametrize(
    ("said", "reason", "judged"),
    [
        (True, "host_rebooted", True),
        (False, "supervisor_lost", False),
        (None, "host_rebooted", True),  # an older agent does not say whether a training's final checkpoint is there
        (None, "supervisor_lost", True),
        ("no", "supervisor_lost", True),
    ],
)
def test_only_the_hosts_word_rules_a_success_out(said: object, reason: str | None, judged: bool) -> None:
    assert may_have_succeeded(said, reason, is_announcing=False, rebooted=False) is judged


@pytest.mark.parametrize(("is_announcing", "judged"), [(False, True), (True, False)])
def test_a_restart_says_nothing_of_a_script_that_was_lost_before_it(is_announcing: bool, judged: bool) -> None:
    assert may_have_succeeded(False, "supervisor_lost", is_announcing=is_announcing, rebooted=True) is judged
    assert may_have_succeeded(False, "host_rebooted", is_announcing=is_announcing, rebooted=True) is False


@pytest.mark.parametrize(
    ("spec", "steps", "words"),
    [
        ({}, [10, 30, 20], "from step 30"),
        ({"watch": None}, [], "from its beginning"),
        ({"watch": {"checkpoints": {"pattern": "*"}, "resume": ["--resume", "{checkpoint}"]}}, [30], "from step 30"),
        ({"watch": {"checkpoints": {"pattern": "*"}, "resume": []}}, [30], "from its beginning"),
    ],
)
def test_a_job_that_is_told_of_no_checkpoint_is_said_to_begin_anew(
    spec: dict[str, object], steps: list[int], words: str
) -> None:
    assert resuming_words(resumes_from(spec, steps)) == words


@pytest.mark.parametrize(
    ("spec", "judged"),
    [
        ({"task": "sft"}, True),
        ({"task": "merge"}, True),
        ({}, True),  # of the first release
        ({"task": "prepare"}, False),
        ({"task": "bench"}, False),
        ({"task": "script", "watch": {"quiet_s": 60}}, False),
    ],
)
def test_what_writes_no_checkpoint_announces_none(spec: dict[str, object], judged: bool) -> None:
    assert announces(spec) is judged
    assert doubt.announces(spec) is judged


@pytest.mark.parametrize(
    ("launcher", "is_within", "copied"), [("a", True, True), ("a", False, False), ("b", True, False)]
)
def test_a_run_within_a_home_that_another_home_launched_is_a_copy(launcher: str, is_within: bool, copied: bool) -> None:
    assert is_copied(launcher, "b", is_within=is_within) == copied
