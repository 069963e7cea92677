"""What a benchmark needs of a tracer, and the two at the ends of the scale: none, and rolltrace."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import rolltrace
from rolltrace.capture import scope
from rolltrace.journal import journal_folder, make_spare
from rolltrace.record import OpKind
from rolltrace.settings import Settings

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
    """rolltrace, on (capture and journal, no drainer) or off.

    With `long_running`, the journal is as in the middle of a run: its files have their full size, and the drainer has
    made the next ones ahead.
    """

    def __init__(self, *, on: bool = True, durable: bool = False, long_running: bool = False) -> None:
        self._backend = "rolltrace" if on else None
        self._durable = durable
        self._long_running = long_running

    @contextmanager
    def running(self) -> Iterator[None]:
        with scratch_folder() as store:
            rolltrace.init("bench", "hot-path", backend=self._backend, store=store, drain="off", durable=self._durable)
            try:
                if self._long_running:
                    self._grow_journal(Path(store))
                yield
                # A tracer that drops records is measured doing nothing.
                stats = rolltrace.stats()
                if stats.losses or stats.faults:
                    raise RuntimeError(f"rolltrace lost records, the figures are void: {stats}")
            finally:
                rolltrace.shutdown()
                rolltrace.RolloutTraceConfig.reset()

    def _grow_journal(self, store: Path) -> None:
        folder, full_size = journal_folder(store), Settings().segment_bytes
        while make_spare(folder, full_size):
            pass
        largest = 0
        while largest < full_size:
            with self.trajectory(sample_index=0, rollout_n=0):
                pass
            scope.recorder.sink.turn_over()  # type: ignore[union-attr]
            largest = max(file.stat().st_size for file in folder.glob("*.seg"))

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
