"""Tools and environments: each call is an op of the rollout that made it, as it really ran, exceptions included.

TRL tells the model what a tool raised and goes on, so nobody else would see where it came from. It has one table of
tools for each row; ours stand there only while it generates.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import BatchRow

if TYPE_CHECKING:
    from rolltrace.integrations.trl.generation import Generation

_TABLES = {"_sync_tool_dicts": False, "_async_tool_dicts": True}
"""Where a trainer keeps the tools of each row, and whether they are coroutines."""


@contextlib.contextmanager
def traced_tools(trainer: Any, generation: Generation) -> Iterator[None]:
    """Put traced tools into the tables of a trainer, for as long as it generates."""
    before = {name: getattr(trainer, name) for name in _TABLES if getattr(trainer, name, None)}
    try:
        for name, tables in before.items():
            traced = [
                _traced_table(generation, row, table, is_async=_TABLES[name]) if row < len(generation.rows) else table
                for row, table in enumerate(tables)
            ]
            setattr(trainer, name, traced)
    except Exception:
        caught("trl tools")
    try:
        yield
    finally:
        for name, tables in before.items():
            setattr(trainer, name, tables)


def _traced_table(generation: Generation, row: int, table: Mapping[str, Any], *, is_async: bool) -> dict[str, Any]:
    trace = _traced_async if is_async else _traced
    return {name: trace(generation, row, name, function) for name, function in table.items()}


def _traced(generation: Generation, row: int, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        op = _begin(generation, row, name, function)
        return generation.rows[row].run(op, *args, **kwargs)

    return call


def _begin(generation: Generation, row: int, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        generation.tool_called(row, name)
        return rolltrace.rollout_trace_op(name=name, kind="tool")(function)
    except Exception:
        caught("trl tool")
        return function


def _traced_async(generation: Generation, row: int, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        inside = generation.rows[row]
        try:
            generation.tool_called(row, name)
        except Exception:
            caught("trl tool")
        try:
            coroutine = function(*args, **kwargs)
        except Exception as failure:  # the arguments do not fit
            inside.begin(name, "tool", kwargs).failed(failure)
            raise
        return _awaited(inside, name, kwargs, coroutine)

    return call


async def _awaited(inside: BatchRow, name: str, arguments: Mapping[str, Any], coroutine: Any) -> Any:
    @rolltrace.rollout_trace_op(name=name, kind="tool", inputs=lambda given: given["arguments"])
    async def run(arguments: Mapping[str, Any], coroutine: Any) -> Any:
        return await coroutine

    inside.enter()  # each runs as a task of TRL's event loop
    return await run(arguments, coroutine)


class Resets:
    """The environments of a batch, while TRL resets them: one after the other, in the order of the rows."""

    def __init__(self, trainer: Any, rows: list[BatchRow]) -> None:
        self._trainer = trainer
        self._rows = iter(rows)
        self._is_resetting = False
        self._changed: list[Any] = []
        self._factories = getattr(trainer, "environment_factories", None)
        try:
            if self._factories:
                trainer.environment_factories = {name: self._making(make) for name, make in self._factories.items()}
                pools = trainer._environment_pool.values()
            else:  # before TRL 1.8 each row has its own from the beginning
                pools = [getattr(trainer, "environments", None) or []]
            for pool in pools:
                for environment in pool:
                    self._change(environment)
        except Exception:
            caught("trl environments")

    def restore(self) -> None:
        """All are reset: leave no trace on them."""
        if self._factories:
            self._trainer.environment_factories = self._factories
        for environment in self._changed:
            vars(environment).pop("reset", None)
        self._changed = []

    def _making(self, make: Callable[[], Any]) -> Callable[[], Any]:
        def factory() -> Any:
            environment = make()
            try:
                self._change(environment)
            except Exception:
                caught("trl environments")
            return environment

        return factory

    def _change(self, environment: Any) -> None:
        own = getattr(environment, "__dict__", None)
        if own is None or "reset" in own:  # there is no place for ours
            return
        reset = environment.reset
        name = f"{type(environment).__name__}.reset"

        def traced(*args: Any, **kwargs: Any) -> Any:
            row = None if self._is_resetting else next(self._rows, None)
            if row is None:
                return reset(*args, **kwargs)
            self._is_resetting = True
            try:
                return row.run(rolltrace.rollout_trace_op(name=name, kind="env")(reset), *args, **kwargs)
            finally:
                self._is_resetting = False

        own["reset"] = traced
        self._changed.append(environment)
