"""Write the lines of Python that load an export: those for an adapter or a whole model, with the classes that fit it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from armada.export.subject import ADAPTER_CONFIG, BESIDE, MODEL_CONFIG, Kind
from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import mapping

if TYPE_CHECKING:
    from armada.export.subject import Subject

_CAUSAL = "AutoModelForCausalLM"
_OF_TASK = {
    "CAUSAL_LM": _CAUSAL,
    "SEQ_2_SEQ_LM": "AutoModelForSeq2SeqLM",
    "SEQ_CLS": "AutoModelForSequenceClassification",
    "TOKEN_CLS": "AutoModelForTokenClassification",
    "QUESTION_ANS": "AutoModelForQuestionAnswering",
}
"""PEFT's task types and transformers' class for the base model."""
_CLASS = re.compile(r"[A-Z][A-Za-z0-9]{2,80}")
_TOKENIZER = re.compile(r"tokenizer(_config)?\.json|tokenizer\.model|vocab\.(json|txt)|spiece\.model")
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def how_to_load(subject: Subject, where: str) -> str | None:
    """Return Python that loads the export; None for files of a user's own trainer, whose format is not known.

    Args:
        subject: The export.
        where: The name of its folder or repository.
    """
    names = {file.path for file in subject.files}
    has_tokenizer = any(map(_TOKENIZER.fullmatch, names))
    if subject.kind is Kind.ADAPTER:
        kind, lines = _adapter(subject, where, has_base=f"{BESIDE}/{MODEL_CONFIG}" in names)
    elif subject.kind is Kind.MODEL:
        kind = _architecture(subject)
        lines = [f'model = {kind}.from_pretrained({_text(where)}, dtype="auto")']
    else:
        return None
    imported = [kind]
    if has_tokenizer:
        imported.append("AutoTokenizer")
        lines.append(f"tokenizer = AutoTokenizer.from_pretrained({_text(where)})")
        if kind == _CAUSAL and _has_template(subject, names):
            lines += [
                "",
                'messages = [{"role": "user", "content": "Hello"}]',
                "inputs = tokenizer.apply_chat_template(",
                '    messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"',
                ")",
                "print(tokenizer.decode(model.generate(**inputs, max_new_tokens=200)[0]))",
            ]
    head = ["from peft import PeftModel"] if subject.kind is Kind.ADAPTER else []
    return "\n".join([*head, f"from transformers import {', '.join(imported)}", "", *lines])


def _adapter(subject: Subject, where: str, *, has_base: bool) -> tuple[str, list[str]]:
    """Return the class of the base model, and the lines that load it in the training's precision with its adapter."""
    kind = _OF_TASK.get(str(subject.documents.get(ADAPTER_CONFIG, {}).get("task_type")), "AutoModel")
    base = f"{where}/{BESIDE}" if has_base else subject.base or "the base model"
    precision = _DTYPES.get(str(mapping(subject.plan.get("training")).get("precision")), "auto")
    # PiSSA subtracts the adapter's first value from the base: in another precision it would be another value.
    head = ", num_labels=1" if subject.plan.get("task") == "reward" else ""  # the adapter holds the head's weights
    loading = f"base = {kind}.from_pretrained({_text(base)}, dtype={_text(precision)}{head})"
    return kind, [loading, f"model = PeftModel.from_pretrained(base, {_text(where)})"]


def _architecture(subject: Subject) -> str:
    """Return transformers' class for a whole model, from its configuration."""
    listed = subject.documents.get(MODEL_CONFIG, {}).get("architectures")
    name = listed[0] if isinstance(listed, list) and listed else None
    if not isinstance(name, str) or not _CLASS.fullmatch(name):
        return "AutoModel"
    return _CAUSAL if name.endswith(("ForCausalLM", "LMHeadModel")) else name


def _has_template(subject: Subject, names: set[str]) -> bool:
    return "chat_template.jinja" in names or "chat_template" in subject.documents.get("tokenizer_config.json", {})


def _text(text: str) -> str:
    """Return a string of Python in which no backtick can end the card's block of code."""
    return json.dumps(sanitize_line(text, 1000), ensure_ascii=False).replace("`", "\\u0060")
