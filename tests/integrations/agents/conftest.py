"""A service of models, and a store that what is traced goes to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.query import Op, Store, Trajectory
from tests.integrations.agents.service import Service, served

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPENAI_API_KEY="sk-none", ANTHROPIC_API_KEY="sk-none")


@pytest.fixture
def service() -> Iterator[Service]:
    with served() as service:
        yield service


class Traced:
    """What was recorded so far."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def store(self) -> Store:
        return rolltrace.open(self.path)

    def trajectories(self) -> list[Trajectory]:
        rows = self.store.trajectories().rows()
        return [self.store.trajectory(row["trajectory_id"]) for row in rows]

    def ops(self) -> list[Op]:
        """All ops, in the order they began."""
        return sorted((op for each in self.trajectories() for op in each.walk()), key=lambda op: op.start_ns)

    def op(self) -> Op:
        """The one op that there is."""
        (op,) = self.ops()
        return op

    def row(self, sql: str) -> Any:
        (row,) = self.store.sql(sql).rows()
        return row


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    """Tracing is on, and what was changed is taken back afterwards."""
    path = tmp_path / "store"
    rolltrace.init("agents", "test", store=path, drain="off", quiet=True)
    yield Traced(path)
    rolltrace.instruments.uninstrument()
    rolltrace.shutdown()
