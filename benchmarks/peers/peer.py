"""What the comparison needs of a peer: to trace the workload, and to read back what it has kept."""

import inspect
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from pathlib import Path
from typing import Any

from benchmarks.tracers import Decorator
from rolltrace.record import OpKind

STEP = 1
PROJECT = "bench"

Coordinates = tuple[int, int]
"""sample_index, rollout_n"""


class Peer(ABC):
    """A tracer with a place to keep things: a folder of its own and, where it has a server, an address."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url

    @abstractmethod
    def running(self) -> AbstractContextManager[None]:
        """Tracing is on inside; at the end everything is flushed as the peer's documentation says."""

    @abstractmethod
    def trajectory(self, *, sample_index: int, rollout_n: int) -> AbstractContextManager[Any]: ...

    @abstractmethod
    def span(self, name: str, kind: OpKind, inputs: dict[str, Any]) -> AbstractContextManager[Callable[[Any], Any]]:
        """One call; what it gives is told the output."""

    def op(self, *, name: str, kind: OpKind) -> Decorator:
        """The decorator that most peers do not have for the ops of a rollout; the signature is read once."""

        def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
            parameters = tuple(inspect.signature(fn).parameters)

            def inputs_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
                inputs = dict(zip(parameters, args, strict=False)) | kwargs
                inputs.pop("self", None)
                return inputs

            if inspect.iscoroutinefunction(fn):

                @wraps(fn)
                async def async_shell(*args: Any, **kwargs: Any) -> Any:
                    with self.span(name, kind, inputs_of(args, kwargs)) as tell_output:
                        output = await fn(*args, **kwargs)
                        tell_output(output)
                        return output

                return async_shell

            @wraps(fn)
            def shell(*args: Any, **kwargs: Any) -> Any:
                with self.span(name, kind, inputs_of(args, kwargs)) as tell_output:
                    output = fn(*args, **kwargs)
                    tell_output(output)
                    return output

            return shell

        return decorate

    @abstractmethod
    def complete_ops(self) -> Counter[Coordinates]:
        """Reads back: how many ops of each trajectory have their output."""

    def list_step(self) -> int | None:
        """How many trajectories of the step there are, asked as its users would; None where nobody can ask."""
        return None

    def open_one(self) -> int | None:
        """How many ops with payloads one trajectory has, asked by its coordinates."""
        return None


def json_bytes(payloads: list[Any]) -> int:
    """The size of the workload that figures on disk are relative to."""
    return sum(len(json.dumps(payload)) for payload in payloads)
