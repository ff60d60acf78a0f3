"""`python -m armada_train.show`: what a model will see of some rows, in tokens. It reads a request from stdin, as JSON.

Neither torch nor a run is needed. The answer is one line of stdout that begins with `@@`.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from armada_train.data.shapes import Row, texts_of
from armada_train.failure import PayloadFailure
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section
from armada_train.specification.values import TinyModel, Training

MARK = "@@"
_LIMIT_S = 240
_LONGEST_TEXT = 100_000


def main() -> int:
    signal.alarm(_LIMIT_S)  # nobody waits for it any more
    request = json.load(sys.stdin)
    try:
        answer = describe(request)
    except PayloadFailure as failure:
        answer = {"parts": [], "problem": failure.message, "notes": []}
    print(f"{MARK} {json.dumps(answer)}", flush=True)
    return 0


def describe(request: Mapping[str, Any]) -> dict[str, Any]:
    """Tokenise the rows of a request.

    Args:
        request: `training` as in spec.json; `parts`, each with its name, its kind and its rows, which are null if they
            are to be read here; `examples` and `most` rows.

    Raises:
        PayloadFailure: The model has no tokenizer here, or the rows cannot be used.
    """
    from armada_train.data.encodings import encoding_of
    from armada_train.data.tokens import choose_template, load_tokenizer, tokenise_watching

    training = parse_training(Section(request["training"], "training"))
    parts = [_open(part, training, request["most"]) for part in request["parts"]]
    notes = []
    if isinstance(training.model, TinyModel):
        from armada_train.model.tiny_tokenizer import train_tokenizer

        train_rows = next(rows for name, _, rows in parts if name == "train")
        tokenizer = train_tokenizer(training.model.vocab_size, _texts(train_rows))
        notes.append("the tiny model's tokenizer is learnt from the rows here; a training learns it from all")
    else:
        tokenizer = load_tokenizer(training.model)
    told = []
    for name, kind, rows in parts:
        template, encoding = choose_template(tokenizer, kind), encoding_of(kind)
        made = [tokenise_watching(row, tokenizer, template)[0] for row in rows]
        numbers = [encoding.measure(row) for row in made]
        told.append(
            {
                "name": name,
                "kind": kind,
                "lengths": [each["length"] for each in numbers],
                "trained": [each["trained"] for each in numbers],
                "examples": [_pieces(row, tokenizer) for row in made[: request["examples"]]],
            }
        )
    return {"parts": told, "problem": None, "notes": notes}


def _open(part: Mapping[str, Any], training: Training, most: int) -> tuple[str, str, Sequence[Row]]:
    """Return a part's name, the kind of its rows, and the rows."""
    if part["rows"] is not None:
        return part["name"], part["kind"], part["rows"]
    from armada_train.data.rows import Files

    sources = training.train_data if part["name"] == "train" else training.eval_data
    files = Files(sources, training.objective.kinds)
    return part["name"], files.kind, files.first(most)


def _texts(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        yield from texts_of(row)


def _pieces(row: Mapping[str, Any], tokenizer: Any) -> list[dict[str, Any]]:
    """Cut a tokenised row into texts that are trained on, and texts that are not."""
    if "row" in row:
        more = [
            {"of": name, "text": str(value)[:_LONGEST_TEXT], "trained": False, "tokens": 0}
            for name, value in json.loads(row["row"])["columns"].items()
        ]
        return [_piece("prompt", row["prompt_ids"], tokenizer, trained=False), *more]
    if "labels" not in row:
        columns = [name for name in ("prompt_ids", "chosen_ids", "rejected_ids", "completion_ids") if name in row]
        judged = f" ({'good' if row['label'][0] else 'bad'})" if "label" in row else ""
        of = {name: name.removesuffix("_ids") + (judged if name == "completion_ids" else "") for name in columns}
        return [_piece(of[name], row[name], tokenizer, name != "prompt_ids") for name in columns]
    from armada_train.data.encodings import IGNORED

    found: list[tuple[bool, list[int]]] = []
    for number, (token, label) in enumerate(zip(row["input_ids"], row["labels"], strict=True)):
        is_trained = label != IGNORED and number > 0  # nothing predicts the first token
        if not found or found[-1][0] != is_trained:
            found.append((is_trained, []))
        found[-1][1].append(token)
    return [_piece("", ids, tokenizer, is_trained) for is_trained, ids in found]


def _piece(of: str, ids: list[int], tokenizer: Any, trained: bool) -> dict[str, Any]:
    return {"of": of, "text": str(tokenizer.decode(ids))[:_LONGEST_TEXT], "trained": trained, "tokens": len(ids)}


if __name__ == "__main__":
    sys.exit(main())
