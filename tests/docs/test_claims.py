"""What the docs say of values, views and other engines, tried out."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

import rolltrace
from rolltrace.capture import scope
from rolltrace.query.views import VIEWS
from tests.docs.pages import ROOT
from tests.draining import drain


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_init_turns_tracing_on_unless_the_backend_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 'unless the backend is `"off"`: there, in the config or in `ROLLTRACE_BACKEND`' in page("howto/trace.md")
    monkeypatch.delenv("ROLLTRACE_BACKEND", raising=False)
    rolltrace.init("p", "e", store=tmp_path, drain="off")
    assert scope.recorder is not None
    rolltrace.shutdown()
    rolltrace.init("p", "e", "off", store=tmp_path)
    assert scope.recorder is None
    rolltrace.shutdown()
    monkeypatch.setenv("ROLLTRACE_BACKEND", "off")
    rolltrace.init("p", "e", store=tmp_path)
    assert scope.recorder is None


@dataclasses.dataclass
class Task:
    question: str
    limits: tuple[int, ...]


class Level(enum.Enum):
    HARD = "hard"


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("text", "text"), (1 << 80, 1 << 80), (float("inf"), float("inf")), (None, None), ([1, "a"], [1, "a"]),
        ((1, 2), [1, 2]), ({3}, [3]), ({1: "a"}, {"1": "a"}), (Task("?", (1,)), {"question": "?", "limits": [1]}),
        (Point(1, 2), {"x": 1, "y": 2}), (Level.HARD, "hard"), (datetime.date(2026, 1, 2), "2026-01-02"),
        (Path("/a/b"), "/a/b"), (np.float64(0.5), 0.5), (b"\x00\xff", {"$bytes": "AP8="}),
        (1 + 2j, {"$complex": [1.0, 2.0]}),
        (
            np.array([1.5, 2.5], dtype=np.float32),
            {"$array": {"dtype": "<f4", "shape": [2], "values": [1.5, 2.5]}},
        ),
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_values_come_back_as_the_page_says(given: Any, read: Any, tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")

    @rolltrace.rollout_trace_op
    def op(value: Any) -> Any:
        return value

    with rolltrace.rollout_trace_attr(0, step=1) as trajectory:
        op(given)
    rolltrace.shutdown()
    (recorded,) = rolltrace.open(tmp_path).trajectory(trajectory.id).ops
    assert recorded.inputs == {"value": read}
    for marker in ("$bytes", "$complex", "$array"):
        if isinstance(read, dict) and marker in read:
            assert f'`{{"{marker}": ' in page("howto/trace.md")


def test_logprobs_come_back_rounded_to_32_bits(tmp_path: Path) -> None:
    assert "rounded to 32 bits" in page("howto/trace.md")
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")

    @rolltrace.rollout_trace_op(kind="llm")
    def generate() -> dict[str, Any]:
        return {"token_ids": [1], "logprobs": [-0.1]}

    with rolltrace.rollout_trace_attr(0, step=1) as trajectory:
        generate()
    rolltrace.shutdown()
    assert rolltrace.open(tmp_path).trajectory(trajectory.id).tokens[0].logprobs == [float(np.float32(-0.1))]


def test_only_scores_and_labels_write(tmp_path: Path) -> None:
    assert "Only `store.score` and `store.label` write" in page("howto/query.md")
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    with rolltrace.rollout_trace_attr(0, step=1, rollout_n=0) as trajectory:
        pass
    rolltrace.shutdown()

    def files() -> dict[str, int]:
        there = (Path(folder) / name for folder, _, names in os.walk(tmp_path) for name in names)
        return {str(file): file.stat().st_mtime_ns for file in there}

    drain(tmp_path)
    before = files()
    with rolltrace.open(tmp_path) as store:
        for ask in (store.experiments, store.runs, store.steps, store.trajectories, store.groups, store.labels):
            ask()
        for ask in (store.live, store.losses, store.unmatched_scores, store.damaged, store.stored, store.refresh):
            ask()
        store.history(0), store.group(1, 0), store.trajectory(trajectory.id), store.sql("from spans")
        assert files() == before
        store.score(trajectory.id, "reward", 1)
        scored = files()
        assert scored != before
        store.label(trajectory.id, "good", author="me")
        assert files() != scored


def test_every_view_is_documented() -> None:
    rows = "\n".join(re.findall(r"^\| .* \|$", page("howto/query.md"), re.MULTILINE))
    assert [view for view in VIEWS if f"`{view}`" not in rows] == []


def test_the_columns_of_labels_are_those_that_the_page_names(tmp_path: Path) -> None:
    (row,) = re.findall(r"^\| `labels` \| (.*) \|$", page("howto/query.md"), re.MULTILINE)
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    rolltrace.shutdown()
    named = re.findall(r"`(\w+)`", row)
    assert len(named) == 7
    assert set(named) <= set(rolltrace.open(tmp_path).sql("from labels").columns)


def test_polars_counts_the_rows_of_a_store_as_the_page_reads_them(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for step in (1, 2, None):
        with rolltrace.rollout_trace_attr("sample", step=step):
            pass
    rolltrace.shutdown()
    drain(tmp_path, compacted=True)
    (documented,) = re.findall(r'`(pl\.\w+\("s3://bucket/prefix/trajectories"\))`', page("howto/engines.md"))
    frame = eval(documented.replace("s3://bucket/prefix", str(tmp_path)), {"pl": pl})
    assert frame.select(pl.len()).collect().item() == 3
    assert frame.select("step").collect()["step"].sort().to_list() == [None, 1, 2]
