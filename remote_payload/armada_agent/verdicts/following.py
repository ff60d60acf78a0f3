"""Decide whether a run may be submitted again, and whether its secrets may be deleted. Both require that its job has ended.

| of the previous submission                                      | another may follow | secrets may go      |
|-----------------------------------------------------------------|--------------------|---------------------|
| its end was recorded, by its supervisor or by a stop            | yes                | yes                 |
| one of its processes lives here, and no end was recorded        | no                 | no                  |
| its batch system reports its end, and its signs of life are old | yes                | yes                 |
| … and still lists the job, which may be put back into the queue | yes                | no, unless stopped  |
| its batch system keeps answering that it is unknown: a guess    | yes, on request    | no                  |
| its supervisor is dead, and none of its processes lives here    | yes                | no: no recorded end |
| its supervisor lives, or that is unknown                        | no                 | no                  |
| its job's exit with 0 is recorded, or cannot be read; no end    | no                 | no                  |
| nothing has started it yet                                      | no                 | no                  |
| it is later than the requested submission                       | no                 |                     |

Who leaves a host of which nothing would be lost also takes the secrets of runs whose supervisor is dead, of those whose
ended job is still listed, and of those that were never submitted.

None go once a later submission is claimed: they may be its own (`records/forgetting.py`).
"""

from armada_agent.verdicts import liveness


def may_follow(number: int, before: int, has_ended: bool, was_taken: bool, is_dead: bool, processes: int) -> bool:
    """Judge whether submission `number` may begin.

    Args:
        number: Number of the requested submission.
        before: Number of the newest submission.
        has_ended: The end of the newest one is recorded.
        was_taken: A supervisor or scheduler started it.
        is_dead: Its supervisor is dead, or its batch system keeps answering that it is unknown.
        processes: Number of its processes that live here.
    """
    if number < before:
        return False
    return has_ended or (was_taken and is_dead and not processes)


def may_forget_secrets(scheduler_status: str, processes: int, is_listed: bool, is_stopped: bool) -> bool:
    """Judge whether a submission without a recorded end needs its secrets no more.

    Args:
        scheduler_status: What is believed of its batch system. A job that is only gone from the queue may come back.
        processes: Number of its processes that live here.
        is_listed: The batch system still lists the ended job, or may. An administrator can then requeue it.
        is_stopped: A stop was requested: its supervisor refuses to start the job again.
    """
    return scheduler_status == liveness.ENDED and not processes and (is_stopped or not is_listed)


def may_release_secrets(has_ended: bool, may_live: bool, leaves: bool) -> bool:
    """Judge whether a release of the host deletes a run's secrets.

    Args:
        has_ended: Its end is recorded, or its batch system reports it, and no longer lists the job.
        may_live: A supervisor or a process of it lives, or may be started.
        leaves: Nothing would be lost with the host. Otherwise a run without a recorded end may still be restarted there.
    """
    return not may_live and (has_ended or leaves)
