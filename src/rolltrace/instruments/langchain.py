"""LangChain and LangGraph, by a callback handler that every run of theirs finds.

A run becomes an op: model calls are turns, tools are tools; of chains only the outermost and the nodes of a graph,
since the many between say nothing that those do not.

A callback can say where the code of a tool belongs, because LangChain copies the context right after it. It cannot take
that back: the callback at the end runs in another task where the tool is asynchronous. So the methods that run a tool
are changed too, to leave the place as they found it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from rolltrace.capture import scope
from rolltrace.instruments.op import OpenOp, Running, begin_turn, callback, is_recording
from rolltrace.instruments.protocols import public_parameters
from rolltrace.integrations import Instrument, Undo, replace

_begins_tool: ContextVar[bool] = ContextVar("rolltrace_langchain_tool", default=False)
"""A tool is about to be run here by somebody who sets the place back."""


class _Run(NamedTuple):
    op: OpenOp | None
    """None if it is not recorded itself."""
    place: scope.Place | None
    """Where what runs inside belongs."""


def change(context: Any) -> Undo:
    """`langchain_core.tracers.context` holds the list of hooks that every run is configured by."""
    from importlib import import_module

    base: Any = import_module("langchain_core.callbacks").BaseCallbackHandler
    runs: Running[_Run] = Running()

    class Handler(base):  # type: ignore[misc]
        run_inline = True  # in the task of the caller: a call below finds the op that it is inside of
        raise_error = False
        ignore_chat_model = False

        def on_chat_model_start(self, serialized: Any, messages: Any, **run: Any) -> None:
            self._turn(serialized, "messages", messages, **run)

        def on_llm_start(self, serialized: Any, prompts: Any, **run: Any) -> None:
            self._turn(serialized, "prompt", prompts, **run)

        @callback("langchain", begins=True)
        def _turn(
            self, serialized: Any, word: str, prompts: Any, *, run_id: Any, parent_run_id: Any = None, **more: Any
        ) -> None:
            asked = {word: prompts[0] if len(prompts) == 1 else prompts}
            asked |= public_parameters(more.get("invocation_params"))
            name = f"langchain.{_name(serialized, more)}"
            op = begin_turn(name, asked, _place(runs, parent_run_id), outermost=True)
            runs.add(run_id, _Run(op, op))

        @callback("langchain", begins=True)
        def on_tool_start(
            self, serialized: Any, input_str: str, *, run_id: Any, parent_run_id: Any = None, inputs: Any = None,
            **more: Any,
        ) -> None:  # fmt: skip
            arguments = inputs if isinstance(inputs, dict) else {"input": input_str}
            op = OpenOp(_name(serialized, more), "tool", arguments, _place(runs, parent_run_id))
            runs.add(run_id, _Run(op, op))
            if _begins_tool.get():
                _begins_tool.set(False)
                scope.current.set(op)

        @callback("langchain", begins=True)
        def on_chain_start(
            self, serialized: Any, inputs: Any, *, run_id: Any, parent_run_id: Any = None, **more: Any
        ) -> None:
            name, place = _name(serialized, more), _place(runs, parent_run_id)
            is_node = (more.get("metadata") or {}).get("langgraph_node") == name
            if parent_run_id is not None and not is_node:
                runs.add(run_id, _Run(None, place))
                return
            op = OpenOp(name, "other", None if is_node else {"inputs": inputs}, place)
            runs.add(run_id, _Run(op, op))

        @callback("langchain")
        def _end(self, value: Any, *, run_id: Any, **_: Any) -> None:
            run = runs.take(run_id)
            if run is not None and run.op is not None:
                run.op.finish(value)

        @callback("langchain")
        def _fail(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
            run = runs.take(run_id)
            if run is not None and run.op is not None:
                run.op.failed(error)

        def on_chain_end(self, outputs: Any, *, run_id: Any, parent_run_id: Any = None, **_: Any) -> None:
            self._end(outputs if parent_run_id is None else None, run_id=run_id)

        on_llm_end = on_tool_end = _end
        on_llm_error = on_tool_error = on_chain_error = _fail

    # Of every context: one that is set would be missing in the threads that were started before.
    variable: ContextVar[Any] = ContextVar("rolltrace_langchain", default=Handler())  # noqa: B039
    context.register_configure_hook(variable, inheritable=True)
    tools = Instrument("langchain_core", "langchain_core.tools.base", _change_tools)
    tools.install()

    def undo() -> None:
        tools.uninstall()
        context._configure_hooks[:] = [each for each in context._configure_hooks if each[0] is not variable]

    return undo


def _change_tools(module: Any) -> Undo:
    tool = module.BaseTool
    undo_run, undo_arun = replace(tool, "run", _keeps_place(tool.run)), replace(tool, "arun", _akeeps_place(tool.arun))

    def undo() -> None:
        undo_run()
        undo_arun()

    return undo


@contextmanager
def _place_kept() -> Iterator[None]:
    """Whatever a tool sets the place to, it is set back."""
    if not is_recording():
        yield
        return
    before = scope.current.get()
    _begins_tool.set(True)
    try:
        yield
    finally:
        _begins_tool.set(False)
        scope.current.set(before)


def _keeps_place(run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    def keeping(*args: Any, **kwargs: Any) -> Any:
        with _place_kept():
            return run(*args, **kwargs)

    return keeping


def _akeeps_place(arun: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(arun)
    async def keeping(*args: Any, **kwargs: Any) -> Any:
        with _place_kept():
            return await arun(*args, **kwargs)

    return keeping


def _place(runs: Running[_Run], parent_run_id: Any) -> scope.Place | None:
    """Where a run belongs: in the one around it, but if the user has begun something inside of that, there."""
    around, here = runs.get(parent_run_id), scope.current.get()
    if around is None:
        return here
    enclosing = around.op.enclosing if around.op is not None else None
    return around.place if around.op is None or here is None or here is enclosing else here


def _name(serialized: Any, more: dict[str, Any]) -> str:
    name = more.get("name") or (serialized or {}).get("name") or ((serialized or {}).get("id") or ["run"])[-1]
    return str(name)


INSTRUMENT = Instrument("langchain_core", "langchain_core.tracers.context", change)
