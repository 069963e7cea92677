"""Reads logs of inspect: `.eval`, a zip archive with a document per sample (zstd), and the older `.json`.

A sample in one epoch is a trajectory; its id is the sample, the epoch the rollout. Model events become model calls, of
the model under test or, in another role, of a helper (`aux_llm`); tool events become tool calls. Where a log has no
events, the sample's messages are read. Each scorer becomes a score; the reward is that of the only scorer, where its
value is a number or one of inspect's letters (C, P, I, N). All are validation rollouts: an evaluation trains nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rolltrace.exchange.archive import Archive
from rolltrace.exchange.draft import Draft, first_time, time_of, tool_call
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.import_rows import (
    ImportedRow,
    Malformed,
    inside,
    is_number,
    listed,
    sample,
    shown,
    whole,
    without_nothing,
)
from rolltrace.exchange.importer import BadLine, Line, LineReader, Source
from rolltrace.exchange.opening import MAX_DOCUMENT_BYTES
from rolltrace.exchange.splitting import document, whole_document
from rolltrace.exchange.text import as_bytes

_SAMPLE = re.compile(r"samples/[^/]+\.json")
_HEADERS = ("header.json", "_journal/start.json")
"""What says which evaluation it is: at the end, and while it still runs."""
_ATTACHMENT = "attachment://"
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_EVALUATION = ("task", "model", "run_id", "eval_id", "task_id", "created")
_TAGS = ("target", "metadata", "choices", "model_usage", "limit", "invalidation", "uuid", "total_time", "working_time")


def recognise(peek: Peek) -> str | None:
    """By its ending, or by what an older log begins with."""
    if peek.path.suffix == ".eval" and peek.head.startswith(b"PK"):
        return "a zip archive called .eval"
    is_log = peek.path.suffix == ".json" and b'"eval"' in peek.head and b'"task_id"' in peek.head
    return "it has eval and task_id" if is_log else None


def reader(source: Source) -> LineReader:
    """A reader of the samples of one log."""
    evaluation: dict[str, Any] = {}
    source.split = lambda _: _samples(source, evaluation)

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        epoch, events = whole(record.get("epoch", 1), "epoch"), listed(record, "events")
        draft = source.draft(
            line, str(evaluation.get("task") or "inspect"),
            start_ns=time_of(record.get("started_at")) or first_time(events),
            sample_index=sample(record.get("id")), rollout_n=None if epoch is None else epoch - 1, validate=True,
        )  # fmt: skip
        _add_events(draft, record, events, evaluation.get("model"))
        _add_scores(draft, inside(record, "scores"))
        tags = {name: record.get(name) for name in _TAGS} | {name: evaluation.get(name) for name in _EVALUATION}
        error = inside(record, "error")
        traceback = error.get("traceback")
        return draft.finish(
            without_nothing(tags), end_ns=time_of(record.get("completed_at")),
            error=str(error.get("message") or "error") if error else None,
            traceback=traceback if isinstance(traceback, str) else None,
        )  # fmt: skip

    return read


def _add_scores(draft: Draft, scores: dict[str, Any]) -> None:
    values = {name: score.get("value") if isinstance(score, dict) else score for name, score in scores.items()}
    terms = {name: number for name, value in values.items() if (number := _number(value)) is not None}
    for name, value in values.items():
        is_label = name not in terms or isinstance(value, str)
        label = value if isinstance(value, str) else as_bytes(value).decode()
        reason = inside(scores, name).get("explanation")
        draft.score(
            name, terms.get(name), label=label if is_label and value is not None else None,
            reason=reason if isinstance(reason, str) else None,
        )  # fmt: skip
    draft.reward(next(iter(terms.values())) if terms and len(scores) == 1 else None, terms)


def _number(value: Any) -> float | None:
    if is_number(value):
        return float(value)
    return _LETTERS.get(value) if isinstance(value, str) else None


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
                evaluation.update(inside(header.value, "eval"))
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


def _add_events(draft: Draft, record: dict[str, Any], events: list[dict[str, Any]], model: Any) -> None:
    attached = _Attachments(inside(record, "attachments"))
    pool = listed(inside(record, "events_data"), "messages")
    called = False
    for event in events:
        at, end = time_of(event.get("timestamp")), time_of(event.get("completed"))
        if event.get("event") == "model":
            called = True
            _add_model_call(draft, event, attached, pool, model, at, end)
        elif event.get("event") == "tool":
            error = event.get("error")
            failed = f"{error.get('type')}: {error.get('message')}" if isinstance(error, dict) else None
            result, arguments = (attached.put_in(event.get(name)) for name in ("result", "arguments"))
            name = event.get("function") or "tool"
            draft.tool(event.get("id"), result, name=name, arguments=arguments, error=failed, start_ns=at, end_ns=end)
    if not called:
        for message in listed(record, "messages"):
            draft.add_message(_message(attached.put_in(message)))


def _add_model_call(
    draft: Draft,
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
    output = inside(event, "output")
    choices = listed(output, "choices")
    choice = choices[0] if choices else {}
    message = _message(attached.put_in(inside(choice, "message")))
    more_outputs = {
        "usage": output.get("usage"), "finish_reason": choice.get("stop_reason"), "model": output.get("model"),
        "logprobs": choice.get("logprobs"),
    }  # fmt: skip
    helps = event.get("role") is not None or (model is not None and event.get("model") != model)
    error = event.get("error")
    failed = {"status": "error", "error": error} if isinstance(error, str) else {}
    draft.reply(
        {"role": "assistant", "content": None, **message},
        messages=[_message(attached.put_in(each)) for each in messages],
        more_outputs=more_outputs,
        more_inputs={"model": event.get("model"), "sampling_params": event.get("config")},
        start_ns=at,
        end_ns=end,
        kind="aux_llm" if helps else "llm",
        name=str(event.get("role") or "assistant"),
        **failed,
    )


def _message(message: Any) -> dict[str, Any]:
    """A message of inspect in OpenAI's chat format."""
    if not isinstance(message, dict):
        raise Malformed(f"a message is an object, not {shown(message)}")
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
