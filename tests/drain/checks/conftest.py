"""Findings, the way people get them: traced for real, read from the journal, drained, and read from the store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.query import open_store
from rolltrace.query.live import LiveJournals
from tests.draining import drain, rows

Finding = dict[str, Any]
Find = Callable[..., list[Finding]]
Read = Callable[[Path, str], list[Finding]]


@rolltrace.rollout_trace_op(kind="llm", inputs=["-output"])
def generate(prompt_ids: list[int] | None = None, *, output: Any = None, **given: Any) -> Any:
    """A model call that gives back what it is told to."""
    return output


@rolltrace.rollout_trace_op(kind="tool", inputs=["-output"])
def tool(output: Any = None, **given: Any) -> Any:
    if isinstance(output, Exception):
        raise output
    return output


def turn(prompt: list[int], response: list[int], **more: Any) -> None:
    """A model call with the token ids of both."""
    generate(prompt, output={"token_ids": response, **more})


def findings_of(store: Path, trajectory_id: str) -> list[Finding]:
    """What was found in one trajectory, as a person asks for it."""
    return open_store(store).trajectory(trajectory_id).findings


def flags_of(store: Path, trajectory_id: str) -> list[Finding]:
    """The same from the parts of the table alone, which is many times faster."""
    own = [row for row in rows(store, "flags") if row["trajectory_id"] == trajectory_id]
    found = [{**row, "detail": json.loads(row["detail"]) if row["detail"] else None} for row in own]
    return sorted(found, key=lambda row: row["time_ns"])


@pytest.fixture
def find(tmp_path: Path) -> Find:
    """Traces a function as one trajectory and gives what was found in it: the same before and after draining."""

    def trace(function: Callable[[], object], read: Read = flags_of, **settings: Any) -> list[Finding]:
        store = tmp_path / "store"
        rolltrace.init("p", "e", "rolltrace", store=store, drain="off", **settings)
        with rolltrace.rollout_trace_attr(step=1, sample_index=1) as trajectory:
            function()
        rolltrace.shutdown()
        journals = LiveJournals(store)
        journals.refresh()
        chunks = journals.tables(frozenset())["flags"].values()
        live = [row for of_step in chunks for chunk in of_step for row in chunk.to_pylist()]
        drain(store)
        found = read(store, trajectory.id)
        assert sorted((each["flag"], each["op_id"]) for each in live) == sorted(
            (each["flag"], each["op_id"]) for each in found
        )
        return found

    return trace


def names(findings: list[Finding]) -> list[str]:
    return [finding["flag"] for finding in findings]
