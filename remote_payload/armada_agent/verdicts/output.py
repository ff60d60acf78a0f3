"""Parse a job's output for its failure: the exceptions of each rank, and the launcher's report of how ranks ended."""

import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from armada_agent.verdicts import cause_patterns
from armada_agent.verdicts.cause_patterns import is_consequence, is_launchers

Rank = Optional[int]
LONGEST_LINE = 400
_MOST_LINES = 10_000
_MANY_LINES = 25  # a program that printed more lines than this after an exception survived it
_MESSAGE_LINES = 4

_PREFIX = re.compile(r"\[(?:rank|default)(\d{1,6})\]: ?")  # torch's own prefix, and that of torchrun --tee
_HEAD = "Traceback (most recent call last):"
_CAUSED = "The above exception was the direct cause of the following exception:"
_MEANWHILE = "During handling of the above exception, another exception occurred:"
_TYPE = re.compile(r"[A-Za-z_][\w.]*(?::\s|:?$)")
_LOST = re.compile(r"(?:Connection\w*|BrokenPipe|EOF)Error\b")
# Numbers have a limit: Python refuses to convert one of more than 4300 digits. Blanks do not include the end of a line:
# `\s` would read all empty lines once more at each of them.
_SIGNALLED = re.compile(r"Sending process (\d{1,20}) closing signal")
_ENDED = re.compile(r"failed \(exitcode: (-?\d{1,3})\) local_rank: (\d{1,6}) \(pid: (\d{1,20})\)")
_BLOCK = re.compile(
    r"^[ \t]*rank[ \t]+: (\d{1,6}) \(local_rank: \d{1,6}\)\n"
    r"[ \t]*exitcode[ \t]+: (-?\d{1,3}) \(pid: (\d{1,20})\)",
    re.MULTILINE,
)
_ROOT = "Root Cause (first observed failure):"
_LAUNCHERS_LINE = re.compile(r"[WEI]\d{4} .*torch/distributed/|=====|-----------|\S+ FAILED$")

Raised = NamedTuple("Raised", [("rank", Rank), ("chain", List[str]), ("first", int), ("last", int)])
"""An exception that was not caught, or was printed: its chain of `Type: message` lines, from the one raised first to the one
that ended the process; and its place in the output."""

Ended = NamedTuple("Ended", [("rank", int), ("exit_code", int), ("pid", int)])
"""A rank that a launcher saw fail; the exit code is negative for a signal."""


class Output:
    """The end of a job's output, parsed.

    Args:
        text: Its last lines.
    """

    def __init__(self, text: str) -> None:
        self.lines = [line.rstrip("\r")[:LONGEST_LINE] for line in text.splitlines()[-_MOST_LINES:]]
        self.raised = _find_raised(self.lines)
        self.ended = _find_ended(text)
        """Ranks that ended by themselves; first the one that the launcher names as the first."""

    def last_lines(self, count: int, rank: Rank = None) -> List[str]:
        """Return the last lines of a rank, or of all ranks, without what the launcher added at the end."""
        own = [line for line in self.lines if rank is None or _rank_of(line) == rank]
        if not own:  # the rank printed nothing; the others' lines are not its own
            own = [line for line in self.lines if _rank_of(line) is None]
        kept = _without_launcher(own)
        return [line for line in (kept or own) if line.strip()][-count:]

    def own_words(self) -> str:
        """Return the program's last line that is not a consequence of another failure."""
        for line in reversed(self.last_lines(20)):
            words = _bare(line)
            if not is_consequence(words) and not is_launchers(words):
                return words.strip()
        return ""


def _find_raised(lines: List[str]) -> List[Raised]:
    """Collect the exceptions of each rank, without those of launchers."""
    by_rank: Dict[Rank, List[int]] = {}
    for number, line in enumerate(lines):
        if line.strip():
            by_rank.setdefault(_rank_of(line), []).append(number)
    border = _where_it_went_on(lines)
    found: List[Raised] = []
    for rank, numbers in by_rank.items():
        mine = _read_stream(rank, [(n, _bare(lines[n])) for n in numbers])
        found += [raised for raised in mine if rank is not None or raised.last >= border]
    return sorted(found, key=lambda raised: raised.first)


def _where_it_went_on(lines: List[str]) -> int:
    """Return the line number before which exceptions were survived, because enough lines follow."""
    left = _MANY_LINES
    for place in range(_end_of_program(lines) - 1, -1, -1):
        if lines[place].strip() and _rank_of(lines[place]) is None and not _LAUNCHERS_LINE.match(lines[place]):
            left -= 1
            if left < 0:
                return place + 1
    return 0


def _read_stream(rank: Rank, lines: List[Tuple[int, str]]) -> List[Raised]:
    found: List[Raised] = []
    is_linked = False
    place = 0
    while place < len(lines):
        number, line = lines[place]
        place += 1
        if line.strip() in (_CAUSED, _MEANWHILE):
            is_linked = True
        if line.strip() != _HEAD:
            continue
        frame = ""
        while place < len(lines) and lines[place][1].startswith((" ", "\t")):
            frame = lines[place][1] if lines[place][1].startswith("  File ") else frame
            place += 1
        if place >= len(lines):
            break
        last, words = lines[place]
        for _, more in lines[place + 1 : place + _MESSAGE_LINES]:
            if more.startswith(("Traceback", "  File", "The above", "During")):
                break
            words += "\n" + more
        if "/multiprocessing/" in frame and _LOST.match(words):
            words = "%s (%s)" % (words.partition("\n")[0], cause_patterns.BETWEEN)
        if is_linked and found:
            found[-1] = Raised(rank, found[-1].chain + [words], found[-1].first, last)
        elif _TYPE.match(words):
            found.append(Raised(rank, [words], number, last))
        is_linked = False
    return [each for each in found if not is_launchers(each.chain[-1].partition("\n")[0])]


def _find_ended(text: str) -> List[Ended]:
    signalled = {int(pid) for pid in _SIGNALLED.findall(text)}
    head, _, root = text.rpartition(_ROOT)
    blocks = _BLOCK.findall(root) + _BLOCK.findall(head) if head else []
    ended = [Ended(int(rank), int(code), int(pid)) for rank, code, pid in blocks]
    if not ended:
        ended = [Ended(int(rank), int(code), int(pid)) for code, rank, pid in _ENDED.findall(text)]
    return [each for each in ended if each.pid not in signalled]


def _rank_of(line: str) -> Rank:
    match = _PREFIX.match(line)
    return int(match.group(1)) if match else None


def _bare(line: str) -> str:
    return _PREFIX.sub("", line, count=1) if _PREFIX.match(line) else line


def _without_launcher(lines: List[str]) -> List[str]:
    """Cut off what torchrun or accelerate prints at the end: their warnings, their traceback, their table."""
    return [line for line in lines[: _end_of_program(lines)] if not _LAUNCHERS_LINE.match(line)]


def _end_of_program(lines: List[str]) -> int:
    end = 0  # of the indented lines that follow; those of one traceback may be a hundred heads
    for place, line in enumerate(lines):
        if _SIGNALLED.search(line) or _ENDED.search(line):
            return place
        if line.strip() != _HEAD:
            continue
        end = max(end, place + 1)
        while end < len(lines) and lines[end].startswith((" ", "\t")):
            end += 1
        if end < len(lines) and is_launchers(lines[end]):
            return place  # the traceback that begins here ends in a launcher's exception
    return len(lines)
