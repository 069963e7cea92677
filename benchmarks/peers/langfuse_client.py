"""Langfuse's client into a sink that keeps what it is sent: its server needs databases that are not here.

So there is a figure for what the client costs and loses, and none for what the server does with it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import langfuse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.peers.peer import STEP, Coordinates, Peer
from benchmarks.peers.sink import bodies
from rolltrace.record import OpKind

OUTPUT = "langfuse.observation.output"
PLACE = "langfuse.observation.metadata.{}"


class Langfuse(Peer):
    """The address is that of the sink."""

    _client: Any = None

    @contextmanager
    def running(self) -> Iterator[None]:
        self._client = langfuse.Langfuse(public_key="pk-bench", secret_key="sk-bench", base_url=self.url)
        yield
        self._client.flush()

    @contextmanager
    def trajectory(self, *, sample_index: int, rollout_n: int) -> Iterator[None]:
        place = {"sample_index": sample_index, "rollout_n": rollout_n, "step": STEP, "validate": False}
        with self._client.start_as_current_observation(name="rollout_trace", metadata=place):
            yield

    @contextmanager
    def span(self, name: str, kind: OpKind, inputs: dict[str, Any]) -> Iterator[Callable[[Any], Any]]:
        with self._client.start_as_current_observation(name=name, input=inputs) as span:
            yield lambda output: span.update(output=output)

    def complete_ops(self) -> Counter[Coordinates]:
        """By trace, whose root has the coordinates."""
        places: dict[bytes, Coordinates] = {}
        outputs: Counter[bytes] = Counter()
        for body in bodies(self.folder):
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for span in (span for scope in resource.scope_spans for span in scope.spans):
                    attributes = {each.key: each.value for each in span.attributes}
                    outputs[span.trace_id] += OUTPUT in attributes
                    sample, rollout = (attributes.get(PLACE.format(name)) for name in ("sample_index", "rollout_n"))
                    if sample is not None and rollout is not None:
                        places[span.trace_id] = (_number(sample), _number(rollout))
        return Counter({place: outputs[trace] for trace, place in places.items()})


def _number(value: Any) -> int:
    return int(value.string_value or value.int_value)
