"""Ray Data reads the parts of a store as they are."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import ray.data
from deltalake import DeltaTable

import rolltrace
from tests.draining import drain

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}")  # of Ray Data, about itself
    for kind in ("DeprecationWarning", "FutureWarning", "ResourceWarning")
]


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt_ids: list[int]) -> dict[str, Any]:
    return {"token_ids": [4, 5, 6], "logprobs": [-0.5, -0.25, -0.125]}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("ray") / "store"
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off")
    for step in (1, 2):
        for n in range(3):
            with rolltrace.rollout_trace_attr(7, step=step, rollout_n=n) as trajectory:
                generate([1, 2, 3])
                trajectory.reward(step + n / 4)
    rolltrace.shutdown()
    drain(store, compacted=True)
    return store


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="ray") as sockets:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20, _temp_dir=sockets
        )
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.default_hash_shuffle_parallelism = 2  # not 200: there are two cores
        yield
        ray.shutdown()


def table(store: Path, name: str) -> ray.data.Dataset:
    return ray.data.read_parquet(DeltaTable(str(store / name)).file_uris(), partitioning=None)


def test_rewards_of_the_steps_are_those_of_the_store(store: Path) -> None:
    trajectories, scores = table(store, "trajectories"), table(store, "scores").select_columns(["step", "value"])
    assert trajectories.count() == 6
    means = {row["step"]: row["mean(value)"] for row in scores.groupby("step").mean("value").take_all()}
    with rolltrace.open(store) as opened:
        ours = opened.sql("select step, avg(reward) as mean from trajectories group by step").rows()
    assert means == {row["step"]: row["mean"] for row in ours}


def test_lists_of_tokens_come_whole(store: Path) -> None:
    rows = table(store, "tokens").select_columns(["op_id", "ids", "logprobs"]).take_all()
    with rolltrace.open(store) as opened:
        ours = opened.sql("select op_id, prompt_ids, response_ids, logprobs from spans").rows()
    assert {row["op_id"]: (list(row["ids"]), list(row["logprobs"])) for row in rows} == {
        row["op_id"]: ([*row["prompt_ids"], *row["response_ids"]], row["logprobs"]) for row in ours
    }
