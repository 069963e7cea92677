"""What a span says it is: a call of a model, of a tool, or something else, with its inputs and outputs.

Asked in this order: rolltrace's own attributes (`rl.kind`), OpenInference, the GenAI semantic conventions (which
pydantic-ai, Traceloop and Anthropic's SDKs write too), Claude Code's spans, Traceloop's own. What is in no vocabulary
is an op of kind `other` with its attributes as inputs.

Messages are written in four ways: the GenAI conventions' JSON with parts (`gen_ai.input.messages`), their older events
(`gen_ai.user.message`, `gen_ai.choice`), OpenInference's flattened lists (`llm.input_messages.0.message.role`) and
Traceloop's (`gen_ai.prompt.0.content`). All become OpenAI's chat format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from rolltrace.collect.otlp import ReceivedSpan
from rolltrace.messages import read_message
from rolltrace.query import restore
from rolltrace.record import OP_KINDS

Json = dict[str, Any]
_OPENINFERENCE = {"LLM": "llm", "TOOL": "tool", "EVALUATOR": "reward"}
_GEN_AI = {"chat": "llm", "text_completion": "llm", "generate_content": "llm", "execute_tool": "tool"}
_CLAUDE_CODE = {"claude_code.llm_request": "llm", "claude_code.tool": "tool"}
_PARAMETERS = ("temperature", "top_p", "top_k", "max_tokens", "seed", "frequency_penalty", "presence_penalty")
_USAGE = {
    "prompt_tokens": (
        "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "input_tokens",
    ),
    "completion_tokens": (
        "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion", "output_tokens",
    ),
    "cached_tokens": (
        "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read", "cache_read_tokens",
    ),
    "reasoning_tokens": (
        "gen_ai.usage.reasoning_tokens", "gen_ai.usage.reasoning.output_tokens",
        "llm.token_count.completion_details.reasoning", "rl.reasoning_tokens",
    ),
}  # fmt: skip
_REASONS = ("llm.finish_reason", "anthropic.message.stop_reason", "stop_reason", "gen_ai.completion.0.finish_reason")
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "tool_name", "traceloop.entity.name")
_ARGUMENTS = ("gen_ai.tool.call.arguments", "tool_arguments", "tool.parameters", "full_command", "file_path")
_RESULTS = ("gen_ai.tool.call.result", "tool_response")
_OF_A_REQUEST = ("model", "tools", "sampling_params")
_OF_AN_ANSWER = frozenset({"usage", "finish_reason", "model", "policy_version"})
"""What is told beside the messages."""
_DETAILS = "gen_ai.client.inference.operation.details"
"""The event that the GenAI conventions have for content."""
_EVENT_ROLES = {
    "gen_ai.system.message": "system", "gen_ai.user.message": "user", "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool", "gen_ai.choice": "assistant",
}  # fmt: skip
_EVENT_FIELDS = ("role", "content", "tool_calls", "id", "name", "tool_call_id")
_WRAPPERS = frozenset({"message", "message_content", "tool_call", "image"})
"""Words that OpenInference has around each message, part and call."""
_MAX_LEVELS, _MAX_DIGITS = 12, 6


class Op(NamedTuple):
    """What is recorded of a span."""

    kind: str
    name: str
    inputs: Any
    outputs: Any
    response_id: str | None = None
    """Of a model's answer: the same for all instrumentations that saw the call."""

    def merge(self, twin: Op) -> Op:
        """A model call with what another instrumentation knows of it besides."""
        inputs = {**{name: twin.inputs[name] for name in _OF_A_REQUEST if name in twin.inputs}, **self.inputs}
        outputs = {**{name: twin.outputs[name] for name in _OF_AN_ANSWER if name in twin.outputs}, **self.outputs}
        return self._replace(inputs=inputs, outputs=outputs)

    @property
    def detail(self) -> int:
        """How much an instrumentation tells of a model's answer: the response itself, a message, or nothing."""
        return 2 if "choices" in self.outputs else 1 if self.outputs.keys() - _OF_AN_ANSWER else 0


def read(span: ReceivedSpan) -> Op:
    """The op that a span stands for."""
    kind, attributes = _kind(span), span.attributes
    if is_own(span):
        return Op(kind, span.name, _own_value(attributes, "input"), _own_value(attributes, "output"))
    if kind in ("llm", "aux_llm"):
        return Op(kind, span.name, _request(span), _answer(span), _response_id(attributes))
    # As OpenInference and Traceloop have them for any kind of span.
    inputs = parse_json(_first(attributes, "input.value", "traceloop.entity.input"))
    outputs = parse_json(_first(attributes, "output.value", "traceloop.entity.output"))
    if kind != "tool":
        if inputs is None:
            inputs = {name: value for name, value in attributes.items() if not name.startswith("rl.")} or None
        return Op(kind, span.name, inputs, outputs)
    inputs = parse_json(_first(attributes, *_ARGUMENTS)) if inputs is None else inputs
    outputs = parse_json(_first(attributes, *_RESULTS)) if outputs is None else outputs
    for event in span.events:
        if event.name == "tool.output" and outputs is None:  # Claude Code's
            outputs = dict(event.attributes)
    names = (attributes.get(name) for name in _TOOL_NAMES)
    return Op("tool", next((name for name in names if isinstance(name, str)), span.name), inputs, outputs)


def is_own(span: ReceivedSpan) -> bool:
    """Whether rolltrace's own backend sent it: then it holds all that was recorded, as it was."""
    return "rl.status" in span.attributes or span.attributes.get("rl.kind") == "score"


def parse_json(value: Any) -> Any:
    """What JSON in a text stands for; the value itself if it is none."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _first(attributes: Json, *names: str) -> Any:
    return next((attributes[name] for name in names if name in attributes), None)


def _dict(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _own_value(attributes: Json, which: str) -> Any:
    value = attributes.get(f"{which}.value")
    is_json = attributes.get(f"{which}.mime_type") == "application/json"
    return restore(parse_json(value), {}) if is_json else value


def _response_id(attributes: Json) -> str | None:
    """The id that the server gave to its answer; LangChain has it in `llm_output`, or with the message."""
    answer = _dict(parse_json(attributes.get("output.value")))
    generations = answer.get("generations")
    while isinstance(generations, list) and generations:
        generations = generations[0]
    message = _dict(_dict(generations).get("message"))
    message = _dict(message.get("kwargs")) or message  # as LangChain writes objects
    ids = (
        attributes.get("gen_ai.response.id"), answer.get("id"), _dict(answer.get("llm_output")).get("id"),
        _dict(message.get("response_metadata")).get("id"), message.get("id"),
    )  # fmt: skip
    return next((each for each in ids if isinstance(each, str) and each and not each.startswith("run-")), None)


def _kind(span: ReceivedSpan) -> str:
    """llm, aux_llm, tool, env, reward or other."""
    attributes = span.attributes
    if attributes.get("rl.kind") in OP_KINDS:
        return str(attributes["rl.kind"])
    for name, kinds in (("openinference.span.kind", _OPENINFERENCE), ("gen_ai.operation.name", _GEN_AI)):
        word = attributes.get(name)
        if isinstance(word, str):
            return kinds.get(word.upper() if kinds is _OPENINFERENCE else word, "other")
    if span.name in _CLAUDE_CODE:
        return _CLAUDE_CODE[span.name]
    if attributes.get("traceloop.span.kind") == "tool":
        return "tool"
    # Older Traceloop names neither, but says what the request was.
    has_answer = "gen_ai.completion.0.role" in attributes or "gen_ai.completion.0.content" in attributes
    return "llm" if attributes.get("llm.request.type") in ("chat", "completion") or has_answer else "other"


def _request(span: ReceivedSpan) -> Json:
    attributes = span.attributes
    messages, whole = _input_messages(span), parse_json(attributes.get("input.value"))
    inputs: Json = {}
    if isinstance(whole, dict):
        inputs.update({name: value for name, value in whole.items() if name != "messages"})
        messages = messages or (whole["messages"] if isinstance(whole.get("messages"), list) else [])
    elif isinstance(whole, str) and not messages:
        inputs["prompt"] = whole
    if messages:
        inputs["messages"] = messages
    model = _first(attributes, "gen_ai.request.model", "llm.model_name", "model")
    if isinstance(model, str):
        inputs.setdefault("model", model)
    parameters = dict(_dict(parse_json(attributes.get("llm.invocation_parameters"))))
    for name in _PARAMETERS:
        value = attributes.get(f"gen_ai.request.{name}")
        if isinstance(value, int | float):
            parameters[name] = value
    if parameters and not isinstance(whole, dict):
        inputs["sampling_params"] = parameters
    tools = parse_json(attributes.get("gen_ai.tool.definitions"))
    if isinstance(tools, list):
        inputs.setdefault("tools", tools)
    return inputs


def _answer(span: ReceivedSpan) -> Json:
    attributes = span.attributes
    whole = parse_json(attributes.get("output.value"))
    answers = _messages(span, "gen_ai.output.messages", ("llm.output_messages", "gen_ai.completion"), "assistant")
    answers = answers or _from_events(span, is_answer=True)
    if isinstance(whole, dict) and ("choices" in whole or not answers):
        outputs: Json = dict(whole)  # the response itself: logprobs and token ids are in it
    elif len(answers) == 1:
        outputs = dict(answers[0])
    elif answers:
        outputs = {"messages": answers}
    else:
        outputs = {"content": whole} if isinstance(whole, str) else {}
    counts = {name: [attributes[each] for each in names if each in attributes] for name, names in _USAGE.items()}
    usage = {name: next((each for each in found if type(each) is int), None) for name, found in counts.items()}
    usage = {name: count for name, count in usage.items() if count is not None}
    if usage and not isinstance(outputs.get("usage"), dict):
        outputs["usage"] = usage
    reasons = parse_json(attributes.get("gen_ai.response.finish_reasons"))
    reason = (reasons[0] if isinstance(reasons, list) and reasons else None) or _first(attributes, *_REASONS)
    if isinstance(reason, str) and "choices" not in outputs:
        outputs["finish_reason"] = reason
    model, version = attributes.get("gen_ai.response.model"), attributes.get("rl.policy_version")
    if isinstance(model, str):
        outputs.setdefault("model", model)
    return outputs if version is None else {**outputs, "policy_version": version}


def _input_messages(span: ReceivedSpan) -> list[Json]:
    system = parse_json(span.attributes.get("gen_ai.system_instructions"))
    content = system if isinstance(system, str) else _dicts(system)  # text, or parts without a role
    messages = _messages(span, "gen_ai.input.messages", ("llm.input_messages", "gen_ai.prompt"), "user")
    messages = messages or _from_events(span, is_answer=False)
    return [*(_chat([{"role": "system", "content": content}]) if content else ()), *messages]


def _messages(span: ReceivedSpan, name: str, prefixes: Iterable[str], role: str) -> list[Json]:
    """Messages in attributes: under this name, or spread over those with a prefix."""
    details = next((event.attributes for event in span.events if event.name == _DETAILS), {})
    for value in (span.attributes.get(name), details.get(name)):
        messages = _chat({"role": "user", **each} for each in _dicts(parse_json(value)))
        if messages:
            return messages
    return next(filter(None, (_from_attributes(span.attributes, prefix, role) for prefix in prefixes)), [])


def _chat(values: Iterable[Json]) -> list[Json]:
    return [message.to_chat() for value in values for message in read_message(value) or ()]


def _from_events(span: ReceivedSpan, *, is_answer: bool) -> list[Json]:
    """What was said before or what was answered, from the older events of the GenAI conventions."""
    messages = []
    for event in span.events:
        if event.name in _EVENT_ROLES and (event.name == "gen_ai.choice") == is_answer:
            fields = {name: parse_json(value) for name, value in event.attributes.items()}
            if is_answer and isinstance(fields.get("message"), dict):
                fields = fields["message"]
            message = {name: fields[name] for name in _EVENT_FIELDS if fields.get(name) is not None}
            if "id" in message:
                message.setdefault("tool_call_id", message.pop("id"))
            messages.append({"role": _EVENT_ROLES[event.name], **message})
    return messages


def _from_attributes(attributes: Json, prefix: str, role: str) -> list[Json]:
    """Messages that were spread over attributes, as OpenInference and older releases of Traceloop write them.

    Args:
        attributes: Those of a span, such as `PREFIX.0.message.role`, or `PREFIX.0.role`.
        prefix: `llm.input_messages`, `llm.output_messages`, `gen_ai.prompt` or `gen_ai.completion`.
        role: Who speaks where nobody is named.
    """
    tree: Json = {}
    for name, value in attributes.items():
        if name.startswith(f"{prefix}."):
            _plant(tree, [part for part in name[len(prefix) + 1 :].split(".") if part not in _WRAPPERS], value)
    messages = []
    for fields in _dicts(_gather(tree)):
        message: Json = {"role": role, **{name: value for name, value in fields.items() if value is not None}}
        if isinstance(message.get("contents"), list):
            message.setdefault("content", [_content(part) for part in _dicts(message["contents"])])
        if prefix.startswith("gen_ai."):  # Traceloop has the parts of a message as JSON
            message["content"] = parse_json(message.get("content"))
        messages.append(message)
    return _chat(messages)


def _plant(tree: Json, path: list[str], value: Any) -> None:
    """Put a value where its path leads."""
    if not 0 < len(path) <= _MAX_LEVELS:
        return
    for part in path[:-1]:
        inner = tree.setdefault(part, {})
        if not isinstance(inner, dict):
            return
        tree = inner
    tree[path[-1]] = value


def _gather(tree: Any) -> Any:
    """What was planted, with lists in the place of objects whose names are numbers."""
    if not isinstance(tree, dict):
        return tree
    if all(part.isdecimal() and len(part) <= _MAX_DIGITS for part in tree):
        return [_gather(tree[part]) for part in sorted(tree, key=int)]
    return {name: _gather(value) for name, value in tree.items()}


def _content(part: Json) -> Json:
    if part.get("type") == "image":
        return {"type": "image_url", "image_url": {"url": part.get("url")}}
    return {"type": "text", "text": part.get("text", "")} if part.get("type", "text") == "text" else part
