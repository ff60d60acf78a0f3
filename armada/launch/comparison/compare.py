"""Plan one experiment for several hosts at once. A host that does not answer delays and hides no other."""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.config.profiles import load_profile
from armada.errors import ArmadaError, HostUnreachable, ProvisionFailed
from armada.launch.comparison.estimate import estimate_plan
from armada.launch.plans.task import Order
from armada.launch.service import launch_of
from armada.protocol.scheduler import AskQueue
from armada.provision.admission import over_budget
from armada.rpc.session import HostSession
from armada.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from armada.config.hosts import Host
    from armada.config.tasks.experiment import Experiment
    from armada.launch.comparison.estimate import RunEstimate
    from armada.launch.plans.plan import Plan
    from armada.paths import HomePaths
    from armada.protocol.scheduler import ClusterQueue

GREETING_S = 20.0
"""A host that has not answered after so many seconds is reported as unreachable."""

REST_S = 60.0
"""Those that have answered get so many seconds more than the last one that was planned."""

QUEUE_S = 20.0
"""How long a batch system may take to say what is free."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is compared.

    Attributes:
        profile: Its name, instead of each host's own.
        name: Instead of the experiment's.
    """

    experiment: Experiment
    home: HomePaths
    profile: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """What the experiment would be on one host: a plan with its estimate, or why there is none.

    Attributes:
        error: Why it cannot be launched there, beside what its checks say; with a plan, its budget is spent.
        queue: What its batch system says of free resources and waiting jobs; None without one, or without an answer.
    """

    host: Host
    plan: Plan | None = None
    estimate: RunEstimate | None = None
    error: ArmadaError | None = None
    queue: ClusterQueue | None = None

    @property
    def refusals(self) -> list[str]:
        """Why the host cannot run it; empty if it can."""
        if self.error is not None:
            return [self.error.message]
        if self.plan is None:
            return ["it was not planned"]
        return [f"{check.code} {check.message}" for check in self.plan.checks if check.outcome == "fail"]

    @property
    def outcome(self) -> str:
        """`possible`, `refused`, or `unreachable`."""
        if isinstance(self.error, HostUnreachable):
            return "unreachable"
        return "refused" if self.refusals else "possible"

    @property
    def exit_code(self) -> int:
        """What a launch there would end with; 0 if nothing is known against it."""
        if self.error is not None:
            return self.error.exit_code
        return 3 if self.refusals else 0


def compare_hosts(
    question: Question,
    hosts: Sequence[Host],
    now: Callable[[str], None] = lambda _: None,
    *,
    greeting_s: float = GREETING_S,
    rest_s: float = REST_S,
) -> tuple[Compared, ...]:
    """Plan an experiment for each host, as `launch --dry-run` does, and estimate the runs. Nothing is started.

    Args:
        question: What is compared.
        hosts: The hosts.
        now: Called with what is awaited.
        greeting_s: How long a host may be silent.
        rest_s: How long a host may take longer than the others.

    Returns:
        One for each host, in their order.

    Raises:
        ConfigError: The experiment, or a file it names, is wrong: no host was asked.
        NotFound: There is no such profile.
    """
    if not hosts:
        return ()
    if question.profile is not None:
        load_profile(question.profile, question.home)
    with Database(question.home.store) as database:
        # What is read at home is the same for all, and its errors are not a host's.
        order = Order(HostSession(hosts[0], question.home), question.home, database, question.profile, question.name)
        found = launch_of(question.experiment, order).task.read_for_all()
    looks = [_Look(question, host, found) for host in hosts]
    _await(looks, now, greeting_s, rest_s)
    return tuple(look.answer.result() for look in looks)


def _await(looks: Sequence[_Look], now: Callable[[str], None], greeting_s: float, rest_s: float) -> None:
    """Wait for the hosts; give up those that are silent, and those that take much longer than the others."""
    silent_at = time.monotonic() + greeting_s
    last: float | None = None
    while waiting := [look for look in looks if not look.answer.done()]:
        now(", ".join(look.host.name for look in waiting))
        ends = [silent_at] if any(not look.has_greeted for look in waiting) else []
        ends += [last + rest_s] if last is not None else []
        pause = max(0.0, min(ends) - time.monotonic()) if ends else None
        done = wait([look.answer for look in waiting], timeout=pause, return_when=FIRST_COMPLETED).done
        moment = time.monotonic()
        if done:
            last = moment
        for look in waiting:
            if not look.has_greeted and moment >= silent_at:
                look.give_up(f"no answer within {greeting_s:g} s")
            elif last is not None and moment >= last + rest_s:
                look.give_up(f"no plan within {rest_s:g} s of the other hosts")


class _Look:
    """The plan for one host, made in a daemon thread, because the host may never answer.

    Attributes:
        answer: The result; an exception of the thread that is no `ArmadaError` is raised by it.
    """

    def __init__(self, question: Question, host: Host, found: Mapping[str, object]) -> None:
        self.host = host
        self.answer: Future[Compared] = Future()
        self._question, self._found = question, found
        self._session = HostSession(host, question.home, patience_s=0)
        self._lock = threading.Lock()
        threading.Thread(target=self._work, name=f"plan for {host.name}", daemon=True).start()

    @property
    def has_greeted(self) -> bool:
        return self._session.has_greeted

    def give_up(self, why: str) -> None:
        """Report the host as unreachable, unless its answer has just come."""
        self._settle(Compared(self.host, error=HostUnreachable(why, host=self.host.name)))
        threading.Thread(target=self._session.close, name=f"closing {self.host.name}", daemon=True).start()

    def _work(self) -> None:
        try:
            found = self._plan()
        except ArmadaError as error:
            found = Compared(self.host, error=error)
        except OSError as error:  # a file at home that was removed meanwhile
            found = Compared(self.host, error=ProvisionFailed(f"{error.filename or 'a file'}: {error.strerror}"))
        except BaseException as error:  # a bug: raised again in the waiting thread
            with self._lock:
                if not self.answer.done():
                    self.answer.set_exception(error)
            return
        self._settle(found)

    def _settle(self, found: Compared) -> None:
        with self._lock:
            if not self.answer.done():
                self.answer.set_result(found)

    def _plan(self) -> Compared:
        question = self._question
        with Database(question.home.store, existing=True) as database, self._session as session:
            order = Order(session, question.home, database, question.profile, question.name)
            launch = launch_of(question.experiment, order)
            launch.task.take_over(self._found)
            plan = launch.plan()
            estimate = estimate_plan(plan, database, question.home)
            spent = over_budget(database, self.host)
            return Compared(self.host, plan, estimate, spent, _ask_queue(session))


def _ask_queue(session: HostSession) -> ClusterQueue | None:
    """Ask a cluster what is free. Without an answer the plan is worth as much, so an error is none."""
    host = session.host
    if host.batch is None or host.scheduler == "direct":
        return None
    try:
        return session.call(AskQueue(scheduler=host.scheduler), timeout_s=QUEUE_S)
    except ArmadaError:
        return None
