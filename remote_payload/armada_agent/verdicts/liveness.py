"""Decide what to believe if a batch system and the job's own records disagree.

Evidence ranks: first what the supervisor wrote, then fresh signs of life, then the scheduler. A job has begun once its
supervisor wrote so, until it writes that it left. Its signs of life are its own files, which change every ten seconds.
That its successor wrote its end shows nothing: it may go on where nobody sees it.
A supervisor that left because its job is requeued may seem to have ended: Slurm reports such a job as FAILED, or not at
all, until the node is cleared.

| the scheduler says  | begun, signs changed | … seen too briefly | … silent, or not begun          | goes back                      |
|---------------------|----------------------|--------------------|---------------------------------|--------------------------------|
| pending, held       | running              | unknown            | pending, held                   | pending, held                  |
| ended               | running              | ending             | ended, after two such answers   | unknown; ended, after a minute |
| nothing (`missing`) | running              | unknown            | a second query, by the job's id | as of one that has begun       |
| … after its end     | running              | unknown            | ended, as reported and believed | ended, as reported             |
| running, ending     | as it says           | as it says         | as it says                      | as it says                     |

| the second query | accounting                  | then                                                             |
|------------------|-----------------------------|------------------------------------------------------------------|
| no answer        |                             | unknown                                                          |
| shows the job    |                             | the status it shows                                              |
| no such job      | it ended                    | ended                                                            |
| no such job      | it runs or waits            | unknown; `gone` after an hour: accounting may never hear of ends |
| no such job      | no record, or no accounting | `gone`; after an hour if the queue's answer was incomplete       |

How long the scheduler has been saying something counts from its first to its last answer: while it does not answer, its last one
gets no older. An answer that is kept for all readers counts from when it was given, and not from when it is read.

The end of a job that wrote no end itself is believed after three minutes of its silence. The scheduler may be right about an
execution that left no trace, and an earlier one goes on, on a node that it believes dead. An end that was believed is forgotten
once the scheduler shows the job as waiting: its silence later does not say that the job ended.

`gone` is a guess. Nothing is deleted because of it, and it is revised when the job shows itself.

A line of an HTCondor event log stays. One that says that the job was removed while it ran does not show that it was not put back
into the queue after its supervisor wrote so, since the line that says that may be late: after a minute the queue is asked.

An HTCondor event log says `running` for as long as nobody writes the next line, also of a job that its schedd has lost. Such a job
is looked for as one that is `missing`, once the dates of its files no longer show that it writes. A wall clock may be set, and files
may have their dates from another machine's, so a date later than now proves nothing. A log with nothing after the submission,
of a job whose supervisor wrote that it began or goes back, is late or was restored: it counts as missing.

| its files' dates, by the reader's wall clock | it doubted them before     | its files | the log                                 |
|----------------------------------------------|----------------------------|-----------|-----------------------------------------|
| one is within three minutes of now           | no, or they changed        | fresh     | is believed                             |
| one is within three minutes of now           | yes, and they are the same | doubtful  | is believed until the second question   |
| none is, and one is later than now           | yes or no                  | doubtful  | is believed until the second question   |
| all are older                                | yes or no                  | silent    | is not: unknown                         |
"""

from typing import Any, Dict, Optional, Sequence

WORDS = ("pending", "held", "running", "ending", "ended", "gone", "unknown")
PENDING, HELD, RUNNING, ENDING, ENDED, GONE, UNKNOWN = WORDS
UNBEGUN, BEGUN, GOES_BACK = "unbegun", "begun", "goes back"
"""What the supervisor wrote last of a job that has not ended: nothing; that it runs; that it left because the job is requeued."""
MISSING = "missing"
"""The scheduler answered, and its answer does not list the job."""
FRESH, DOUBTFUL, SILENT = "fresh", "doubtful", "silent"
"""What the dates of a job's files show: that it writes, nothing, or that it has not written for minutes."""
ASK = "ask"
"""The verdict needs the answer to the second query."""

ALIVE_S = 60.0
"""Six of the supervisor's periods of 10 s, and the longest time for which an NFS client shows old attributes by default."""
SILENT_S = 180.0
"""Three times that; then the end of a job that has begun is believed, and a missing one is queried by its id.

A hung `nvidia-smi` or disk can delay a supervisor.
"""
MISSING_S = 30.0
MISSING_LOOKS = 3
"""A scheduler's controller that has just started answers with an empty queue for some seconds."""
ENDED_LOOKS = 2
DOUBT_S = 3600.0
"""How long to wait while evidence contradicts itself, in seconds: a controller's maintenance rarely takes longer."""
_ASK_AGAIN_S = 60.0
_ASK_AGAIN_AT_MOST_S = 3600.0

Watch = Dict[str, Any]
"""What one reader remembers of its polls, in seconds of its own clock.

`word`, `since`, `looks`, `answer`, `heard`, `sign`, `still`, `changed`.
"""


def follow(
    watch: Optional[Watch], now_s: float, word: str, answer: Any, sign: str, given_s: Optional[float] = None
) -> Watch:
    """Return a reader's memory, updated by one more poll.

    Args:
        watch: The result of the previous poll; with None or a damaged one, counting starts again.
        now_s: The reader's own monotonic clock.
        word: The scheduler's status of the job.
        answer: Identifies the scheduler's answer; the same answer read twice counts once.
        sign: The signature of the job's signs of life.
        given_s: When the scheduler gave the answer, by the reader's clock: one that it kept may be read long after. None: now.
    """
    first: Watch = {"word": word, "since": now_s, "looks": 1, "answer": answer, "heard": now_s}
    if watch is None or not _is_whole(watch) or now_s < max(watch["since"], watch["still"]):
        return dict(first, sign=sign, still=now_s, changed=None)
    if watch["sign"] != sign:
        # The job was not silent, so earlier answers about a silent job no longer count.
        return dict(first, sign=sign, still=now_s, changed=now_s)
    if watch["word"] != word:
        return dict(first, **{key: watch[key] for key in ("sign", "still", "changed")})
    if watch["answer"] != answer:
        heard_s = now_s if given_s is None else max(watch["since"] + saying_s(watch), min(given_s, now_s))
        return dict(watch, looks=watch["looks"] + 1, answer=answer, heard=heard_s)
    return watch


def judge(watch: Watch, now_s: float, wrote: str, poll_s: float, needs_looks: bool = True) -> str:
    """Decide what to believe of the status that a reader has followed.

    Args:
        watch: The result of `follow`.
        now_s: The reader's clock.
        wrote: What the supervisor wrote last: `UNBEGUN`, `BEGUN` or `GOES_BACK`.
        poll_s: How often the scheduler may be queried.
        needs_looks: The status is a query's answer, which may be wrong once, and not a permanent log line.

    Returns:
        One of `WORDS`, or `ASK`.
    """
    word = watch["word"]
    if word not in (PENDING, HELD, ENDED, MISSING):
        return str(word)
    changed = watch["changed"]
    if wrote == BEGUN and changed is not None and now_s - changed < ALIVE_S:
        return RUNNING
    said_s, silent_s = saying_s(watch), now_s - watch["still"]
    if word == MISSING:
        needed_s = max(MISSING_S, 3 * poll_s, SILENT_S if wrote != UNBEGUN else 0.0)
        return ASK if watch["looks"] >= MISSING_LOOKS and said_s >= needed_s else UNKNOWN
    if word == ENDED and wrote == GOES_BACK:
        if not needs_looks:
            return ASK if now_s - watch["since"] >= ALIVE_S else UNKNOWN
        if said_s < ALIVE_S:
            return UNKNOWN
    if wrote == BEGUN and silent_s < silence_s(word):
        return ENDING if word == ENDED else UNKNOWN
    if word == ENDED and needs_looks and (watch["looks"] < ENDED_LOOKS or said_s < 2 * poll_s):
        return ENDING
    return str(word)


def silence_s(word: str) -> float:
    """Return for how many seconds a job that has begun must be silent before this word of the scheduler is believed."""
    return SILENT_S if word == ENDED else ALIVE_S


def saying_s(watch: Watch) -> float:
    """Return how long the scheduler has been giving the same answer, in seconds, without a sign of the job's life in between.

    What it said last is not said again by its silence. An agent of before did not note when it said that.
    """
    return float(watch.get("heard", watch["since"]) - watch["since"])


def judge_dates(ages_s: Sequence[float], doubted: bool) -> str:
    """Say whether the dates of its files show that a job writes which a log calls running.

    Args:
        ages_s: Of the files, by the reader's wall clock; below 0 for a date later than now.
        doubted: The reader doubted these very dates before.

    Returns:
        `FRESH`, `DOUBTFUL` or `SILENT`.
    """
    if all(age_s > SILENT_S for age_s in ages_s):
        return SILENT
    is_near = any(abs(age_s) <= SILENT_S for age_s in ages_s)
    return FRESH if is_near and not doubted else DOUBTFUL


def confirm(lasted_s: float, is_whole: bool, accounting: Optional[str]) -> str:
    """Decide the status of a job that neither the queue nor a query by id shows.

    Args:
        lasted_s: How long it has been missing, in seconds.
        is_whole: The queue's answer was complete, as far as can be seen.
        accounting: The status in its accounting record; None without a record or without accounting.
    """
    if accounting == ENDED:
        return ENDED
    return GONE if lasted_s >= DOUBT_S or (is_whole and accounting is None) else UNKNOWN


def ask_again_after_s(lasted_s: float) -> float:
    """Return how long an answer to the second query is valid: a quarter of the time for which the job has been missing."""
    return max(_ASK_AGAIN_S, min(_ASK_AGAIN_AT_MOST_S, lasted_s / 4))


def _is_whole(watch: Watch) -> bool:
    numbers = [watch.get(key) for key in ("since", "still", "looks")] + [watch.get("heard", 0.0)]
    changed = watch.get("changed")
    has_all = all(key in watch for key in ("word", "answer", "sign", "changed")) and isinstance(watch["word"], str)
    return (
        has_all
        and all(isinstance(each, (int, float)) for each in numbers)
        and (changed is None or isinstance(changed, (int, float)))
    )
