"""What is said of a host of which everything is at home, or something is not."""

from __future__ import annotations

import pytest

from armada.sync.release.words import nothing_lost, something_lost


@pytest.mark.parametrize("scheduler", ["direct", "slurm"])
def test_this_machine_has_home_on_it_and_is_never_said_to_be_destroyed(scheduler: str) -> None:
    words = nothing_lost("local", scheduler, is_local=True)
    assert words == "local is this machine, where home is: nothing waits there to come home"
    words = something_lost("local", scheduler, "2 things", is_local=True)
    assert words == "local is this machine, where home is; not everything is at home: a wipe would lose 2 things"


def test_of_another_host_it_is_said_whether_it_can_be_destroyed() -> None:
    assert nothing_lost("box", "direct", is_local=False) == "box can be destroyed: nothing would be lost"
    words = "box must not be destroyed yet: this would be lost"
    assert something_lost("box", "direct", "this", is_local=False) == words
