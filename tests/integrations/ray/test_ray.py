"""Real Ray: decorated functions and actors travel to its workers, and the trajectory goes with them."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray import cloudpickle

import rolltrace
from rolltrace.journal import Entry, read_journals
from rolltrace.record import OpEnd, decode_coordinates, decode_value


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # Workers inherit the environment; this is all that they need to be traced.
    monkeypatch.setenv("ROLLTRACE_BACKEND", "rolltrace")
    monkeypatch.setenv("ROLLTRACE_STORE", str(tmp_path))
    monkeypatch.setenv("ROLLTRACE_STRICT", "1")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # This module is not on the workers' path, as a user's script is not.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with tempfile.TemporaryDirectory(prefix="ray") as sockets:  # tmp_path is too long for a socket's name
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20, _temp_dir=sockets
        )
        rolltrace.init("p", "e", "rolltrace", store=tmp_path)
        yield tmp_path
        ray.shutdown()
        rolltrace.shutdown()


def ops(store: Path) -> list[OpEnd]:
    records = [item.record for _, item in read_journals(store) if isinstance(item, Entry)]
    return sorted((each for each in records if isinstance(each, OpEnd)), key=lambda op: op.start_ns)


@rolltrace.rollout_trace_op(kind="tool")
def look_up(word: str, limit: int = 3) -> str:
    return word.upper()


class ToolServer:
    def __init__(self) -> None:
        self.calls = 0

    @rolltrace.rollout_trace_op(kind="tool")
    async def execute(self, context: str, word: str) -> str:
        self.calls += 1
        with rolltrace.use_context(context):
            return look_up(word)

    def process(self) -> int:
        return os.getpid()


def test_a_remote_function_is_traced_where_it_runs(store: Path) -> None:
    @ray.remote
    def remote(word: str) -> str:
        return look_up(word)  # pickled by value with its module's tests

    assert ray.get(remote.remote("hello")) == "HELLO"
    (op,) = ops(store)
    assert decode_value(op.inputs) == {"word": "hello", "limit": 3}


def test_a_trajectory_continues_in_an_actor(store: Path) -> None:
    server = ray.remote(ToolServer).remote()
    with rolltrace.rollout_trace_attr(step=4, sample_index="s", rollout_n=1) as trajectory:
        assert ray.get(server.execute.remote(rolltrace.current_context(), "word")) == "WORD"
    by_name = {op.name: op for op in ops(store)}
    inner = by_name["look_up"]
    assert inner.trajectory_id.hex() == trajectory.id
    where = decode_coordinates(inner.coordinates)
    assert (where.step, where.sample_index, where.rollout_n) == (4, "s", 1)


def test_an_actor_that_is_killed_loses_nothing(store: Path) -> None:
    server = ray.remote(ToolServer).remote()
    words = [f"word{n}" for n in range(50)]
    ray.get([server.execute.remote("", word) for word in words])
    process = ray.get(server.process.remote())
    os.kill(process, 9)
    assert sorted(decode_value(op.inputs)["word"] for op in ops(store) if op.name == "look_up") == sorted(words)
