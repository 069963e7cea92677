"""Reads the debug dumps of slime and miles (`--save-debug-rollout-data ".../rollout_{rollout_id}.pt"`).

A dump is `{"rollout_id": ..., "samples": [Sample.to_dict(), ...]}`, written by `torch.save`. It is read by torch with
`weights_only=True`, which runs no code of the file; what that refuses is refused here. A file is read as a whole,
since torch knows no other way. `eval_` in the name of a file marks validation rollouts, as slime writes it.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rolltrace.errors import MissingExtraError
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.import_checks import ImportChecks
from rolltrace.exchange.import_rows import (
    ImportedRow,
    Malformed,
    Samples,
    is_number,
    listed,
    score_row,
    trajectory_row,
    whole,
    without_nothing,
)
from rolltrace.exchange.import_turns import Turns
from rolltrace.exchange.importer import BadLine, Line, LineReader, Source, place_of
from rolltrace.exchange.splitting import as_bytes

_NUMBER = re.compile(r"(\d+)(?=\.pt$)")
_FINISH = {"completed": "stop", "truncated": "length", "aborted": "abort"}
_OWN = frozenset({
    "prompt", "tokens", "response", "response_length", "reward", "loss_mask", "rollout_log_probs", "weight_versions",
    "index", "group_index", "rollout_id", "metadata", "status",
})  # fmt: skip
"""Fields that become columns; all others become tags."""
_HUGE = ("multimodal_inputs", "multimodal_train_inputs", "rollout_routed_experts", "teacher_log_probs")
"""Tensors for the training itself, many times as large as all the rest: left out."""


def files(folder: Path) -> list[Path]:
    """The dumps of a folder, 9 before 10."""
    return sorted(folder.glob("*.pt"), key=lambda each: (len(each.name), each.name))


def recognise(peek: Peek) -> str | None:
    """By its ending and the archive that torch writes."""
    return "an archive of torch" if peek.path.suffix == ".pt" and peek.head.startswith(b"PK") else None


def reader(source: Source) -> LineReader:
    """A reader of the samples of one dump."""
    source.target.named()
    source.split = _samples
    checks, samples = ImportChecks(), Samples()
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
        place = place_of(
            source, line, source.trajectory_id(line, step, is_evaluation), step=step, validate=is_evaluation, **where
        )
        turns = Turns(place, line.time_ns)
        _add_call(turns, record)
        end, metadata = turns.end_ns + 1, record.get("metadata")
        tags = {name: value for name, value in record.items() if name not in _OWN}
        tags.update(metadata if isinstance(metadata, dict) else {}, status=record.get("status"))
        rows = [trajectory_row(place, "slime", line.time_ns, end, without_nothing(tags)), *turns.finished()]
        reward = record.get("reward")
        if reward is not None:
            rows.append(score_row(place, *_reward(reward), end))
        return checks.flagged(place, rows)

    return read


def _add_call(turns: Turns, record: dict[str, Any]) -> None:
    """All turns of a sample are one sequence of tokens: the mask tells which of it the model said."""
    prompt, response = record.get("prompt"), record.get("response")
    tokens, length = record.get("tokens") or [], _whole(record.get("response_length") or 0, "response_length")
    if not isinstance(response, str) or not isinstance(tokens, list):
        raise Malformed("response must be text, and tokens a list")
    more_inputs: dict[str, Any] = {}
    if isinstance(prompt, list):
        for message in listed(record, "prompt"):
            more = {name: value for name, value in message.items() if name not in ("role", "content")}
            turns.say(str(message.get("role") or "user"), message.get("content"), **more)
    elif prompt:
        more_inputs["prompt"] = prompt
    more_outputs: dict[str, Any] = {"finish_reason": _FINISH.get(str(record.get("status")))}
    if 0 <= length <= len(tokens) and tokens:
        more_inputs["prompt_ids"] = tokens[: len(tokens) - length]
        more_outputs["response_ids"] = tokens[len(tokens) - length :]
    for name in ("rollout_log_probs", "loss_mask"):
        if record.get(name) is not None:
            more_outputs[name] = record[name]
    versions = record.get("weight_versions")
    if isinstance(versions, list) and versions:
        more_outputs["weight_version"] = versions[-1]
    turns.reply(
        {"role": "assistant", "content": response}, more_outputs=without_nothing(more_outputs), more_inputs=more_inputs
    )


def _reward(reward: Any) -> tuple[float | None, dict[str, float]]:
    """The reward and its parts. Which part counts is an argument of the trainer (`--reward-key`): the only one, or that
    which is called so."""
    if is_number(reward):
        return float(reward), {}
    if not isinstance(reward, dict):
        raise Malformed(f"reward must be a number or an object, not {reward!r:.60}")
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
        import torch
    except ImportError:
        raise MissingExtraError("dumps of slime and miles are read by torch; install it: pip install torch") from None
    try:
        _check_archive(source.path)
        # Never without weights_only: that would run whatever the file says.
        dump = torch.load(source.path, map_location="cpu", weights_only=True)
        samples = dump.get("samples") if isinstance(dump, dict) else None
        if not isinstance(samples, list):
            raise Malformed('not a dump of slime or miles: it has no list "samples"')
    except Exception as fault:  # torch raises many kinds for a damaged or hostile file
        why = str(fault).strip().partition("\n")[0][:300] or type(fault).__name__
        yield BadLine(source.path, 0, why if isinstance(fault, Malformed) else f"torch cannot load it: {why}")
        return
    shared = {"rollout_id": dump["rollout_id"]} if dump.get("rollout_id") is not None else {}
    for number, sample in enumerate(samples, start=1):
        if not isinstance(sample, dict):
            yield BadLine(source.path, number, f"a sample is an object, not {type(sample).__name__}")
            continue
        own = {str(name): _plain(value) for name, value in sample.items() if name not in _HUGE}
        value = {**own, **shared} if own.get("rollout_id") is None else own
        yield Line(number, as_bytes(value), value, source.time_ns + 1000 * number)


def _check_archive(path: Path) -> None:
    """Refuse what torch never writes: an archive that grows when it is unpacked, or no archive at all."""
    try:
        with zipfile.ZipFile(path) as archive:
            if any(each.compress_type != zipfile.ZIP_STORED for each in archive.infolist()):
                raise Malformed("not an archive of torch: its parts are compressed")
    except zipfile.BadZipFile:
        raise Malformed("not an archive of torch") from None


def _plain(value: Any) -> Any:
    """A value without tensors."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return value if value is None or isinstance(value, str | int | float | bool) else repr(value)[:200]
