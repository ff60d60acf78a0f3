"""Parse the dictionaries that Hugging Face's Trainer prints, and the steps from its progress bar or from its messages at the start.

The dictionaries contain an epoch and no step. The bar is redrawn right after each dictionary, so the step of that bar
is the dictionary's. The bar before it may be older, because a bar is drawn at most ten times a second. Newer releases
print numbers as text.
"""

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
        self._every = 0
        self._announced: Optional[int] = None

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

    def learn(self, per_epoch: float, total: Optional[int], every: int) -> None:
        """Set facts from the Trainer's state, for a log without a bar.

        Args:
            per_epoch: Steps per epoch.
            total: Steps of the training.
            every: Steps between two losses; 0 if unknown.
        """
        self._per_epoch, self._announced, self._every = per_epoch, total or self._announced, every

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
        self._count += "loss" in read
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
        self.total = self._announced
        step = self._from_epoch(numbers.get("epoch"), "loss" in numbers)
        if step is not None:
            self._append(step, numbers, is_counted=False)
        else:
            self._append(self._count, numbers, is_counted=True)

    def _from_epoch(self, epoch: Optional[float], has_loss: bool) -> Optional[int]:
        if not self._announced or not self._per_epoch or epoch is None or not 0 <= epoch <= values.MOST_STEP:
            return None
        step = int(round(epoch * self._per_epoch))
        if self._every > 1 and has_loss:  # epochs are printed with four digits
            step = int(round(epoch * self._per_epoch / self._every)) * self._every
        return min(self._announced, step)

    def _append(self, step: int, numbers: Dict[str, float], is_counted: bool) -> None:
        kind = "summary" if "train_runtime" in numbers else None
        if kind is not None and "loss" in numbers:
            numbers = dict(numbers, train_loss=numbers["loss"])  # the mean of all steps
            del numbers["loss"]
        kept = {name: value for name, value in numbers.items() if name not in _STEP_KEYS}
        if kind is not None or any(name.startswith("eval_") for name in kept):
            kept.pop("epoch", None)
        self.found.append(Printed(step, kept, kind, is_counted))


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
