"""MLflow tracing, called as verl's `rollout_trace` calls it: into a SQLite file or to a server."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mlflow
from mlflow import MlflowClient

from benchmarks.peers.peer import PROJECT, STEP, Coordinates, Peer
from rolltrace.record import OpKind

PAGE = 100


class Mlflow(Peer):
    """The address is a tracking URI."""

    @contextmanager
    def running(self) -> Iterator[None]:
        mlflow.config.enable_async_logging()
        mlflow.set_tracking_uri(self.url)
        mlflow.set_experiment(PROJECT)
        yield
        mlflow.flush_trace_async_logging()

    @contextmanager
    def trajectory(self, *, sample_index: int, rollout_n: int) -> Iterator[None]:
        with mlflow.start_span(name="rollout_trace") as span:
            tags = {"sample_index": sample_index, "step": STEP, "rollout_n": rollout_n, "validate": False}
            for name, value in tags.items():
                mlflow.set_trace_tag(span.trace_id, name, str(value))
            yield

    @contextmanager
    def span(self, name: str, kind: OpKind, inputs: dict[str, Any]) -> Iterator[Callable[[Any], Any]]:
        with mlflow.start_span(name=name) as span:
            span.set_inputs(inputs)
            yield span.set_outputs

    def _search(self, where: str | None = None) -> Iterator[Any]:
        client = MlflowClient(self.url)
        experiment = client.get_experiment_by_name(PROJECT)
        token: str | None = None
        while experiment is not None:
            page = client.search_traces(
                locations=[experiment.experiment_id], filter_string=where, max_results=PAGE, page_token=token
            )
            yield from page
            token = page.token
            if not token:
                return

    def complete_ops(self) -> Counter[Coordinates]:
        ops_of: Counter[Coordinates] = Counter()
        for trace in self._search():
            tags = trace.info.tags
            if "sample_index" in tags and "rollout_n" in tags:
                ops = sum(span.outputs is not None for span in trace.data.spans)
                ops_of[int(tags["sample_index"]), int(tags["rollout_n"])] = ops
        return ops_of

    def list_step(self) -> int:
        client = MlflowClient(self.url)
        (experiment,) = client.search_experiments(filter_string=f"name = '{PROJECT}'")
        traces = client.search_traces(
            locations=[experiment.experiment_id],
            filter_string=f"tags.step = '{STEP}'",
            max_results=500,
            include_spans=False,
        )
        return len(traces)

    def open_one(self) -> int:
        where = f"tags.step = '{STEP}' AND tags.sample_index = '0' AND tags.rollout_n = '0'"
        trace = next(self._search(where))
        return sum(span.outputs is not None for span in trace.data.spans)
