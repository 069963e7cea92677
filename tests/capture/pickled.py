"""Decorated functions at module level, for the tests of pickling."""

from typing import Any

from rolltrace import rollout_trace_op


@rollout_trace_op(kind="tool", inputs=lambda given: {"x": given["x"]})
def double(x: int, secret: str = "s") -> int:
    return 2 * x


class Agent:
    def __init__(self, base: int) -> None:
        self.base = base

    @rollout_trace_op
    def act(self, x: int) -> int:
        return self.base + x


def double_traced(x: int) -> tuple[int, list[Any]]:
    """Called in another process: the result, and what was recorded there."""
    from rolltrace.testing import recording

    with recording() as traced:
        result = double(x)
    return result, [(op.name, op.kind, op.inputs, op.outputs) for op in traced.ops]
