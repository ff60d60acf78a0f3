"""Compose the report: runs, curves, settings, samples, and how to reproduce each run. Everything in it is escaped."""

from __future__ import annotations

import base64
import hashlib
import html
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from armada import __version__
from armada.compare.experiment_text import experiment_text
from armada.compare.report.chart import Line, draw_chart, swatch, text
from armada.compare.report.samples import MOST_PROMPTS
from armada.compare.report.style import SCRIPT, STYLE
from armada.compare.reproduction import named_otherwise
from armada.compare.summary import cost_together
from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.foundation.secrets import without_secret_settings
from armada.foundation.validation import mapping
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from armada.compare.gather import Comparison
    from armada.compare.marks import Kind
    from armada.compare.report.samples import Sample
    from armada.compare.settings import Difference

_COUNTED = (
    "An hour of a rented host counts once, however many of these runs shared it. Hours in which none of them ran are not "
    "counted."
)

Curves = dict[str, list[tuple[float, float | None]]]


@dataclass(frozen=True, slots=True)
class Report:
    """What a report shows beside the comparison itself.

    Attributes:
        title: Its heading.
        made_at: When it was made, as text.
        facts: Name and values of each row of the first table, one value for each run.
        settings: All settings, also those that are equal.
        curves: The curves of each run by metric.
        samples: The samples of each run by prompt.
        marks: What is marked on the curves of each run, by metric.
    """

    title: str
    made_at: str
    found: Comparison
    facts: Sequence[tuple[str, Sequence[str]]]
    settings: Sequence[Difference]
    curves: Sequence[Curves]
    samples: Sequence[Mapping[str, Sample]] = field(default_factory=tuple)
    marks: Sequence[Mapping[str, Sequence[tuple[float, Kind]]]] = field(default_factory=tuple)


def compose(report: Report) -> str:
    """Return the whole page.

    Its policy allows neither requests nor any script but its own, so that a name from a host that was not escaped
    could still do nothing.
    """
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    about = f"{len(report.found.runs)} {'run' if len(report.found.runs) == 1 else 'runs'} · {text(report.made_at)}"
    sections = (
        _runs(report),
        _curves(report),
        _settings(report),
        _samples(report),
        _origins(report),
        _reproduce(report),
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="armada {text(__version__)}">\n'
        f"<title>{text(report.title)}</title>\n<style>{STYLE}</style></head>\n<body>\n"
        f'<h1>{text(report.title)}</h1>\n<p class="about">{about} · armada {text(__version__)}</p>\n'
        f"{''.join(sections)}\n<script>{SCRIPT}</script>\n</body></html>\n"
    )


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of cells that are HTML already."""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(row)}</tr>\n" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n'


def _cell(value: str, kind: str = "") -> str:
    look = f' class="{kind}"' if kind else ""
    return f"<td{look}>{text(value, 2000)}</td>"


def _named(report: Report) -> list[str]:
    return [f"{swatch(place)} {text(summary.run.run_id, 80)}" for place, summary in enumerate(report.found.runs)]


def _runs(report: Report) -> str:
    header = ["run", "name", *(text(name, 60) for name, _ in report.facts)]
    rows = [
        [
            f'<td class="id">{named}</td>',
            _cell(summary.run.name, "name"),
            *(_cell(values[place], "number") for _, values in report.facts),
        ]
        for place, (named, summary) in enumerate(zip(_named(report), report.found.runs, strict=True))
    ]
    costs = cost_together(report.found.runs) if len(report.found.runs) > 1 else None
    total = f"<p>Total cost: {text(costs.text(), 120)}. {_COUNTED}</p>" if costs is not None else ""
    return f"<h2>Runs</h2>\n{_table(header, rows)}{total}"


def _curves(report: Report) -> str:
    if not report.found.metrics:
        return '<h2>Curves</h2>\n<p class="none">no metrics</p>'
    charts, every = [], report.marks or [{} for _ in report.curves]
    for name in report.found.metrics:
        lines = [
            Line(summary.run.run_id, curves[name], marks.get(name, ())) if curves.get(name) else None
            for summary, curves, marks in zip(report.found.runs, report.curves, every, strict=True)
        ]
        charts.append(draw_chart(name, lines))
    legend = " &nbsp; ".join(_named(report))
    return f'<h2>Curves</h2>\n<p>{legend}</p>\n<div class="charts">{"".join(charts)}</div>'


def _settings(report: Report) -> str:
    header = ["", *_named(report)]

    def rows(settings: Sequence[Difference]) -> list[list[str]]:
        return [[f"<th>{text(each.key, 120)}</th>", *map(_cell, each.texts)] for each in settings]

    differing = rows(report.found.settings)
    what = "Settings that differ" if len(report.found.runs) > 1 else "Settings"
    shown = _table(header, differing) if differing else '<p class="none">no setting differs</p>'
    if len(report.found.runs) == 1:
        return f"<h2>{what}</h2>\n{_table(header, rows(report.settings))}"
    everything = f"<details><summary>All settings</summary>{_table(header, rows(report.settings))}</details>"
    return f"<h2>{what}</h2>\n{shown}{everything}"


def _samples(report: Report) -> str:
    prompts = list(dict.fromkeys(prompt for samples in report.samples for prompt in samples))[:MOST_PROMPTS]
    if not prompts:
        return ""
    rows = []
    for prompt in prompts:
        found = [samples.get(prompt) for samples in report.samples]
        expected = next((sample.expected for sample in found if sample is not None), "")
        cells = [_sample_cell(prompt), _sample_cell(expected)]
        cells += [
            _sample_cell(sample.generated, f"after step {sample.step:,}") if sample is not None else "<td></td>"
            for sample in found
        ]
        rows.append(cells)
    return f"<h2>Samples</h2>\n{_table(['prompt', 'expected', *_named(report)], rows)}"


def _sample_cell(value: str, when: str = "") -> str:
    note = f'<span class="about">{text(when)}</span>' if when else ""
    return f'<td class="sample"><pre class="sample">{_block(value)}</pre>{note}</td>'


def _block(value: str) -> str:
    """Return text of several lines for HTML."""
    return html.escape(sanitize_text(value, 65_536), quote=True)


def _origins(report: Report) -> str:
    """Say from which code and environment each run came."""
    rows = []
    for named, summary, record in zip(_named(report), report.found.runs, report.found.records, strict=True):
        project = mapping(summary.spec.get("project"))
        revision = project.get("revision")
        code = sanitize_line(revision, 12) if isinstance(revision, str) else "no revision"
        code += ", with uncommitted changes" if project.get("dirty") is True else ""
        sent = record.code if record is not None else None
        environment = record.environment if record is not None else None
        files = (
            f"{counted(sent.file_count, 'file')}, {sent.sha[:12]}"
            if sent is not None
            else "none"
            if record
            else "not recorded"
        )
        built = (
            f"Python {environment.python}, {environment.key}"
            if environment is not None
            else "none"
            if record
            else "not recorded"
        )
        data = (
            ", ".join(f"{counted(each.file_count, 'file')} {each.sha[:12]}" for each in record.data)
            if record
            else "not recorded"
        )
        cells = (code, files, built, data or "none", record.armada if record is not None else "not recorded")
        rows.append([f'<td class="id">{named}</td>', *map(_cell, cells)])
    return f"<h2>Origin</h2>\n{_table(['run', 'revision', 'code', 'environment', 'data', 'armada'], rows)}"


def _reproduce(report: Report) -> str:
    def lines() -> Iterator[str]:
        for summary in report.found.runs:
            run = summary.run
            command = f"armada reproduce {shlex.quote(run.run_id)} --to ./{shlex.quote(run.run_id)}"
            yield f"<pre>{text(command)}</pre>\n"
            experiment = summary.spec.get("experiment")
            if isinstance(experiment, dict) and experiment:
                name = named_otherwise(run, experiment)
                given = {"name": name} if name is not None else {}
                shown = experiment_text(without_secret_settings(experiment | given))
                yield f"<details><summary>The experiment</summary><pre>{_block(shown)}</pre></details>\n"

    hint = "On the machine that launched them, these commands write the experiment, the code as it was sent and the list of packages:"
    return f"<h2>How to reproduce</h2>\n<p>{hint}</p>\n{''.join(lines())}"
