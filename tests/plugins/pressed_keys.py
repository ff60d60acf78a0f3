"""After all tests of the dashboard: the session fails with a sentence for each of its keys that none of them pressed.

Nobody keeps a list of tests. Each process notes which bindings ran because of a key that its tests of tests/tui pressed, and
xdist's workers hand their notes to the process that started them. That one compares them with the bindings which classes of
armada.tui declare; what Textual's own classes bind does not count. Nothing is compared where tests were left out, failed or were
not reached: then a missing key says nothing. Skipped tests are no such case, because they drive a real terminal or browser, whose
keys are not seen here.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from textual.app import App
    from textual.message import Message
    from textual.message_pump import MessagePump
    from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

_TUI = Path(__file__).resolve().parents[1] / "tui"
_NOTES = "armada_pressed_keys"
_KEY: ContextVar[str | None] = ContextVar("key", default=None)
"""The key that is being obeyed."""


class Bound(NamedTuple):
    """A key that a class binds.

    Attributes:
        owner: The class that declares it, as `module.Class`.
        key: Its name in Textual.
        action: What it does, with its arguments.
    """

    owner: str
    key: str
    action: str

    @property
    def sentence(self) -> str:
        """Say that nobody presses it."""
        return f"{self.owner} binds {self.key!r} to {self.action}, and no test presses it there."


class Notes(NamedTuple):
    """What a process knows at its end.

    Attributes:
        pressed: What its tests pressed.
        tests: How many tests of the dashboard it collected; all processes of a session collect the same.
        is_whole: None of them were left out.
    """

    pressed: frozenset[Bound]
    tests: int
    is_whole: bool


def plain(key: str) -> str:
    """One name for a capital letter: some terminals send `shift+u` for `U`."""
    return key[-1].upper() if re.fullmatch(r"shift\+[a-z]", key) else key


@functools.cache  # it takes half a millisecond, and is asked at each key
def declared(cls: type) -> frozenset[Bound]:
    """The keys that a class itself binds."""
    from textual.binding import Binding

    made = Binding.make_bindings(cls.__dict__.get("BINDINGS", ()))
    return frozenset(Bound(f"{cls.__module__}.{cls.__qualname__}", plain(each.key), each.action) for each in made)


def all_declared(package: str) -> frozenset[Bound]:
    """The keys that all classes of a package bind."""
    from textual.dom import DOMNode

    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        importlib.import_module(module.name)
    found, rest = set[Bound](), {DOMNode}
    while rest:
        cls = rest.pop()
        rest |= set(cls.__subclasses__())
        if cls.__module__.startswith(f"{package}."):
            found |= declared(cls)
    return frozenset(found)


class PressedKeys:
    """The plugin.

    Args:
        config: That of pytest.
        folder: Where the tests of the dashboard lie.
        package: Whose keys are meant.
    """

    def __init__(self, config: pytest.Config, folder: Path = _TUI, package: str = "armada.tui") -> None:
        self._config = config
        self._folder = folder
        self._package = package
        self._patches = pytest.MonkeyPatch()
        self._is_noting = False
        self._pressed = set[Bound]()
        self._files, self._tests, self._left_out = set[str](), set[str](), False
        self._notes: list[Notes] = []
        self._passed, self._failed = set[str](), False
        self._wanted = frozenset[Bound]()
        self._missing: list[Bound] = []

    @property
    def _is_worker(self) -> bool:
        return hasattr(self._config, "workerinput")

    # In each process that runs tests --------------------------------------------------------------------------------

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        if self._folder in item.path.parents:
            self._files.add(item.path.name)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Only the long tests may be left out: whoever runs without them must see every key, too."""
        self._left_out |= any(
            self._folder in item.path.parents and not item.get_closest_marker("long") for item in items
        )

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        items = [item for item in session.items if self._folder in item.path.parents]
        files = {path.name for path in self._folder.glob("test_*.py")}
        only = any("::" in each for each in self._config.args)
        self._tests = {item.nodeid for item in items}
        self._left_out |= files != self._files or only
        if items:
            self._listen()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._is_noting = self._folder in item.path.parents
        try:
            return (yield)
        finally:
            self._is_noting = False

    def _listen(self) -> None:
        """Note each action that a key starts. Both are called by everything in Textual, fields with keys of their own included."""
        from textual.app import App
        from textual.events import Key
        from textual.message_pump import MessagePump

        dispatch, run = MessagePump._dispatch_message, App.run_action  # noqa: SLF001  # the only place that all keys pass

        async def dispatch_message(pump: MessagePump, message: Message) -> None:
            if not isinstance(message, Key):
                return await dispatch(pump, message)
            token = _KEY.set(message.key)
            try:
                return await dispatch(pump, message)
            finally:
                _KEY.reset(token)

        async def run_action(
            app: App[Any], action: Any, default_namespace: Any = None, namespaces: Mapping[str, Any] | None = None
        ) -> bool:
            key = _KEY.get()
            token = _KEY.set(None)  # what the action starts was not pressed
            try:
                did = await run(app, action, default_namespace, namespaces)
            finally:
                _KEY.reset(token)
            if did and key is not None and self._is_noting:
                self._note(default_namespace, key, action)
            return did

        self._patches.setattr(MessagePump, "_dispatch_message", dispatch_message)
        self._patches.setattr(App, "run_action", run_action)

    def _note(self, node: object, key: str, action: object) -> None:
        for cls in type(node).__mro__:
            bound = Bound(f"{cls.__module__}.{cls.__qualname__}", plain(key), str(action))
            if bound in declared(cls):
                self._pressed.add(bound)
                return

    # In the process that people start -------------------------------------------------------------------------------

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController, error: object | None) -> None:
        pressed, tests, is_whole = getattr(node, "workeroutput", {}).get(_NOTES, ((), 0, False))
        self._notes.append(Notes(frozenset(Bound(*each) for each in pressed), tests, is_whole and error is None))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path = self._config.rootpath / report.nodeid.partition("::")[0]
        if self._folder in path.parents:
            self._failed |= report.failed
            if report.when == "teardown":
                self._passed.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        mine = Notes(frozenset(self._pressed), len(self._tests), not self._left_out)
        if self._is_worker:
            output: dict[str, object] = self._config.workeroutput  # type: ignore[attr-defined]  # xdist's
            output[_NOTES] = ([tuple(each) for each in sorted(mine.pressed)], mine.tests, mine.is_whole)
            return
        notes = self._notes or [mine]
        tests = max(each.tests for each in notes)
        if tests and len(self._passed) == tests and not self._failed and all(each.is_whole for each in notes):
            pressed = frozenset[Bound]().union(*(each.pressed for each in notes))
            self._wanted = all_declared(self._package)
            self._missing = sorted(self._wanted - pressed)
        if self._missing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._wanted and not self._missing:
            terminalreporter.line(f"all {len(self._wanted)} keys of the dashboard were pressed")
        if self._missing:
            terminalreporter.section("keys of the dashboard that no test presses", red=True)
            for each in self._missing:
                terminalreporter.line(each.sentence, red=True)

    def pytest_unconfigure(self) -> None:
        self._patches.undo()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(PressedKeys(config))
