"""Gives trajectories to MLflow as they were, through its tracking store.

No active trace or run, no autologging and no queue of MLflow's is used. Everything has an id derived from ours and is
written over what was there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from mlflow.entities import Span, TraceInfo
from mlflow.exceptions import MlflowException

from rolltrace._guard import logger
from rolltrace.backends.backend import Piece, Refused, RefusedRequest, convert_each, deliver
from rolltrace.backends.mlflow.place import Places
from rolltrace.backends.mlflow.server import in_plain_words, is_final, open_tracking, patience, tracking_uri
from rolltrace.backends.mlflow.trace import RUN, SOURCE, info_of, spans_of, trace_id_of
from rolltrace.backends.values import web_address

if TYPE_CHECKING:
    from rolltrace.query import Trajectory

_MAX_REQUEST_BYTES = 4 << 20
"""How much is sent in one request; a single span may be larger."""
_MAX_ASKED = 100
_SPANS = "mlflow.trace.spansLocation"


class MlflowBackend:
    """The backend `mlflow`. It reads `MLFLOW_TRACKING_URI`, `MLFLOW_RUN_ID` and MLflow's own settings."""

    def __init__(self) -> None:
        self._uri = tracking_uri()
        self._tracking: Any = None
        self._places: Places | None = None
        self._keeps_stale = False

    def send(self, trajectories: Sequence[Trajectory]) -> Sequence[Refused]:
        refused: dict[str, str] = {}
        different = {each.trajectory_id: each for each in trajectories}.values()
        with self._talking() as places:
            converted = convert_each(different, spans_of, refused)
            refused |= deliver(self._pieces(places, converted, refused), self._log, lambda: _MAX_REQUEST_BYTES)
        return [Refused(*each) for each in refused.items()]

    def _pieces(
        self, places: Places, converted: Iterable[tuple[Trajectory, list[Span]]], refused: dict[str, str]
    ) -> Iterator[Piece]:
        """The spans of each trace, once the trace is there."""
        for trajectory, spans in converted:
            place = places.of(trajectory)
            try:
                self._write(info_of(trajectory, *place))
            except MlflowException as error:
                if not is_final(error):
                    raise
                places.forget()
                places.of(trajectory)  # raises if it is the place that is wrong
                refused[trajectory.trajectory_id] = str(error)
                continue
            for span in spans:
                size = sum(map(len, span._span.attributes.values()))
                yield Piece(trajectory.trajectory_id, (place.experiment_id, span), size)

    def _log(self, spans: list[tuple[str, Span]]) -> None:
        by_experiment: dict[str, list[Span]] = {}
        for experiment_id, span in spans:
            by_experiment.setdefault(experiment_id, []).append(span)
        try:
            for experiment_id, some in by_experiment.items():
                self._tracking.log_spans(experiment_id, some)
        except NotImplementedError:  # it asked the server for its version and remembers that it got no answer
            self._tracking._get_server_version.cache_clear()
            raise
        except MlflowException as error:
            if not is_final(error):
                raise
            raise RefusedRequest(f"the span {spans[0][1].name!r}: {error}") from error

    def update(self, trajectories: Sequence[Trajectory]) -> None:
        with self._talking() as places:
            there = self._there(trace_id_of(each.trajectory_id) for each in trajectories)
            for trajectory in trajectories:
                info = there.get(trace_id_of(trajectory.trajectory_id))
                if info is not None:  # it stays where it is, whatever the place of its experiment is now
                    run_id = info.trace_metadata.get(RUN) or places.of(trajectory).run_id
                    self._write(info_of(trajectory, info.experiment_id, run_id))

    def links(self, trajectory: Trajectory) -> dict[str, str]:
        """Where MLflow shows it and its run; nothing if there is no server."""
        server = web_address(self._uri)
        if server is None or self._places is None:
            return {}
        place, trace = self._places.of(trajectory), trace_id_of("{id}")
        experiment = f"{server}/#/experiments/{place.experiment_id}"
        return {
            "MLflow run": f"{experiment}/runs/{place.run_id}",
            "MLflow trace": f"{experiment}/traces?selectedEvaluationId={trace}&traceId={trace}",
        }

    def close(self) -> None:
        self._tracking = self._places = None

    @contextmanager
    def _talking(self) -> Iterator[Places]:
        with patience(), in_plain_words(self._uri):
            if self._places is None:
                self._tracking = open_tracking(self._uri)
                self._places = Places(self._uri)
            try:
                yield self._places
            except MlflowException:
                self._places.forget()  # perhaps it is there that something has changed
                raise

    def _write(self, info: TraceInfo) -> None:
        """Write a trace without its spans, or write it over, and take back our feedback that it has no longer."""
        ours = {each.assessment_id for each in info.assessments}
        for each in self._tracking.start_trace(info).assessments:
            if each.source == SOURCE and each.assessment_id not in ours:
                self._take_back(info.trace_id, each.assessment_id)

    def _take_back(self, trace_id: str, assessment_id: str) -> None:
        """A server, or what stands before it, that deletes nothing costs tidiness, not the traces."""
        try:
            self._tracking.delete_assessment(trace_id, assessment_id)
        except MlflowException as error:
            if error.get_http_status_code() not in (404, 405, 501):
                raise
            if not self._keeps_stale:
                self._keeps_stale = True
                logger.warning("MLflow does not delete feedback: replaced scores stay beside the new ones (%s)", error)

    def _there(self, trace_ids: Iterator[str]) -> dict[str, TraceInfo]:
        """Those that MLflow still has and can change: people delete traces, MLflow may archive them."""
        infos: list[TraceInfo] = []
        while some := list(islice(trace_ids, _MAX_ASKED)):
            infos += self._tracking.batch_get_trace_infos(some)
        return {info.trace_id: info for info in infos if info.tags.get(_SPANS) != "ARCHIVE_REPO"}
