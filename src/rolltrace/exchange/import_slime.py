"""Reads the debug dumps of slime and miles (`--save-debug-rollout-data ".../rollout_{rollout_id}.pt"`).

A dump is `{"rollout_id": ..., "samples": [Sample.to_dict(), ...]}`, written by `torch.save` and read by
`torch_archive`, as a whole but for its tensors. `eval_` in the name of a file marks validation rollouts, as slime
writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rolltrace.exchange.draft import Draft
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.import_rows import (
    ImportedRow,
    Malformed,
    Samples,
    inside,
    is_number,
    listed,
    shown,
    whole,
    without_nothing,
)
from rolltrace.exchange.importer import BadLine, Line, LineReader, Source
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
    samples = Samples()
    number = _NUMBER.search(source.path.name)
    step_of_file = int(number[1]) if number is not None and len(number[1]) < 19 else None
    is_evaluation = "eval_" in source.path.name or source.target.validate

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        own_step = record.get("rollout_id")
        step = whole(step_of_file if own_step is None else own_step, "rollout_id")
        group = record.get("group_index")
        mark = as_bytes(record.get("prompt") if group is None else [group])
        where = samples.of((step, mark), line.number - 1)
        if group is not None:
            where["sample_index"] = _whole(group, "group_index")
        own_id = source.trajectory_id(line, step, is_evaluation)
        draft = source.draft(line, "slime", own_id, step=step, validate=is_evaluation, **where)
        _add_call(draft, record)
        if record.get("reward") is not None:
            draft.score("reward", *_reward(record["reward"]))
        tags = {name: value for name, value in record.items() if name not in _OWN}
        return draft.finish(without_nothing({**tags, **inside(record, "metadata"), "status": record.get("status")}))

    return read


def _add_call(draft: Draft, record: dict[str, Any]) -> None:
    """All turns of a sample are one sequence of tokens: the mask tells which of it the model said."""
    prompt, response = record.get("prompt"), record.get("response")
    tokens, length = record.get("tokens") or [], _whole(record.get("response_length") or 0, "response_length")
    if not isinstance(response, str) or not isinstance(tokens, list):
        raise Malformed("response must be text, and tokens a list")
    more_inputs: dict[str, Any] = {}
    if isinstance(prompt, list):
        for message in listed(record, "prompt"):
            draft.add_message(message, said_before=True)
    elif prompt:
        more_inputs["prompt"] = prompt
    more_outputs: dict[str, Any] = {
        "finish_reason": _FINISH.get(str(record.get("status"))),
        **{name: record.get(name) for name in ("rollout_log_probs", "loss_mask")},
    }
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
    if is_number(reward):
        return float(reward), {}
    if not isinstance(reward, dict):
        raise Malformed(f"reward must be a number or an object, not {shown(reward)}")
    terms = {str(name): float(value) for name, value in reward.items() if is_number(value)}
    named = next((terms[name] for name in ("reward", "score") if name in terms), None)
    return next(iter(terms.values())) if len(terms) == 1 else named, terms


def _whole(value: Any, name: str) -> int:
    number = whole(value, name)
    if number is None:
        raise Malformed(f"{name} is missing")
    return number


def _samples(source: Source) -> Iterator[Line | BadLine]:
    try:
        with open_archive(source.path) as dump:
            samples = dump.get("samples") if isinstance(dump, dict) else None
            if not isinstance(samples, list):
                raise Malformed('not a dump of slime or miles: it has no list "samples"')
            own = dump.get("rollout_id")
            shared = {"rollout_id": own} if isinstance(own, int | float) else {}
            for number, sample in enumerate(samples, start=1):
                yield _sample(source, number, sample, shared)
    except Malformed as fault:
        yield BadLine(source.path, 0, str(fault))


def _sample(source: Source, number: int, sample: Any, shared: dict[str, Any]) -> Line | BadLine:
    if not isinstance(sample, dict):
        return BadLine(source.path, number, f"a sample is an object with fields, not {name_of(sample)}")
    try:
        value = plain({name: value for name, value in sample.items() if name not in _HUGE})
        if value.get("rollout_id") is None:
            value.update(shared)
        return Line(number, as_bytes(value), value, source.time_ns + 1000 * number)
    except ValueError as fault:
        return BadLine(source.path, number, str(fault))
    except RecursionError:
        return BadLine(source.path, number, "nested too deeply")
