"""What TRL says of a run, and what the store says of it, in the same form."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from rolltrace.query import Store, Trajectory, open_store

from . import tiny

TOKENIZER = tiny.make_tokenizer()
_OTHERS = frozenset({"step", "prompt", "completion", "advantage", "golden", "chars"})


class Line(NamedTuple):
    """A rollout."""

    prompt: str
    completion: str
    rewards: tuple[tuple[str, float | None], ...]
    """Raw, by function; None where it had nothing to say."""
    advantage: float
    rollout_n: int


class Ran:
    """A run that is over."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.folder = folder / mode
        self.store: Store = open_store(folder / "store")
        rows = self.store.trajectories(experiment=mode, limit=None)
        self.all: list[Trajectory] = [self.store.trajectory(row["trajectory_id"]) for row in rows]
        self.history: list[dict[str, Any]] = json.loads((self.folder / "history.json").read_text())

    @property
    def training(self) -> list[Trajectory]:
        return [each for each in self.all if not each.validate]

    @property
    def validation(self) -> list[Trajectory]:
        return [each for each in self.all if each.validate]

    def of_step(self, step: int, *, validate: bool = False) -> list[Trajectory]:
        return [each for each in self.all if each.step == step and each.validate == validate]

    def logged(self, kind: str) -> dict[int, pd.DataFrame]:
        """TRL's table of completions at each step."""
        tables = sorted(self.folder.glob(f"log-*-{kind}-*.parquet"))
        return {int(path.stem.rpartition("-")[2]): pd.read_parquet(path) for path in tables}

    def metrics(self, step: int, name: str) -> float:
        return float(next(line[name] for line in self.history if line["step"] == step and name in line))

    def losses(self) -> list[tuple[int, tuple[int, ...]]]:
        """Step and completion of every row that a loss was computed of."""
        lines = [line for path in self.folder.glob("losses-*.jsonl") for line in path.read_text().splitlines()]
        return [(line["step"], tuple(line["ids"])) for line in map(json.loads, lines)]


def told_by_trl(table: pd.DataFrame, group: int) -> Counter[Line]:
    names = [name for name in table.columns if name not in _OTHERS]
    return Counter(
        Line(
            _text(row["prompt"]),
            _text(row["completion"]),
            tuple((name, _number(row[name])) for name in sorted(names)),
            row["advantage"],
            at % group,
        )
        for at, row in enumerate(table.to_dict("records"))
    )


def told_by_store(trajectories: list[Trajectory], table: pd.DataFrame) -> Counter[Line]:
    """In the form of TRL's table: before 1.14 it has the text of tokens where there are messages now."""
    said = _decoded if isinstance(table["prompt"].iloc[0], str) else _prompt_and_completion
    return Counter(Line(*said(each), _terms(each), each.advantage or 0.0, each.rollout_n or 0) for each in trajectories)


def _terms(trajectory: Trajectory) -> tuple[tuple[str, float | None], ...]:
    terms = next(score.terms for score in trajectory.scores if score.name == "reward")
    return tuple(sorted((name, _number(value)) for name, value in (terms or {}).items()))


def _prompt_and_completion(trajectory: Trajectory) -> tuple[str, str]:
    """From what is recorded of the model's turns and the tools' results between them."""
    turns = [op for op in trajectory.walk() if op.kind == "llm"]
    inputs, outputs = turns[0].inputs, turns[-1].outputs
    if "prompt" in inputs:
        return inputs["prompt"], outputs["text"]
    prompt = inputs["messages"]
    last = [outputs["message"]] if "message" in outputs else []
    return _text(prompt), _text(turns[-1].inputs["messages"][len(prompt) :] + last)


def _decoded(trajectory: Trajectory) -> tuple[str, str]:
    first, last = trajectory.tokens[0], trajectory.tokens[-1]
    ids = [*last.prompt_ids[len(first.prompt_ids) :], *last.response_ids]
    return (
        TOKENIZER.decode(first.prompt_ids, skip_special_tokens=True),
        TOKENIZER.decode(ids, skip_special_tokens=True),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    """Without the empty fields that a column of a table has for what other rows have, which makes numbers floats."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        items = {name: _plain(item) for name, item in value.items()}
        return {name: item for name, item in items.items() if item is not None}
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)
