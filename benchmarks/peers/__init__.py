"""rolltrace beside what people trace rollouts with today, on one workload: `make bench-peers`.

Each peer is used as verl uses it, or as its own documentation says where verl does not know it, and has an environment
and processes of its own. `tasks` runs in these, `report` asks them and writes docs/benchmarks.md.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Contender:
    """One row of the table."""

    name: str
    module: str
    """The peer's class is the one in this module whose name is in `kind`."""
    kind: str
    environment: str | None = None
    """In `.venvs`; None is the environment of the benchmarks."""
    package: str = ""
    """Whose version is told."""
    most: int = 1_000
    """At most so many trajectories, where each op takes a quarter of a second."""
    place: Literal["folder", "sqlite", "mlflow", "weave", "sink"] = "folder"
    """Where it keeps things: a folder, a SQLite file in it, or a server that has one."""


CONTENDERS = (
    Contender("rolltrace", "benchmarks.peers.ours", "OurStore", package="rolltrace"),
    Contender(
        "OpenTelemetry SDK, file", "benchmarks.peers.opentelemetry_sdk", "OpenTelemetryFile",
        package="opentelemetry-sdk",
    ),
    Contender("MLflow, SQLite", "benchmarks.peers.mlflow_tracing", "Mlflow", "mlflow", "mlflow", place="sqlite"),
    Contender("MLflow, server", "benchmarks.peers.mlflow_tracing", "Mlflow", "mlflow", "mlflow", place="mlflow"),
    Contender("Trackio", "benchmarks.peers.trackio_traces", "Trackio", "trackio", "trackio"),
    Contender("Weave, server", "benchmarks.peers.weave_calls", "Weave", "weave", "weave", 8, "weave"),
    Contender(
        "Langfuse client, sink", "benchmarks.peers.langfuse_client", "Langfuse", "langfuse", "langfuse",
        place="sink",
    ),
)  # fmt: skip
