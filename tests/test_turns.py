"""Which tests a worker is given next: groups, files of trainings for few workers, what waits for the others, then the rest."""

from __future__ import annotations

from tests.plugins.turns import choose

TRAININGS, HOSTS, REST = "tests/payload/test_a.py", "tests/fleet/test_b.py::test_c", "tests/unit/test_d.py::test_e"


def units(*names: str, tests: int = 1) -> dict[str, dict[str, bool]]:
    return {name: dict.fromkeys(map(str, range(tests)), False) for name in names}


def test_groups_come_first_and_the_largest_before_all() -> None:
    groups = units("slurm") | units("condor", tests=3)
    assert choose(units(REST, HOSTS, TRAININGS) | groups, may_compute=True) == "condor"


def test_a_worker_that_computes_goes_on_with_files_of_trainings() -> None:
    assert choose(units(REST, HOSTS, TRAININGS), may_compute=True) == TRAININGS


def test_the_other_workers_take_what_waits_and_then_the_rest() -> None:
    assert choose(units(REST, TRAININGS, HOSTS), may_compute=False) == HOSTS
    assert choose(units(TRAININGS, REST), may_compute=False) == REST


def test_nobody_is_idle_while_trainings_are_left() -> None:
    assert choose(units(TRAININGS), may_compute=False) == TRAININGS


def test_without_trainings_workers_that_computed_take_what_waits() -> None:
    assert choose(units(REST, HOSTS), may_compute=True) == HOSTS
