"""Record docs/screenshots/rescue.cast: a run is launched, watched, hangs, is rescued, and its box is released. `make film`.

The dashboard runs in tmux, against a host of the fleet. What stands on the screen is looked at four times a second, and
each change becomes an event of an asciinema recording (asciicast v2): `asciinema play docs/screenshots/rescue.cast`.
Waiting is cut to two seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.conftest import Armada
from tests.fleet import machines
from tests.tui.terminal import Terminal

ROOT = Path(__file__).parents[2]
FILM = ROOT / "docs" / "screenshots" / "rescue.cast"
SIZE = (130, 38)
HOST = "a100-1"
_PATIENCE_S = 120.0
_LOOK_EVERY_S = 0.25
_LONGEST_REST_S = 2.0
_KEY_S = 0.07
_ESCAPE_S = 0.6
"""A key that comes sooner after it is taken for Alt and that key."""

_READ_S = 2.2
"""How long a viewer gets for what came onto the screen."""

EXPERIMENT = """\
name: puzzles
task: command
command: [python3, train.py]
code: .
resources: {gpus: 8}
stall_after: 10s
checkpoint: {pattern: "out/checkpoint-*", quiet_s: 1}
resume: [--resume, "{checkpoint}"]
"""
TRAIN = """\
import math, os, pathlib, sys, time
import armada_log

def losses(step):
    return 0.4 + 2.6 * math.exp(-step / 60) + 0.03 * math.sin(step * 1.7)

first = int(sys.argv[2].rsplit("-", 1)[1]) if "--resume" in sys.argv else 0
print("training on 8 GPUs, from step", first, flush=True)
for step in range(first + 1, 241):
    time.sleep(0.12)
    print(f"step {step}/240  loss {losses(step):.4f}", flush=True)
    armada_log.log(step=step, loss=losses(step), tokens=4_700)
    if step % 40 == 0:
        folder = pathlib.Path("out") / f"checkpoint-{step}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.safetensors").write_bytes(os.urandom(1 << 20))
    if not first and step == 130:
        time.sleep(100_000)  # the collective that never comes back
"""


class Camera(threading.Thread):
    """Looks at a terminal until it is told to stop, and keeps each change with its time."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(daemon=True)
        self._terminal = terminal
        self._over = threading.Event()
        self._shown: list[str] = []
        self.events: list[tuple[float, str]] = []

    def run(self) -> None:
        while not self._over.wait(_LOOK_EVERY_S):
            lines = self._terminal.tmux("capture-pane", "-p", "-e").split("\n")[: SIZE[1]]
            changed = [
                f"\x1b[{number};1H\x1b[0m{line}\x1b[0m\x1b[K"
                for number, line in enumerate(lines, 1)
                if number > len(self._shown) or self._shown[number - 1] != line
            ]
            if changed:
                self.events.append((time.monotonic(), "".join(changed)))
            self._shown = lines

    def stop(self) -> None:
        self._over.set()
        self.join()


def cast(events: list[tuple[float, str]], title: str) -> str:
    """Write events as an asciicast, with shorter rests.

    Args:
        events: Moments in seconds of any clock, and what is written to the terminal then.
        title: What players show.

    Returns:
        The file's text.
    """
    head = {"version": 2, "width": SIZE[0], "height": SIZE[1], "title": title, "env": {"TERM": "xterm-256color"}}
    lines = [json.dumps(head)]
    before, now = events[0][0] if events else 0.0, 0.0
    for number, (moment, written) in enumerate(events):
        now += min(_LONGEST_REST_S, moment - before)
        before = moment
        shown = ("" if number else "\x1b[?25l\x1b[2J") + written
        lines.append(json.dumps([round(now, 2), "o", shown], ensure_ascii=False))
    return "\n".join(lines) + "\n"


class Actor:
    """Presses keys as a person does, and reads what they bring."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def press(self, *keys: str) -> None:
        for key in keys:
            self._terminal.keys(key)
            time.sleep(_ESCAPE_S if key == "Escape" else _KEY_S)

    def write(self, text: str) -> None:
        for character in text:
            self._terminal.tmux("send-keys", "-l", character)
            time.sleep(_KEY_S / 2)

    def reads(self, *words: str) -> None:
        self._terminal.shows(*words, within_s=_PATIENCE_S)
        time.sleep(_READ_S)


def play(actor: Actor) -> None:
    """Launch, watch, hang, rescue, release."""
    actor.reads("Nothing has been launched yet")
    actor.write(f":launch --host {HOST} puzzles.yaml")
    actor.press("Enter")
    actor.reads("puzzles", "running", "step")
    actor.press("Enter")
    actor.reads("puzzles · loss", "1 home")
    actor.press("c")
    actor.reads("loss (1 of")
    actor.press(",", ",", ",", ",")
    actor.reads("at step")
    actor.press("1")
    actor.reads("stalled")
    actor.write(":why")
    actor.press("Enter")
    actor.reads("because")
    actor.press("Escape", "x")
    actor.reads("Stop 1 run?")
    actor.press("y")
    actor.reads("cancelled")
    actor.press("u")
    actor.reads("Resume 1 run?")
    actor.press("y")
    actor.reads("running")
    actor.press("Enter")
    actor.reads("2 of submission 2")
    actor.press("1")
    actor.reads("done")
    actor.press("y")
    actor.reads("all 6 home")
    actor.press("3", "r")
    actor.reads("can be destroyed")
    actor.press("Escape", "q")
    time.sleep(_READ_S)


def record(folder: Path) -> str:
    """Play the film in an empty folder and return the recording."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ARMADA_", "WANDB_", "HF_"))}
    own = {"ARMADA_HOME": str(folder / "home"), "TERM": "xterm-256color", "LANG": "C.UTF-8", "TZ": "UTC"}
    project = folder / "puzzles"
    project.mkdir()
    (project / "puzzles.yaml").write_text(EXPERIMENT)
    (project / "train.py").write_text(TRAIN)
    armada = Armada(project, kept | own | {"SSH_AUTH_SOCK": ""})
    machine = machines.MACHINES[HOST]
    words = ("--identity", str(machines.IDENTITY), "--price", "12.40", "--yes")
    added = armada.run("hosts", "add", HOST, machine.target, *words)
    if added.returncode:
        sys.exit(added.stderr)
    terminal = Terminal(armada)
    try:
        terminal.open(*SIZE)
        camera = Camera(terminal)
        camera.start()
        play(Actor(terminal))
        camera.stop()
    finally:
        terminal.tmux("kill-server")
        armada.run("daemon", "stop")
    return cast(camera.events, "armada: a run hangs, is rescued, and its box is released")


def main() -> None:
    why_not = machines.why_not() or (None if shutil.which("tmux") else "it needs tmux")
    if why_not:
        sys.exit(f"no film: {why_not}")
    subprocess.run([sys.executable, ROOT / "tests" / "fleet" / "fleet", "up", HOST], check=True)
    with tempfile.TemporaryDirectory() as folder:
        text = record(Path(folder))
    FILM.write_text(text, "utf-8")
    print(f"{FILM}: {len(text) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
