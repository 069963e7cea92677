"""Reads the debug dumps of slime and miles (`--save-debug-rollout-data ".../rollout_{rollout_id}.pt"`).

A dump is `{"rollout_id": ..., "samples": [Sample.to_dict(), ...]}`, written by `torch.save` and read by
`torch_archive`, as a whole but for its tensors. `eval_` in the name of a file marks validation rollouts, as slime
writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rolltrace.exchange import fields
from rolltrace.exchange.draft import Draft, ImportedRow
from rolltrace.exchange.fields import Malformed
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.source_lines import Line
from rolltrace.exchange.text import as_bytes
from rolltrace.exchange.torch_archive import name_of, open_archive, plain

_NUMBER = re.compile(r"(\d+)(?=\.pt$)")
_FINISH = {"completed": "stop", "truncated": "length", "aborted": "abort"}
_OWN = frozenset({
    "prompt", "tokens", "response", "response_length", "reward", "loss_mask", "rollout_log_probs", "weight_versions",
    "index", "group_index", "rollout_id", "metadata", "status",
})  # fmt: skip
"""Fields that become columns; all others become tags."""
_HUGE = ("multimodal_inputs", "multimodal_train_inputs", "rollout_routed_experts", "teacher_log_probs")
"""Tensors for the training itself, many times as large as all the rest: left out."""


def recognise(peek: Peek) -> str | None:
    """By its ending and the archive that torch writes."""
    return "an archive of torch" if peek.path.suffix == ".pt" and peek.head.startswith(b"PK") else None


def reader(source: Source) -> LineReader:
    """A reader of the samples of one dump."""
    source.split = _samples
    samples = fields.Samples()
    number = _NUMBER.search(source.path.name)
    step_of_file = int(number[1]) if number is not None and len(number[1]) < 19 else None
    is_evaluation = "eval_" in source.path.name or source.target.validate

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        own_step = record.get("rollout_id")
        step = fields.whole(step_of_file if own_step is None else own_step, "rollout_id")
        group = fields.whole(record.get("group_index"), "group_index")
        mark = as_bytes(record.get("prompt") if group is None else [record["group_index"]])
        where = samples.of((step, mark), line.number - 1)
        if group is not None:
            where["sample_index"] = group
        own_id = source.trajectory_id(line, step, is_evaluation)
        draft = source.draft(line, "slime", own_id, step=step, validate=is_evaluation, **where)
        _add_call(draft, record)
        if record.get("reward") is not None:
            draft.score("reward", *_reward(record["reward"]))
        tags = {**fields.leave(record, _OWN), **fields.inside(record, "metadata"), **fields.pick(record, "status")}
        return draft.finish(fields.without_nothing(tags))

    return read


def _add_call(draft: Draft, record: dict[str, Any]) -> None:
    """All turns of a sample are one sequence of tokens: the mask tells which of it the model said."""
    prompt, response, tokens = record.get("prompt"), record.get("response"), record.get("tokens") or []
    length = fields.whole(record.get("response_length") or 0, "response_length") or 0
    if not isinstance(response, str) or not isinstance(tokens, list):
        raise Malformed("response must be text, and tokens a list")
    more_inputs: dict[str, Any] = {}
    if isinstance(prompt, list):
        for message in fields.objects(record, "prompt"):
            draft.add_message(message, said_before=True)
    elif prompt:
        more_inputs["prompt"] = prompt
    more_outputs: dict[str, Any] = {
        "finish_reason": _FINISH.get(str(record.get("status"))), **fields.pick(record, "rollout_log_probs", "loss_mask")
    }  # fmt: skip
    if 0 <= length <= len(tokens) and tokens:
        more_inputs["prompt_ids"] = tokens[: len(tokens) - length]
        more_outputs["response_ids"] = tokens[len(tokens) - length :]
    versions = record.get("weight_versions")
    if isinstance(versions, list) and versions:
        more_outputs["weight_version"] = versions[-1]
    draft.reply({"role": "assistant", "content": response}, more_outputs=more_outputs, more_inputs=more_inputs)


def _reward(reward: Any) -> tuple[float | None, dict[str, float]]:
    """The reward and its parts. Which part counts is an argument of the trainer (`--reward-key`): the only one, or that
    which is called so."""
    if fields.is_number(reward):
        return float(reward), {}
    if not isinstance(reward, dict):
        raise Malformed(f"reward must be a number or an object, not {fields.shown(reward)}")
    terms = fields.numbers_in(reward)
    named = next((terms[name] for name in ("reward", "score") if name in terms), None)
    return next(iter(terms.values())) if len(terms) == 1 else named, terms


def _samples(path: Path) -> Iterator[Line]:
    with open_archive(path) as dump:
        samples = dump.get("samples") if isinstance(dump, dict) else None
        if not isinstance(samples, list):
            raise Malformed('not a dump of slime or miles: it has no list "samples"')
        own = dump.get("rollout_id")
        shared = {"rollout_id": own} if isinstance(own, int | float) else {}
        for number, sample in enumerate(samples, start=1):
            try:
                value = _read_sample(sample, shared)
                yield Line(number, as_bytes(value), value)
            except RecursionError:
                yield Line(number, b"", problem="nested too deeply")
            except ValueError as error:
                yield Line(number, b"", problem=str(error))


def _read_sample(sample: Any, shared: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(sample, dict):
        raise Malformed(f"a sample is an object with fields, not {name_of(sample)}")
    value: dict[str, Any] = plain(fields.leave(sample, _HUGE))
    return {**value, **shared} if value.get("rollout_id") is None else value
