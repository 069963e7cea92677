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

from rolltrace.exchange import fields
from rolltrace.exchange.draft import Draft, ImportedRow
from rolltrace.exchange.fields import Malformed, inside, objects, pick, time_of, tool_call
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.packed_files import Archive
from rolltrace.exchange.source_lines import MAX_DOCUMENT_BYTES, Line, number_items, parse_line, whole_document
from rolltrace.exchange.text import as_bytes

_SAMPLE = re.compile(r"samples/[^/]+\.json")
_HEADERS = ("_journal/start.json", "header.json")
"""What says which evaluation it is: while it still runs, and at the end."""
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
    read_samples = _archived_samples if source.path.suffix == ".eval" else _document_samples
    source.split = lambda path: read_samples(path, evaluation)

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        epoch, events = fields.whole(record.get("epoch", 1), "epoch"), objects(record, "events")
        draft = source.draft(
            line, str(evaluation.get("task") or "inspect"),
            start_ns=time_of(record.get("started_at")) or fields.first_time(events),
            sample_index=fields.sample(record.get("id")), rollout_n=None if epoch is None else epoch - 1, validate=True,
        )  # fmt: skip
        _add_events(draft, record, events, evaluation.get("model"))
        _add_scores(draft, inside(record, "scores"))
        error = inside(record, "error")
        traceback = error.get("traceback")
        return draft.finish(
            fields.without_nothing({**pick(record, *_TAGS), **pick(evaluation, *_EVALUATION)}),
            end_ns=time_of(record.get("completed_at")),
            error=str(error.get("message") or "error") if error else None,
            traceback=traceback if isinstance(traceback, str) else None,
        )

    return read


def _add_scores(draft: Draft, scores: dict[str, Any]) -> None:
    values = {name: score.get("value") if isinstance(score, dict) else score for name, score in scores.items()}
    terms = fields.numbers_in(
        {name: _LETTERS.get(value) if isinstance(value, str) else value for name, value in values.items()}
    )
    for name, value in values.items():
        label = value if isinstance(value, str) else as_bytes(value).decode()
        is_label = value is not None and (name not in terms or isinstance(value, str))
        reason = inside(scores, name).get("explanation")
        draft.score(
            name, terms.get(name), label=label if is_label else None, reason=reason if isinstance(reason, str) else None
        )
    draft.reward(next(iter(terms.values())) if terms and len(scores) == 1 else None, terms)


def _archived_samples(path: Path, evaluation: dict[str, Any]) -> Iterator[Line]:
    with Archive(path) as archive:
        names = [name for name in archive.members if _SAMPLE.fullmatch(name)]
        headers = [name for name in _HEADERS if name in archive.members]
        if not names and not headers:
            raise Malformed("not a log of inspect: the archive has neither a header nor samples")
        for name in headers:
            evaluation.update(inside(_read_member(archive, name, 0).value, "eval"))
        for number, name in enumerate(names, start=1):
            yield _read_member(archive, name, number)


def _read_member(archive: Archive, name: str, number: int) -> Line:
    try:
        line = parse_line(number, archive.read(name, MAX_DOCUMENT_BYTES))
    except Malformed as error:
        line = Line(number, b"", problem=str(error))
    return line if line.problem is None else line._replace(problem=f"{name}: {line.problem}")


def _document_samples(path: Path, evaluation: dict[str, Any]) -> Iterator[Line]:
    for line in whole_document(path):
        if line.problem is not None:
            yield line
            continue
        samples = line.value.get("samples") if isinstance(line.value, dict) else None
        if not isinstance(samples, list) or not isinstance(line.value.get("eval"), dict):
            raise Malformed("not a log of inspect: it has no eval and samples")
        evaluation.update(line.value["eval"])
        yield from number_items(samples)


def _add_events(draft: Draft, record: dict[str, Any], events: list[dict[str, Any]], model: Any) -> None:
    attached = _Attachments(inside(record, "attachments"))
    pool = objects(inside(record, "events_data"), "messages")
    called = False
    for event in events:
        at, end = time_of(event.get("timestamp")), time_of(event.get("completed"))
        if event.get("event") == "model":
            called = True
            _add_model_call(draft, event, attached, pool, model, start_ns=at, end_ns=end)
        elif event.get("event") == "tool":
            error = event.get("error")
            failed = f"{error.get('type')}: {error.get('message')}" if isinstance(error, dict) else None
            result, arguments = (attached.put_in(event.get(name)) for name in ("result", "arguments"))
            name = event.get("function") or "tool"
            draft.tool(event.get("id"), result, name=name, arguments=arguments, error=failed, start_ns=at, end_ns=end)
    if not called:
        for message in objects(record, "messages"):
            draft.add_message(_message(attached.put_in(message)))


def _add_model_call(
    draft: Draft, event: dict[str, Any], attached: _Attachments, pool: list[dict[str, Any]], model: Any, **times: Any
) -> None:
    messages = list(objects(event, "input"))
    for pair in event.get("input_refs") or ():
        if isinstance(pair, list) and len(pair) == 2 and all(type(each) is int and each >= 0 for each in pair):
            messages += pool[pair[0] : pair[1]]
    output = inside(event, "output")
    choice = next(iter(objects(output, "choices")), {})
    message = _message(attached.put_in(inside(choice, "message")))
    helps = event.get("role") is not None or (model is not None and event.get("model") != model)
    failed: dict[str, Any] = {"status": "error", "error": event["error"]} if isinstance(event.get("error"), str) else {}
    draft.reply(
        {"role": "assistant", "content": None, **message},
        messages=[_message(attached.put_in(each)) for each in messages],
        more_outputs={
            **pick(output, "usage", "model"),
            "finish_reason": choice.get("stop_reason"),
            "logprobs": choice.get("logprobs"),
        },
        more_inputs={"model": event.get("model"), "sampling_params": event.get("config")},
        kind="aux_llm" if helps else "llm",
        name=str(event.get("role") or "assistant"),
        **times,
        **failed,
    )


def _message(message: Any) -> dict[str, Any]:
    """A message of inspect in OpenAI's chat format."""
    if not isinstance(message, dict):
        raise Malformed(f"a message is an object, not {fields.shown(message)}")
    chat_message = pick(message, "role", "content", "tool_call_id")
    if message.get("function") is not None:
        chat_message["name"] = message["function"]
    calls = objects(message, "tool_calls")
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
