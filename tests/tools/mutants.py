"""Change one condition of armada's decisions at a time and report which tests detect it.

    python -m tests.tools.mutants [--stories N] [--jobs N] [--list] [--simulator-only] [--sample N] [--draw N]
                                  [--first FILE] [WORD …]

Each mutant gets a copy of the tree in a temporary folder. First, the stories of tests/simulation that reach its line
are run: all that were found once, then N random ones. Then its module's unit tests run. The first failure ends the run.
A WORD selects mutants by a part of their name, such as `proof.py` or `state.py:120`. Exit code 1: a mutant that is not
in `EQUIVALENT` was not detected.

With `--simulator-only`, no unit tests run: it measures what the simulation alone detects. `--sample N` takes at least N
mutants that remove a condition, of each module alike, the same ones each time; `--draw N` makes another choice.

`--first FILE`: what an earlier run printed. The story that noticed a mutant then is told to it first; only for mutants
that it no longer notices, all stories are run. Then a census of all mutants takes minutes.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.tools.mutant_list import EQUIVALENT, MODULES, ROOT, Mutant, breed, sample
from tests.tools.mutant_server import serve


class Copy:
    """A copy of the tree with one mutant at a time, and the process that tests it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for name in listed.stdout.split("\0"):
            if name and (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(folder / "remote_payload")])}
        env.pop("ARMADA_SEED", None)
        command = [sys.executable, "-m", "tests.tools.mutants", "--serve"]
        self.process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ask({"stories": [], "tests": []})  # wait until it has imported everything, before anything is changed

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline()))

    def try_out(self, mutant: Mutant, stories: Sequence[int], tests: Sequence[str]) -> dict[str, Any]:
        path = self.folder / mutant.module.path
        source = path.read_bytes()
        path.write_bytes(source[: mutant.begin] + f"({mutant.new})".encode() + source[mutant.end :])
        try:
            return self.ask({"path": mutant.module.path, "stories": list(stories), "tests": list(tests)})
        finally:
            path.write_bytes(source)

    def close(self) -> None:
        self.process.communicate()


def _choose(mutant: Mutant, mapped: dict[str, Any]) -> list[int]:
    lines = {f"{mutant.module.path}:{number}" for number in mutant.lines}
    return [number for number, reached in enumerate(mapped["reached"]) if lines & set(reached)]


_NOTICED = re.compile(r"\| (\S+):\d+ \| `(.*)` \| [^|]* \| simulation \| “(.*?)”: ")


def read_noticed(text: str) -> dict[tuple[str, str], set[str]]:
    """Return the stories that noticed mutants according to an earlier run's table, by the module's path and the change."""
    noticed: dict[tuple[str, str], set[str]] = {}
    for line in text.splitlines():
        if found := _NOTICED.match(line):
            noticed.setdefault((found[1], found[2]), set()).add(found[3])
    return noticed


def _tell_first(
    copy: Copy, mutants: Sequence[Mutant], noticed: dict[tuple[str, str], set[str]], say: Callable[[str], None]
) -> dict[Mutant, str]:
    """Tell each mutant the stories that noticed it before; return those that are noticed again."""
    numbers = {name: number for number, name in enumerate(copy.ask({"names": True})["names"])}
    known = {each: noticed.get((each.module.path, each.change), set()) for each in mutants}
    chosen = {each: sorted(numbers[name] for name in names if name in numbers) for each, names in known.items()}
    if broken := copy.ask({"stories": sorted({number for each in chosen.values() for number in each}), "tests": []}):
        say(f"a story breaks without any change: {broken}")
        return {}
    again: dict[Mutant, str] = {}
    for mutant, stories in chosen.items():
        result = copy.try_out(mutant, stories, ()) if stories else {}
        if result.get("by") == "simulation":
            again[mutant] = result["by"]
            say(f"| {mutant.name} | `{mutant.change}` | told first | simulation | {result['how'][:160]} |")
    return again


def run(
    mutants: Sequence[Mutant],
    stories: int,
    jobs: int,
    say: Callable[[str], None],
    *,
    simulator_only: bool = False,
    noticed: dict[tuple[str, str], set[str]] | None = None,
) -> int:
    """Test all mutants; print the outcome of each and the totals."""
    tests_of: dict[str, tuple[str, ...]] = {m.module.path: () if simulator_only else m.module.tests for m in mutants}
    with tempfile.TemporaryDirectory(prefix="armada-mutants-") as folder:
        copies: queue.Queue[Copy] = queue.Queue()
        first = Copy(Path(folder) / "copy-0")
        tried = [mutant for mutant in mutants if mutant.key not in EQUIVALENT]
        say("| mutant | change | stories | noticed by | how |\n|---|---|---|---|---|")
        again = _tell_first(first, tried, noticed, say) if noticed else {}
        mapped = first.ask({"map": stories})
        if "reached" not in mapped:
            say(f"the stories break, or do not run, without any change: {mapped}")
            return 1
        for tests in sorted({tests for tests in tests_of.values() if tests}):
            if told := first.ask({"stories": [], "tests": tests}):
                say(f"{' '.join(tests)}: fails without any change: {told}")
                return 1
        every = [first, *(Copy(Path(folder) / f"copy-{number}") for number in range(1, jobs))]
        for each in every:
            copies.put(each)

        def one(mutant: Mutant) -> tuple[Mutant, str]:
            reaching = _choose(mutant, mapped)
            copy = copies.get()
            try:
                result = copy.try_out(mutant, reaching, tests_of[mutant.module.path])
            finally:
                copies.put(copy)
            by = result.get("by", "nobody")
            reach = f"{len(reaching)} stories reach it"
            say(f"| {mutant.name} | `{mutant.change}` | {reach} | {by} | {result.get('how', '')[:160]} |")
            return mutant, by

        with ThreadPoolExecutor(jobs) as pool:
            results = [*again.items(), *pool.map(one, [mutant for mutant in tried if mutant not in again])]
        for each in every:
            each.close()
    _sum_up(mutants, results, say)
    return not simulator_only and any(by == "nobody" for _, by in results)


def _sum_up(mutants: Sequence[Mutant], results: Sequence[tuple[Mutant, str]], say: Callable[[str], None]) -> None:
    say(
        "\n| module | mutants | simulation | unit tests, after it | otherwise | nobody |\n|---|---:|---:|---:|---:|---:|"
    )
    groups = {module.path: [by for mutant, by in results if mutant.module is module] for module in MODULES}
    groups["all"] = [by for _, by in results]
    for name, ends in groups.items():
        if ends:
            counts = Counter(ends)
            named = [counts.pop(by, 0) for by in ("simulation", "unit tests", "nobody")]
            share = f"{100 * named[0] / len(ends):.0f} %"
            say(f"| {name} | {len(ends)} | {named[0]} ({share}) | {named[1]} | {counts.total()} | {named[2]} |")
    for mutant in mutants:
        if reason := EQUIVALENT.get(mutant.key):
            say(f"equivalent, not tried: {mutant.name} `{mutant.change}`: {reason}")


def main(arguments: Sequence[str]) -> int:
    """Test the mutants that the arguments select."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="a part of the names of those wanted; all by default")
    parser.add_argument("--stories", type=int, default=40, help="how many random stories, beside those found once (40)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once (one for each core)")
    parser.add_argument("--simulator-only", action="store_true", help="run no unit tests; survivors are no failure")
    parser.add_argument("--sample", type=int, metavar="N", help="about N that remove a condition, of each module alike")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="which choice of a sample (0)")
    parser.add_argument(
        "--first",
        type=Path,
        metavar="FILE",
        help="what an earlier run printed: what noticed a mutant then is told first",
    )
    parser.add_argument("--list", action="store_true", help="name the mutants and end")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve:
        return serve()
    mutants = breed(given.words)
    if given.sample is not None:
        mutants = sample(mutants, given.sample, given.draw)
    if given.list:
        for mutant in mutants:
            print(f"{mutant.name} {mutant.key}" + (" (equivalent)" if mutant.key in EQUIVALENT else ""))
        return 0
    say = functools.partial(print, flush=True)
    noticed = read_noticed(given.first.read_text(encoding="utf-8")) if given.first else None
    return run(mutants, given.stories, given.jobs, say, simulator_only=given.simulator_only, noticed=noticed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
