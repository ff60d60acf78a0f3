"""Launch with an experiment file that has errors: what can be read is shown, and what is wrong can be corrected."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.tui.conftest import World, drive, lacks, said, screen, shows, until
from tests.tui.test_launch_screen import at, launch, record

WRONG = """\
name: hello   # its name
task: command
command: [sh, -c, "echo hi"]
retries: many
stop_grace_s: -1
trian: {seed: "[red]\\e[31m"}
resources: {gpus: 0}
"""


MANY = """\
name: 5
task: sft
modell: x
train: {max_steps: many}
model: tiny
data: {train: [{path: a.jsonl}]}
"""


@pytest.fixture
def file() -> Path:
    path = Path("exp.yaml").absolute()
    path.write_text(WRONG)
    return path


async def opened(pilot: Pilot[None], *words: str) -> None:
    """Open Launch with the experiment, and go to the form."""
    await pilot.press("5")
    await shows(pilot, "Type an experiment and a host")
    launch(pilot).fields["host"].value = ""
    launch(pilot).fields["experiment"].value = "exp.yaml"
    await shows(pilot, *words)
    await until(
        pilot, lambda: launch(pilot).form.is_told
    )  # the checks may have said the same words before; then Escape leaves
    await pilot.press("escape")
    await until(pilot, lambda: launch(pilot).form.table.has_focus)


def test_a_form_over_a_file_with_errors_marks_each_with_its_sentence(world: World, file: Path) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot, "3 errors", "exp.yaml:4: `retries` must be a whole number, not 'many'")
        seen = await shows(
            pilot, "exp.yaml:5: `stop_grace_s` must be at least 0.0, not -1", "exp.yaml:6: unknown key `trian`"
        )
        assert "[red]" in seen
        assert "\x1b" not in seen
        lines = seen.splitlines()
        (wrong,) = [number for number, line in enumerate(lines) if "many" in line and "line 4" in line]
        assert "✗ exp.yaml:4: `retries`" in lines[wrong + 1]
        assert launch(pilot).form.table.cursor == "retries", "the first one has the cursor"
        assert "hello" in seen, "what is right is shown, too"
        await pilot.press("e")
        await until(pilot, lambda: f"+4 {file}" in said(pilot))

    drive(world.board(), use)


def test_errors_are_corrected_one_after_the_other_and_the_difference_is_shown(world: World, file: Path) -> None:
    file.write_text(WRONG.replace('trian: {seed: "[red]\\e[31m"}\n', ""))

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot, "2 errors", "exp.yaml:4: `retries`")
        await pilot.press("S")
        await until(pilot, lambda: "2 errors first: exp.yaml:4: `retries`" in said(pilot))
        await pilot.press("v")
        await until(pilot, lambda: said(pilot).count("2 errors first") == 2)
        await pilot.press("enter")
        await shows(pilot, "enter takes it")
        await pilot.press(*["backspace"] * 4, *"few", "enter")
        await shows(pilot, "--set retries=few: `retries` must be a whole number, not 'few'")
        await pilot.press(*["backspace"] * 3, *"2", "enter")
        await lacks(pilot, "enter takes it")
        await shows(pilot, "1 error · 1 change", "retries=2")
        await pilot.press("D")
        await shows(pilot, "-retries: many", "+retries: 2", "`stop_grace_s` must be at least 0.0, not -1")
        await pilot.press("escape")
        await at(pilot, "stop_grace_s")
        await pilot.press("enter")
        await shows(pilot, "enter takes it")
        await pilot.press("backspace", "backspace", *"5", "enter")
        await lacks(pilot, "enter takes it", "1 error")
        await shows(pilot, "2 changes")
        await pilot.press("S")
        await shows(pilot, "Save as", "exp-2.yaml")
        await pilot.press("enter")
        await until(pilot, lambda: launch(pilot).fields["experiment"].value == "exp-2.yaml")
        assert Path("exp-2.yaml").read_text() == file.read_text().replace("many", "2").replace("-1", "5")

    drive(world.board(), use)


def test_an_unknown_key_is_told_with_the_nearest_one_and_taken_out_after_a_question(world: World, file: Path) -> None:
    file.write_text("name: hello\ntask: command\ncommand: [a]\nretrys: 2\n")

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot, "exp.yaml:4: unknown key `retrys`", "did you mean `retries`?")
        await pilot.press("enter")
        await shows(pilot, "Take `retrys` out?", "y take it out", "e opens the file")
        await pilot.press("n")
        await lacks(pilot, "Take `retrys` out?")
        await shows(pilot, "1 error")
        await pilot.press("e")
        await until(pilot, lambda: f"+4 {file}" in said(pilot))
        await pilot.press("enter")
        await shows(pilot, "Take `retrys` out?")
        await pilot.press("y")
        await lacks(pilot, "Take `retrys` out?", "unknown key", "1 error")
        await shows(pilot, "1 change")
        assert launch(pilot).fields["set"].value == "'retrys=!unset'"
        await pilot.press("D")
        await shows(pilot, "-retrys: 2")
        await pilot.press("escape")
        await lacks(pilot, "-retrys: 2")
        await pilot.press("S")
        await shows(pilot, "Save as", "exp-2.yaml")
        await pilot.press("enter")
        await until(pilot, lambda: launch(pilot).fields["experiment"].value == "exp-2.yaml")
        assert Path("exp-2.yaml").read_text() == "name: hello\ntask: command\ncommand: [a]\n"
        assert "retrys" in file.read_text()

    drive(world.board(), use)


def test_an_unknown_section_is_taken_out_from_what_is_in_it(world: World, file: Path) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot, "3 errors", "exp.yaml:6: unknown key `trian`")
        await at(pilot, "trian.seed")
        await pilot.press("enter")
        await shows(pilot, "Take `trian` out?")
        await pilot.press("y")
        await shows(pilot, "2 errors", "1 change")
        await lacks(pilot, "unknown key")

    drive(world.board(), use)


def test_a_file_that_is_not_yaml_says_so_and_opens_in_the_editor(world: World, file: Path) -> None:
    file.write_text("name: hello\n\ttask: command\n")

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot, "no settings can be read", "exp.yaml:2: not YAML", "In this frame, e opens")
        await pilot.press("e")
        await until(pilot, lambda: "+2 exp.yaml" in said(pilot))
        file.write_text(WRONG)
        await shows(pilot, "3 errors")
        assert "no settings can be read" not in screen(pilot)

    drive(world.board(), use)


def other(pilot: Pilot[None], name: str) -> None:
    """Type the name of another file."""
    launch(pilot).fields["experiment"].value = name


@pytest.mark.parametrize(
    ("text", "reason"), [("name: hello\n\ttask: command\n", "other.yaml:2: not YAML"), (None, "other.yaml")]
)
def test_a_file_that_cannot_be_read_leaves_no_settings_of_the_one_before(
    world: World, file: Path, text: str | None, reason: str
) -> None:
    file.write_text("name: hello\ntask: command\ncommand: [sh, -c, echo first]\n")
    if text is not None:
        Path("other.yaml").write_text(text)

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot, "Experiment exp.yaml", "hello", "line 1")
        other(pilot, "other.yaml")
        seen = await shows(pilot, "Experiment other.yaml", "no settings can be read", reason)
        assert "hello" not in seen
        assert "line 1" not in seen
        assert "echo first" not in seen
        await pilot.press("enter")
        await pilot.press("S")
        await until(pilot, lambda: "nothing to save: other.yaml" in said(pilot).replace(f"{file.parent}/", ""))
        assert len(pilot.app.screen_stack) == 2, "no editor and no question is open"
        other(pilot, "exp.yaml")
        await shows(pilot, "Experiment exp.yaml", "echo first")

    drive(world.board(), use)


def test_each_error_has_a_line_and_its_own_remedy(world: World, file: Path) -> None:
    file.write_text(MANY)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        await shows(pilot, "Type an experiment and a host")
        await until(pilot, lambda: launch(pilot).fields["host"].value == "local")
        launch(pilot).fields["experiment"].value = "exp.yaml"
        seen = await shows(pilot, "││ ✗ exp.yaml:4: `train.global_batch_size` is missing")  # in the frame Checks
        found = [line[line.index("││") :] for line in seen.splitlines() if "││ ✗ exp.yaml:" in line]
        for words in (
            '✗ exp.yaml:1: `name` must be text, not 5 (put quotes around it: "5")',
            "✗ exp.yaml:3: unknown key `modell` (did you mean `model`?)",
            "✗ exp.yaml:4: `train.max_steps` must be a whole number, not 'many'",
        ):
            assert any(words in line for line in found), seen

    drive(world.board(), use, (240, 48))


def test_a_change_in_the_line_that_is_wrong_is_marked_at_its_setting(world: World, file: Path) -> None:
    file.write_text("name: hello\ntask: command\ncommand: [a]\n")

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot, "Experiment exp.yaml", "hello")
        launch(pilot).fields["set"].value = "retries=many name.a=b"
        await shows(
            pilot, "2 errors", "--set retries=many: `retries` must be", "--set name.a: `name` is a single value"
        )
        await at(pilot, "retries")
        await pilot.press("u")
        await lacks(pilot, "--set retries")

    drive(world.board(), use)


def test_a_closed_section_is_marked_when_something_in_it_is_wrong(world: World, file: Path) -> None:
    file.write_text("name: hello\ntask: command\ncommand: [a]\nsync: {transfer: ftp}\n")

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot, "1 error", "transfer  ", "exp.yaml:4: ")
        await pilot.press("left", "left")
        await lacks(pilot, "transfer  ")
        await shows(pilot, "✗ exp.yaml:4: `sync.transfer`")

    drive(world.board(), use)


def test_a_run_is_launched_again_from_a_file_that_has_become_faulty(world: World, file: Path) -> None:
    file.write_text("name: hello\ntask: command\ncommand: [sh, -c, 'echo hi']\n")
    record(world, retries=4)
    file.write_text(WRONG)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "renamed")
        await pilot.press("R")
        await shows(pilot, "3 errors", "exp.yaml:4: `retries` must be a whole number, not 'many'")
        await until(pilot, lambda: "exp.yaml has errors now" in said(pilot))
        assert "armada reproduce demo-aaaaaa --to DIR" in said(pilot)
        assert "retries=4" not in screen(pilot), "what the run had does not suit the file as it is"
        assert launch(pilot).fields["host"].value == "local"

    drive(world.board(), use)
