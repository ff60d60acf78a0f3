"""Ask a host what a model will see of rows, in tokens: it has the libraries and the model's tokenizer."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from armada.errors import NotFound
from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.launch.training.data_view import MOST_ROWS, DataView, Example, PartView, Piece, Sample, summarise
from armada.protocol.preview import GivenPart, GivenRows, ShowData
from armada.protocol.spec import TrainingSection
from armada.provision.payload import payload_content

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.launch.plans.plan import Plan
    from armada.protocol.preview import SeenPart, SeenPiece
    from armada.rpc.session import HostSession

_TIMEOUT_S = 270.0
_HUB = ("HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_LONGEST_TEXT = 100_000


def why_not(plan: Plan) -> str | None:
    """Say why a host cannot tokenise rows now; None if it can."""
    name = plan.host.name
    if plan.container is not None:
        return f"on {name} the training runs in a container, which is not started to look at rows"
    lacking = []
    if plan.environment is None or not plan.environment.ready:
        lacking.append("its environment")
    shas = {content.sha for content in plan.missing}
    if payload_content().sha in shas:
        lacking.append("the trainer")
    if any(content.kind == "models" for content in plan.missing):
        lacking.append("the model")
    if not lacking:
        return None
    return f"{name} lacks {', '.join(lacking)}; `armada prepare EXPERIMENT --host {name}` puts there what is missing"


def view_tokens(plan: Plan, session: HostSession, samples: Sequence[Sample], examples: int) -> DataView:
    """Tokenise rows on a host.

    Args:
        plan: Of the training there; `why_not` has nothing against it.
        session: With the host.
        samples: The rows; those that home could not read are read by the host.
        examples: How many rows of each part to show.

    Raises:
        NotFound: The host cannot read the rows, or has no tokenizer for the model.
        ArmadaError: The host failed, for the reason that it gives.
    """
    section = plan.spec.training
    if plan.environment is None or not isinstance(section, TrainingSection):
        raise NotFound("there is nothing to tokenise with", host=plan.host.name)
    parts = tuple(
        GivenPart(name=each.part, kind=each.kind, rows=None if each.kind is None else tuple(map(dict, each.rows)))
        for each in samples
    )
    request = ShowData(
        environment=plan.environment.key,
        payload=payload_content().sha,
        rows=GivenRows(training=section.as_json(), parts=parts, examples=examples, most=MOST_ROWS),
        variables={name: value for name, value in plan.spec.job.env.items() if name in _HUB},
    )
    seen = session.call(request, timeout_s=_TIMEOUT_S)
    if seen.problem is not None:
        raise NotFound(sanitize_line(seen.problem, 900), host=plan.host.name)
    by_name = {each.name: each for each in seen.parts}
    limit = plan_limit(section)
    views = tuple(_view(each, by_name[each.part], examples, limit) for each in samples if each.part in by_name)
    return DataView("tokens", views, plan.host.name, notes=tuple(sanitize_line(note) for note in seen.notes))


def plan_limit(section: TrainingSection) -> int | None:
    """Return the longest row in tokens."""
    told = section.as_json()
    longest, objective = told["train"], told.get("objective")
    limit = longest.get("max_length") if isinstance(longest, dict) else None
    room = objective.get("max_completion_length", 0) if isinstance(objective, dict) else 0
    return limit - room if isinstance(limit, int) and isinstance(room, int) else limit


def _view(sample: Sample, seen: SeenPart, examples: int, limit: int | None) -> PartView:
    """Summarise what a host said; it says lengths of all rows, and texts of the first."""
    known = dataclasses.replace(sample, kind=sanitize_line(seen.kind, 40))
    every = []
    for number, (length, trained) in enumerate(zip(seen.lengths, seen.trained, strict=False)):
        pieces = seen.examples[number] if number < min(examples, len(seen.examples)) else ()
        every.append(Example(tuple(map(_piece, pieces)), length, 0 if known.is_prompts else trained))
    return summarise(known, every, examples, limit=limit)


def _piece(piece: SeenPiece) -> Piece:
    return Piece(sanitize_line(piece.of, 40), sanitize_text(piece.text, _LONGEST_TEXT), piece.trained)
