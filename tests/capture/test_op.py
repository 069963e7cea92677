"""`rollout_trace_op` on every kind of callable: what is recorded, and what stays as it was."""

import asyncio
import functools
import inspect
import typing
from typing import Any

import pytest

from rolltrace import rollout_trace_attr, rollout_trace_op
from rolltrace.errors import ConfigError
from rolltrace.record import Opaque
from rolltrace.testing import FakeClock, Recording, recording


@rollout_trace_op
def add(a: int, b: int = 2) -> int:
    """Adds."""
    return a + b


@rollout_trace_op
async def add_later(a: int, b: int = 2) -> int:
    """Adds later."""
    await asyncio.sleep(0)
    return a + b


@rollout_trace_op
def count(n: int) -> typing.Iterator[int]:
    """Counts."""
    yield from range(n)


@rollout_trace_op
async def count_later(n: int) -> typing.AsyncIterator[int]:
    """Counts later."""
    for i in range(n):
        yield i


class Agent:
    def __init__(self) -> None:
        self.secret = "kept out"

    @rollout_trace_op
    def act(self, x: int) -> int:
        return x + 1

    @rollout_trace_op
    async def act_later(self, x: int) -> int:
        return x + 1

    @rollout_trace_op
    @classmethod
    def make_above(cls, x: int) -> type:
        return cls

    @classmethod
    @rollout_trace_op
    def make_below(cls, x: int) -> type:
        return cls

    @rollout_trace_op
    @staticmethod
    def parse_above(self: int) -> int:
        return self

    @staticmethod
    @rollout_trace_op
    def parse_below(x: int) -> int:
        return x


def test_inputs_outputs_and_defaults_are_recorded(traced: Recording) -> None:
    assert add(1) == 3
    op = traced.op
    assert (op.name, op.kind, op.inputs, op.outputs, op.status, op.error) == (
        "add", "other", {"a": 1, "b": 2}, 3, "ok", None,
    )  # fmt: skip


async def test_a_coroutine_is_recorded_when_it_has_been_awaited(traced: Recording) -> None:
    waiting = add_later(1, b=5)
    assert traced.records == []
    assert await waiting == 6
    assert (traced.op.inputs, traced.op.outputs) == ({"a": 1, "b": 5}, 6)


def test_times_are_those_of_the_call() -> None:
    clock = FakeClock(start_ns=0, step_ns=0)
    with recording(clock=clock) as traced:
        rollout_trace_op(clock.advance)(2.5)
    assert (traced.op.start_ns, traced.op.end_ns) == (0, 2_500_000_000)


def test_nested_ops_know_their_parent(traced: Recording) -> None:
    @rollout_trace_op
    def outer() -> int:
        return add(add(1), 2)

    outer()
    first, second, top = traced.ops
    assert (first.parent_id, second.parent_id, top.parent_id) == (top.op_id, top.op_id, 0)
    assert len({first.op_id, second.op_id, top.op_id}) == 3


def test_ops_outside_a_trajectory_share_one_without_coordinates(traced: Recording) -> None:
    @rollout_trace_op
    def outer() -> int:
        return add(1)

    outer()
    add(1)
    inner, top, other = traced.ops
    assert inner.trajectory_id == top.trajectory_id != other.trajectory_id
    assert set(inner.coordinates) == {None, False}


@pytest.mark.parametrize("method", ["act", "parse_above", "parse_below", "make_above", "make_below"])
def test_methods_of_every_kind_give_what_they_gave(traced: Recording, method: str) -> None:
    agent = Agent()
    expected = {"act": 2}.get(method, Agent if method.startswith("make") else 1)
    assert getattr(agent, method)(1) == expected
    assert traced.op.name == f"Agent.{method}"
    assert traced.op.inputs == ({"self": 1} if method == "parse_above" else {"x": 1})


async def test_an_async_method_leaves_out_self(traced: Recording) -> None:
    assert await Agent().act_later(1) == 2
    assert traced.op.inputs == {"x": 1}


def test_a_class_method_called_on_a_subclass_gets_the_subclass(traced: Recording) -> None:
    class Child(Agent): ...

    assert Child.make_above(1) is Child.make_below(1) is Child


def test_a_partial_records_the_arguments_it_holds(traced: Recording) -> None:
    def search(query: str, limit: int, lang: str = "en") -> str:
        return query

    part = rollout_trace_op(functools.partial(search, "q", lang="zh"))
    assert part(3) == "q"
    assert traced.op.name.endswith("search")
    assert traced.op.inputs == {"query": "q", "limit": 3, "lang": "zh"}


async def test_a_partial_of_a_coroutine_function_stays_one(traced: Recording) -> None:
    part = rollout_trace_op(functools.partial(add_later.__wrapped__, 1))
    assert inspect.iscoroutinefunction(part)
    assert await part() == 3
    assert traced.op.outputs == 3


class Tool:
    def __init__(self) -> None:
        self.token = "secret"

    def __call__(self, x: int) -> int:
        return x * 2


class AsyncTool:
    async def __call__(self, x: int) -> int:
        return x * 2


def test_a_callable_object_is_named_by_its_class(traced: Recording) -> None:
    assert rollout_trace_op(Tool())(4) == 8
    assert (traced.op.name, traced.op.inputs, traced.op.outputs) == ("Tool", {"x": 4}, 8)


async def test_a_callable_object_with_an_async_call_is_awaited(traced: Recording) -> None:
    assert await rollout_trace_op(AsyncTool())(4) == 8
    assert traced.op.outputs == 8


def test_a_bound_method_can_be_decorated(traced: Recording) -> None:
    assert rollout_trace_op([3, 1].index)(1) == 1
    assert traced.op.outputs == 1


def test_an_abstract_method_stays_abstract() -> None:
    import abc

    class Base(abc.ABC):
        @rollout_trace_op
        @abc.abstractmethod
        def act(self) -> None: ...

    with pytest.raises(TypeError, match="abstract"):
        Base()  # type: ignore[abstract]


@pytest.mark.parametrize("fn", [add, add_later, count, count_later])
@pytest.mark.parametrize(
    "look",
    [
        inspect.signature, inspect.iscoroutinefunction, asyncio.iscoroutinefunction,
        inspect.isgeneratorfunction, inspect.isasyncgenfunction, inspect.isfunction, inspect.getdoc,
        typing.get_type_hints, lambda f: (f.__name__, f.__qualname__, f.__module__, f.__annotations__),
    ],
)  # fmt: skip
def test_to_a_reader_the_function_looks_as_before(fn: Any, look: Any) -> None:
    assert look(fn) == look(fn.__wrapped__)


@pytest.mark.parametrize("thing", [Tool, 3, property(lambda self: 1)])
def test_what_is_no_function_is_refused(thing: Any) -> None:
    with pytest.raises(ConfigError, match="needs a function"):
        rollout_trace_op(thing)


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((1, 2, 3), {}), ((1,), {"z": 1}), ((1,), {"a": 1})])
def test_a_wrong_call_raises_the_same_error_and_is_recorded(traced: Recording, args: Any, kwargs: Any) -> None:
    with pytest.raises(TypeError) as plain:
        add.__wrapped__(*args, **kwargs)
    with pytest.raises(TypeError) as told:
        add(*args, **kwargs)
    assert str(told.value) == str(plain.value)
    assert traced.op.status == "error"
    assert traced.op.error is not None
    assert traced.op.error.message == str(plain.value)


def test_an_argument_that_was_not_given_is_marked(traced: Recording) -> None:
    with pytest.raises(TypeError):
        add()  # type: ignore[call-arg]
    assert isinstance(traced.op.inputs["a"], Opaque)
    assert traced.op.inputs["b"] == 2


def test_while_off_nothing_is_called_but_the_function() -> None:
    assert add(1) == 3
    assert list(count(2)) == [0, 1]
    with rollout_trace_attr(sample_index=1):
        assert add(1, b=3) == 4


def test_a_function_decorated_while_off_is_traced_once_on() -> None:
    @rollout_trace_op
    def f() -> int:
        return 1

    f()
    with recording() as traced:
        f()
    f()
    assert len(traced.ops) == 1
