"""Write samples.jsonl: the model's answers to some prompts of the eval set, after every evaluation."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from armada_train.data.rows import Files
from armada_train.data.shapes import Row
from armada_train.runfolder import clear_place

Prompt = tuple[str | list[Mapping[str, Any]], str, Any]
"""What is asked, the expected answer, and the tools that may be called."""


class Samples:
    """Continues the first rows' prompts greedily, so that only training changes the answers.

    Args:
        path: The file; None on ranks that write nothing.
        attempt: Written into every line.
        files: The eval set.
        count: The number of prompts.
        longest: The maximum number of tokens of an answer.
        together: Every rank generates, because no rank has the whole model.
    """

    def __init__(
        self, path: Path | None, attempt: int, files: Files, count: int, longest: int, *, together: bool = False
    ) -> None:
        if path is not None and not path.is_fifo():  # the tests hold a training with a pipe
            clear_place(path)
        self._path = path
        self._attempt = attempt
        self._longest = longest
        self._prompts = [split_row(files.kind, row) for row in files.first(count)] if path or together else []

    def write(self, model: Any, tokenizer: Any, step: int) -> None:
        """Generate answers and append them; the model's training mode is restored."""
        if not self._prompts:
            return
        was_training = model.training
        model.eval()
        for prompt, expected, tools in self._prompts:
            line = {
                "step": step,
                "time": time.time(),
                "attempt": self._attempt,
                "prompt": prompt,
                "expected": expected,
                "generated": generate(model, tokenizer, prompt, tools, self._longest),
            }
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
        model.train(was_training)


def generate(
    model: Any,
    tokenizer: Any,
    prompt: str | list[Mapping[str, Any]],
    tools: Any,
    longest: int,
    temperature: float = 0.0,
) -> str:
    """Answer a prompt.

    Args:
        model: In evaluation mode.
        tokenizer: The model's.
        prompt: A text, or the turns of a chat.
        tools: Those that may be called.
        longest: The maximum number of tokens.
        temperature: 0 takes the most probable token each time; otherwise torch's random numbers decide.
    """
    if isinstance(prompt, str):
        inputs = tokenizer(prompt, return_tensors="pt")
    else:
        inputs = tokenizer.apply_chat_template(
            prompt, add_generation_prompt=True, tools=tools, return_dict=True, return_tensors="pt"
        )
    ids = inputs["input_ids"].to(model.device)
    how = (
        {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        if temperature
        else {"do_sample": False}
    )
    with torch.no_grad():
        answer = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=longest,
            pad_token_id=tokenizer.pad_token_id,
            **how,
        )
    return str(tokenizer.decode(answer[0, ids.shape[1] :], skip_special_tokens=True))


def split_row(kind: str, row: Row) -> Prompt:
    """Split a row into prompt and expected answer; for plain text the first half is the prompt."""
    if kind == "messages":
        messages = row["messages"]
        last = max(index for index, message in enumerate(messages) if message["role"] == "assistant")
        return messages[:last], _said(messages[last]), row.get("tools")
    if "columns" in row:
        return row["prompt"], _for_judges(row["columns"]), None
    if "prompt" in row:
        answer = row["chosen" if "chosen" in row else "completion"]
        return row["prompt"], answer if isinstance(answer, str) else _said(answer[-1]), row.get("tools")
    half = len(row["text"]) // 2
    return row["text"][:half] or row["text"], row["text"][half:], None


def _for_judges(columns: Mapping[str, Any]) -> str:
    """What reward functions get beside the prompt: of a single text the text itself."""
    values = list(columns.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return json.dumps(columns, ensure_ascii=False, default=str) if values else ""


def _said(turn: Mapping[str, Any]) -> str:
    """What a turn says, or the tools that it calls."""
    calls = turn.get("tool_calls")
    return turn["content"] or (json.dumps(calls) if calls else "")
