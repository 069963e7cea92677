"""Weave's client, called as verl calls it, against Weave's own SQLite server."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import weave
from weave.trace.context import call_context

from benchmarks.peers.peer import PROJECT, STEP, Coordinates, Peer
from rolltrace.record import OpKind

ENTITY = "somebody"


class Weave(Peer):
    """The server's address comes from the environment, as its users give it."""

    _client: Any = None

    @contextmanager
    def running(self) -> Iterator[None]:
        self._client = weave.init(f"{ENTITY}/{PROJECT}")
        yield
        weave.finish()

    @contextmanager
    def trajectory(self, *, sample_index: int, rollout_n: int) -> Iterator[None]:
        attributes = {"sample_index": sample_index, "step": STEP, "rollout_n": rollout_n, "validate": False}
        with weave.attributes(attributes):
            yield

    @contextmanager
    def span(self, name: str, kind: OpKind, inputs: dict[str, Any]) -> Iterator[Callable[[Any], Any]]:
        call = self._client.create_call(op=name, inputs=inputs, attributes={**call_context.call_attributes.get()})
        yield lambda output: self._client.finish_call(call, output=output)

    def _calls(self, **conditions: Any) -> list[Any]:
        self._client = self._client or weave.init(f"{ENTITY}/{PROJECT}")
        fields = [
            {"$eq": [{"$getField": f"attributes.{name}"}, {"$literal": value}]} for name, value in conditions.items()
        ]
        asked = {"query": {"$expr": {"$and": fields}}} if fields else {}
        return list(self._client.get_calls(**asked))

    def complete_ops(self) -> Counter[Coordinates]:
        ops_of: Counter[Coordinates] = Counter()
        for call in self._calls():
            attributes = call.attributes
            ops_of[attributes["sample_index"], attributes["rollout_n"]] += call.output is not None
        return ops_of

    def list_step(self) -> int:
        calls = self._calls(step=STEP)
        return len({(call.attributes["sample_index"], call.attributes["rollout_n"]) for call in calls})

    def open_one(self) -> int:
        return sum(call.output is not None for call in self._calls(step=STEP, sample_index=0, rollout_n=0))
