"""The options of `rollout_trace_op`: name, kind, and what to keep of inputs and outputs."""

from typing import Any

import pytest

from rolltrace import rollout_trace_op
from rolltrace.errors import ConfigError
from rolltrace.testing import Recording


class Reply:
    def __init__(self) -> None:
        self.text = "hi"
        self.raw = object()


def test_options_name_the_op_and_its_kind(traced: Recording) -> None:
    @rollout_trace_op(name="generate", kind="llm")
    def f() -> None: ...

    f()
    assert (traced.op.name, traced.op.kind) == ("generate", "llm")


@pytest.mark.parametrize(
    ("chosen", "recorded"),
    [
        (True, {"a": 1, "b": 2, "c": 3}),
        (False, None),
        (["a"], {"a": 1}),
        ("a", {"a": 1}),
        (["-a", "-b"], {"c": 3}),
        (lambda given: given["a"] + given["c"], 4),
    ],
)
def test_inputs_and_outputs_can_be_chosen(traced: Recording, chosen: Any, recorded: Any) -> None:
    @rollout_trace_op(inputs=chosen, outputs=chosen)
    def f(a: int, b: int, c: int) -> dict[str, int]:
        return {"a": a, "b": b, "c": c}

    assert f(1, 2, 3) == {"a": 1, "b": 2, "c": 3}
    assert (traced.op.inputs, traced.op.outputs) == (recorded, recorded)


def test_outputs_choose_the_fields_of_an_object(traced: Recording) -> None:
    @rollout_trace_op(outputs=["text"])
    def f() -> Reply:
        return Reply()

    f()
    assert traced.op.outputs == {"text": "hi"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "tol"}, ["'tol'", "did you mean 'tool'", "llm, tool, env, reward, other"]),
        ({"inputs": ["aa"]}, ["no parameter 'aa'", "did you mean 'a'"]),
        ({"inputs": ["zzz"]}, ["no parameter 'zzz'", "there are: a, args, kwargs"]),
        ({"inputs": ["a", "-a"]}, ["mix names to keep and names to drop"]),
        ({"inputs": [3]}, ["True, False, names or a function", "[3]"]),
    ],
)
def test_a_wrong_option_is_told_at_decoration(options: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as told:
        rollout_trace_op(**options)(lambda a: a)
    assert all(word in str(told.value) for word in words)
