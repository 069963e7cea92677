"""Reads trajectories of mini-swe-agent, `*.traj.json`: one document with the messages and how it ended.

An assistant's message has the whole response of the model in `extra`, with tokens and finish reason; results of
commands come as tool messages, or in older files as the user's. The instance is the sample: it is the file's name.
There is no reward.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.import_rows import ImportedRow, Malformed, listed, row, without_nothing
from rolltrace.exchange.import_turns import Turns, add_message, time_of
from rolltrace.exchange.importer import Line, LineReader, Source, place_of
from rolltrace.exchange.splitting import whole_document
from rolltrace.record import TRAJECTORIES

_ENDING = ".traj.json"
_GOOD_ENDS = frozenset({"Submitted", "submitted", ""})


def files(folder: Path) -> list[Path]:
    """The trajectories below a folder."""
    return sorted(each for each in folder.rglob(f"*{_ENDING}") if each.is_file())


def recognise(peek: Peek) -> str | None:
    """By its ending; what is in it says the same."""
    is_trajectory = peek.path.name.endswith(_ENDING) and peek.head.lstrip().startswith(b"{")
    return f"its name ends in {_ENDING}" if is_trajectory else None


def reader(source: Source) -> LineReader:
    """A reader of one trajectory."""
    source.target.named()
    source.split = whole_document
    instance = source.path.name.removesuffix(_ENDING)
    source.told_by_path(instance)

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        form = record.get("trajectory_format")
        messages = listed(record, "messages")
        if not messages:
            raise Malformed("not a trajectory of mini-swe-agent: it has no messages")
        place = place_of(source, line, sample_index=instance, validate=source.target.validate)
        times = [at for message in messages if (at := _time(message)) is not None]
        start = min(times, default=line.time_ns)
        turns = Turns(place, start)
        for message in messages:
            _add(turns, message)
        info = record.get("info")
        info = info if isinstance(info, dict) else {}
        status = info.get("exit_status")
        config = info.get("config")
        tags = {
            "exit_status": status, "submission": info.get("submission"), "model_stats": info.get("model_stats"),
            "mini_version": info.get("mini_version"), "format": form, "instance_id": record.get("instance_id"),
            "model": _model(config),
        }  # fmt: skip
        own = {"name": "mini-swe-agent", "start_ns": start, "tags": without_nothing(tags), "status": "ok"}
        if isinstance(status, str) and status not in _GOOD_ENDS:
            own.update(status="error", error=status)
        ops = turns.finished()
        return [row(TRAJECTORIES, place, {**own, "end_ns": turns.end_ns + 1}), *ops]

    return read


def _add(turns: Turns, message: dict[str, Any]) -> None:
    extra = message.get("extra")
    extra = extra if isinstance(extra, dict) else {}
    own = {name: value for name, value in without_nothing(message).items() if name not in ("extra", "timestamp")}
    own.pop("provider_specific_fields", None)
    response = extra.get("response")
    response = response if isinstance(response, dict) else {}
    if own.get("role") == "exit":
        return  # how it ended, which the tags say
    if own.get("role") == "user" and extra.get("interrupt_type") and response:
        # An answer that the agent could not use: only this message about it is kept, and the response in it.
        choices = listed(response, "choices")
        message_of_model = choices[0].get("message") if choices else None
        if isinstance(message_of_model, dict):
            answer = {name: message_of_model.get(name) for name in ("content", "tool_calls", "reasoning_content")}
            turns.reply({"role": "assistant", **without_nothing(answer)}, more_outputs=_more_outputs(response))
    if own.get("role") == "assistant":
        add_message(turns, own, more_outputs=_more_outputs(response))
    elif own.get("role") == "tool" and extra.get("exception_info"):
        name, arguments = turns.called(own.get("tool_call_id"))
        failed = str(extra["exception_info"])
        turns.tool(str(name or "bash"), arguments, own.get("content"), own.get("tool_call_id"), error=failed)
    else:
        add_message(turns, own)


def _more_outputs(response: dict[str, Any]) -> dict[str, Any]:
    """What the response of the model says besides its message."""
    choices = listed(response, "choices")
    more_outputs: dict[str, Any] = without_nothing({
        "usage": response.get("usage"), "model": response.get("model"), "id": response.get("id"),
        "finish_reason": choices[0].get("finish_reason") if choices else None,
        "logprobs": choices[0].get("logprobs") if choices else None,
    })  # fmt: skip
    return more_outputs  # its time is in whole seconds, which says less than the order


def _model(config: Any) -> str | None:
    model = config.get("model") if isinstance(config, dict) else None
    name = model.get("model_name") if isinstance(model, dict) else None
    return name if isinstance(name, str) else None


def _time(message: dict[str, Any]) -> int | None:
    extra = message.get("extra")
    if not isinstance(extra, dict):
        return None
    response = extra.get("response")
    created = response.get("created") if isinstance(response, dict) else None
    return time_of(extra.get("timestamp", created))
