"""Trackio, given a `Trace` for each op, as verl gives it."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import PROJECT, STEP, Coordinates, Peer
from rolltrace.record import OpKind

RUN = "peers"
_attributes: ContextVar[dict[str, Any]] = ContextVar("_attributes", default={})  # noqa: B039 - never changed


class Trackio(Peer):
    """Trackio reads where to keep things when it is imported."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, url)
        os.environ["TRACKIO_DIR"] = str(folder)
        os.environ["HF_HUB_OFFLINE"] = "1"
        import trackio
        from trackio.sqlite_storage import SQLiteStorage

        self._trackio = trackio
        self._storage = SQLiteStorage

    @contextmanager
    def running(self) -> Iterator[None]:
        self._trackio.init(project=PROJECT, name=RUN, config={"framework": "bench"})
        yield
        self._trackio.finish()

    @contextmanager
    def trajectory(self, *, sample_index: int, rollout_n: int) -> Iterator[None]:
        token = _attributes.set({"sample_index": sample_index, "step": STEP, "rollout_n": rollout_n, "validate": False})
        try:
            yield
        finally:
            _attributes.reset(token)

    @contextmanager
    def span(self, name: str, kind: OpKind, inputs: dict[str, Any]) -> Iterator[Callable[[Any], Any]]:
        yield lambda output: self._log(name, inputs, output)

    def _log(self, name: str, inputs: dict[str, Any], output: Any) -> None:
        """The messages if there are some, else the inputs as one; all else as metadata."""
        metadata = {
            **_attributes.get(),
            "op": name,
            "inputs": {key: value for key, value in inputs.items() if key != "messages"},
            "output": output,
            "status": "success",
        }
        messages = list(inputs.get("messages") or ())
        if not messages:
            messages = [
                {"role": "system", "content": f"rollout trace operation: {name}"},
                {"role": "user", "content": json.dumps({"inputs": inputs}, ensure_ascii=False)},
            ]
        messages.append({"role": "assistant", "content": json.dumps({"output": output}, ensure_ascii=False)})
        self._trackio.log(
            {f"rollout_trace/{name}": self._trackio.Trace(messages=messages, metadata=metadata)}, step=STEP
        )

    def _traces(self, step: int | None = None) -> list[dict[str, Any]]:
        """Of all runs: each process has one, and all have the same name."""
        runs = self._storage.get_run_records(PROJECT)
        return [
            trace
            for run in runs
            for trace in self._storage.get_traces(PROJECT, run["name"], limit=1_000_000, run_id=run["id"], step=step)
        ]

    def complete_ops(self) -> Counter[Coordinates]:
        ops_of: Counter[Coordinates] = Counter()
        for trace in self._traces():
            metadata = trace["metadata"]
            ops_of[metadata["sample_index"], metadata["rollout_n"]] += "output" in metadata
        return ops_of

    def list_step(self) -> int:
        of_step = [trace["metadata"] for trace in self._traces(STEP)]
        return len({(metadata["sample_index"], metadata["rollout_n"]) for metadata in of_step})

    def open_one(self) -> int:
        wanted = {"sample_index": 0, "rollout_n": 0}
        return sum(wanted.items() <= trace["metadata"].items() for trace in self._traces(STEP))
