"""What Runs says before the first launch."""

from __future__ import annotations

FIRST_START = """
  Nothing has been launched yet. To begin:

    n          launch an experiment; `quickstart` on the host `local`
               trains a tiny model here, in about a minute
    3, then a  add a GPU box

  The same in a terminal:

    armada launch --host local quickstart --follow
    armada hosts add NAME user@address:port

  ? lists all keys, q leaves.
"""
