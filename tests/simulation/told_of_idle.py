"""Stories of the daemon's idle rule, which say what became of a host's stop command: `no`, or the state of its newest try."""

from __future__ import annotations

TOLD_OF_IDLE = {
    "a host that is idle is stopped": (
        "launch save tick daemon=no end tick sync=final daemon=no pause:16 daemon=no pause:16 daemon=no pause:16 "
        "daemon=asked pause:1 daemon=gone pause:16 daemon=gone mend_link daemon=no pause:16 daemon=no pause:16 "
        "daemon=no pause:16 daemon=asked"
    ),
    "a host with a job is not stopped": (
        "launch save tick sync=open daemon=no pause:16 daemon=no pause:16 daemon=no pause:16 daemon=no pause:16 "
        "daemon=no"
    ),
    "minutes without a look begin the time anew": (
        "launch end tick sync=final daemon=no pause:16 daemon=no pause:24 daemon=no pause:16 daemon=no pause:16 "
        "daemon=no pause:16 daemon=asked"
    ),
    "silence begins the time anew": (
        "launch end tick sync=final daemon=no pause:16 daemon=no cut_link pause:8 daemon=no mend_link pause:4 "
        "daemon=no pause:16 daemon=no pause:16 daemon=no pause:16 daemon=asked"
    ),
    "a run begins the time anew": (
        "launch end tick sync=final daemon=no pause:16 daemon=no launch daemon=no end tick sync:0:1=final pause:12 "
        "daemon=no pause:16 daemon=no pause:16 daemon=no pause:16 daemon=asked"
    ),
    "a stop that would lose something is refused, and tried again later": (
        "launch save end tick daemon=no pause:16 daemon=no pause:16 daemon=no pause:16 daemon=refused sync=final "
        "daemon=refused pause:2 daemon=refused pause:8 daemon=asked"
    ),
    "a stop command that fails is tried again": (
        "launch end tick sync=final stop_command:1 daemon=no pause:16 daemon=no pause:16 daemon=no pause:16 "
        "daemon=failed pause:2 daemon=failed stop_command pause:8 daemon=asked"
    ),
    "a host that answers after its stop command was not stopped": (
        "launch end tick sync=final stop_command:2 daemon=no pause:16 daemon=no pause:16 daemon=no pause:16 "
        "daemon=asked pause:8 daemon=asked pause:16 daemon=failed pause:8 daemon=asked pause:8 daemon=asked"
    ),
    "a clock that was set back does not put the next try off": (
        "launch end tick sync=final stop_command:1 daemon=no pause:16 daemon=no pause:16 daemon=no pause:16 "
        "daemon=failed set_home_clock:1 stop_command daemon=failed pause:16 daemon=failed pause:16 daemon=failed "
        "pause:16 daemon=asked"
    ),
}
