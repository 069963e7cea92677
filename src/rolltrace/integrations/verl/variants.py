"""What kind of op a function of verl is, and what it is called: that depends on the call.

A tool goes by the name that the model calls it by. A model call within a model call is an attempt, and no turn of its
own: `FullyAsyncLLMServerClient.generate` goes on with `super().generate` when new weights interrupt it.
"""

from __future__ import annotations

import inspect
from typing import Any

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.record import OpKind

_TOO_MUCH = ("agent_data",)
"""Arguments of tools that hold the whole conversation so far."""


class Variants:
    """One function, traced under each name and kind that its calls turn out to have."""

    def __init__(self, func: Any) -> None:
        self._func = func
        self._kind = kind_of(func)
        self._qualname: str = getattr(func, "__qualname__", repr(func))
        self._variants: dict[tuple[str, OpKind], Any] = {}

    def of(self, args: tuple[Any, ...]) -> Any:
        """The one for this call. Never raises: at worst it is the function itself."""
        try:
            name, kind = self._qualname, self._kind
            if kind == "tool" and args and isinstance(tool := getattr(args[0], "name", None), str) and tool:
                name = tool
            if kind != "other" and _is_within(kind, name):
                name, kind = self._qualname, "other"
            variant = self._variants.get((name, kind))
            if variant is None:
                variant = self._variants[name, kind] = self._make(name, kind)
            return variant
        except Exception:
            caught("verl op")
            return self._func

    def _make(self, name: str, kind: OpKind) -> Any:
        inputs: Any = _without_conversation if self._kind in ("tool", "env") else True
        outputs: Any = _with_policy_version if self._kind == "llm" else True
        return rolltrace.rollout_trace_op(name=name, kind=kind, inputs=inputs, outputs=outputs)(self._func)


def kind_of(func: Any) -> OpKind:
    """What a function of verl, or one with the same name and arguments, does."""
    name = getattr(func, "__name__", "")
    try:
        parameters = set(inspect.signature(func).parameters)
    except (TypeError, ValueError):
        parameters = set()
    if name == "generate" and "prompt_ids" in parameters:
        return "llm"
    if (name == "execute" and {"instance_id", "parameters"} <= parameters) or (
        name == "call" and "parameters" in parameters
    ):
        return "tool"
    if name == "generate_response":  # an interaction: the user's turn
        return "env"
    return "reward" if name in ("compute_score", "calc_reward") else "other"


def _is_within(kind: OpKind, name: str) -> bool:
    call = getattr(scope.current.get(), "call", None)
    return call is not None and call.kind == kind and (kind == "llm" or call.name == name)


def _without_conversation(inputs: dict[str, Any]) -> dict[str, Any]:
    more = inputs.get("kwargs")
    if isinstance(more, dict):
        inputs["kwargs"] = {name: value for name, value in more.items() if name not in _TOO_MUCH}
    return {name: value for name, value in inputs.items() if name not in _TOO_MUCH}


def _with_policy_version(output: Any) -> Any:
    """verl says in `extra_fields` which weights made the tokens: the step after which they were made."""
    extra, fields = getattr(output, "extra_fields", None), getattr(output, "__dict__", None)
    if not isinstance(extra, dict) or not isinstance(fields, dict):
        return output
    version = extra.get("max_global_steps", extra.get("global_steps"))
    return {**fields, "policy_version": version}
