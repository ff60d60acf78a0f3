"""Measure the node's load: every ten seconds for telemetry.jsonl, and when home asks."""

import os
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Set

from armada_agent.foundation import files
from armada_agent.foundation.log import say
from armada_agent.foundation.session import Call
from armada_agent.host import gpus

INTERVAL_S = 10.0


def read_load(call: Call, _params: Dict[str, Any]) -> Dict[str, Any]:
    """Return the host's current load. Unlike `host.facts`, this is cheap enough to be called all day."""
    disk = os.statvfs(call.root)
    try:
        load = gpus.measure() if gpus.is_installed() else []
    except gpus.GpuError:
        load = []  # host.facts reports the error
    return {
        "time": time.time(),
        "gpus": load,
        "load1": os.getloadavg()[0],
        "memory_used_bytes": memory_used(),
        "disk": {"total_bytes": disk.f_blocks * disk.f_frsize, "free_bytes": disk.f_bavail * disk.f_frsize},
    }


class Telemetry:
    """A thread that measures until it is stopped. nvidia-smi may hang, so nothing ever waits for this thread.

    Args:
        path: telemetry.jsonl.
        indexes: The GPUs of the run.
        is_wanted: Returns whether the file's folder is still the run's.
    """

    def __init__(self, path: str, indexes: Set[int], is_wanted: Callable[[], bool] = lambda: True) -> None:
        self._path = path
        self._is_wanted = is_wanted
        self._indexes = indexes
        self._stopped = threading.Event()
        self._told = ""

    def start(self) -> None:
        threading.Thread(target=self._work, daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _work(self) -> None:
        while True:
            try:
                if self._is_wanted():
                    files.append_line(self._path, self._measure())
            except OSError as error:
                self._tell(str(error))
            if self._stopped.wait(INTERVAL_S):
                return

    def _measure(self) -> Dict[str, Any]:
        return {
            "time": time.time(),
            "gpus": self._measure_gpus(),
            "load1": os.getloadavg()[0],
            "memory_used_bytes": memory_used(),
        }

    def _measure_gpus(self) -> List[Dict[str, Any]]:
        if not self._indexes:
            return []
        try:
            return [gpu for gpu in gpus.measure() if gpu["index"] in self._indexes]
        except gpus.GpuError as error:
            self._tell(str(error))
            return []

    def _tell(self, problem: str) -> None:
        if problem != self._told:
            self._told = problem
            say("telemetry: %s" % problem)


def memory_used() -> Optional[int]:
    """Return how many bytes of memory are not available to new programs."""
    try:
        with open("/proc/meminfo") as stream:
            amounts = parse_meminfo(stream.read())
        return amounts["MemTotal"] - amounts["MemAvailable"]
    except (OSError, KeyError):
        return None


def parse_meminfo(text: str) -> Dict[str, int]:
    """Parse /proc/meminfo into bytes."""
    lines = (line.split() for line in text.splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3 and words[2] == "kB"}
