"""Reads logs of inspect: `.eval`, a zip archive with a document per sample (zstd), and the older `.json`.

A sample in one epoch is a trajectory; its id is the sample, the epoch the rollout. Model events become model calls, of
the model under test or, in another role, of a helper (`aux_llm`); tool events become tool calls. Where a log has no
events, the sample's messages are read. Each scorer becomes a score; the reward is that of the only scorer, where its
value is a number or one of inspect's letters (C, P, I, N). All are validation rollouts: an evaluation trains nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rolltrace.exchange.archive import Archive
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.import_rows import (
    ImportedRow,
    Malformed,
    is_number,
    listed,
    row,
    sample,
    score_row,
    whole,
    without_nothing,
)
from rolltrace.exchange.import_turns import Turns, add_message, time_of, tool_call
from rolltrace.exchange.importer import BadLine, Line, LineReader, Source, place_of
from rolltrace.exchange.opening import MAX_DOCUMENT_BYTES
from rolltrace.exchange.splitting import as_bytes, document, whole_document
from rolltrace.record import SCORES, TRAJECTORIES

_SAMPLE = re.compile(r"samples/[^/]+\.json")
_HEADERS = ("header.json", "_journal/start.json")
"""What says which evaluation it is: at the end, and while it still runs."""
_ATTACHMENT = "attachment://"
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_EVALUATION = ("task", "model", "run_id", "eval_id", "task_id", "created")
_TAGS = ("target", "metadata", "choices", "model_usage", "limit", "invalidation", "uuid", "total_time", "working_time")


def files(folder: Path) -> list[Path]:
    """The logs below a folder."""
    return sorted(each for each in folder.rglob("*.eval") if each.is_file()) or sorted(folder.rglob("*.json"))


def recognise(peek: Peek) -> str | None:
    """By its ending, or by what an older log begins with."""
    if peek.path.suffix == ".eval" and peek.head.startswith(b"PK"):
        return "a zip archive called .eval"
    is_log = peek.path.suffix == ".json" and b'"eval"' in peek.head and b'"task_id"' in peek.head
    return "it has eval and task_id" if is_log else None


def reader(source: Source) -> LineReader:
    """A reader of the samples of one log."""
    source.target.named()
    evaluation: dict[str, Any] = {}
    source.split = lambda _: _samples(source, evaluation)

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        epoch = whole(record.get("epoch", 1), "epoch")
        place = place_of(
            source, line, sample_index=sample(record.get("id")), validate=True,
            rollout_n=None if epoch is None else epoch - 1,
        )  # fmt: skip
        events = listed(record, "events")
        started = time_of(record.get("started_at")) or _first_time(events) or line.time_ns
        turns = Turns(place, started)
        _add_events(turns, record, events, evaluation.get("model"))
        ops = turns.finished()
        end = max(time_of(record.get("completed_at")) or 0, turns.end_ns)
        tags = {**{name: record.get(name) for name in _TAGS}, **_tags_of(evaluation)}
        own = {
            "name": str(evaluation.get("task") or "inspect"), "start_ns": started, "end_ns": end,
            "tags": without_nothing(tags), **_outcome(record.get("error")),
        }  # fmt: skip
        rows = [row(TRAJECTORIES, place, own), *ops]
        scores = record.get("scores")
        scores = scores if isinstance(scores, dict) else {}
        values = {name: _value(each) for name, each in scores.items()}
        for name, score in scores.items():
            value = score.get("value") if isinstance(score, dict) else score
            number = values[name] if is_number(values[name]) else None
            label = None if number is not None and not isinstance(value, str) else _label(value)
            reason = score.get("explanation") if isinstance(score, dict) else None
            columns = {"name": name, "value": number, "label": label, "time_ns": end}
            rows.append(row(SCORES, place, {**columns, "reason": reason if isinstance(reason, str) else None}))
        terms = {name: value for name, value in values.items() if value is not None}
        if terms:
            rows.append(score_row(place, next(iter(terms.values())) if len(values) == 1 else None, terms, end))
        return rows

    return read


def _samples(source: Source, evaluation: dict[str, Any]) -> Iterator[Line | BadLine]:
    if source.path.suffix != ".eval":
        yield from _samples_of_document(source, evaluation)
        return
    try:
        archive = Archive(source.path)
    except Malformed as fault:
        yield BadLine(source.path, 0, str(fault))
        return
    try:
        names = [name for name in archive.members if _SAMPLE.fullmatch(name)]
        if not names and not any(name in archive.members for name in _HEADERS):
            yield BadLine(source.path, 0, "not a log of inspect: the archive has neither a header nor samples")
            return
        for name in _HEADERS:
            header = _member(source, archive, name, 0) if name in archive.members else None
            if isinstance(header, Line) and isinstance(header.value, dict):
                evaluation.update(_object(header.value, "eval"))
                break
        for number, name in enumerate(names, start=1):
            yield _member(source, archive, name, number)
    finally:
        archive.close()


def _member(source: Source, archive: Archive, name: str, number: int) -> Line | BadLine:
    try:
        return document(source, number, archive.read(name, MAX_DOCUMENT_BYTES), name)
    except Malformed as fault:
        return BadLine(source.path, number, f"{name}: {fault}")


def _samples_of_document(source: Source, evaluation: dict[str, Any]) -> Iterator[Line | BadLine]:
    for line in whole_document(source):
        if isinstance(line, BadLine):
            yield line
            continue
        log = line.value if isinstance(line.value, dict) else {}
        samples = log.get("samples")
        if not isinstance(samples, list) or not isinstance(log.get("eval"), dict):
            yield BadLine(source.path, 0, "not a log of inspect: it has no eval and samples")
            return
        evaluation.update(log["eval"])
        for number, each in enumerate(samples, start=1):
            yield Line(number, as_bytes(each), each, source.time_ns + 1000 * number)


def _add_events(turns: Turns, record: dict[str, Any], events: list[dict[str, Any]], model: Any) -> None:
    attached = _Attachments(_object(record, "attachments"))
    pool = listed(_object(record, "events_data"), "messages")
    called = False
    for event in events:
        at, end = time_of(event.get("timestamp")), time_of(event.get("completed"))
        if event.get("event") == "model":
            called = True
            _add_model_call(turns, event, attached, pool, model, at, end)
        elif event.get("event") == "tool":
            error = event.get("error")
            failed = f"{error.get('type')}: {error.get('message')}" if isinstance(error, dict) else None
            result = attached.put_in(event.get("result"))
            arguments = attached.put_in(event.get("arguments"))
            turns.tool(
                str(event.get("function") or "tool"), arguments, result, event.get("id"), error=failed, start_ns=at,
                end_ns=end,
            )  # fmt: skip
    if not called:
        for message in listed(record, "messages"):
            add_message(turns, _message(attached.put_in(message)))


def _add_model_call(
    turns: Turns,
    event: dict[str, Any],
    attached: _Attachments,
    pool: list[dict[str, Any]],
    model: Any,
    at: int | None,
    end: int | None,
) -> None:
    messages = list(listed(event, "input"))
    for pair in event.get("input_refs") or ():
        if isinstance(pair, list) and len(pair) == 2 and all(type(each) is int and each >= 0 for each in pair):
            messages += pool[pair[0] : pair[1]]
    output = _object(event, "output")
    choices = listed(output, "choices")
    choice = choices[0] if choices else {}
    message = _message(attached.put_in(_object(choice, "message")))
    more_outputs = {
        "usage": output.get("usage"), "finish_reason": choice.get("stop_reason"), "model": output.get("model"),
        "logprobs": choice.get("logprobs"),
    }  # fmt: skip
    helps = event.get("role") is not None or (model is not None and event.get("model") != model)
    error = event.get("error")
    failed = {"status": "error", "error": error} if isinstance(error, str) else {}
    turns.reply(
        {"role": "assistant", "content": None, **message},
        messages=[_message(attached.put_in(each)) for each in messages],
        more_outputs=without_nothing(more_outputs),
        more_inputs=without_nothing({"model": event.get("model"), "sampling_params": event.get("config")}),
        start_ns=at,
        end_ns=end,
        kind="aux_llm" if helps else "llm",
        name=str(event.get("role") or "assistant"),
        **failed,
    )


def _message(message: Any) -> dict[str, Any]:
    """A message of inspect in OpenAI's chat format."""
    if not isinstance(message, dict):
        raise Malformed(f"a message is an object, not {message!r:.60}")
    chat_message = {
        name: message[name] for name in ("role", "content", "tool_call_id") if message.get(name) is not None
    }
    if message.get("function") is not None:
        chat_message["name"] = message["function"]
    calls = listed(message, "tool_calls")
    if calls:
        chat_message["tool_calls"] = [
            tool_call(each.get("id"), each.get("function"), each.get("arguments")) for each in calls
        ]
    return chat_message


class _Attachments:
    """Puts long texts back where a log points to them, as far as one sample may grow by that."""

    def __init__(self, texts: dict[str, Any]) -> None:
        self._texts = texts
        self._left = MAX_DOCUMENT_BYTES

    def put_in(self, value: Any) -> Any:
        if isinstance(value, str) and value.startswith(_ATTACHMENT):
            text = self._texts.get(value.removeprefix(_ATTACHMENT))
            if not isinstance(text, str) or len(text) > self._left:
                return value
            self._left -= len(text)
            return text
        if isinstance(value, dict):
            return {name: self.put_in(item) for name, item in value.items()}
        return [self.put_in(item) for item in value] if isinstance(value, list) else value


def _value(score: Any) -> float | None:
    value = score.get("value") if isinstance(score, dict) else score
    if is_number(value):
        return float(value)
    return _LETTERS.get(value) if isinstance(value, str) else None


def _label(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else as_bytes(value).decode()


def _tags_of(evaluation: dict[str, Any]) -> dict[str, Any]:
    return {name: evaluation.get(name) for name in _EVALUATION}


def _outcome(error: Any) -> dict[str, Any]:
    if not isinstance(error, dict):
        return {"status": "ok"}
    traceback = error.get("traceback")
    text = traceback if isinstance(traceback, str) else None
    return {"status": "error", "error": str(error.get("message") or "error"), "traceback": text}


def _first_time(events: list[dict[str, Any]]) -> int | None:
    return next((at for event in events if (at := time_of(event.get("timestamp"))) is not None), None)


def _object(record: dict[str, Any], name: str) -> dict[str, Any]:
    value = record.get(name)
    return value if isinstance(value, dict) else {}
