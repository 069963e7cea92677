"""What a benchmark needs of a tracer, and the two at the ends of the scale: none, and rolltrace."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import rolltrace
from rolltrace.record import OpKind

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Tracer(Protocol):
    """Decorates ops, opens trajectories, and runs only inside `running()`."""

    def running(self) -> AbstractContextManager[None]:
        """Starts with a fresh store; at the end flushes, proves that nothing was dropped, cleans up."""

    def op(self, *, name: str, kind: OpKind) -> Decorator: ...

    def trajectory(self, *, sample_index: int, rollout_n: int) -> AbstractContextManager[Any]: ...


class Plain:
    """No tracer: the driver's own cost, which every figure has subtracted."""

    def running(self) -> AbstractContextManager[None]:
        return nullcontext()

    def op(self, *, name: str, kind: OpKind) -> Decorator:
        return lambda fn: fn

    def trajectory(self, *, sample_index: int, rollout_n: int) -> AbstractContextManager[Any]:
        return nullcontext()


class Rolltrace:
    """rolltrace, on (capture and journal, no drainer) or off."""

    def __init__(self, *, on: bool = True, durable: bool = False) -> None:
        self._backend = "rolltrace" if on else None
        self._durable = durable

    @contextmanager
    def running(self) -> Iterator[None]:
        with scratch_folder() as store:
            rolltrace.init("bench", "hot-path", backend=self._backend, store=store, drain="off", durable=self._durable)
            try:
                yield
                # A tracer that drops records is measured doing nothing.
                stats = rolltrace.stats()
                if stats.losses or stats.internal_errors:
                    raise RuntimeError(f"rolltrace lost records, the figures are void: {stats}")
            finally:
                rolltrace.shutdown()
                rolltrace.RolloutTraceConfig.reset()

    def op(self, *, name: str, kind: OpKind) -> Decorator:
        return rolltrace.rollout_trace_op(name=name, kind=kind)

    def trajectory(self, *, sample_index: int, rollout_n: int) -> AbstractContextManager[Any]:
        return rolltrace.rollout_trace_attr(sample_index=sample_index, step=1, rollout_n=rollout_n, validate=False)


@contextmanager
def scratch_folder() -> Iterator[str]:
    """A temporary folder that is gone afterwards; TMPDIR chooses the disk."""
    folder = tempfile.mkdtemp(prefix="rolltrace-bench-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
