"""Findings, the way people get them: traced for real, drained, and read from the store."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.drain import follower
from rolltrace.journal import journal_files
from rolltrace.query import open_store
from tests.draining import drain, rows
from tests.nightly import NIGHTLY

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
    """The same from the rows of the table alone, which is many times faster."""
    own = [row for row in rows(store, "flags") if row["trajectory_id"] == trajectory_id]
    found = [{**row, "detail": json.loads(row["detail"]) if row["detail"] else None} for row in own]
    return sorted(found, key=lambda row: row["time_ns"])


def drain_piecemeal(store: Path, trajectory_id: str) -> list[Finding]:
    """What is found if each record is drained by a drainer of its own."""

    class Killed(Exception):
        """Once a record is in the tables."""

    def stop(done: int, total: int) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(follower, "MAX_BATCH_BYTES", 1)
        while journal_files(store):
            drainer = follower.Follower(store)
            with drainer.working(), contextlib.suppress(Killed):
                drainer.drain(stop)
    return flags_of(store, trajectory_id)


@pytest.fixture
def find(tmp_path: Path) -> Find:
    """Traces a function as one trajectory and gives what was found in it: the same in one batch and in many."""

    def trace(function: Callable[[], object], read: Read = flags_of, **settings: Any) -> list[Finding]:
        store = tmp_path / "store"
        rolltrace.init("p", "e", "rolltrace", store=store, drain="off", **settings)
        with rolltrace.rollout_trace_attr(step=1, sample_index=1) as trajectory:
            function()
        rolltrace.shutdown()
        if NIGHTLY:
            shutil.copytree(store, tmp_path / "piecemeal")
        drain(store)
        found = read(store, trajectory.id)
        if NIGHTLY:
            piecemeal = drain_piecemeal(tmp_path / "piecemeal", trajectory.id)
            assert [(each["flag"], each["op_id"]) for each in piecemeal] == [
                (each["flag"], each["op_id"]) for each in flags_of(store, trajectory.id)
            ]
        return found

    return trace


def names(findings: list[Finding]) -> list[str]:
    return [finding["flag"] for finding in findings]
