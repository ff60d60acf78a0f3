"""`armada logs`."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from armada.cli.options import add_run
from armada.cli.printing import print_line
from armada.errors import ArmadaError, HostUnreachable, NotFound, ProvisionFailed
from armada.foundation.sanitize import OutputText, sanitize_line
from armada.foundation.standard_streams import takes_no_more
from armada.units import amount, span

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from armada.cli.context import Context
    from armada.store.runs import Run

_PIECE_BYTES = 1 << 16
"""A log at home is read in pieces of this size."""

_TAIL_BYTES = 1 << 16
"""As far back as the agent looks for the beginning of the last lines."""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    logs = commands.add_parser(
        "logs",
        help="Show the log of a run",
        description="Show the log of a run, read from its host. If the host does not answer, show the part "
        "that is already at home.",
    )
    add_run(logs)
    logs.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="Follow the log until the run ends; exit with 0 if it succeeded, else 6 (Ctrl-C leaves the run running)",
    )
    logs.add_argument(
        "--tail", type=_count, default=100, metavar="N", help="Start this many lines before the end (default: 100)"
    )
    logs.add_argument("--from", type=_byte, metavar="BYTE", dest="offset", help="Start at this byte instead")
    logs.add_argument("--pid", type=_pid, metavar="PID", help="With --follow: also stop when this process ends")
    logs.add_argument("--colours", action="store_true", help="Keep the colours that the job printed")
    logs.add_argument(
        "--json", action="store_true", help="Print one JSON object per line of the log: its byte offset and its text"
    )
    logs.set_defaults(handler=_logs)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines")
    return min(int(text), 100_000)


def _byte(text: str) -> int:
    if not text.isdecimal() or len(text) > 15:
        raise argparse.ArgumentTypeError(
            f"invalid byte offset {text!r}: give a number of bytes from the start of the log"
        )
    return int(text)


def _pid(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a process")
    return int(text)


def _logs(options: argparse.Namespace) -> int:
    from armada.cli.context import Context

    context = Context(reads=True, tells=True)
    run = context.run(options.run)
    reading = _Reading(context, run, options)
    try:
        return reading.from_host()
    except (HostUnreachable, NotFound, ProvisionFailed) as error:
        if reading.has_begun:
            raise
        return _from_home(context, run, options, error)


class _Reading:
    """One log, read from its host.

    Args:
        context: The command's.
        run: Whose log.
        options: The command's words.
    """

    def __init__(self, context: Context, run: Run, options: argparse.Namespace) -> None:
        self._context = context
        self._run = run
        self._options = options
        self._printed = _output_text(options)
        self.has_begun = False

    def from_host(self) -> int:
        """Print a log to its end, or to the run's end. Return the exit code.

        Raises:
            NotFound: The host is not known, or has nothing of the run.
            RunFailed: The run that was followed ended badly.
        OutcomeUnknown: Its end is only guessed.
        """
        from armada.cli.runs import verdict
        from armada.foundation import process_identity
        from armada.monitor.follow import goes_on
        from armada.monitor.observe import observe
        from armada.protocol.runs import ReadLog
        from armada.store import runs

        context, run_id, options = self._context, self._run.run_id, self._options
        reader = process_identity.process_info(options.pid) if options.pid else None
        with context.session_about(self._run) as session:
            if options.offset is None:
                question = ReadLog(run_id=run_id, tail_lines=options.tail)
            else:
                question = ReadLog(run_id=run_id, offset=options.offset)
            while True:
                if options.follow:
                    with context.unless_full():
                        observe(context.database, session, [runs.find(context.database, run_id)])
                run = runs.find(context.database, run_id)
                answer = session.call(question)
                if not self.has_begun and options.offset is None:
                    _say_cut(answer.offset, answer.next_offset, answer.text, options.tail)
                self.has_begun = True
                _print(self._printed, answer.text, answer.offset, run_id, "host", as_json=options.json)
                if takes_no_more():
                    return 0  # `logs | head`: the reader has what it wanted
                question = ReadLog(run_id=run_id, offset=answer.next_offset)
                if answer.next_offset < answer.size_bytes:
                    continue
                if not options.follow:
                    return 0
                if not goes_on(run, time.time()):
                    return verdict(run)
                if reader is not None and not process_identity.lives(reader):
                    return 0
                time.sleep(0.5)


def _say_cut(start: int, end: int, text: str, lines: int) -> None:
    """Say that fewer lines than asked for are shown, because they are long."""
    if start > 0 and end - start >= _TAIL_BYTES - 4 and text.count("\n") < lines:
        sys.stderr.write(
            f"armada: the last {lines} lines are longer than {amount(end - start)}: showing only their end; --from 0 shows everything\n"
        )


def _from_home(context: Context, run: Run, options: argparse.Namespace, why: ArmadaError) -> int:
    """Print the part of a log that is at home, when its host cannot be asked.

    Raises:
        ArmadaError: Why it cannot be asked, where the log at home may not be all of it.
    """
    from armada.store import run_sync
    from armada.sync.outputs.listing import output_log
    from armada.sync.outputs.long_logs import END

    place = output_log(context.home, run.run_id)
    if place is None:
        why.message += f"; no part of the log of {run.run_id} is at home"
        raise why
    synced = run_sync.find(context.database, run.run_id)
    is_whole = synced.final_done and run.ended and not run.is_guess
    came = f", synced {span(time.time() - synced.last_at)} ago" if synced.last_at is not None else ""
    end = place.with_name(END)
    is_cut = end.is_file() and not end.is_symlink()
    words = "showing the complete copy at home" if is_whole else "showing the part that is at home"
    if is_cut:
        parts = f"its beginning ({amount(place.stat().st_size)}) and, in {END}, its end ({amount(end.stat().st_size)})"
        words = f"the copy at home has {parts}"
    sys.stderr.write(f"armada: {sanitize_line(why, 600)}\n  {words}{came}: {place}\n")
    sys.stderr.flush()
    if not is_cut or options.offset is not None:
        with place.open("rb") as stream:
            _print_file(stream, place, run.run_id, options)
    if is_cut:
        if options.offset is not None:
            sys.stderr.write(f"armada: the middle is not at home (sync.log_limit); the end follows: {end}\n")
            sys.stderr.flush()
            options.offset = 0
        with end.open("rb") as stream:
            _print_file(stream, end, run.run_id, options)
    if not is_whole:
        why.message += f"; the log of {run.run_id} may continue there"
        raise why
    if not options.follow:
        return 0
    from armada.cli.runs import verdict

    return verdict(run)


def _print_file(stream: BinaryIO, log: Path, run_id: str, options: argparse.Namespace) -> None:
    import codecs

    size = log.stat().st_size
    if options.offset is not None:
        stream.seek(min(options.offset, size))
    else:
        start = max(0, size - _TAIL_BYTES)
        stream.seek(start)
        block = stream.read(_TAIL_BYTES)
        begin = _beginning_of_last(block, options.tail)
        _say_cut(start + begin, size, block[begin:].decode("utf-8", "replace"), options.tail)
        stream.seek(start + begin)
    decoder, printed = codecs.getincrementaldecoder("utf-8")("replace"), _output_text(options)
    while not takes_no_more():
        place, block = stream.tell() - len(decoder.getstate()[0]), stream.read(_PIECE_BYTES)
        _print(printed, decoder.decode(block, final=not block), place, run_id, "home", as_json=options.json)
        if not block:
            return


def _output_text(options: argparse.Namespace) -> OutputText:
    return OutputText("\r\x1b[K" if sys.stdout.isatty() else "\r", colours=options.colours)


def _print(printed: OutputText, text: str, offset: int, run_id: str, source: str, *, as_json: bool) -> None:
    if not as_json:
        sys.stdout.write(printed.take(text))
        sys.stdout.flush()
    elif text:
        print_line({"run_id": run_id, "source": source, "offset": offset, "text": text})


def _beginning_of_last(block: bytes, count: int) -> int:
    """Where the last lines of a block begin; 0 where it holds no more than these."""
    place = len(block) - 1 if block.endswith(b"\n") else len(block)
    for _ in range(count):
        place = block.rfind(b"\n", 0, max(0, place))
        if place < 0:
            return 0
    return place + 1 if count else len(block)
