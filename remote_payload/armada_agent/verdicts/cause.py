"""Decide why a job failed: find the first cause, not the last error message.

The first row that applies decides:

| evidence                                                               | reason                                  |
|------------------------------------------------------------------------|-----------------------------------------|
| the job wrote a reason itself (failure.json), other than `exception`   | that reason                             |
| SIGKILL ended it or a rank, and the kernel killed a process for memory | `host_oom`                              |
| a signal that armada did not send ended it or a rank                   | `signal_<NAME>`                         |
| the exception of the rank that failed first                            | its class (`cause_patterns.py`)         |
| exit code 127 or 126, and the shell's message for it                   | `command_not_found`, `…_not_executable` |
| the last lines of the output                                           | their class                             |
| the run's disk is full, and nothing else was printed                   | `disk_full`                             |
| none of these                                                          | `exit_<code>`, with the last exception  |

A rank whose peer is gone fails too, and often reports first. Its message is kept but does not count as a cause.
"""

import re
import signal
from typing import Any, Dict, List, NamedTuple, Optional

from armada_agent.verdicts import cause_patterns
from armada_agent.verdicts.cause_patterns import HOST_OOM, SENTENCES, classify, is_consequence
from armada_agent.verdicts.output import Output, Raised

LAST_LINES = 20
_MOST_OTHERS = 8
_LONGEST = 600
_LONGEST_LINE = 300  # keeps the whole record within one line of output, in any encoding
_LAST_WORDS = 8
_LAST_WORD = 3  # lines; a missing file reported earlier did not end the program
GENERIC = "exception"
# Not SIGABRT: a watchdog aborts its own process because another rank is gone. SIGTERM, SIGINT and SIGHUP are requests
# to end.
_FATAL = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
_SHELL = 128  # + the signal: a shell's exit code after a signal ended its program
_WORKER = re.compile(r"DataLoader worker \(pid \d+\) is killed by signal: (\w[\w ]*)")
_NAMES = {"Killed": "SIGKILL", "Bus error": "SIGBUS", "Segmentation fault": "SIGSEGV", "Aborted": "SIGABRT"}
_NOT_FOUND = re.compile(r"not found|No such file or directory")
_NOT_EXECUTABLE = re.compile(r"Permission denied|cannot execute|Exec format error")

Said = NamedTuple("Said", [("rank", Optional[int]), ("reason", str), ("message", str), ("lines", List[str])])
"""What a rank wrote about its failure; its exception is at the end of `lines`."""

Facts = NamedTuple(
    "Facts",
    [
        ("status", int),  # the exit code of the job's first process, negative for a signal
        ("first", Optional[Said]),  # failure.json
        ("others", List[Said]),  # what other ranks wrote
        ("text", str),  # the end of this attempt's output
        ("oom_kills", List[str]),  # the kernel's messages about processes that it killed for memory meanwhile
        ("is_disk_full", bool),  # no more bytes can be written to the run's disk
    ],
)

Cause = NamedTuple(
    "Cause",
    [
        ("reason", str),
        ("message", Optional[str]),
        ("rank", Optional[int]),  # the rank that failed first, if there are several and it is known
        ("lines", List[str]),  # its last lines
        ("others", List[Dict[str, Any]]),  # `rank` and `message`: errors that are consequences, not causes
    ],
)


def find_cause(facts: Facts) -> Cause:
    """Decide why a job failed."""
    output = Output(facts.text)
    said = facts.first
    if said is not None and said.reason != GENERIC and not said.reason.startswith("signal_"):
        return _cause(said.reason, said.message, said.rank, said.lines, facts, output)
    found = _by_signal(facts, output) or _by_words(facts, output)
    if found is not None:
        return found
    words = output.own_words()
    if facts.status in (126, 127):
        pattern, reason = {
            127: (_NOT_FOUND, "command_not_found"),
            126: (_NOT_EXECUTABLE, "command_not_executable"),
        }[facts.status]
        if pattern.search(words):
            return _cause(reason, words, None, [], facts, output)
    if said is not None:
        return _cause(said.reason, said.message, said.rank, said.lines, facts, output)
    if not output.raised:
        for place, line in enumerate(reversed(output.last_lines(_LAST_WORDS))):
            known = classify(line)
            if known is not None and (place < _LAST_WORD or known == cause_patterns.NAN_LOSS):
                return _cause(known, _sentence(known, line), None, [], facts, output)
    if facts.is_disk_full:
        return _cause(
            cause_patterns.DISK_FULL, "the disk is full: nothing more can be written there", None, [], facts, output
        )
    first = _first_raised(output)
    rank = first.rank if first else output.ended[0].rank if output.ended else None
    return _cause(_by_status(facts.status), _plain(output), rank, [], facts, output)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)  # a real-time signal has no name


def _by_signal(facts: Facts, output: Output) -> Optional[Cause]:
    """Decide by the signal that ended the job, one of its ranks, or one of their workers."""
    said = facts.first
    rank: Optional[int] = None
    whose = "the job"
    killed = [each for each in output.ended if -each.exit_code in _FATAL]
    worker = _WORKER.search(facts.text)
    if said is not None and said.reason.startswith("signal_"):
        name, rank, whose = said.reason[len("signal_") :], said.rank, "rank %s" % said.rank
    elif facts.status < 0:
        name = signal_name(-facts.status)
    elif killed:
        rank = killed[0].rank
        name, whose = signal_name(-killed[0].exit_code), "rank %d" % rank
    elif facts.status - _SHELL in _FATAL + (signal.SIGABRT,):
        name = signal_name(facts.status - _SHELL)
    elif worker is not None and worker.group(1).strip() in _NAMES:
        name, whose = _NAMES[worker.group(1).strip()], "a worker of the data loader"
    else:
        return None
    if name == "SIGABRT":
        found = _by_words(facts, output)  # a program that aborts prints its reason before
        if found is not None:
            return found
    if name == "SIGBUS" and re.search("shared memory", facts.text):
        return _cause(HOST_OOM, _sentence(HOST_OOM, "%s ran out of space in /dev/shm" % whose), rank, [], facts, output)
    kernel = facts.oom_kills[-1] if facts.oom_kills else _memory_words(output)
    if name == "SIGKILL" and kernel:
        message = "%s, and the kernel ended %s: %s" % (SENTENCES[HOST_OOM], whose, kernel)
        return _cause(HOST_OOM, message, rank, [], facts, output)
    if said is not None and said.reason.startswith("signal_"):
        return _cause(said.reason, said.message, rank, said.lines, facts, output)
    message = "%s was ended by %s%s" % (whose, name, _explain(name, facts.status))
    return _cause("signal_%s" % name, message, rank, [], facts, output)


def _explain(name: str, status: int) -> str:
    code = "" if status <= 0 or status == 1 else ", exit code %d" % status
    if name == "SIGKILL":
        return "%s: another process sent it, and nothing shows that memory ran out" % code
    if name == "SIGSEGV":
        return "%s: it accessed invalid memory, a bug in compiled code" % code
    return code


def _memory_words(output: Output) -> str:
    """Find a batch system's or a kernel's out-of-memory message in the output."""
    for line in reversed(output.lines):
        if re.search(r"oom[-_]kill|Out [Oo]f [Mm]emory: Killed|cgroup out of memory|task \d+: Out Of Memory", line):
            return line.strip()
    return ""


def _by_words(facts: Facts, output: Output) -> Optional[Cause]:
    """Decide by the exception of the rank that failed first."""
    said = facts.first
    if said is not None:
        chain = [line for raised in Output("\n".join(said.lines)).raised for line in raised.chain]
        reason = classify(said.message) or _classify_chain(chain)
        if reason is None:
            return None
        return _cause(reason, _sentence(reason, said.message), said.rank, said.lines, facts, output)
    raised = _first_raised(output)
    reason = _classify_chain(raised.chain) if raised else None
    if raised is None or reason is None:
        return None
    words = next(words for words in reversed(raised.chain) if classify(words) == reason)
    return _cause(reason, _sentence(reason, words.partition("\n")[0]), raised.rank, [], facts, output)


def _classify_chain(chain: List[str]) -> Optional[str]:
    """Classify an exception by the one that ended the program, or by those that caused it."""
    found = (classify(words) for words in reversed(chain))
    return next((reason for reason in found if reason is not None), None)


def _first_raised(output: Output) -> Optional[Raised]:
    """Choose the exception of the rank that failed first; if one process raised several, the one that ended it."""
    own = [raised for raised in output.raised if not is_consequence(raised.chain[-1])]
    first_rank = output.ended[0].rank if output.ended else None
    of_first = [raised for raised in own if raised.rank == first_rank and first_rank is not None]
    if of_first:
        return of_first[-1]
    ranks = [raised for raised in own if raised.rank is not None]
    if ranks:
        return [raised for raised in ranks if raised.rank == ranks[0].rank][-1]
    return own[-1] if own else None


def _by_status(status: int) -> str:
    return "exit_%d" % status if status >= 0 else "signal_%s" % signal_name(-status)


def _plain(output: Output) -> Optional[str]:
    """Quote an exception of unknown class. A program without one printed nothing that can be relied on."""
    raised = _first_raised(output)
    if raised is not None:
        return raised.chain[-1].partition("\n")[0][:_LONGEST]
    lost = [each for each in output.raised if is_consequence(each.chain[-1])]
    if lost:
        whose = "a process of the job" if lost[0].rank is None else "rank %d" % lost[0].rank
        return "%s lost another one: %s" % (whose, lost[0].chain[-1].partition("\n")[0][:_LONGEST])
    return None


def _sentence(reason: str, words: str) -> str:
    bare = words.strip()
    begins = SENTENCES[reason]
    return bare[:_LONGEST] if bare.startswith(begins) else ("%s: %s" % (begins, bare))[:_LONGEST]


def _cause(
    reason: str, message: Optional[str], rank: Optional[int], lines: List[str], facts: Facts, output: Output
) -> Cause:
    last = lines[-LAST_LINES:] or output.last_lines(LAST_LINES, rank)
    return Cause(reason, message, rank, [line[:_LONGEST_LINE] for line in last], _complaints(facts, output, rank))


def _complaints(facts: Facts, output: Output, rank: Optional[int]) -> List[Dict[str, Any]]:
    """Collect the errors of other ranks, one line per rank."""
    found: Dict[Optional[int], str] = {}
    for said in facts.others:
        if said.rank != rank:
            found.setdefault(said.rank, said.message.strip().partition("\n")[0][:_LONGEST_LINE])
    if not facts.others:
        for raised in output.raised:
            if raised.rank != rank and raised.rank is not None:
                found.setdefault(raised.rank, raised.chain[-1].partition("\n")[0][:_LONGEST_LINE])
    ordered = sorted(found.items(), key=lambda pair: -1 if pair[0] is None else pair[0])
    return [{"rank": other, "message": message} for other, message in ordered[:_MOST_OTHERS]]
