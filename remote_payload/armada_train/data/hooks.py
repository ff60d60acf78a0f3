"""Rows from a user's function, `sample(index, rng)`: endless, and each can be created without those before it.

A row depends only on position and seed. So ranks and workers share one numbering without overlap, and a resumed run
continues at its position, however far that is.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from armada_train.data.rows import read_source
from armada_train.data.shapes import Row, normalise, texts_of
from armada_train.failure import PayloadFailure
from armada_train.specification.values import Source

_TEXTS = 200
"""How many samples a tokenizer created by the run learns from."""

Hook = Callable[[int, Any], Any]


class HookError(PayloadFailure):
    """A hook that raised an exception, or returned an invalid row.

    A DataLoader's worker passes on only an exception's type and one text with the whole traceback.
    """

    def __init__(self, message: str) -> None:
        super().__init__("data_error", message.rpartition(f"{HookError.__name__}: ")[2].strip())


class Stream:
    """Endless rows from hooks, mixed by weight with each other and with files.

    Args:
        sources: At least one of them is a hook; a file's rows are drawn with replacement.
        seed: The seed of all random draws.

    Raises:
        PayloadFailure: `data_error`: a hook does not exist, or its first row is invalid.
    """

    def __init__(self, sources: tuple[Source, ...], seed: int) -> None:
        self.ignored_keys: Counter[str] = Counter()
        self._seed = seed
        self._hooks = [load_hook(source.hook) if source.hook else None for source in sources]
        self._sources = sources
        total = sum(source.weight for source in sources)
        self._shares = [source.weight / total for source in sources]
        self.kind = ""
        self._rows = [[] if source.hook else self._read(source) for source in sources]
        for number, source in enumerate(sources):
            if source.hook:
                self._make(number, 0, self._generator(0))
        self.ignored_keys.clear()  # counted once per call, they would be meaningless

    def row(self, position: int, draw: int = 0) -> Row:
        """Create the row at a position.

        Args:
            position: From 0.
            draw: A higher number gives another row for the same position, if the first could not be used.
        """
        generator = self._generator(position, draw)
        number = 0
        if len(self._sources) > 1:
            number = int(generator.choice(len(self._sources), p=self._shares))
        return self._make(number, position, generator)

    def texts(self) -> Iterator[str]:
        """Yield texts of the first rows, for a tokenizer to learn from."""
        for position in range(_TEXTS):
            yield from texts_of(self.row(position))

    def _generator(self, position: int, draw: int = 0) -> Any:
        import numpy as np  # not before the specification was validated

        return np.random.default_rng((self._seed, position, draw))

    def _make(self, number: int, position: int, generator: Any) -> Row:
        hook, source = self._hooks[number], self._sources[number]
        if hook is None:
            rows = self._rows[number]
            return rows[int(generator.integers(len(rows)))]
        where = f"hook {source.hook} at index {position}"
        try:
            content = hook(position, generator)
        except PayloadFailure:
            raise  # a signal arrived meanwhile
        except Exception as error:
            raise HookError(f"{where}: {type(error).__name__}: {error}") from error
        try:
            kind, row = normalise(content, where, self.ignored_keys)
        except PayloadFailure as failure:
            raise HookError(failure.message) from failure
        self._agree(kind, where)
        return row

    def _read(self, source: Source) -> list[Row]:
        kind, rows = read_source(source, self.ignored_keys)
        self._agree(kind, source.name)
        return rows

    def _agree(self, kind: str, where: str) -> None:
        if self.kind and kind != self.kind:
            raise HookError(f"{where}: is {kind}, but earlier rows are {self.kind}: one kind per run")
        self.kind = kind


def load_hook(name: str, what: str = "hook") -> Any:
    """Import `module:function` from the synced code; `what` it is stands in the message.

    Raises:
        PayloadFailure: `data_error`, naming what is missing.
    """
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except PayloadFailure:
        raise  # a signal arrived meanwhile
    except Exception as error:
        raise PayloadFailure("data_error", f"{what} {name}: {type(error).__name__}: {error}") from error
    hook = getattr(module, function_name, None)
    if not callable(hook):
        raise PayloadFailure("data_error", f"{what} {name}: {module.__file__} has no function {function_name}")
    return hook


def hook_file(name: str) -> Path:
    """Return the file that defines a hook."""
    file = importlib.import_module(name.partition(":")[0]).__file__
    if file is None:
        raise PayloadFailure("data_error", f"hook {name}: its module is not a file")
    return Path(file)
