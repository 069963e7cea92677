"""Reads NeMo-RL's `train_data_stepN.jsonl` and `val_data_stepN.jsonl`, which GRPO writes into its log folder.

A line is a sample as a batch of one: each field is a list with one item. `content` is the text of prompt and response
together; the file does not say where the response begins. The tokens do: it begins where `token_loss_mask` first is 1.
Tokens after `input_lengths` are padding.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeGuard

from rolltrace.exchange.formats import IMPORTS
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.import_rows import (
    ImportedRow,
    Malformed,
    Samples,
    is_number,
    number_again,
    score_row,
    trajectory_row,
    whole,
)
from rolltrace.exchange.import_turns import Turns
from rolltrace.exchange.importer import Line, LineReader, Source, place_of

_NAME = re.compile(r"(train|val)_data_step(\d{1,18})\.jsonl")
_OWN = frozenset({
    "content", "rewards", "input_lengths", "token_ids", "token_loss_mask", "advantages", "generation_logprobs",
    "prev_logprobs", "idx",
})  # fmt: skip
"""Fields that become columns, and what the trainer computed for each token; all others become tags."""


def files(folder: Path) -> list[Path]:
    """The data of all steps of a log folder, 9 before 10."""
    steps = [each for each in folder.rglob("*_data_step*.jsonl") if _NAME.fullmatch(each.name)]
    return sorted(steps, key=lambda each: (each.parent, len(each.name), each.name))


def recognise(peek: Peek) -> str | None:
    """By its name and fields."""
    fields = IMPORTS["nemo-rl"].fields
    is_data = _NAME.fullmatch(peek.path.name) is not None and fields <= peek.record.keys()
    return "its name, and its first record has content, rewards and idx" if is_data else None


def reader(source: Source) -> LineReader:
    """A reader of the samples of one step."""
    source.target.named()
    name = _NAME.fullmatch(source.path.name)
    step = int(name[2]) if name is not None else None
    validate = source.target.validate or (name is not None and name[1] == "val")
    samples = Samples()

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        fields = {key: _only(value) for key, value in record.items()}
        content, reward = fields.get("content"), number_again(fields.get("rewards"))
        if not isinstance(content, str) and not _are(content, str):
            raise Malformed(f"content must be a list of text, not {content!r:.60}")
        if reward is not None and not is_number(reward):
            raise Malformed(f"rewards must be a list of numbers, not {reward!r:.60}")
        tokens = _tokens(fields)
        index = whole(fields.get("idx", line.number - 1), "idx")
        where = samples.of(tuple(tokens["prompt_ids"]) if tokens["prompt_ids"] else line.number, index or 0)
        place = place_of(
            source, line, source.trajectory_id(line, step, validate), step=step, validate=validate, **where
        )
        turns, at = Turns(place, line.time_ns), line.time_ns
        more_inputs = {"prompt_ids": tokens.pop("prompt_ids")} if tokens["prompt_ids"] else {}
        more_outputs = {key: value for key, value in tokens.items() if value}
        text = content if isinstance(content, str) else "".join(content)
        turns.reply({"role": "assistant", "content": text}, more_outputs=more_outputs, more_inputs=more_inputs)
        tags = {key: value for key, value in fields.items() if key not in _OWN and value is not None}
        rows = [trajectory_row(place, "nemo-rl", at, turns.end_ns + 1, tags), *turns.finished()]
        if reward is not None:
            rows.append(score_row(place, reward, {}, turns.end_ns + 1))
        advantage = _advantage(fields)
        if advantage is not None:
            rows.append(score_row(place, advantage, {}, turns.end_ns + 1, "advantage"))
        return rows

    return read


def _only(value: Any) -> Any:
    """The one item of a batch of one."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _are(value: Any, *kinds: type) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and all(isinstance(each, kinds) for each in value)


def _tokens(fields: dict[str, Any]) -> dict[str, list[Any]]:
    """The token columns, without padding."""
    ids = fields.get("token_ids")
    if not _are(ids, int):
        return {"prompt_ids": []}
    length = fields.get("input_lengths")
    ids = ids[: length if isinstance(length, int) and length >= 0 else len(ids)]
    mask = fields.get("token_loss_mask")
    mask = [int(each == 1) for each in mask[: len(ids)]] if _are(mask, int, float) else []
    begin = mask.index(1) if 1 in mask else len(ids)
    logprobs = fields.get("generation_logprobs")
    return {
        "prompt_ids": ids[:begin],
        "response_ids": ids[begin:],
        "response_mask": mask[begin:],
        "logprobs": logprobs[begin : len(ids)] if _are(logprobs, int, float) else [],
    }


def _advantage(fields: dict[str, Any]) -> float | None:
    """The advantage of a sample: GRPO gives each of its tokens the same."""
    values = fields.get("advantages")
    if is_number(values):
        return float(values)
    mask = fields.get("token_loss_mask")
    if not isinstance(values, list):
        return None
    trained = [value for value, on in zip(values, mask) if on] if isinstance(mask, list) else values
    same = bool(trained) and all(is_number(value) and value == trained[0] for value in trained)
    return float(trained[0]) if same else None
