"""The lines of a log: their severity, the job's own colours, ranks, matches of a word, steps."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.pilot import Pilot
from textual.widgets import Input

from armada.foundation.sanitize import OutputText
from armada.store import runs
from armada.tui.ansi import Piece, in_theme, pieces
from armada.tui.log_file import LogFile
from armada.tui.log_matches import Matches
from armada.tui.log_places import find_place, parse_place
from armada.tui.rank_lines import RankLines, rank_tag, ranks_in
from armada.tui.screens.run import RunScreen
from armada.tui.severity import Mark, Severities
from armada.tui.widgets.log_tail import LogTail
from armada.verdicts.states import Verdict
from tests.tui.conftest import World, drive, lacks, said, screen, shows, strips, until

LOGGED = """\
e ERROR:root:it broke
e ERROR
e [2026-11-20 12:00:00,123] [ERROR] [engine.py:12:step] it broke
e 2026-11-20 12:10:41,123 - transformers.trainer - ERROR - it broke
e 2026-11-20 12:10:41.123 | CRITICAL | __main__:go:12 - it broke
e (EngineCore pid=12) ERROR 11-20 12:10:41 it broke
e E1120 12:10:41.123000 4121 torch/distributed/run.py:12] it broke
e [rank3]:[E1120 12:10:41.123000 ProcessGroupNCCL.cpp:616] it broke
e slurmstepd: error: *** JOB 12 CANCELLED ***
e kernel.cu:12:3: fatal error: a.h: No such file
e {"time": "12:10", "level": "error", "message": "it broke"}
e torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB
e KeyboardInterrupt
e Segmentation fault (core dumped)
e [rank1]: RuntimeError: it broke
w [WARNING|trainer.py:123] 2026-11-20 12:00:00 >> careful
w WARNING:root:careful
w /usr/lib/python3/x.py:12: UserWarning: careful
w Warning: careful
w level=warn msg=careful
w W1120 12:10:41.123000 4121 torch/x.py:12] careful
w box:41:52 [0] NCCL WARN Connect to 10.0.0.1 failed
q INFO 11-20 12:10:41 llm_engine.py:12] loaded
q [2026-11-20 12:00:00,123] [INFO] [config.py:12:print] loaded
q 12:10:41 DEBUG loaded
- step 120/400  loss 0.3911  no error so far
- {'loss': 0.3879, 'grad_norm': 0.61}
- loss ERROR 3
- the error: is small
- Errors: 0
- error rate 0.3
- ErrorCorrection is on
- information: WARNINGS are collected
- eval/warning_count 12
- [ERRORS] none
-""".splitlines()


@pytest.mark.parametrize("line", LOGGED)
def test_the_severity_of_a_line_is_that_of_its_level_at_a_usual_place(line: str) -> None:
    kind, text = line[0], line[2:]
    mark = Severities().mark(text)
    assert (mark.severity[0] if mark else "-") == kind
    if mark is not None and kind != "e":  # of an error the whole line has the colour, else the level
        assert re.fullmatch("[A-Za-z]*(warn|info|debug)[a-z]*|[WI]", text[mark.start : mark.end], re.IGNORECASE)


def test_a_traceback_is_an_error_down_to_its_exception_each_rank_by_itself() -> None:
    log = """\
- step 12
e [rank1]: Traceback (most recent call last):
e [rank0]: Traceback (most recent call last):
e [rank1]:   File "train.py", line 3, in <module>
- step 13
e [rank0]:     loss.backward()
e [rank1]: ValueError: it broke
- [rank1]: over
e [rank0]: torch.cuda.SomethingElse
- [rank0]: over
e During handling of the above exception, another exception occurred:
e   + Exception Group Traceback (most recent call last):
e   |   File "train.py"
e ExceptionGroup: two things
- step 14""".splitlines()
    severities = Severities()
    found = [severities.mark(line[2:]) for line in log]
    assert [mark.severity[0] if mark else "-" for mark in found] == [line[0] for line in log]
    assert found[1] == Mark(0, len(log[1]) - 2, "error")


def test_the_jobs_own_colours_are_kept_and_nothing_else_that_a_terminal_obeys() -> None:
    line = "a\t\x1b[1;31mred\x1b[0m\x1b[5;8m\tb\x1b[38;5;200mc\x1b[48:2:1:2:3md\x1b[2J\x1b]52;c;x\x07\x1b[>4;1me\x1b[38;5;999mf"
    found = pieces(line, 100)
    assert found[:3] == [
        Piece("a       ", Style()),
        Piece("red", Style(color=Color.from_ansi(1), bold=True)),
        Piece("     b", Style()),
    ]
    text = "".join(piece.text for piece in found)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert text.endswith("]52;c;x�ef")
    shown = {piece.text: piece.style for piece in found}
    assert shown["c"].color is not None
    assert shown["c"].color.number == 200
    assert not any(piece.style.conceal or piece.style.blink for piece in found)
    assert sum(len(piece.text) for piece in pieces("x\x1b[1my" * 9000, 50)) <= 50


@given(st.text(alphabet=st.sampled_from("\x1b[0123;:mKa\n\t\r]?>"), max_size=60))
def test_of_any_output_only_colours_are_passed_on(text: str) -> None:
    printed = OutputText(colours=True)
    out = printed.take(text) + printed.take("\n")
    assert "\x1b" not in re.sub(r"\x1b\[[0-9;:]*m", "", out)
    assert "\x1b" not in "".join(piece.text for piece in pieces(text, 100))


def ranks_log(path: Path, lines: int = 4000) -> list[tuple[int | None, str]]:
    chance = random.Random(5)
    made: list[tuple[int | None, str]] = []
    for number in range(lines):
        rank = chance.choice([None, 0, 1, 7])
        tag = "" if rank is None else chance.choice(["[rank{}]: ", "[default{}]:", "2026-11-20 12:00:00 [rank: {}] "])
        made.append((rank, f"{tag.format(rank)}line {number} {'x' * chance.randrange(900)}"))
    path.write_text("".join(f"{line}\n" for _, line in made))
    return made


def test_the_lines_of_a_rank_are_read_from_any_place(tmp_path: Path) -> None:
    path = tmp_path / "log"
    made = ranks_log(path)
    mine = [line for rank, line in made if rank == 7]
    log = RankLines(path, 7)
    assert ranks_in(log) == [0, 1, 7]
    assert [line.text for line in log.forward(0, 10_000)] == mine
    assert [line.text for line in log.forward(log.tail(5), 10)] == mine[-5:]
    assert [line.text for line in log.forward(log.backward(log.tail(1), 700), 2)] == mine[-701:-699]
    assert log.backward(0, 5) == 0
    other = next(line for rank, line in reversed(made) if rank == 1)
    assert log.find_back(other.partition("line ")[2], log.size) is None
    wanted = mine[3].partition("line ")[2]
    found = log.find_forward(wanted, -1)
    assert found is not None
    assert log.forward(found, 1)[0].text == mine[3]


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("[rank3]: a", 3),
        ("[RANK 3] a", 3),
        ("[rank: 12] a", 12),
        ("[default0]:a", 0),
        ("[1,3]<stdout>:a", 3),
        ("[1,3] a", None),
        ("rank 3 is best", None),
        ("x" * 80 + " [rank3]", None),
    ],
)
def test_the_rank_that_a_line_names(line: str, rank: int | None) -> None:
    tag = rank_tag(line)
    assert (tag.rank if tag else None) == rank


def test_matches_are_counted_by_line_also_those_that_come_later(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = [
        f"{'step step' if number % 100 == 7 else 'other'} {number} {'é' * (number % 900)}" for number in range(3000)
    ]
    path.write_text("\n".join(lines))
    log = LogFile(path)
    matches = Matches(log, "step")
    matches.extend(lambda: False)
    starts = list(log.lines_with("step", 0))
    assert [log.forward(start, 1)[0].text.split()[2] for start in starts] == [str(7 + 100 * n) for n in range(30)]
    assert [matches.describe(start) for start in (starts[0], starts[2], starts[-1])] == [
        "1 of 30",
        "3 of 30",
        "30 of 30",
    ]
    with path.open("a") as file:
        file.write(" and step\nand step\n")  # the unfinished last line has got one, too
    matches.extend(lambda: False)
    assert matches.describe(log.size) == matches.describe(None) == "32 matches"
    assert matches.of(log, "step")
    assert not matches.of(log, "other")
    assert not matches.of(RankLines(path, 1), "step")
    path.write_text("step\n")
    assert not matches.of(log, "step")


@pytest.mark.parametrize(
    "form",
    [
        "step {:,}/4,000  loss 0.3",
        "{{'global_step': {}, 'loss': 0.3}}",
        "\r 50%|### | {}/4000 [00:10<00:10]",
        "step={}",
    ],
)
def test_a_log_goes_to_a_step(tmp_path: Path, form: str) -> None:
    path = tmp_path / "log"
    lines = [f"row {number}: " + form.format(10 * number) for number in range(400)]
    path.write_text("starting with 9999 samples\n" + "\n".join(lines))
    log = LogFile(path)
    found = find_place(log, parse_place("step 1,205"), lambda: False)
    assert found is not None
    assert LogFile(path).read(found, 8) == b"row 121:"
    assert find_place(log, parse_place("step 4000"), lambda: False) is None


SHOWN = """\
\x1b[32mgreen of the job\x1b[0m ERROR: its own colours win
[rank1]: 2026-11-20 12:00:00 WARNING careful with this
[rank0]: Traceback (most recent call last):
[rank1]: needle one
[rank0]:   File "train.py", line 3
[rank0]: ValueError: needle two
[rank1]: step 40/100 needle three
"""


def styles(pilot: Pilot[None], words: str) -> dict[str, Style]:
    """The style of each piece of the line with these words."""
    line = next(strip for strip in strips(pilot.app) if words in strip.text)
    return {segment.text.strip(): segment.style or Style() for segment in line if isinstance(segment, Segment)}


def test_a_named_colour_is_the_themes_and_every_other_stays_as_printed() -> None:
    theme = {"text-error": "#f7768e", "text-success": "#9ece6a"}
    assert in_theme(Style(color="red", bold=True), theme) == Style(color="#f7768e", bold=True)
    assert in_theme(Style(color="bright_green"), theme) == Style(color="#9ece6a")
    for style in (Style(color="color(200)"), Style(color="#010203"), Style(color="default"), Style(bold=True)):
        assert in_theme(style, theme) == style


def test_a_log_has_colours_ranks_matches_and_steps(world: World) -> None:
    path = world.local_log("demo-aaaaaa", SHOWN)
    board = world.board()

    async def field(pilot: Pilot[None], key: str, text: str) -> None:
        await pilot.press(key)
        asked = pilot.app.screen.query_one("#find", Input)
        await until(pilot, lambda: asked.has_focus)
        asked.value = text
        await pilot.press("enter")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "step 40/100", "following")
        view = board.screen
        assert isinstance(view, RunScreen)
        error = view.log_view.get_component_rich_style("log--error").color
        assert styles(pilot, "File")['[rank0]:   File "train.py", line 3'].color == error
        careful = styles(pilot, "careful")
        assert careful["WARNING"].color == view.log_view.get_component_rich_style("log--warning").color
        assert careful["careful with this"].color == view.log_view.rich_style.color
        own = styles(pilot, "of the job")
        assert own["green of the job"].color not in (error, view.log_view.rich_style.color)
        assert own["ERROR: its own colours win"].color == view.log_view.rich_style.color
        await field(pilot, "slash", "needle")
        await shows(pilot, "“needle” 3 of 3", "green of the job")  # the lines before stay in sight
        await pilot.press("N")
        await shows(pilot, "“needle” 2 of 3")
        await pilot.press("N", "n")
        await shows(pilot, "“needle” 2 of 3")
        found = view.log_view.get_component_rich_style("log--found").bgcolor
        assert styles(pilot, "two")["needle"].bgcolor == found
        assert styles(pilot, "one")["needle"].bgcolor != found
        await field(pilot, "J", "step 40")
        await lacks(pilot, "needle two")
        await pilot.press("end", "r", "1", "enter")
        await shows(pilot, "only rank 1", "needle one", "needle three")
        assert "needle two" not in screen(pilot)
        await pilot.press("r", "enter")  # the first choice is all of them
        await shows(pilot, "needle two")
        assert "only rank" not in screen(pilot)
        path.write_text("nobody\n")
        await shows(pilot, "nobody")
        await pilot.press("r")
        await until(pilot, lambda: "no line here names its rank" in said(pilot))

    drive(board, use)


def test_a_match_near_the_end_leaves_no_room_on_a_higher_terminal(world: World) -> None:
    world.local_log("demo-aaaaaa", "".join(f"line {number}{' needle' * (number == 70)}\n" for number in range(80)))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "line 79")
        await pilot.resize_terminal(100, 24)
        await pilot.press("slash", *"needle", "enter")
        await shows(pilot, "“needle” 1 of 1", "line 79")
        await lacks(pilot, "line 35")
        await pilot.resize_terminal(100, 60)
        await shows(pilot, "“needle” 1 of 1", "line 35", "line 79")

    drive(world.board(), use)


def test_a_match_stays_in_sight_on_a_lower_terminal(world: World) -> None:
    world.local_log("demo-aaaaaa", "".join(f"line {number}{' needle' * (number == 75)}\n" for number in range(80)))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.resize_terminal(100, 40)
        await pilot.press("l")
        await shows(pilot, "line 79")
        await pilot.press("slash", *"needle", "enter")
        await shows(pilot, "“needle” 1 of 1", "line 75 needle", "line 60")
        await pilot.resize_terminal(100, 20)
        await shows(pilot, "“needle” 1 of 1", "line 75 needle")
        await lacks(pilot, "line 60")
        await pilot.press(*["k"] * 18)
        await lacks(pilot, "line 75 needle")
        await pilot.resize_terminal(100, 19)
        await shows(pilot, "line 60")

    drive(world.board(), use)


def test_a_log_that_is_in_sight_whole_goes_on_being_followed(world: World) -> None:
    path = world.local_log("demo-aaaaaa", "line one\nline two\n")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "line two", "following")
        await pilot.press("k", "pageup")  # nothing is above
        with path.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(3, 200))
        await shows(pilot, "line 199", "following")
        await pilot.press("k")
        await lacks(pilot, "following")

    drive(world.board(), use)


def test_the_first_line_of_a_wrapped_log_can_be_reached(world: World) -> None:
    world.local_log("demo-aaaaaa", "the beginning\n" + 5 * f"{'x' * 3000}\n" + "the end\n")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "the end", "following")
        await pilot.press("W")
        await lacks(pilot, "the beginning")
        await pilot.press("g")
        await shows(pilot, "the beginning")
        await lacks(pilot, "following")
        await pilot.press("G")
        await shows(pilot, "the end", "following")

    drive(world.board(), use)


LONG_ID = "a-name-of-thirty-five-characters-xyz"


@pytest.mark.parametrize("width", [80, 120])
def test_the_frame_of_a_log_says_match_movement_rank_line_and_bytes(world: World, width: int) -> None:
    world.local_log(LONG_ID, "".join(f"[rank{number % 2}]: line {number} needle\n" for number in range(200)))
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, LONG_ID[:20])
        await pilot.press("l")
        await shows(pilot, "╭─ Log ─", " following · lines 1")
        await pilot.press("slash", *"needle", "enter")
        await shows(pilot, " search “needle” 200 of 200 · paused at 100% · lines 1", " bytes ─╯")
        await pilot.press("r", "1", "enter")
        await shows(pilot, " search “needle” 100 of 100 · ", " · only rank 1 · ")  # counted anew, without another key
        await pilot.press("r", "0", "enter")
        await shows(pilot, " search “needle” 100 matches · ", " · only rank 0 · ")
        await pilot.press("r", *"all", "enter")
        await shows(pilot, " search “needle” 200 of 200 · ")
        await pilot.press("r", "1", "enter")
        await shows(pilot, " search “needle” 100 of 100 · ")
        await pilot.press("N")
        await shows(pilot, " search “needle” 99 of 100 · paused at 100% · only rank 1 · 4,", " bytes ─╯")
        await pilot.press("end")
        await shows(pilot, "99 of 100 · following · only rank 1")
        verdict = Verdict("succeeded", None, None, 1, 2, "evidence")
        runs.record(world.database, LONG_ID, verdict, ended_at=time.time())
        await shows(pilot, "99 of 100 · at the end · only rank 1")
        assert "following" not in screen(pilot)
        await pilot.press("home")
        await lacks(pilot, "at the end")
        assert "paused" not in screen(pilot), "nothing moves on"

    drive(board, use, (width, 24))


def test_a_terminal_without_frames_says_the_same_above_the_log(world: World) -> None:
    world.local_log(LONG_ID, "".join(f"line {number} needle\n" for number in range(200)))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, LONG_ID[:20])  # `l` is for the run under the cursor
        await pilot.press("l")
        await shows(pilot, "following · lines 19", "line 199 needle")
        await pilot.press("slash", *"needle", "enter")
        await shows(pilot, "search “needle” 200 of 200 · ")
        await pilot.press("o")
        await lacks(pilot, "needle")

    drive(world.board(), use, (45, 12))


@pytest.mark.parametrize("mark", ["…", "~"])
def test_a_line_that_is_cut_has_a_mark_and_is_copied_whole(
    world: World, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mark == "~":
        monkeypatch.setenv("LC_ALL", "C")
    long = f"begin {'x' * 290} finish"
    assert len(long) == 303
    world.local_log("demo-aaaaaa", f"short\n{long[:20]}\x1b[2J{long[20:]}\n")
    board = world.board()

    def line(pilot: Pilot[None]) -> str:
        return screen(pilot).splitlines()[4][1:-1]

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "begin xxx", "short")
        assert line(pilot) == f"{long[:77]}{mark}"
        await pilot.press("Y")
        assert board.clipboard == f"short\n{long}"
        await pilot.press("right")
        await until(pilot, lambda: line(pilot) == f"{mark}{'x' * 76}{mark}")
        await pilot.press("right", *["right"] * 5)
        await until(pilot, lambda: line(pilot).rstrip().endswith(" finish") and line(pilot).startswith(mark))
        await pilot.press("W")
        await shows(pilot, "begin xxx", "finish")
        await pilot.press("Y")
        assert board.clipboard == f"short\n{long}", "a line in several pieces is copied once"

    drive(board, use, (80, 24))


@pytest.mark.parametrize("key", ["", "enter"])
def test_the_end_of_a_log_beside_a_run_has_the_colours_of_the_log(world: World, key: str) -> None:
    text = "Traceback (most recent call last):\n" + '  File "deep.py", line 1\n' * 60 + SHOWN
    world.local_log("demo-aaaaaa", text + f"[rank1]: ERROR {'long ' * 100}\n")
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "aaaaaa")
        if key:
            await pilot.press(key)
        await shows(pilot, "needle three")
        beside = board.screen.query_one(LogTail)
        error, warning, quiet, plain = (
            beside.get_component_rich_style(f"log--{name}").color for name in ("error", "warning", "quiet", "dim")
        )
        assert quiet == plain != error
        ground = beside.rich_style.color
        assert styles(pilot, "ValueError")["[rank0]: ValueError: needle two"].color == error
        assert styles(pilot, "deep.py")['File "deep.py", line 1'].color == error, "its traceback began out of sight"
        assert styles(pilot, "careful")["WARNING"].color == warning
        assert styles(pilot, "careful")["careful with this"].color == ground
        own = styles(pilot, "of the job")
        assert own["green of the job"].color not in (error, warning, quiet, ground)
        assert own["ERROR: its own colours win"].color == ground
        line = next(line for line in screen(pilot).splitlines() if "long long" in line)
        assert "…│" in line, "it is cut off at the frame"
        await pilot.press("ctrl+t")
        await until(pilot, lambda: beside.get_component_rich_style("log--error").color != error)
        renewed = beside.get_component_rich_style("log--error").color
        await until(pilot, lambda: styles(pilot, "ValueError")["[rank0]: ValueError: needle two"].color == renewed)

    drive(board, use, (250, 48))
