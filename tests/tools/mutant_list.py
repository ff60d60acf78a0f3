"""The modules that make decisions, and every change of one condition in them."""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Module:
    """A module that makes decisions: its functions (empty: all), and the tests that check them."""

    path: str
    tests: tuple[str, ...]
    functions: frozenset[str] = frozenset()


_AGENT = "remote_payload/armada_agent"
_VERDICTS = ("tests/unit/verdicts",)
_STATE = (
    "tests/unit/verdicts/test_state.py",
    "tests/unit/verdicts/test_refused.py",
    "tests/unit/monitor/test_observe.py",
    "tests/unit/monitor/test_older_copies.py",
)
_LIES = ("tests/agent/test_agent_lies_htcondor.py", "tests/agent/test_agent_htcondor.py")
_THIN = (
    "tests/unit/verdicts/test_thinning.py",
    "tests/agent/test_agent_outbox.py",
    "-k",
    "full_disk or best or thin or room",
)

MODULES = (
    Module("armada/verdicts/adoption.py", _VERDICTS),
    Module("armada/verdicts/again.py", _VERDICTS),
    Module("armada/verdicts/guesses.py", (*_VERDICTS, *_STATE)),
    Module("armada/verdicts/idle.py", _VERDICTS, frozenset({"seen", "came_back", "stopped_spans", "why_wait"})),
    Module("armada/verdicts/order.py", _VERDICTS),
    Module("armada/verdicts/orphans.py", ("tests/unit/verdicts/test_orphans.py",)),
    Module("armada/verdicts/presence.py", _VERDICTS),
    Module("armada/verdicts/settling.py", _VERDICTS),
    Module("armada/verdicts/stopping.py", _VERDICTS),
    Module(f"{_AGENT}/verdicts/doubt.py", _VERDICTS),
    Module(f"{_AGENT}/verdicts/following.py", _VERDICTS),
    Module(f"{_AGENT}/verdicts/letting_go.py", _VERDICTS),
    Module(f"{_AGENT}/verdicts/liveness.py", _VERDICTS),
    Module(f"{_AGENT}/verdicts/wiping.py", _VERDICTS),
    Module(
        f"{_AGENT}/verdicts/requeue.py", _VERDICTS, frozenset({"gained", "can_resume", "decide", "count_fruitless"})
    ),
    Module(
        f"{_AGENT}/engines/htcondor.py",
        _LIES,
        frozenset({"look", "_judge_dates", "_find_missing", "_ask_second", "cancel"}),
    ),
    Module(f"{_AGENT}/engines/htcondor_log.py", _LIES, frozenset({"read"})),
    Module(
        f"{_AGENT}/supervisor/batch.py",
        ("tests/agent/test_agent_batch_ends.py", "tests/agent/test_agent_time_limit.py"),
        frozenset(
            {
                "_stop_request",
                "_persons_stop_request",
                "_look_whether_it_was_put_back",
                "_stopped_ending",
                "_judge",
                "_retried",
                "_conclude",
                "_decide",
                "_put_back",
                "supervise",
            }
        ),
    ),
    Module("armada/sync/checkpoints/proof.py", ("tests/unit/sync/checkpoints/test_proof.py",)),
    Module("armada/verdicts/retention.py", ("tests/unit/verdicts/test_retention.py",)),
    Module(
        "armada/verdicts/state.py",
        _STATE,
        frozenset(
            {
                "decide",
                "_decide",
                "_by_scheduler",
                "_without_supervisor",
                "of_newest_submission",
                "submission_shown",
                "of_put_back",
                "was_refused",
                "shows_no_more",
                "_is_of_earlier",
                "_is_earlier",
                "_later",
            }
        ),
    ),
    Module(f"{_AGENT}/verdicts/age.py", _THIN),
    Module(f"{_AGENT}/verdicts/thinning.py", _THIN),
    Module(f"{_AGENT}/outbox/thinning.py", _THIN, frozenset({"thin"})),
    Module(
        "armada/sync/release/judge.py",
        ("tests/unit/sync/release/test_unknown_ends.py", "tests/unit/sync/release/test_judge.py"),
    ),
    Module("armada/verdicts/release.py", ("tests/unit/verdicts/test_release.py", "tests/unit/sync/release")),
    Module(
        "armada/sync/checkpoints/apply_retention.py",
        ("tests/unit/sync/checkpoints/test_apply_retention.py", "tests/sync/test_retention.py"),
    ),
    Module(
        "armada/sync/checkpoints/optimizers.py",
        ("tests/sync/test_optimizers.py",),
        frozenset({"lacking", "plan", "shrink", "_wanted_whole", "_states_of", "_resume_files"}),
    ),
    Module(
        "armada/sync/runs/run_syncer.py",
        ("tests/sync/test_sync_steps.py", "tests/sync/test_last_sync.py", "tests/sync/test_retention.py"),
    ),
    Module(
        f"{_AGENT}/outbox/checkpoint_watch.py",
        (
            "tests/agent/test_agent_watch_rules.py",
            "tests/agent/test_agent_resumable.py",
            "tests/agent/test_agent_checkpoint_links.py",
            "tests/agent/test_agent_same_checkpoint.py",
            "tests/agent/test_agent_left_by_scripts.py",
        ),
    ),
    Module(f"{_AGENT}/outbox/quiet.py", ("tests/agent/test_agent_quiet.py", "tests/agent/test_agent_watch_rules.py")),
    Module(
        f"{_AGENT}/outbox/watch_record.py",
        ("tests/agent/test_agent_watch_rules.py", "tests/agent/test_agent_resumable.py"),
        frozenset({"last_whole", "find_outside"}),
    ),
    Module(f"{_AGENT}/outbox/resumable.py", ("tests/agent/test_agent_resumable.py",)),
    Module(f"{_AGENT}/outbox/overwriting.py", ("tests/agent/test_agent_watch_rules.py",)),
    Module(f"{_AGENT}/runs/wipe.py", ("tests/agent/test_agent_wipe.py", "tests/agent/test_agent_wipe_meanwhile.py")),
    Module(f"{_AGENT}/outbox/pruning.py", ("tests/agent/test_agent_sync.py",)),
    Module(f"{_AGENT}/outbox/homes.py", ("tests/agent/test_agent_homes.py",)),
    Module(
        f"{_AGENT}/engines/slurm.py",
        ("tests/agent/test_agent_slurm_rules.py", "tests/agent/test_agent_lies.py"),
        frozenset(
            {
                "look",
                "look_up",
                "look_up_many",
                "_look_further",
                "_find_row",
                "_since_its_end",
                "_find_missing",
                "_ask_second",
                "cancel",
            }
        ),
    ),
    Module(
        f"{_AGENT}/engines/job_activity.py",
        ("tests/agent/test_agent_memory.py", "tests/agent/test_agent_lies.py"),
        frozenset(
            {
                "__init__",
                "changed_s",
                "doubts",
                "follow",
                "ask_second",
                "note_end",
                "forget_end",
                "recall_end",
                "_has_fresh_second",
                "_keep",
                "last_word",
                "has_begun",
            }
        ),
    ),
    Module(
        f"{_AGENT}/runs/submissions.py",
        ("tests/agent/test_agent_submissions.py", "tests/agent/test_agent_handed_over.py"),
        frozenset(
            {
                "submit",
                "claim_first",
                "standing_of_first",
                "release_first",
                "end_refused",
                "conclude_unstarted",
                "stop",
                "_is_stopped_by_person",
                "_fulfil",
                "_cancel_job",
                "_conclude_waiting",
                "_hand_over",
                "_look_up",
                "_find_lost_job",
                "_prepare",
                "_refuse_second",
                "_claim",
            }
        ),
    ),
    Module(f"{_AGENT}/runs/unattended.py", ("tests/agent/test_agent_submissions.py",)),
    Module(f"{_AGENT}/runs/repeated.py", ("tests/agent/test_agent_submissions.py",)),
    Module("armada/launch/reconcile.py", ("tests/unit/launch/test_reconcile.py",)),
    Module("armada/launch/retry.py", ("tests/unit/launch/test_retry.py",)),
    Module("armada/launch/stop.py", ("tests/unit/launch/test_stop.py",)),
)

EQUIVALENT = {
    "again.py may_have_succeeded: rebooted → True": (
        "of a script whose host was not restarted, its host says that it may have succeeded, or an older one says nothing"
    ),
    "guesses.py is_waited_for: is_guess(state, reason) → True": "the store says since when only of a guess",
    "guesses.py is_waited_for: since is not None → True": "the store says of each guess since when",
    "idle.py seen: self.seen_at is not None → True": "only `seen` says since when, and it says with it when it was seen",
    "order.py compare: seen_at is None → False": "an answer without a time is not compared",
    "thinning.py choose: not is_scarce → False": "thin asks only on a nearly full disk",
    "thinning.py find_best: math.isfinite(loss) → True": "an announcement with such a number is refused",
    "state.py _decide: not observed.exists → True": "a host tells what remains only of a folder that is gone",
    "htcondor_log.py read: seen → False": "of a job of whose log something was read, the id is known",
    "htcondor_log.py read: self._job_id → False": "look says the same of a log of which nothing was read",
    "optimizers.py lacking: c.home_path is not None → True": "all that it looks at are here: it tells the type checker so",
    "optimizers.py shrink: place is not None → True": "only those that are here have states: it tells the type checker so",
    "optimizers.py _states_of: states <= {file.path for file in files} → (states) < ({file.path for file in files})": (
        "a checkpoint's states are never all of its files"
    ),
    "proof.py prove: untouched → True": "of no file nothing is recorded",
    "proof.py doubt: checkpoint.home_path is not None → True": (
        "`prove`, `copy_checkpoint` and the export, whose callees doubt, refuse a checkpoint without a folder at home first"
    ),
    "retention.py decide_host: best := _best(_ordered(candidates), 1) → (best := _best(_ordered(candidates), 1)) and False": (
        "the best of all, where the host has it, is the best of what the host has, and that stays anyway"
    ),
    "htcondor.py _judge_dates: dated != liveness.FRESH → True": "what is remembered of fresh dates, the same look forgets",
    "htcondor_log.py read: status.st_size < offset → (status.st_size) <= (offset)": "the same log read anew says the same",
    "htcondor_log.py read: end < 5 → (end) <= (5)": "an event without a line is none",
    "batch.py _stop_request: time.monotonic() - self._looked_at > _FENCE_S → (time.monotonic() - self._looked_at) >= (_FENCE_S)": (
        "a clock's instant"
    ),
    "batch.py _stop_request: time.monotonic() - self._looked_at > _FENCE_S → True": "it only looks more often",
    "batch.py _stop_request: stop_request is None → True": "a former attempt that a person stops too ends without its grace",
    "batch.py _persons_stop_request: stop_request is not None → False": (
        "no request that concerns this submission lies in a folder from before it"
    ),
    "batch.py _persons_stop_request: found is not None → True": "no request is None either way",
    "batch.py _judge: status in _ENDED_BY_SIGTERM → True": "it waits ten seconds for a signal that does not come",
    "batch.py _conclude: ending.state != REQUEUED → False": "the second of the same questions decides it",
    "batch.py _decide: each.number != last.number → True": "an attempt has no exit before it is concluded",
    "release.py was_stopped_and_forgotten: evidence is not None → True": "a run without evidence is not gone by a guess",
    "judge.py _judge_some: specs[run_id] is not None → True": "a run that home does not know would be lost anyway",
    "stopping.py judge: seen.there is There.UNKNOWN → False": (
        "`_conclude` of launch/stop.py, the only caller, says `is_shared` of every folder that is not known to be removed"
    ),
    "following.py may_follow: was_taken → True": (
        "`_refuse_second`, the only caller, calls dead or gone only what has a job.json, and that is what `was_taken` means"
    ),
    "liveness.py judge: word not in (PENDING, HELD, ENDED, MISSING) → False": (
        "`look` of either engine, the only callers, asks only about these four"
    ),
    "liveness.py judge: word == ENDED → True": "of a job that goes back, `look` of either engine asks only about an end",
    "liveness.py judge: needs_looks → True": "of a job that goes back, `look` of htcondor.py asks nothing",
    'liveness.py judge: watch["looks"] < ENDED_LOOKS → False': (
        "of one answer alone, the time from the first to the last is 0, which is less than two polls"
    ),
    "judge.py _is_settled: runs.find(database, run_id).is_guess → False": (
        "a sync is never the last one of a guess, and what is seen of a later submission makes an earlier last one count no more"
    ),
    "state.py _later: wrote_at is not None → True": "where it is known when it began, it wrote then at the latest",
    "run_syncer.py run: self._insist → False": "it only connects earlier",
    "run_syncer.py run: only → False": "it only connects earlier",
    "run_syncer.py run: expects(database, run_id) → False": "it only connects earlier",
    "run_syncer.py _take: there is There.REMOVED → True": (
        "a host that tells of the wipe of the root that a run knows shows that the run was removed"
    ),
    "slurm.py look: row is not None → True": "an end that is not recalled is one since which the job has written",
    "slurm.py look: row is not None → True [2]": "the judge believes no end of a job that is missing",
    "slurm.py _find_missing: kind is not None → True": "an end is confirmed only by accounting's record of it",
    "job_activity.py follow: self.watch is not before → True": "what did not change is written once more",
    "job_activity.py _keep: self._dates is not None → True": "no dates are the dates of no file",
    "homes.py enroll: os.path.isdir(paths.folder) → True": "for a run that is not here, nobody is registered",
    "resumable.py _find_noted: os.path.exists(place) → True": "what is not there has no signature of what was taken",
    "resumable.py _find_noted: folder → True": "an empty name is no folder",
    "watch_record.py find_outside: not os.path.exists(paths.checkpoint_watch) → False": (
        "without a record, nothing is recorded"
    ),
    "submissions.py claim_first: newest(paths.submissions()) is not None → True": "a claim lies in a submission's folder",
    "submissions.py _fulfil: number is None → False": "without a submission there is no job",
    "run_syncer.py _take: run.message != wiped → True": "the same words are recorded once more",
    "run_syncer.py _bring_outputs: not stale(self.context.home, self.context.run_id, listed) → False": (
        "of outputs that are all home, nothing is fetched"
    ),
    "submissions.py _find_lost_job: kind is None → False": "of a batch system that was never asked nothing is looked up",
    "submissions.py _claim: os.path.exists(claim) → False": "a link to where something lies already changes nothing",
    "homes.py register: known.get(name) != home[name] → not (known.get(name) != home[name])": (
        "the id is always the same, and so the record is written once more"
    ),
    "reconcile.py _candidate: run.created_at < now - ENDED_S → (run.created_at) <= (now - ENDED_S)": "a clock's instant",
    "reconcile.py _await_end_of_others: waited_s < SETTLE_S → (waited_s) <= (SETTLE_S)": "a clock's instant",
    "stop.py stop_run: time.monotonic() > deadline → (time.monotonic()) >= (deadline)": "a clock's instant",
    "reconcile.py launch_key: only_prepare → not (only_prepare)": "the two keys change places, and differ as before",
    "homes.py describe: not ids → False": "of no homes, nothing is described",
    "apply_retention.py wanted: c.on_host → True": "what is a candidate and not at home is on its host",
    "apply_retention.py plan_host: c.on_host → True [2]": "of what is not on the host, the proof is not used",
    "apply_retention.py retain_home: place is None → False": "`plan_home` tells only of what is at home",
    "judge.py _not_there: not missing → False": "the host is asked about no run, and nothing is added",
}
"""Why no test can detect a change, by `file function: change`, and ` [2]` for the second that reads so."""

_OTHERWISE: dict[type[ast.cmpop], str] = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}


@dataclass(frozen=True)
class Mutant:
    """One change: the bytes from `begin` to `end` of a file become `new`."""

    module: Module
    function: str
    lines: range
    begin: int
    end: int
    old: str
    new: str
    place: int = 1
    """Which of the changes of this function that read alike."""

    @property
    def name(self) -> str:
        return f"{self.module.path}:{self.lines.start}"

    @property
    def change(self) -> str:
        return f"{' '.join(self.old.split())} → {self.new}"

    @property
    def removes(self) -> bool:
        """Whether the condition no longer counts; otherwise it is turned round, or its bound moves."""
        return self.new in ("True", "False") or self.new.endswith((") or True", ") and False"))

    @property
    def key(self) -> str:
        place = f" [{self.place}]" if self.place > 1 else ""
        return f"{Path(self.module.path).name} {self.function}: {self.change}{place}"


class Breeder(ast.NodeVisitor):
    """Finds the conditions of one module, and one or two changes of each."""

    def __init__(self, module: Module, source: bytes) -> None:
        self.module = module
        self.source = source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.functions: list[str] = []
        self.returns_bool = False
        self.found: dict[tuple[int, int, str], Mutant] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before, self.returns_bool = self.returns_bool, isinstance(node.returns, ast.Name) and node.returns.id == "bool"
        self.functions.append(node.name)
        self.generic_visit(node)
        self.functions.pop()
        self.returns_bool = before

    def visit_If(self, node: ast.If) -> None:
        leaves = isinstance(node.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
        self._condition(node.test, ("False",) if leaves and not node.orelse else ("True", "False"))
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node.test, ("not",))
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._condition(test, ("True",))
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and self.returns_bool and not isinstance(node.value, ast.Constant | ast.IfExp):
            self._condition(node.value, ("not",))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        # `given or ""` is not a condition.
        if any(isinstance(value, ast.Compare) or _is_not(value) for value in node.values):
            self._drop(node)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if not self._changed(node):
            self._condition(node, ("not",))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if _is_not(node) and not self._changed(node):
            self._condition(node, ("not",))
        self.generic_visit(node)

    def _condition(self, test: ast.expr, changes: Sequence[str]) -> None:
        if isinstance(test, ast.BoolOp):
            self._drop(test)
            return
        for change in changes:
            self._add(test, change)
        self._swap(test)

    def _drop(self, node: ast.BoolOp) -> None:
        """Replace each operand alone by the value that leaves the decision to the others."""
        for value in node.values:
            if isinstance(value, ast.BoolOp):
                self._drop(value)
            else:
                self._add(value, "True" if isinstance(node.op, ast.And) else "False")
                self._swap(value)

    def _swap(self, node: ast.expr) -> None:
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and (other := _OTHERWISE.get(type(node.ops[0]))):
            self._add(node, f"({self._text(node.left)}) {other} ({self._text(node.comparators[0])})")

    def _changed(self, node: ast.expr) -> bool:
        begin, end = self._span(node)
        return any((begin, end) == (b, e) for b, e, _ in self.found)

    def _add(self, node: ast.expr, new: str) -> None:
        if new == "not":
            new = f"not ({self._text(node)})"
        elif any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node)):
            # Later code uses the name.
            new = f"({self._text(node)}) {'or' if new == 'True' else 'and'} {new}"
        if self.functions and (not self.module.functions or self.module.functions & set(self.functions)):
            begin, end = self._span(node)
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            mutant = Mutant(self.module, self.functions[-1], lines, begin, end, self._text(node), new)
            self.found.setdefault((begin, end, new), mutant)

    def _span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        begin, end = self._span(node)
        return self.source[begin:end].decode()


def _is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def unknown_functions(module: Module, tree: ast.Module) -> set[str]:
    """Return the functions that a module lists and that its file does not have."""
    there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return set(module.functions - there)


def breed(words: Sequence[str] = ()) -> list[Mutant]:
    """Return all mutants in the order of the source, or those whose name contains one of the words."""
    mutants: list[Mutant] = []
    for module in MODULES:
        source = (ROOT / module.path).read_bytes()
        breeder = Breeder(module, source)
        breeder.visit(ast.parse(source))
        alike: Counter[str] = Counter()
        for each in sorted(breeder.found.values(), key=lambda each: (each.begin, each.end, each.new)):
            alike[each.key] += 1
            mutants.append(replace(each, place=alike[each.key]))
    return [each for each in mutants if not words or any(word in each.name for word in words)]


def sample(mutants: Sequence[Mutant], count: int, draw: int = 0) -> list[Mutant]:
    """Choose mutants that remove a condition: the same ones each time, of each module alike.

    Args:
        mutants: All there are.
        count: At least so many, if there are.
        draw: Which choice: 0 takes them at equal distances all over each module, any other number by chance of its own.
    """
    groups: dict[str, list[Mutant]] = {}
    for each in mutants:
        if each.removes and each.key not in EQUIVALENT:
            groups.setdefault(each.module.path, []).append(each)
    quotas = dict.fromkeys(groups, 0)
    while sum(quotas.values()) < min(count, sum(map(len, groups.values()))):
        for path, group in groups.items():
            quotas[path] += quotas[path] < len(group)
    chosen: list[Mutant] = []
    for path, group in groups.items():
        places = [(2 * place + 1) * len(group) // (2 * quotas[path]) for place in range(quotas[path])]
        if draw:
            places = sorted(random.Random(f"{draw} {path}").sample(range(len(group)), quotas[path]))
        chosen += [group[place] for place in places]
    return chosen
