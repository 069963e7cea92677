"""Reads trajectories of mini-swe-agent, `*.traj.json`: one document with the messages and how it ended.

An assistant's message has the whole response of the model in `extra`, with tokens and finish reason; results of
commands come as tool messages, or in older files as the user's. The instance is the sample: it is the file's name.
There is no reward.
"""

from __future__ import annotations

from typing import Any

from rolltrace.exchange.draft import Draft, ImportedRow
from rolltrace.exchange.fields import Malformed, inside, leave, objects, pick, time_of, without_nothing
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.source_lines import Line, whole_document

_ENDING = ".traj.json"
_GOOD_ENDS = frozenset({"Submitted", "submitted", ""})


def recognise(peek: Peek) -> str | None:
    """By its ending; what is in it says the same."""
    is_trajectory = peek.path.name.endswith(_ENDING) and peek.head.lstrip().startswith(b"{")
    return f"its name ends in {_ENDING}" if is_trajectory else None


def reader(source: Source) -> LineReader:
    """A reader of one trajectory."""
    source.split = whole_document
    instance = source.path.name.removesuffix(_ENDING)
    source.told_by_path(instance)

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        messages = objects(record, "messages")
        if not messages:
            raise Malformed("not a trajectory of mini-swe-agent: it has no messages")
        start_ns = min((at for each in messages if (at := _time_ns(each)) is not None), default=None)
        draft = source.draft(line, "mini-swe-agent", start_ns=start_ns, sample_index=instance)
        for message in messages:
            _add(draft, message)
        info, model = inside(record, "info"), inside(record, "info", "config", "model").get("model_name")
        tags = {
            **pick(info, "exit_status", "submission", "model_stats", "mini_version"),
            "format": record.get("trajectory_format"), "instance_id": record.get("instance_id"),
            "model": model if isinstance(model, str) else None,
        }  # fmt: skip
        status = info.get("exit_status")
        has_failed = isinstance(status, str) and status not in _GOOD_ENDS
        return draft.finish(without_nothing(tags), error=status if has_failed else None)

    return read


def _add(draft: Draft, message: dict[str, Any]) -> None:
    own = leave(without_nothing(message), ("extra", "timestamp", "provider_specific_fields"))
    extra, role = inside(message, "extra"), own.get("role")
    response = inside(extra, "response")
    choice = next(iter(objects(response, "choices")), {})
    # Its time is in whole seconds, which says less than the order.
    more_outputs = {**pick(response, "usage", "model", "id"), **pick(choice, "finish_reason", "logprobs")}
    if role == "exit":
        return  # how it ended, which the tags say
    if role == "user" and extra.get("interrupt_type") and inside(choice, "message"):
        # An answer that the agent could not use: only this message about it is kept, and the response in it.
        answer = pick(choice["message"], "content", "tool_calls", "reasoning_content")
        draft.reply({"role": "assistant", **without_nothing(answer)}, more_outputs=more_outputs)
    if role == "tool" and extra.get("exception_info"):
        draft.tool(own.get("tool_call_id"), own.get("content"), error=str(extra["exception_info"]))
    else:
        draft.add_message(own, more_outputs=more_outputs)


def _time_ns(message: dict[str, Any]) -> int | None:
    extra = inside(message, "extra")
    return time_of(extra.get("timestamp", inside(extra, "response").get("created")))
