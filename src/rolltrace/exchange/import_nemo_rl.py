"""Reads NeMo-RL's `train_data_stepN.jsonl` and `val_data_stepN.jsonl`, which GRPO writes into its log folder.

A line is a sample as a batch of one: each field is a list with one item. `content` is the text of prompt and response
together; the file does not say where the response begins. The tokens do: it begins where `token_loss_mask` first is 1.
Tokens after `input_lengths` are padding.
"""

from __future__ import annotations

import re
from typing import Any, TypeGuard

from rolltrace.exchange import fields
from rolltrace.exchange.draft import ImportedRow
from rolltrace.exchange.fields import is_number
from rolltrace.exchange.formats import IMPORTS
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.source_lines import Line

_OWN = frozenset({
    "content", "rewards", "input_lengths", "token_ids", "token_loss_mask", "advantages", "generation_logprobs",
    "prev_logprobs", "idx",
})  # fmt: skip
"""Fields that become columns, and what the trainer computed for each token; all others become tags."""


def recognise(peek: Peek) -> str | None:
    """By its name and fields."""
    form = IMPORTS["nemo-rl"]
    is_data = re.fullmatch(form.file_name, peek.path.name) is not None and form.fields <= peek.record.keys()
    return "its name, and its first record has content, rewards and idx" if is_data else None


def reader(source: Source) -> LineReader:
    """A reader of the samples of one step."""
    name = re.fullmatch(IMPORTS["nemo-rl"].file_name, source.path.name)
    step = int(name[2]) if name is not None else None
    validate = source.target.validate or (name is not None and name[1] == "val")
    samples = fields.Samples()

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        batch = {key: value[0] if _is_list(value) and len(value) == 1 else value for key, value in record.items()}
        content, reward = batch.get("content"), fields.number(fields.number_again(batch.get("rewards")), "rewards")
        if not isinstance(content, str) and not _is_list(content, str):
            raise fields.Malformed(f"content must be a list of text, not {fields.shown(content)}")
        tokens = _tokens(batch)
        prompt_ids = tokens.pop("prompt_ids")
        index = fields.whole(batch.get("idx", line.number - 1), "idx")
        where = samples.of(tuple(prompt_ids) if prompt_ids else line.number, index or 0)
        own_id = source.trajectory_id(line, step, validate)
        draft = source.draft(line, "nemo-rl", own_id, step=step, validate=validate, **where)
        draft.reply(
            {"role": "assistant", "content": "".join(content)},
            more_outputs={key: value or None for key, value in tokens.items()},
            more_inputs={"prompt_ids": prompt_ids or None},
        )
        draft.reward(reward)
        draft.advantage(_advantage(batch))
        return draft.finish(fields.leave(batch, _OWN))

    return read


def _is_list(value: Any, *kinds: type) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and (not kinds or all(isinstance(each, kinds) for each in value))


def _tokens(batch: dict[str, Any]) -> dict[str, list[Any]]:
    """The token columns, without padding."""
    ids = batch.get("token_ids")
    if not _is_list(ids, int):
        return {"prompt_ids": []}
    length = batch.get("input_lengths")
    ids = ids[: length if isinstance(length, int) and length >= 0 else len(ids)]
    mask = batch.get("token_loss_mask")
    mask = [int(each == 1) for each in mask[: len(ids)]] if _is_list(mask, int, float) else []
    begin = mask.index(1) if 1 in mask else len(ids)
    logprobs = batch.get("generation_logprobs")
    return {
        "prompt_ids": ids[:begin],
        "response_ids": ids[begin:],
        "response_mask": mask[begin:],
        "logprobs": logprobs[begin : len(ids)] if _is_list(logprobs, int, float) else [],
    }


def _advantage(batch: dict[str, Any]) -> float | None:
    """The advantage of a sample: GRPO gives each of its tokens the same."""
    values = batch.get("advantages")
    if is_number(values):
        return float(values)
    mask = batch.get("token_loss_mask")
    if not isinstance(values, list):
        return None
    trained = [value for value, on in zip(values, mask) if on] if isinstance(mask, list) else values
    same = bool(trained) and all(is_number(value) and value == trained[0] for value in trained)
    return float(trained[0]) if same else None
