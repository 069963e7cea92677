"""Answers of `query` in the shape of the wire, where they are not so already: only names and cuts, no decisions."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from rolltrace.pass_rule import PassMeaning
from rolltrace.query import JumpTarget, MessagePart, Op, PairedCall, ShownMessage, TokenSequence
from rolltrace.view.encoding import recorded

Shape = dict[str, Any]
LONGEST_TEXT = 3_000
"""How many characters of a text stand in a conversation."""
LONGEST_NAME = 200
"""How many characters of a name are sent: of an op, a tool, a role."""
_LEAST_LIKELY = 50
_MINIMAP = 1_000


def name(text: str) -> str:
    """A name, of which a program may have made anything."""
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"


def op(row: Shape) -> Shape:
    """An op of an outline."""
    return {**row, "name": name(row["name"])}


def listing_row(row: Shape) -> Shape:
    """A row of the listing; its tags may still be JSON text."""
    tags = row["tags"]
    if isinstance(tags, str):
        tags = json.loads(tags)
    return {**row, "tags": {} if not isinstance(tags, dict) else {key: recorded(each) for key, each in tags.items()}}


def passing(meaning: PassMeaning) -> Shape:
    """What pass means in an experiment."""
    rule = {"term": meaning.rule.term, "threshold": meaning.rule.threshold}
    return {**meaning._asdict(), **rule, "title": meaning.title, "text": meaning.text}


def group_record(row: Shape) -> Shape:
    """A record of a whole group."""
    return {**row, "name": name(row["name"])}


def earlier(replaced: Shape) -> Shape:
    """What an amendment of an environment step replaced."""
    values = {key: recorded(value) for key, value in replaced.items() if key != "time_ns"}
    return {"time_ns": replaced["time_ns"], "values": values}


def live_row(row: Shape) -> Shape:
    """A trajectory in flight."""
    return {**row, "current_op": None if row["current_op"] is None else name(row["current_op"])}


def hit(match: Shape) -> Shape:
    """A trajectory in which a text was found."""
    matches = [{**each, "op_name": name(each["op_name"])} for each in match["matches"]]
    return {**match, "row": listing_row(match["row"]), "matches": matches}


def detail(value: Any) -> Any:
    """What a check found; ids of ops in it as text, like all of them."""
    if isinstance(value, dict):
        value = {key: str(item) if key.endswith("op_id") else item for key, item in value.items()}
    return recorded(value)


def message(index: int, shown: ShownMessage, ops: dict[int, Shape], most: int | None = LONGEST_TEXT) -> Shape:
    """A message with the figures of its op; texts cut at so many characters."""
    figures = ops.get(shown.op.op_id, {}) if shown.op is not None else {}
    return {
        "index": index,
        "role": name(shown.role),
        "name": None if shown.name is None else name(shown.name),
        "parts": [part(each, most) for each in shown.parts],
        "calls": [tool_call(each, most) for each in shown.calls],
        "op_id": None if shown.op is None else shown.op.op_id,
        "turn": shown.turn,
        "tokens": figures.get("response_tokens"),
        "duration_s": figures.get("duration_s"),
        "logprob_mean": figures.get("logprob_mean"),
        "policy_version": figures.get("policy_version"),
        "finish_reason": figures.get("finish_reason"),
        "flags": figures.get("flags", []),
        "rewrite": None if shown.rewrite is None else shown.rewrite._asdict(),
    }


def part(shown: MessagePart, most: int | None) -> Shape:
    return {
        "kind": shown.kind,
        "text": shown.text[:most],
        "chars": len(shown.text),
        "blob": shown.blob,
        "detail": shown.detail,
    }


def tool_call(call: PairedCall, most: int | None) -> Shape:
    of = call.op
    return {
        "name": name(call.name),
        "arguments": part(call.arguments, most),
        "call_id": None if call.call_id is None else name(call.call_id),
        "result": [part(each, most) for each in call.result],
        "error": call.error,
        "status": None if of is None else of.status,
        "duration_s": None if of is None else of.duration_s,
        "op_id": None if of is None else of.op_id,
    }


def token_range(sequence: TokenSequence, start: int, end: int) -> Shape:
    """Tokens start to end, and what is known of all of them."""
    end = min(end, len(sequence))
    start = min(start, end)
    offsets = sequence.char_offsets()
    has_text = any(each.has_text for each in sequence.segments)
    least = sequence.least_likely(_LEAST_LIKELY)
    return {
        "start": start,
        "end": end,
        "total": len(sequence),
        "responses": sequence.responses,
        "trained": sequence.trained,
        "ids": sequence.ids[start:end],
        "text": sequence.text[offsets[start] : offsets[end]] if has_text else None,
        "piece_chars": sequence.piece_chars[start:end] if has_text else None,
        "logprobs": sequence.logprobs[start:end],
        "mask": sequence.mask[start:end],
        "segments": sequence.segments,
        "breaks": sequence.breaks,
        "minimap": sequence.minimap(_MINIMAP),
        "least_likely": [
            {
                "index": at,
                "logprob": sequence.logprobs[at],
                "text": sequence.text[offsets[at] : offsets[at + 1]] if has_text else None,
            }
            for at in least
        ],
        "has_logprobs": any(each is not None for each in sequence.logprobs),
        "has_mask": any(each is not None for each in sequence.mask),
        "has_text": has_text,
    }


def op_record(recorded_op: Op) -> Shape:
    """All that was recorded of an op, as plain values."""
    names = ("op_id", "name", "kind", "status", "start_ns", "end_ns", "error", "traceback", "policy_version",
             "finish_reason", "worker", "inputs", "outputs", "prompt_text", "response_text")  # fmt: skip
    return {each: getattr(recorded_op, each) for each in names}


def place_of(target: JumpTarget) -> str:
    """The address of the page that a target is on."""
    if target.kind == "trajectory":
        return f"/t/{target.trajectory_id}"
    if target.kind == "search":
        scope = {"project": target.project, "experiment": target.experiment}
        more = "".join(f"&{key}={quote(value, safe='')}" for key, value in scope.items() if value is not None)
        return f"/search?q={quote(target.text or '', safe='')}{more}"
    if target.experiment is None:
        return f"/?where={quote(target.text or '', safe='')}"
    address = f"/e/{_in_path(target.project or '')}/{_in_path(target.experiment)}"
    if target.step is not None:
        address += f"/step/{target.step}"
    if target.kind == "sample":
        address += f"/sample/{_in_path(target.sample_index or '')}"
    return f"{address}?where={quote(target.text or '', safe='')}" if target.kind == "filter" else address


def _in_path(name: str) -> str:
    """A name as a part of a page's path: the rules of viewer/src/model/route.ts."""
    if name in ("", "~"):
        return "~" if name == "" else "%7E"
    if not name.strip("."):
        return name.replace(".", "%252E")
    return quote(name.replace("%", "%25").replace("/", "%2F"), safe="")
