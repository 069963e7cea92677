"""`otlp`: trajectories to any OpenTelemetry receiver.

Nothing is ever changed at a receiver: the same ids are sent again, and it keeps the first or the last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version

from rolltrace._guard import logger
from rolltrace.backends.backend import Piece, Refused, RefusedRequest, convert_each, deliver
from rolltrace.backends.otlp.receiver import Receiver, ReceiverSettings, Rejected, TooLarge
from rolltrace.backends.otlp.spans import root_and_scores, spans_of
from rolltrace.backends.otlp.wire import SentSpan, resource_spans_bytes, span_bytes
from rolltrace.errors import BackendError
from rolltrace.query import Trajectory

MAX_BYTES = 4 << 20
"""In one request, before compression; receivers commonly take 4 to 20 MiB."""
_MAX_ATTRIBUTE_LENGTH = 64 << 10
_MAX_LENGTH_FOR_ROLLTRACE = 16 << 20
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
        self._longest = limit or _MAX_ATTRIBUTE_LENGTH
        self._has_asked = limit is not None
        """It is known how long attributes may be."""
        self._mlflow = _MLFLOW_HEADER in {name.lower() for name in settings.headers}
        self._max_bytes = MAX_BYTES
        self._dropped = ""
        """What the receiver said of spans that it dropped."""

    def send(self, trajectories: Sequence[Trajectory]) -> Sequence[Refused]:
        """Give all their spans to the receiver."""
        self._dropped = ""
        refused = self._export(trajectories, spans_of)
        if self._dropped:
            if len(trajectories) > 1:  # which one is not said: the sender then tries them one by one
                raise Rejected(self._dropped)
            refused[trajectories[0].trajectory_id] = self._dropped
        return [Refused(*each) for each in refused.items()]

    def update(self, trajectories: Sequence[Trajectory]) -> None:
        """Send the late scores as spans, and the roots again, for receivers that replace."""
        for trajectory_id, reason in self._export(trajectories, root_and_scores).items():
            logger.warning("the late scores of trajectory %s were not sent: %s", trajectory_id, reason)

    def close(self) -> None:
        """There is no connection to close."""

    def _export(self, trajectories: Sequence[Trajectory], convert: Callable[..., Iterator[SentSpan]]) -> dict[str, str]:
        """Send the spans; gives the trajectories that cannot be sent, and why."""
        refused: dict[str, str] = {}
        pieces = self._pieces(trajectories, convert, refused)
        return deliver(pieces, self._post, lambda: self._max_bytes) | refused

    def _pieces(
        self, trajectories: Sequence[Trajectory], convert: Callable[..., Iterator[SentSpan]], refused: dict[str, str]
    ) -> Iterator[Piece]:
        """The spans, with attributes as long as the receiver takes them."""

        def encode(trajectory: Trajectory) -> tuple[list[bytes], bool]:
            spans = list(convert(trajectory, longest=self._longest, mlflow=self._mlflow))
            return list(map(span_bytes, spans)), any("rl.cut" in span.attributes for span in spans)

        for trajectory, (spans, is_cut) in convert_each(trajectories, encode, refused):
            if is_cut and not self._has_asked:
                if self._is_rolltrace():
                    self._longest = _MAX_LENGTH_FOR_ROLLTRACE
                    spans, _ = encode(trajectory)
                self._has_asked = True
            resource = trajectory.project, trajectory.experiment
            yield from (Piece(trajectory.trajectory_id, (resource, span), len(span)) for span in spans)

    def _is_rolltrace(self) -> bool:
        """Whether the receiver is `rolltrace collect`, whose answers say so. Any receiver takes an empty request."""
        try:
            return self._receiver.export(b"").is_rolltrace
        except Rejected:
            return False

    def _post(self, spans: list[tuple[Resource, bytes]]) -> None:
        try:
            answer = self._receiver.export(_request(spans))
        except TooLarge as error:
            self._max_bytes = max(64 << 10, sum(len(span) for _, span in spans) // 2)
            raise RefusedRequest(f"one span is too large for the receiver: {error}") from error
        if answer.rejected_spans:
            self._dropped = f"the receiver dropped {answer.rejected_spans} spans: {answer.message}"


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
