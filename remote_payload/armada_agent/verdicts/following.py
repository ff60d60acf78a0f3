"""Decide whether a run may be submitted again, and whether its secrets may be deleted. Both need a job that has ended.

| of the submission before                                            | another may follow | its secrets may go |
|---------------------------------------------------------------------|--------------------|--------------------|
| its end is written, by its supervisor or by whoever stopped it      | yes                | yes                |
| a process of it lives here, and its end is not written             | no                 | no                 |
| its batch system says that it ended, and its signs of life are old  | yes                | yes                |
| its batch system goes on not knowing it: a guess                    | yes: a person asks | no                 |
| its supervisor is dead, and no process of it lives here             | yes                | no: nobody ends    |
| its supervisor lives, or nobody can say                             | no                 | no                 |
| nothing took it up yet                                              | no                 | no                 |
| it is a later one than the one that is asked for                    | no                 |                    |
"""

from armada_agent.verdicts import liveness


def may_follow(number: int, before: int, has_ended: bool, was_taken: bool, is_dead: bool, processes: int) -> bool:
    """Judge whether submission `number` may begin.

    Args:
        number: Of the one that is asked for.
        before: Of the newest there is.
        has_ended: The end of that is written.
        was_taken: Something took it up.
        is_dead: Its supervisor is dead, or its batch system goes on not knowing it.
        processes: How many of its processes live here.
    """
    if number < before:
        return False
    return has_ended or (was_taken and is_dead and not processes)


def may_forget_secrets(scheduler_status: str) -> bool:
    """Judge by what is believed of a batch system's word: a job that is only gone from the queue may come back and need them."""
    return scheduler_status == liveness.ENDED
