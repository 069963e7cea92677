"""Stores written with rolltrace itself, and others that files are imported into."""

from __future__ import annotations

import asyncio
import io
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.exchange import EXPORTS, IMPORTS
from rolltrace.exchange.importer import BadLine, ImportReport, Target, import_files
from rolltrace.exchange.selection import select
from rolltrace.query import Store, open_store

HOSTILE = "<script>alert(1)</script> </pre></body> \"'& \x1b[31mred \u202e \x9b2J 北京 👩‍💻"
CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}
CHAT = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": HOSTILE},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "found"},
    {"role": "assistant", "content": "done"},
]


@rolltrace.rollout_trace_op(kind="llm")
def generate(messages: list[dict[str, Any]], reply: str) -> dict[str, Any]:
    ids = list(range(len(reply)))
    logprobs = [-0.1, math.nan, *[-0.25] * (len(reply) - 2)]
    return {"content": reply, "token_ids": ids, "logprobs": logprobs, "policy_version": 4, "finish_reason": "stop"}


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> dict[str, Any]:
    if query == "bad":
        raise ValueError("no such page")
    return {"hits": [query, HOSTILE], "numbers": [1.0, math.nan, math.inf], "raw": b"\x00", "big": 1 << 80}


@rolltrace.rollout_trace_op(kind="tool")
async def wait() -> None:
    await asyncio.sleep(0.001)


@rolltrace.rollout_trace_op
def agent(question: str, reply: str, query: str) -> str:
    asked = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": question}]
    generate(asked, reply)
    try:
        search(query)
    except ValueError:
        pass
    generate([*asked, {"role": "assistant", "content": reply}, {"role": "user", "content": "Sure?"}], reply + "!")
    return reply


def start(store: Path, experiment: str = "e") -> None:
    rolltrace.init("p", experiment, "rolltrace", store=store, drain="off")


def write_run(store: Path) -> None:
    """Two steps, two samples with two rollouts each, and what is odd."""
    start(store)
    for step in (1, 2):
        for sample in (7, "uuid-8"):
            for n in range(2):
                with rolltrace.rollout_trace_attr(sample, step=step, rollout_n=n, difficulty=HOSTILE) as trajectory:
                    agent("Where?", f"answer {n}", "bad" if n else "page")
                    trajectory.note(HOSTILE, at=n)
                    trajectory.transition({"prompt": "p"}, reward=math.inf if n else 0.5, episode_done=True)
                    # step 1: the second is better; step 2: sample 7 is a tie
                    trajectory.reward(0.5 if step == 2 and sample == 7 else float(n), terms={"format": 1.0})
    with rolltrace.rollout_trace_attr("outer", step=2, validate=True) as outer:
        with rolltrace.rollout_trace_attr("inner", step=2):
            search("inside")
        outer.reward(math.nan)
    try:
        with rolltrace.rollout_trace_attr(9, step=2):
            raise RuntimeError(HOSTILE)
    except RuntimeError:
        pass
    search("no trajectory around")
    rolltrace.shutdown()


@pytest.fixture
def run(tmp_path: Path, copied: Callable[..., Path]) -> Path:
    return copied(tmp_path / "store", write_run)


_readers: list[Store] = []


@pytest.fixture
def reader(tmp_path_factory: pytest.TempPathFactory, copied: Callable[..., Path]) -> Store:
    """What is in `run` at first, opened once for all tests that only ask."""
    if not _readers:
        _readers.append(open_store(copied(tmp_path_factory.mktemp("read") / "store", write_run)))
    return _readers[0]


_exported: dict[str, str] = {}


@pytest.fixture
def exported(reader: Store) -> str:
    """The same as lines of JSON."""
    if "jsonl" not in _exported:
        _exported["jsonl"] = export(reader)
    return _exported["jsonl"]


def export(store: Path | Store, name: str = "jsonl") -> str:
    out = io.StringIO()
    EXPORTS[name].write(select(store if isinstance(store, Store) else open_store(store)), out)
    return out.getvalue()


def write(path: Path, lines: Iterable[Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


class Importer:
    """Imports into one store, and remembers what was refused."""

    def __init__(self, store: Path) -> None:
        self.path = store
        self.bad: list[BadLine] = []
        self._opened: Store | None = None

    def __call__(self, name: str, *paths: Path, project: str | None = "p", **target: Any) -> ImportReport:
        self.bad.clear()
        where = Target(self.path, project, target.pop("experiment", project and "e"), **target)
        chosen = IMPORTS[name]
        return import_files(chosen.reader, paths, where, files_of=chosen.files, on_bad=self.bad.append)

    @property
    def store(self) -> Store:
        """What is there now."""
        if self._opened is None:
            self._opened = open_store(self.path)
        self._opened.refresh()
        return self._opened

    def count(self, table: str) -> int:
        found: int = self.store.sql(f"SELECT count(*) AS n FROM {table}").rows()[0]["n"]
        return found


@pytest.fixture
def into(tmp_path: Path) -> Importer:
    return Importer(tmp_path / "target")
