"""Parse the dictionaries that Hugging Face's Trainer prints, and the steps from its progress bar or from its messages at the start.

The dictionaries contain an epoch and no step. The bar is redrawn right after each dictionary, so the step of that bar
is the dictionary's. The bar before it may be older, because a bar is drawn at most ten times a second. Newer releases
print numbers as text.
"""

import math
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from armada_agent.metrics import values

_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,8}[A-Za-z]")
_PAIR = re.compile(
    r"'([^'\\]{1,100})': (?:'([^'\\]{0,40})'"  # 'loss': '0.41'
    r"|(?:np\.\w{1,12}|tensor|array)\(([^(){},']{1,40})[^(){}]{0,40}\)"  # 'eval_accuracy': np.float64(0.83)
    r"|([^'\"(){}\[\],]{1,40}))(?=[,}])"  # 'loss': 0.41
)
_BAR = re.compile(r"(\d{1,3})%\|[^|]{0,400}\| (\d{1,12})/(\d{1,12}) \[")
_START = re.compile(r"(Total optimization steps|Num update steps per epoch) = ([\d,]{1,15})")
_LONGEST = 8192
_FEWEST_DECIMALS = 2  # of an epoch, in older releases; 1.0 and 0.0 show fewer
_UNEVEN_STEPS = 0.6  # an epoch's last step may be smaller than the others
_STEP_KEYS = ("step", "global_step", "iteration")


class Printed(NamedTuple):
    """One printed dictionary."""

    step: int
    numbers: Dict[str, float]
    kind: Optional[str]
    is_counted: bool


class TrainerLog:
    """Parses a log's lines in their order.

    Attributes:
        step: The step that the training's bar shows.
        total: The number of steps that the bar shows.
        found: Dictionaries whose step is known. The caller removes them.
    """

    def __init__(self) -> None:
        self.step: Optional[int] = None
        self.total: Optional[int] = None
        self.found: List[Printed] = []
        self._is_certain = False
        self._is_complete = False
        self._waiting: List[Dict[str, float]] = []
        self._count = 0
        self._per_epoch: Optional[float] = None
        self._every = self._told_every = 0
        self._decimals = _FEWEST_DECIMALS
        self._announced: Optional[int] = None
        self._last: Optional[int] = None
        self._epoch: Optional[float] = None
        self._lines_per_epoch: Optional[float] = None

    def take(self, line: str) -> None:
        """Parse a line, or a part of one that ends with a carriage return."""
        if len(line) > _LONGEST:
            return
        if "{'" in line:
            self._take_dictionary(_ESCAPE.sub("", line))
        elif "%|" in line:
            self._take_bar(_ESCAPE.sub("", line))
        elif " = " in line:
            self._take_start(line)

    @property
    def is_waiting(self) -> bool:
        """Whether the step of a dictionary is not known yet."""
        return bool(self._waiting)

    def settle(self) -> None:
        """Assign steps to dictionaries after which no bar was drawn."""
        for numbers in self._waiting:
            self._finish(numbers)
        self._waiting = []

    def learn(self, per_epoch: float, total: Optional[int], every: int, reached: Optional[int] = None) -> None:
        """Set facts from the Trainer's state, for a log without a bar.

        Args:
            per_epoch: Steps per epoch.
            total: Steps of the training.
            every: Steps between two losses; 0 if unknown.
            reached: The step at which the state was written.
        """
        self._per_epoch, self._announced = per_epoch, total or self._announced
        self._every = self._told_every = every
        if reached is not None and (self._last is None or self._last < reached):
            self._last = reached

    @property
    def counted(self) -> Tuple[int, Optional[float]]:
        """The number of lines with a loss, and the epoch of the last one."""
        return self._count, self._epoch

    def continue_counting(self, count: Optional[int], epoch: Optional[float], is_same_attempt: bool) -> None:
        """Continue where an earlier reader of the run has stopped counting.

        Args:
            count: The number of lines that it had counted.
            epoch: The epoch of the last one.
            is_same_attempt: Its next line follows. Otherwise the job may have resumed from anywhere, which the epoch of
                its first line tells.
        """
        if is_same_attempt:
            self._count, self._epoch = count or 0, epoch
        elif count and epoch is not None and 0 < epoch <= values.MOST_STEP:
            self._lines_per_epoch = count / epoch

    def step_of(self, numbers: Dict[str, float]) -> Optional[int]:
        """Return the step of a dictionary by its epoch; None if that is not known."""
        step = self._from_epoch(numbers.get("epoch"), "loss" in numbers)
        if step is not None and "loss" in numbers:
            self._last = step
        return step

    def is_after(self, numbers: Dict[str, float], step: int) -> bool:
        """Return whether a dictionary is of a later step, by its epoch alone."""
        epoch = numbers.get("epoch")
        return bool(self._per_epoch) and epoch is not None and epoch * (self._per_epoch or 0.0) >= step + 0.5

    def _count_line(self, epoch: Optional[float]) -> None:
        self._count += 1
        if epoch is None or not 0 <= epoch <= values.MOST_STEP:
            return
        if self._lines_per_epoch is not None:
            self._count = max(1, int(round(min(epoch * self._lines_per_epoch, values.MOST_STEP))))
            self._lines_per_epoch = None
        self._epoch = epoch

    def _take_dictionary(self, line: str) -> None:
        start, end = line.find("{'"), line.rfind("}")
        if end < start:
            return
        read = {
            key: quoted or wrapped or plain.strip()
            for key, quoted, wrapped, plain in _PAIR.findall(line[start : end + 1])
        }
        if not _is_of_a_training(read):
            return
        self.settle()
        numbers = values.numbers(read)
        step = next(
            (number for number in (values.whole(read.get(key)) for key in _STEP_KEYS) if number is not None), None
        )
        if step is not None:
            self._append(step, numbers, is_counted=False)
            return
        if "loss" in read:
            self._count_line(numbers.get("epoch"))
        self._waiting.append(numbers)

    def _take_bar(self, line: str) -> None:
        bar = _BAR.search(line)
        if bar is None or line[: bar.start()].strip():
            return  # a bar with a name in front belongs to something else
        step, total = int(bar.group(2)), int(bar.group(3))
        if not total or step > total or total > values.MOST_STEP:
            return
        if total != self.total:
            is_next = any("loss" in numbers for numbers in self._waiting)
            if self.total is not None and not is_next and (self._is_certain or not self._is_complete):
                return  # the bar of an evaluation
        self._is_certain = self._is_certain or any("loss" in numbers for numbers in self._waiting)
        self.step, self.total, self._is_complete = step, total, step == total
        self.settle()

    def _take_start(self, line: str) -> None:
        said = _START.search(line)
        if said is None:
            return
        amount = int(said.group(2).replace(",", "") or 0)
        if said.group(1) == "Total optimization steps":
            self._announced = amount
        else:
            self._per_epoch = amount

    def _finish(self, numbers: Dict[str, float]) -> None:
        if self.step is not None:
            self._append(self.step, numbers, is_counted=False)
            return
        step = self.step_of(numbers)
        self.total = self._announced
        if step is not None:
            self._append(step, numbers, is_counted=False)
        else:
            self._append(self._count, numbers, is_counted=True)

    def _from_epoch(self, epoch: Optional[float], has_loss: bool) -> Optional[int]:
        if epoch is not None:
            self._decimals = max(self._decimals, _decimals(epoch))
        if not self._per_epoch or epoch is None or not 0 <= epoch * self._per_epoch <= values.MOST_STEP:
            return None
        about, error = epoch * self._per_epoch, _rounding(epoch, self._decimals) * self._per_epoch + _UNEVEN_STEPS
        step = int(round(about))
        if self._every and has_loss:
            if self._last is not None and about - (self._last + 1) > error:
                self._every = self._told_every  # if it was taken for 1, that was wrong
            expected = [] if self._last is None else [(self._last // self._every + 1) * self._every]
            expected.append(int(round(about / self._every)) * self._every)
            step = next((each for each in expected if each and abs(each - about) <= error), step)
            if step == self._last:
                self._every = 1  # the distance is another than the state says
                step = step + 1 if abs(step + 1 - about) <= error else step
        if self._announced and step > self._announced:
            if step - self._announced > error:
                self._announced = None  # it was resumed to train for longer
            else:
                step = self._announced
        return step

    def _append(self, step: int, numbers: Dict[str, float], is_counted: bool) -> None:
        kind = "summary" if "train_runtime" in numbers else None
        if kind is not None and "loss" in numbers:
            numbers = dict(numbers, train_loss=numbers["loss"])  # the mean of all steps
            del numbers["loss"]
        kept = {name: value for name, value in numbers.items() if name not in _STEP_KEYS}
        if kind is not None or any(name.startswith("eval_") for name in kept):
            kept.pop("epoch", None)
        self.found.append(Printed(step, kept, kind, is_counted))


def _decimals(epoch: float) -> int:
    """Return how many decimals an epoch shows."""
    if 0 < epoch < 1e-4:
        return 4
    return len(repr(epoch).partition(".")[2]) if 1e-4 <= epoch < 1e16 else 0


def _rounding(epoch: float, decimals: int) -> float:
    """Return by how much a printed epoch may differ from the true one: four digits, in older releases two decimals.

    Args:
        epoch: The epoch.
        decimals: Those of the finest epoch of the log. One epoch may show fewer than are printed: 1.0.
    """
    return max(0.5 * 10.0**-decimals, 0.5 * 10.0 ** (math.floor(math.log10(epoch)) - 3) if epoch > 0 else 0.0)


def _is_of_a_training(read: Dict[str, str]) -> bool:
    """Distinguish the Trainer's dictionaries from those that any program may print."""
    if "loss" in read or "eval_loss" in read or "train_runtime" in read:
        return True
    return "epoch" in read and any(key.startswith("eval_") for key in read)


def parse(text: str) -> Tuple[List[Printed], Optional[int], Optional[int]]:
    """Parse a whole log. Return its dictionaries, and the last step and the total that its bar shows."""
    reader = TrainerLog()
    for line in text.replace("\r", "\n").split("\n"):
        reader.take(line)
    reader.settle()
    return reader.found, reader.step, reader.total
