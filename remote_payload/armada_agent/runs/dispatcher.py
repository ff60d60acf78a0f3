"""Start the cells of a sweep one after the other, so that at most `parallel` of them run at once on this host.

Each cell is a run with a claim of its own. The dispatcher only starts supervisors; job.json decides that each cell
starts once, however often a dispatcher is killed and started again. A killed dispatcher stops nothing: what runs goes
on, what waits goes on waiting until home asks for another dispatcher (`sweep.tend`).
"""

import os
import signal
import sys
import time
from typing import Dict, List, Optional, Set, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.foundation.log import say
from armada_agent.host import detached, processes
from armada_agent.paths import RunPaths, SweepPaths, list_folder
from armada_agent.records.place import is_gone
from armada_agent.records.stop_request import concerns, read_stop_request
from armada_agent.runs import submissions
from armada_agent.runs.observation import Evidence

_TICK_S = 0.5
_PREDECESSOR_S = 10.0
_START_S = 30.0
_MOST_STARTS = 3

WAITING, ACTIVE, OVER, UNCLAIMED = "waiting", "active", "over", "unclaimed"
UNATTENDED = "unattended"
"""Its supervisor is gone and recorded no end. Its job may live, and then it keeps its place."""

_GONE_LOOKS = 2
"""A process in the middle of exec shows no environment."""


class Plan:
    """The cells of a sweep on this host, as cells.json lists them.

    Attributes:
        cells: Ids of runs, in the order in which they start.
        parallel: How many of them run at once.
        exported: What the host's `setup:` lines export.
    """

    def __init__(self, cells: List[str], parallel: int, exported: Dict[str, str]) -> None:
        self.cells = cells
        self.parallel = parallel
        self.exported = exported


def read_plan(sweep: SweepPaths) -> Optional[Plan]:
    """Read cells.json; None if the sweep is not on this host.

    Raises:
        files.UnreadableError: It is damaged.
    """
    told = files.read_json(sweep.cells)
    if told is None:
        return None
    cells, parallel, exported = told.get("cells"), told.get("parallel"), told.get("exported")
    if not isinstance(cells, list) or not all(isinstance(each, str) for each in cells):
        raise files.UnreadableError("cells.json lists no runs")
    if not isinstance(parallel, int) or isinstance(parallel, bool) or parallel < 1:
        raise files.UnreadableError("cells.json has no `parallel`")
    known = exported if isinstance(exported, dict) else {}
    return Plan(cells, parallel, {name: value for name, value in known.items() if isinstance(value, str)})


def standing(paths: RunPaths) -> str:
    """Return whether a cell waits for its start, is active, unattended, not claimed yet, or needs nothing from a dispatcher.

    Raises:
        OSError, files.UnseenError: Its records cannot be seen now.
    """
    if is_gone(paths):
        return OVER  # it was removed
    evidence = Evidence(paths, [])
    number = evidence.submission_number
    if number is None or not evidence.claimed:
        return UNCLAIMED  # home is handing it over
    if evidence.has_ended:
        return OVER
    supervisor = evidence.supervisor
    if evidence.lacks_end:
        return UNATTENDED  # its job ended: it needs no place
    if supervisor != "none":
        return ACTIVE if supervisor in ("alive", "unknown") else UNATTENDED
    stop_request = read_stop_request(paths)
    is_stopped = stop_request is not None and concerns(stop_request, number)
    return OVER if is_stopped or number != 1 else WAITING


def find_alive(root: str) -> List[str]:
    """List the sweeps below a root whose dispatchers live."""
    found = []
    for name in list_folder(os.path.join(root, "sweeps")):
        try:
            sweep = SweepPaths(root, name)
        except AgentError:
            continue
        if files.is_locked(sweep.dispatcher_lock):
            found.append(name)
    return found


class Dispatcher:
    """Starts what waits while there is room.

    Args:
        sweep: The sweep's files.
        agent_path: The agent's program.
    """

    def __init__(self, sweep: SweepPaths, agent_path: str) -> None:
        self._sweep = sweep
        self._agent_path = agent_path
        self._over: Set[str] = set()
        self._active: Set[str] = set()
        self._has_looked = False
        self._starting: Dict[str, Tuple[float, int]] = {}
        self._gone: Dict[str, int] = {}
        self._table: Optional[List[processes.Process]] = None

    def step(self, now: float) -> bool:
        """Look at all cells once and start what there is room for.

        Args:
            now: Seconds of a monotonic clock.

        Returns:
            Whether cells still wait.
        """
        plan = read_plan(self._sweep)
        if plan is None:
            return False
        waiting: List[str] = []
        more = False
        self._table = None
        for run_id in plan.cells:
            if run_id in self._over:
                continue
            if self._has_looked and run_id not in self._active and len(waiting) >= plan.parallel:
                more = True  # of ten thousand cells, only those are read that run or come next
                continue
            word = self._look(run_id, now)
            (self._active.add if word == ACTIVE else self._active.discard)(run_id)
            if word == OVER:
                self._over.add(run_id)
            waiting += [run_id] if word == WAITING else []
        self._has_looked = True
        for run_id in waiting[: max(0, plan.parallel - len(self._active))]:
            self._start(run_id, plan, now)
            self._active.add(run_id)
        return more or bool(waiting) or bool(self._starting)

    def _look(self, run_id: str, now: float) -> str:
        try:
            paths = RunPaths(self._sweep.root, run_id)
            word = standing(paths)
        except AgentError as error:
            say("%s: %s" % (run_id, error))
            return OVER
        except (
            OSError,
            files.UnseenError,
        ) as error:  # unknown never reads as ended: it keeps its place until it can be read
            say("%s: %s" % (run_id, error))
            return ACTIVE
        if word == UNATTENDED:
            word = self._judge_unattended(paths)
        if word != WAITING:
            self._starting.pop(run_id, None)
            return word
        since, tries = self._starting.get(run_id, (0.0, 0))
        if not tries or now - since < _START_S:
            return ACTIVE if tries else WAITING
        if tries < _MOST_STARTS:
            return WAITING
        return self._give_up(paths)

    def _judge_unattended(self, paths: RunPaths) -> str:
        """Look for the processes of a job without a supervisor. The table of all processes is read once in a step."""
        if self._table is None:
            self._table = processes.scan()
        if Evidence(paths, self._table).processes():
            self._gone.pop(paths.run_id, None)
            return ACTIVE
        looks = self._gone[paths.run_id] = self._gone.get(paths.run_id, 0) + 1
        return OVER if looks >= _GONE_LOOKS else ACTIVE

    def _start(self, run_id: str, plan: Plan, now: float) -> None:
        tries = self._starting.get(run_id, (0.0, 0))[1]
        self._starting[run_id] = (now, tries + 1)
        paths = RunPaths(self._sweep.root, run_id)
        try:
            detached.start("supervise", self._agent_path, paths, 1, plan.exported)
        except OSError as error:  # no memory for another process, or a full disk; tried again later
            say("%s could not be started: %s" % (run_id, error))

    def _give_up(self, paths: RunPaths) -> str:
        words = files.read_tail(paths.supervisor_log, 400).strip() or "it printed nothing"
        message = "its supervisor did not start in %d tries: %s" % (_MOST_STARTS, words)
        try:
            submissions.conclude_unstarted(paths, 1, "never_started", message)
        except OSError as error:
            say("%s: %s" % (paths.run_id, error))
            return ACTIVE  # the disk is full: its end is written later
        self._starting.pop(paths.run_id, None)
        return OVER


def dispatch(root: str, sweep_id: str) -> int:
    """Run a sweep's dispatcher in a process of its own until no cell waits, unless another one does."""
    if os.fork():
        os._exit(0)  # the caller need not wait any longer
    os.umask(0o077)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sweep = SweepPaths(root, sweep_id)
    # Another one that is about to leave would miss cells that came just now: wait for it.
    if files.lock(sweep.dispatcher_lock, timeout_s=_PREDECESSOR_S) is None:
        return 0
    dispatcher = Dispatcher(sweep, sys.argv[0])
    while dispatcher.step(time.monotonic()):
        time.sleep(_TICK_S)
    return 0
