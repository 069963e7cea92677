"""What a span says it is: a call of a model, of a tool, or something else, with its inputs and outputs.

Asked in this order: rolltrace's own attributes (`rl.kind`), OpenInference, the GenAI semantic conventions (which
pydantic-ai, Traceloop and Anthropic's SDKs write too), Claude Code's spans, Traceloop's own. What is in no vocabulary
is an op of kind `other` with its attributes as inputs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rolltrace.collect import span_messages as chat
from rolltrace.collect.otlp import ReceivedSpan
from rolltrace.collect.span_messages import Message, parsed
from rolltrace.query import restore
from rolltrace.record import OP_KINDS

_OPENINFERENCE = {"LLM": "llm", "TOOL": "tool", "EVALUATOR": "reward"}
_GEN_AI = {
    "chat": "llm",
    "text_completion": "llm",
    "generate_content": "llm",
    "execute_tool": "tool",
}
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


_OF_A_REQUEST = ("model", "tools", "sampling_params")
_OF_AN_ANSWER = frozenset({"usage", "finish_reason", "model", "policy_version"})
"""What is told beside the messages."""


class Op(NamedTuple):
    """What is recorded of a span."""

    kind: str
    name: str
    inputs: Any
    outputs: Any
    response_id: str | None = None
    """Of a model's answer: the same for all instrumentations that saw the call."""


def read(span: ReceivedSpan) -> Op:
    """The op that a span stands for."""
    kind = kind_of(span)
    attributes = span.attributes
    if is_own(span):
        return Op(kind, span.name, own_value(attributes, "input"), own_value(attributes, "output"))
    if kind in ("llm", "aux_llm"):
        return Op(kind, span.name, _asked(span), _reply(span), _response_id(attributes))
    if kind == "tool":
        return _tool(span)
    inputs, outputs = _values(attributes)
    if inputs is None:
        inputs = {name: value for name, value in attributes.items() if not name.startswith("rl.")} or None
    return Op(kind, span.name, inputs, outputs)


def is_own(span: ReceivedSpan) -> bool:
    """Whether rolltrace's own backend sent it: then it holds all that was recorded, as it was."""
    return "rl.status" in span.attributes or span.attributes.get("rl.kind") == "score"


def own_value(attributes: dict[str, Any], which: str) -> Any:
    value = attributes.get(f"{which}.value")
    is_json = attributes.get(f"{which}.mime_type") == "application/json"
    return restore(parsed(value), {}) if is_json else value


def merged(turn: Op, twin: Op) -> Op:
    """A model call with what another instrumentation knows of it besides."""
    inputs = {**{name: twin.inputs[name] for name in _OF_A_REQUEST if name in twin.inputs}, **turn.inputs}
    outputs = {**{name: twin.outputs[name] for name in _OF_AN_ANSWER if name in twin.outputs}, **turn.outputs}
    return turn._replace(inputs=inputs, outputs=outputs)


def detail(op: Op) -> int:
    """How much an instrumentation tells of a model's answer: the response itself, a message, or nothing."""
    return 2 if "choices" in op.outputs else 1 if op.outputs.keys() - _OF_AN_ANSWER else 0


def _response_id(attributes: dict[str, Any]) -> str | None:
    """The id that the server gave to its answer; LangChain has it in `llm_output`, or with the message."""
    answer = parsed(attributes.get("output.value"))
    answer = answer if isinstance(answer, dict) else {}
    generations = answer.get("generations")
    while isinstance(generations, list) and generations:
        generations = generations[0]
    message = _inside(_inside({"generation": generations}, "generation"), "message")
    message = _inside(message, "kwargs") or message  # as LangChain writes objects
    ids = (
        attributes.get("gen_ai.response.id"),
        answer.get("id"),
        _inside(answer, "llm_output").get("id"),
        _inside(message, "response_metadata").get("id"),
        message.get("id"),
    )
    return next((each for each in ids if isinstance(each, str) and each and not each.startswith("run-")), None)


def _inside(holder: dict[str, Any], name: str) -> dict[str, Any]:
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def kind_of(span: ReceivedSpan) -> str:
    """llm, aux_llm, tool, env, reward or other."""
    attributes = span.attributes
    own = attributes.get("rl.kind")
    if own in OP_KINDS:
        return str(own)
    operation = attributes.get("gen_ai.operation.name")
    inferred = attributes.get("openinference.span.kind")
    if isinstance(inferred, str):
        return _OPENINFERENCE.get(inferred.upper(), "other")
    if isinstance(operation, str):
        return _GEN_AI.get(operation, "other")
    if span.name in _CLAUDE_CODE:
        return _CLAUDE_CODE[span.name]
    if attributes.get("traceloop.span.kind") == "tool":
        return "tool"
    # Older Traceloop names neither, but says what the request was.
    has_answer = "gen_ai.completion.0.role" in attributes or "gen_ai.completion.0.content" in attributes
    return "llm" if attributes.get("llm.request.type") in ("chat", "completion") or has_answer else "other"


def _asked(span: ReceivedSpan) -> dict[str, Any]:
    attributes = span.attributes
    messages, whole = _input_messages(span), parsed(attributes.get("input.value"))
    inputs: dict[str, Any] = {}
    if isinstance(whole, dict):
        inputs.update({name: value for name, value in whole.items() if name != "messages"})
        messages = messages or (whole["messages"] if isinstance(whole.get("messages"), list) else [])
    elif isinstance(whole, str) and not messages:
        inputs["prompt"] = whole
    if messages:
        inputs["messages"] = messages
    model = next(
        (attributes[name] for name in ("gen_ai.request.model", "llm.model_name", "model") if name in attributes), None
    )
    if isinstance(model, str):
        inputs.setdefault("model", model)
    parameters = parsed(attributes.get("llm.invocation_parameters"))
    parameters = dict(parameters) if isinstance(parameters, dict) else {}
    for name in _PARAMETERS:
        value = attributes.get(f"gen_ai.request.{name}")
        if isinstance(value, int | float):
            parameters[name] = value
    if parameters and not isinstance(whole, dict):
        inputs["sampling_params"] = parameters
    tools = parsed(attributes.get("gen_ai.tool.definitions"))
    if isinstance(tools, list):
        inputs.setdefault("tools", tools)
    return inputs


def _input_messages(span: ReceivedSpan) -> list[Message]:
    attributes = span.attributes
    system_messages = chat.system_of(attributes.get("gen_ai.system_instructions"))
    messages = chat.from_parts(attributes.get("gen_ai.input.messages")) or _of_details(span, "gen_ai.input.messages")
    if not messages:
        messages = (
            chat.from_attributes(attributes, "llm.input_messages", "user")
            or chat.from_attributes(attributes, "gen_ai.prompt", "user")
            or chat.from_events(span.events)[0]
        )
    return system_messages + messages


def _of_details(span: ReceivedSpan, name: str) -> list[Message]:
    """Messages in the event that the GenAI conventions have for content."""
    for event in span.events:
        if event.name == "gen_ai.client.inference.operation.details":
            return chat.from_parts(event.attributes.get(name))
    return []


def _reply(span: ReceivedSpan) -> Any:
    attributes = span.attributes
    whole = parsed(attributes.get("output.value"))
    answers = (
        chat.from_parts(attributes.get("gen_ai.output.messages"))
        or _of_details(span, "gen_ai.output.messages")
        or chat.from_attributes(attributes, "llm.output_messages", "assistant")
        or chat.from_attributes(attributes, "gen_ai.completion", "assistant")
        or chat.from_events(span.events)[1]
    )
    if isinstance(whole, dict) and ("choices" in whole or not answers):
        outputs: dict[str, Any] = dict(whole)  # the response itself: logprobs and token ids are in it
    elif len(answers) == 1:
        outputs = dict(answers[0])
    elif answers:
        outputs = {"messages": answers}
    else:
        outputs = {"content": whole} if isinstance(whole, str) else {}
    usage = {name: count for name, names in _USAGE.items() if (count := _count(attributes, names)) is not None}
    if usage and not isinstance(outputs.get("usage"), dict):
        outputs["usage"] = usage
    reason = _finish_reason(attributes)
    if reason is not None and "choices" not in outputs:
        outputs["finish_reason"] = reason
    model = attributes.get("gen_ai.response.model")
    if isinstance(model, str):
        outputs.setdefault("model", model)
    version = attributes.get("rl.policy_version")
    if version is not None:
        outputs["policy_version"] = version
    return outputs


def _count(attributes: dict[str, Any], names: tuple[str, ...]) -> int | None:
    return next((value for name in names if type(value := attributes.get(name)) is int), None)


def _finish_reason(attributes: dict[str, Any]) -> str | None:
    reasons = parsed(attributes.get("gen_ai.response.finish_reasons"))
    first = reasons[0] if isinstance(reasons, list) and reasons else None
    names = ("llm.finish_reason", "anthropic.message.stop_reason", "stop_reason", "gen_ai.completion.0.finish_reason")
    reason = first or next((attributes[name] for name in names if name in attributes), None)
    return reason if isinstance(reason, str) else None


def _tool(span: ReceivedSpan) -> Op:
    attributes = span.attributes
    inputs, outputs = _values(attributes)
    name = next(
        (
            attributes[each]
            for each in ("gen_ai.tool.name", "tool.name", "tool_name", "traceloop.entity.name")
            if isinstance(attributes.get(each), str)
        ),
        span.name,
    )
    argument_names = ("gen_ai.tool.call.arguments", "tool_arguments", "tool.parameters", "full_command", "file_path")
    result_names = ("gen_ai.tool.call.result", "tool_response")
    if inputs is None:
        inputs = next((parsed(attributes[each]) for each in argument_names if each in attributes), None)
    if outputs is None:
        outputs = next((parsed(attributes[each]) for each in result_names if each in attributes), None)
    for event in span.events:
        if event.name == "tool.output" and outputs is None:  # Claude Code's
            outputs = dict(event.attributes)
    return Op("tool", name, inputs, outputs)


def _values(attributes: dict[str, Any]) -> tuple[Any, Any]:
    """Inputs and outputs as OpenInference and Traceloop have them for any kind of span; None for what is not told."""
    inputs = attributes.get("input.value", attributes.get("traceloop.entity.input"))
    outputs = attributes.get("output.value", attributes.get("traceloop.entity.output"))
    return parsed(inputs), parsed(outputs)
