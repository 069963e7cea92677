"""Decorated functions go to other processes, by name and by value, and are traced there."""

import asyncio
import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from rolltrace import rollout_trace_op
from rolltrace.testing import Recording

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import pickled  # noqa: E402 - found by name in child processes too

sys.path.remove(str(HERE))


def run_python(code: str, *args: str, stdin: bytes = b"") -> str:
    made = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        input=stdin,
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])},
    )
    return made.stdout.decode()


def test_a_function_of_a_module_pickles_by_name() -> None:
    assert pickle.loads(pickle.dumps(pickled.double)) is pickled.double


def test_a_method_pickles_with_its_object(traced: Recording) -> None:
    act = pickle.loads(pickle.dumps(pickled.Agent(10).act))
    assert act(1) == 11
    assert traced.op.inputs == {"x": 1}


def test_a_decorated_function_copies_as_functions_do() -> None:
    assert copy.deepcopy(pickled.double) is pickled.double


UNPICKLE = """
import asyncio, inspect, pickle, sys
from rolltrace.testing import recording

fn = pickle.load(sys.stdin.buffer)
with recording() as traced:
    if inspect.iscoroutinefunction(fn):
        result = asyncio.run(fn(3))
    elif inspect.isasyncgenfunction(fn):
        async def collect():
            return [item async for item in fn(3)]
        result = asyncio.run(collect())
    elif inspect.isgeneratorfunction(fn):
        result = list(fn(3))
    else:
        result = fn(3)
print(result, traced.op.kind, traced.op.inputs, traced.op.outputs, sep="|")
"""


def closures() -> dict[str, tuple[Any, str]]:
    factor = 2

    @rollout_trace_op(kind="tool", outputs=lambda value: value)
    def plain(x: int) -> int:
        return factor * x

    @rollout_trace_op(kind="tool")
    async def coroutine(x: int) -> int:
        await asyncio.sleep(0)
        return factor * x

    @rollout_trace_op(kind="tool")
    def generator(x: int) -> Any:
        yield factor * x

    @rollout_trace_op(kind="tool")
    async def async_generator(x: int) -> Any:
        yield factor * x

    stream = "{'items': [6], 'count': 1, 'end': 'exhausted'}"
    return {
        "plain": (plain, "6|tool|{'x': 3}|6"),
        "coroutine": (coroutine, "6|tool|{'x': 3}|6"),
        "generator": (generator, "[6]|tool|{'x': 3}|" + stream),
        "async generator": (async_generator, "[6]|tool|{'x': 3}|" + stream),
    }


@pytest.mark.parametrize("kind", closures())
def test_a_closure_pickled_by_value_is_traced_where_it_arrives(kind: str) -> None:
    fn, expected = closures()[kind]
    assert run_python(UNPICKLE, stdin=cloudpickle.dumps(fn)).strip() == expected


def test_a_closure_pickled_while_tracing_is_on_carries_no_recorder(traced: Recording) -> None:
    fn, expected = closures()["plain"]
    fn(1)
    assert run_python(UNPICKLE, stdin=cloudpickle.dumps(fn)).strip() == expected


def test_a_function_of_main_pickled_by_value_is_traced_where_it_arrives() -> None:
    made = run_python(
        """
        import sys, cloudpickle
        from rolltrace import rollout_trace_op
        from rolltrace.testing import recording

        @rollout_trace_op(kind="tool", inputs=["x"])
        def triple(x, y=1):
            return 3 * x

        class Agent:
            @rollout_trace_op
            def act(self, x):
                return triple(x)

        sys.stdout.write(cloudpickle.dumps(Agent().act).hex())
        """
    )
    said = run_python(
        """
        import pickle, sys
        from rolltrace.testing import recording

        act = pickle.loads(bytes.fromhex(sys.argv[1]))
        with recording() as traced:
            act(2)
        inner, outer = traced.ops
        print(inner.kind, inner.inputs, outer.inputs, inner.parent_id == outer.op_id)
        """,
        made,
    )
    assert said.strip() == "tool {'x': 2} {'x': 2} True"


def test_a_spawned_process_traces_the_function_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result, ops = pool.apply(pickled.double_traced, (4,))
    assert (result, ops) == (8, [("double", "tool", {"x": 4}, 8)])
