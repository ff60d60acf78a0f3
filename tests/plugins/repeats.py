"""A test on real hosts that fails is run once more, with fresh fixtures; each repetition is named at the end of the run.

pytest-rerunfailures does the repeating: only where real hosts take part, which are those of tests/fleet and, with supervisors,
trainings, daemons and an sshd of their own, this machine as the host `local` and as a box. A repetition is no way to live with a test:
the list says that it is a defect to be mended. Everywhere else a failure is final.
"""

from __future__ import annotations

from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parents[1]
_ON_HOSTS = {_TESTS / name for name in ("fleet", "commands", "daemon", "faults", "agent", "payload")}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _ON_HOSTS.intersection(item.path.parents) and item.get_closest_marker("flaky") is None:
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    repeated = [report for report in terminalreporter.getreports("rerun") if isinstance(report, pytest.TestReport)]
    if not repeated:
        return
    terminalreporter.section("tests that were repeated", red=True)
    for report in repeated:
        terminalreporter.line(
            f"REPEATED {report.nodeid} is a defect to be mended; it failed first with: {_why(report)}"
        )
    for report in repeated:
        terminalreporter.section(f"the first failure of {report.nodeid}", "-")
        terminalreporter.line(report.longreprtext)
        for name, said in report.sections:
            terminalreporter.section(name, "-")
            terminalreporter.line(said)


def _why(report: pytest.TestReport) -> str:
    """One line of what went wrong."""
    crash = getattr(report.longrepr, "reprcrash", None)
    said = str(crash.message if crash is not None else report.longrepr)
    return f"{report.when}: {(said.splitlines() or ['nothing'])[0]}"
