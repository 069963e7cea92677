"""`otlp`: trajectories to any OpenTelemetry receiver.

Nothing is ever changed at a receiver: the same ids are sent again, and it keeps the first or the last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from typing import NamedTuple

from rolltrace._guard import logger
from rolltrace.backends.backend import Refused, convert_each
from rolltrace.backends.otlp.receiver import Receiver, ReceiverSettings, Rejected, TooLarge
from rolltrace.backends.otlp.spans import root_and_scores, spans_of
from rolltrace.backends.otlp.wire import SentSpan, resource_spans_bytes, span_bytes
from rolltrace.errors import BackendError
from rolltrace.query import Trajectory

MOST_BYTES = 4 << 20
"""In one request, before compression; receivers commonly take 4 to 20 MiB."""
_LONGEST_ATTRIBUTE = 64 << 10
_LONGEST_FOR_ROLLTRACE = 16 << 20
"""Of `rolltrace collect`, which takes requests of 32 MiB."""
_LIMIT_VARIABLES = ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT")
_MLFLOW_HEADER = "x-mlflow-experiment-id"

Resource = tuple[str, str]
"""Project and experiment: one resource."""


class OtlpBackend:
    """Sends to the receiver that OTEL_EXPORTER_OTLP_* name. See docs/howto/otlp.md."""

    def __init__(self) -> None:
        settings = ReceiverSettings.read()
        self._receiver = Receiver(settings)
        limit = _longest_attribute()
        self._longest = limit or _LONGEST_ATTRIBUTE
        self._has_asked = limit is not None
        """It is known how long attributes may be."""
        self._mlflow = _MLFLOW_HEADER in {name.lower() for name in settings.headers}
        self._most_bytes = MOST_BYTES

    def send(self, trajectories: Sequence[Trajectory]) -> Sequence[Refused]:
        """Give all their spans to the receiver."""
        refused: dict[str, str] = {}
        dropped = self._export(trajectories, self._spans, refused)
        if dropped:
            if len(trajectories) > 1:  # which one is not said: the sender then tries them one by one
                raise Rejected(dropped)
            refused[trajectories[0].trajectory_id] = dropped
        return [Refused(*each) for each in refused.items()]

    def _spans(self, trajectory: Trajectory) -> _Converted:
        return _converted(spans_of(trajectory, longest=self._longest, mlflow=self._mlflow))

    def _root_and_scores(self, trajectory: Trajectory) -> _Converted:
        return _converted(root_and_scores(trajectory, longest=self._longest, mlflow=self._mlflow))

    def update(self, trajectories: Sequence[Trajectory]) -> None:
        """Send the late scores as spans, and the roots again, for receivers that replace."""
        refused: dict[str, str] = {}
        self._export(trajectories, self._root_and_scores, refused)
        for trajectory_id, reason in refused.items():
            logger.warning("the late scores of trajectory %s were not sent: %s", trajectory_id, reason)

    def close(self) -> None:
        """There is no connection to close."""

    def _export(
        self, trajectories: Sequence[Trajectory], convert: Callable[[Trajectory], _Converted], refused: dict[str, str]
    ) -> str:
        """Send the spans; what the receiver said of those that it dropped."""
        dropped = ""
        for batch in self._batches(self._whole_spans(trajectories, convert, refused)):
            dropped = self._send(batch) or dropped
        return dropped

    def _whole_spans(
        self, trajectories: Sequence[Trajectory], convert: Callable[[Trajectory], _Converted], refused: dict[str, str]
    ) -> Iterator[tuple[Resource, bytes]]:
        """The spans, with attributes as long as the receiver takes them."""
        for trajectory, (spans, is_cut) in convert_each(trajectories, convert, refused):
            if is_cut and not self._has_asked:
                if self._is_rolltrace():
                    self._longest = _LONGEST_FOR_ROLLTRACE
                    spans = convert(trajectory).spans
                self._has_asked = True
            for span in spans:
                yield _resource_of(trajectory), span

    def _is_rolltrace(self) -> bool:
        """Whether the receiver is `rolltrace collect`, whose answers say so. Any receiver takes an empty request."""
        try:
            return self._receiver.export(b"").is_rolltrace
        except Rejected:
            return False

    def _batches(self, spans: Iterable[tuple[Resource, bytes]]) -> Iterator[list[tuple[Resource, bytes]]]:
        batch: list[tuple[Resource, bytes]] = []
        size = 0
        for resource, span in spans:
            if batch and size + len(span) > self._most_bytes:
                yield batch
                batch, size = [], 0
            batch.append((resource, span))
            size += len(span)
        if batch:
            yield batch

    def _send(self, batch: list[tuple[Resource, bytes]]) -> str:
        try:
            answer = self._receiver.export(_request(batch))
        except TooLarge as fault:
            if len(batch) == 1:
                return f"one span is too large for the receiver: {fault}"
            self._most_bytes = max(64 << 10, sum(len(span) for _, span in batch) // 2)
            middle = len(batch) // 2
            return " ".join(filter(None, [self._send(batch[:middle]), self._send(batch[middle:])]))
        if answer.rejected_spans:
            return f"the receiver dropped {answer.rejected_spans} spans: {answer.message}"
        return ""


class _Converted(NamedTuple):
    spans: list[bytes]
    is_cut: bool
    """Some attribute was too long."""


def _converted(spans: Iterable[SentSpan]) -> _Converted:
    spans = list(spans)
    return _Converted(list(map(span_bytes, spans)), any("rl.cut" in span.attributes for span in spans))


def _resource_of(trajectory: Trajectory) -> Resource:
    return trajectory.project, trajectory.experiment


def _request(batch: list[tuple[Resource, bytes]]) -> bytes:
    """The spans, those of one experiment together."""
    resources: dict[Resource, list[bytes]] = {}
    for resource, span in batch:
        resources.setdefault(resource, []).append(span)
    return b"".join(
        resource_spans_bytes(_resource(*resource), "rolltrace", version("rolltrace"), spans)
        for resource, spans in resources.items()
    )


def _resource(project: str, experiment: str) -> dict[str, str]:
    resource = {
        "service.name": os.environ.get("OTEL_SERVICE_NAME") or project,
        "telemetry.sdk.name": "rolltrace",
        "telemetry.sdk.language": "python",
        "rl.project": project,
        "rl.experiment": experiment,
        "openinference.project.name": project,
    }
    for pair in filter(None, os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")):
        name, _, value = pair.partition("=")
        if name.strip() and (name.strip() != "service.name" or not os.environ.get("OTEL_SERVICE_NAME")):
            resource[name.strip()] = value.strip()
    return resource


def _longest_attribute() -> int | None:
    for variable in _LIMIT_VARIABLES:
        if os.environ.get(variable):
            try:
                return max(int(os.environ[variable]), 1)
            except ValueError:
                raise BackendError(f"{variable} must be a number of bytes, not {os.environ[variable]!r}") from None
    return None
