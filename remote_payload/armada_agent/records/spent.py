"""Read spent.json: how long a run's jobs ran, of the time that its budget pays for."""

from typing import Any, Dict

from armada_agent.foundation import files
from armada_agent.paths import RunPaths


class Spent:
    """What a run used of its budget.

    Attributes:
        each_s: Seconds that the budget pays for; 0 without a budget.
        reserve_s: Seconds at its end in which the job saves: its grace period, which is paid, too.
        used_s: Seconds that its jobs ran, over all attempts.
        allowed_s: Seconds that it was granted so far.
        submission: For which submission that was; 0 if an older armada wrote the record.
    """

    def __init__(self, paths: RunPaths, spec: Dict[str, Any]) -> None:
        told = spec.get("budget")
        self.each_s = _time(told.get("seconds") if isinstance(told, dict) else None)
        self.reserve_s = min(float(spec["stop_grace_s"]), self.each_s / 2) if self.each_s else 0.0
        try:
            record = files.read_json(paths.spent) or {}
        except files.UnreadableError:
            record = {}  # the job wrote into its run's folder
        self.used_s = _time(record.get("spent_s"))
        self.allowed_s = _time(record.get("allowed_s"))
        self.submission = record.get("submission")

    def granted_s(self, submission: int) -> float:
        """Return how many seconds a submission may have in all.

        One that follows after the budget was spent has the same once more: somebody resumed the run. A later attempt of
        the same submission has what that had.
        """
        anew_s = max(1, int((self.used_s + self.reserve_s) / self.each_s)) * self.each_s
        for _ in range(2):  # the division is rounded, up or down
            anew_s += self.each_s if self._is_used_up(anew_s) else 0.0
        is_known = self.submission == submission and self.each_s <= self.allowed_s <= anew_s
        return self.allowed_s if is_known else anew_s

    @property
    def is_over(self) -> bool:
        """Whether the newest submission has used what it was granted."""
        if not self.each_s:
            return False
        return self._is_used_up(max(self.allowed_s, self.each_s))

    def _is_used_up(self, allowed_s: float) -> bool:
        return self.used_s >= allowed_s - self.reserve_s


def _time(value: Any) -> float:
    """Return a time from a file, 0 for anything else: a job may write into its run's folder."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
        return 0.0
    return float(value)
