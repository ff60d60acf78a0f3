"""The film in the documentation can still be played: its keys do what they did, and what it waits for comes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from armada.store import checkpoints, runs
from armada.tui import operations
from armada.tui.operations import Answer
from armada.verdicts.states import Verdict
from tests.tools import film
from tests.tui.conftest import World, drive, nothing, shows

RUN = "puzzles-aaaaaa"
STEPS = (40, 80, 120, 160, 200, 240)
_LINE = re.compile(r"\x1b\[(\d+);1H(.*?)\x1b\[K")
_SIGNS = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]|\x1b\([A-Z0-9]|[\x0e\x0f]")
KEYS = {"Enter": "enter", "Escape": "escape"}


class Script(film.Actor):
    """Writes down what is to be pressed and read."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, tuple[str, ...]]] = []

    def press(self, *keys: str) -> None:
        self.lines.append(("press", tuple(KEYS.get(key, key) for key in keys)))

    def write(self, text: str) -> None:
        self.lines += [("press", (text[0],)), ("paste", (text[1:],))]

    def reads(self, *words: str) -> None:
        self.lines.append(("reads", words))


class Stage:
    """Lets happen to the run what the host and the commands of the film would do to it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.commands: list[str] = []
        self.others = operations.ask

    def start(self, _home: object, _title: str, words: Sequence[str], _tell: object, **_: Any) -> None:
        self.commands.append(words[0])
        {"launch": self.launched, "stop": self.stopped, "resume": self.resumed, "sync": self.synced}[words[0]]()

    def ask(self, words: Sequence[str], tell: Callable[[Answer], None]) -> Callable[[], None]:
        if words[0] != "hosts":
            return self.others(words, tell)
        self.commands.append(" ".join(words[:3]))
        tell(Answer(0, json.dumps({"safe": True, "items": []}), ""))
        return nothing

    def before(self, words: Sequence[str]) -> None:
        """Bring about what only time brings."""
        if "stalled" in words:
            self.record("running", "stalled", 1)
        elif "done" in words:
            for step in STEPS[2:]:
                self.world.checkpoint(RUN, step, home=False)
            self.record("succeeded", None, 2, ended_at=time.time(), step=240)

    def record(self, state: str, reason: str | None, attempt: int, **facts: Any) -> None:
        verdict = Verdict(state, reason, None, attempt, attempt, "evidence")
        runs.record(self.world.database, RUN, verdict, observed_at=time.time(), **facts)

    def launched(self) -> None:
        self.world.run(RUN, name="puzzles", host=film.HOST, step=100, total_steps=240)
        self.world.losses(RUN, [3.0 / number for number in range(1, 100)])
        outputs = self.world.home.run(RUN) / "outputs"
        outputs.mkdir(parents=True)
        (outputs / "output.log").write_text("step 100/240  loss 0.9000\n")
        self.world.checkpoint(RUN, STEPS[0], home=True)
        self.world.checkpoint(RUN, STEPS[1], home=False)

    def stopped(self) -> None:
        self.record("cancelled", None, 1, ended_at=time.time())

    def resumed(self) -> None:
        self.record("running", None, 2, ended_at=None, submission=2)

    def synced(self) -> None:
        for each in checkpoints.of_run(self.world.database, RUN):
            place = self.world.home.checkpoints(RUN) / f"checkpoint-{each.step}"
            place.mkdir(parents=True, exist_ok=True)
            checkpoints.mark_home(self.world.database, RUN, each.digest, place)
        self.world.last_sync(RUN)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    monkeypatch.setattr(film, "_READ_S", 0.0)
    written = Script()
    film.play(written)
    return written


def test_the_keys_of_the_film_lead_from_scene_to_scene(
    world: World, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(world)
    world.hosts(**{film.HOST: {"ssh": "root@192.0.2.1", "price_per_hour": 12.4}})
    Path("puzzles.yaml").write_text(film.EXPERIMENT)
    monkeypatch.setattr("armada.tui.operations.start", stage.start)
    monkeypatch.setattr("armada.tui.operations.ask", stage.ask)
    monkeypatch.setattr("armada.tui.outputs.command", lambda *_: ["echo", "because it has not gone on"])

    async def use(pilot: Pilot[None]) -> None:
        for kind, words in script.lines:
            if kind == "press":
                await pilot.press(*words)
            elif kind == "paste":  # each key costs what it costs to draw the screen
                pilot.app.post_message(events.Paste(*words))
            else:
                stage.before(words)
                await shows(pilot, *words)

    drive(world.board(), use, film.SIZE)
    assert stage.commands == ["launch", "stop", "resume", "sync", "hosts release --dry-run"]


def test_the_recording_shows_what_the_film_waits_for_in_its_order(script: Script) -> None:
    head, *events = (json.loads(line) for line in film.FILM.read_text("utf-8").splitlines())
    assert (head["version"], head["width"], head["height"]) == (2, *film.SIZE)
    moments = [moment for moment, _, _ in events]
    assert moments == sorted(moments)
    screens, shown = list[str](), dict[int, str]()
    for _, _, written in events:
        shown |= {int(row): _SIGNS.sub("", line) for row, line in _LINE.findall(written)}
        screens.append("\n".join(shown.values()))
    at = 0
    for words in (words for kind, words in script.lines if kind == "reads"):
        found = [place for place in range(at, len(screens)) if all(word in screens[place] for word in words)]
        assert found, f"make film: {words} are not in the recording"
        at = found[0]
