"""Read Slurm's node states: which nodes are unavailable (drained, down, reserved), and which failed under a job."""

import re
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from armada_agent.engines import engine

_NAMES = ("Partition", "NodeHost", "StateCompact", "CPUs", "Memory", "Gres", "Reason")
# Each field has 200 characters: sinfo's default of 20 cuts lists of GPUs.
ARGV = ["sinfo", "--noheader", "--Node", "--Format=" + ",".join("%s:200|" % name for name in _NAMES)]
_COUNTED = ("Partition", "Available", "Time", "CPUsState", "Gres", "GresUsed", "StateCompact")
COUNTED = ["sinfo", "--noheader", "--Node", "--Format=" + ",".join("%s:200|" % name for name in _COUNTED)]
_IN_USE = re.compile(r"(idle|mix|alloc|comp)[a-z]*$")
_MOST_NAMED = 4
_FAILED = re.compile(r"(down|fail)|.*\*$", re.IGNORECASE)  # a star: the node does not answer
_SECOND_S = 4.0


def find_away(script: str, said: str) -> List[str]:
    """Return the nodes that are unavailable and large enough for a job.

    Args:
        script: The job script, whose `#SBATCH` lines contain the request.
        said: sinfo's output.

    Returns:
        Items such as `node1 (drain: disk is replaced)`; the last item may be the number of further nodes.
    """
    asked = _parse_script(script)
    partitions = [name for name in asked.get("partition", "").split(",") if name]
    found: Dict[str, str] = {}
    for line in said.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < len(_NAMES):
            continue
        partition, node, state, cpus, memory, gres, reason = cells[: len(_NAMES)]
        if partition.rstrip("*") not in partitions if partitions else not partition.endswith("*"):
            continue
        if _IN_USE.match(state) or not _is_large_enough(asked, cpus, memory, gres):
            continue
        found[node] = "%s (%s%s)" % (node, state, "" if reason in ("", "none") else ": %.80s" % reason)
    named = [found[node] for node in sorted(found)]
    more = len(named) - _MOST_NAMED
    return named if more <= 0 else named[:_MOST_NAMED] + ["%d more" % more]


def parse_start(said: str) -> Optional[float]:
    """Parse `sbatch: Job 8 to start at 2026-11-20T16:00:00 using …`, in this machine's local time, as seconds from now."""
    found = re.search(r" to start at (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", said)
    if found is None:
        return None
    try:
        return max(0.0, time.mktime(time.strptime(found.group(1), "%Y-%m-%dT%H:%M:%S")) - time.time())
    except (ValueError, OverflowError):
        return None


def find_failed_under(job_ids: Sequence[str], log: str) -> Optional[str]:
    """Find the node that failed under a job, from slurmstepd's last lines in the job's log. Return None if it wrote no such line."""
    found = re.findall(r"\*\*\* JOB (\S+) ON (\S+) CANCELLED AT \S+ DUE TO ([A-Z ]+)", log)
    own = [(node, why) for name, node, why in found if name in job_ids]
    return own[-1][0][:80] if own and own[-1][1].startswith("NODE FAIL") else None


def note_failed(before: Mapping[str, Any], rows: Mapping[str, Dict[str, str]]) -> None:
    """Record failed nodes (`failed`) in the rows of jobs that ran at the last poll and wait again, using sinfo.

    Slurm shows only that such a job waits. Each node is queried once: a node that is back has failed all the same.
    """
    moved = {}
    for name, row in rows.items():
        was = before.get(name)
        if row["state"] != "PENDING" or not isinstance(was, dict):
            continue
        if isinstance(was.get("failed"), str):
            row["failed"] = was["failed"]
        elif was.get("state") == "RUNNING" and re.match(r"[\w.-]+$", str(was.get("node"))):
            moved[name] = str(was["node"])
    if not moved:
        return
    nodes = "--nodes=" + ",".join(sorted(set(moved.values())))
    try:
        said = engine.run_tool(["sinfo", "--noheader", "--Node", nodes, "--format=%N|%T"], timeout_s=_SECOND_S)
    except engine.EngineError:
        return  # then the reason for the wait is unknown
    states = dict(line.strip().partition("|")[::2] for line in said.splitlines())
    for name, node in moved.items():
        if _FAILED.match(states.get(node, "")):
            rows[name]["failed"] = "%.80s (%.40s)" % (node, states[node])


def _parse_script(script: str) -> Dict[str, str]:
    asked = {}
    for line in script.splitlines():
        match = re.match(r"#SBATCH --([a-z-]+)=(.*)$", line)
        if match:
            asked[match.group(1)] = match.group(2).strip("'\"")
    return asked


def _is_large_enough(asked: Dict[str, str], cpus: str, memory: str, gres: str) -> bool:
    kind, count = _parse_gpus(asked.get("gres") or asked.get("gpus-per-node") or "")
    pairs = [
        (_number(asked.get("cpus-per-task", "")), _number(cpus)),
        (_number(asked.get("mem", "").rstrip("M")), _number(memory)),
        (count, count_gres(gres, kind)),
    ]
    return all(wanted is None or there is None or wanted <= there for wanted, there in pairs)


def _parse_gpus(text: str) -> Tuple[Optional[str], int]:
    """Parse `gpu:a100:4`, `gpu:4`, `a100:4` or `4`."""
    parts = text.split(":")
    if parts[0] == "gpu":
        parts = parts[1:]
    count = _number(parts[-1]) if parts else None
    return (parts[0] if len(parts) > 1 else None), count or 0


def count_gres(text: str, kind: Optional[str] = None) -> int:
    """Count the GPUs in a list such as `gpu:a100:4(S:0-1)` or `gpu:a100:2(IDX:0,3)`, either all or those of one kind."""
    found = re.findall(r"(?:^|,)gpu(?::([^:,(]+))?:(\d+)", text)
    return sum(int(number) for name, number in found if kind is None or name == kind)


def _number(text: str) -> Optional[int]:
    return int(text) if text.isdigit() else None


def count_free(said: str) -> Dict[str, Dict[str, Any]]:
    """Count each partition's nodes, CPUs and GPUs, and how many are free, from the output of `COUNTED`."""
    partitions: Dict[str, Dict[str, Any]] = {}
    for line in said.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < len(_COUNTED):
            continue
        name, available, limit, cpus, gres, used, state = cells[: len(_COUNTED)]
        fresh = {"name": name.rstrip("*"), "state": available, "time_limit": limit}
        entry = partitions.setdefault(name, engine.empty_counts(fresh))
        counts = [int(word) if word.isdigit() else 0 for word in cpus.split("/")] + [0, 0, 0, 0]
        usable = _IN_USE.match(state) is not None
        entry["nodes"] += 1
        entry["cpus"] += counts[3]
        entry["cpus_free"] += counts[1] if usable else 0
        total, taken = count_gres(gres), count_gres(used)
        entry["gpus"] += total
        entry["gpus_free"] += max(0, total - taken) if usable else 0
    return partitions
