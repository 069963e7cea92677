"""How a number goes over the training steps: one curve per experiment, training and validation apart."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace.errors import QueryError
from rolltrace.pass_rule import PassMeaning, PassRule
from rolltrace.query.columns import TRAJECTORY_HEADERS
from rolltrace.query.nothing import unknown_name
from rolltrace.query.passes import pass_meanings, resolve_rule, with_rule
from rolltrace.query.runs import OlderRuns

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store
    from rolltrace.query.result import Result

_Key = tuple[str, str, str | None, bool]
"""Project, experiment, run and validate: what makes a curve."""
_Number = tuple[_Key, int | None, float | None]
"""A value, and the curve and the step that it belongs to."""
_COLUMNS = (
    "reward", "advantage", "turns", "tool_calls", "tool_errors", "prompt_tokens", "response_tokens", "duration_s",
    "staleness", "policy_version_min", "policy_version_max",
)  # fmt: skip
"""The columns of trajectories of which a mean says something."""
_HEADERS = {header: name for header, name in TRAJECTORY_HEADERS.items() if name in _COLUMNS}
_KEYED = ("flag.", "term.", "score.")
TERMS = "terms"
"""Stands for all terms of the reward."""
VALUES = ("reward", "pass", "flat", "tokens", "prompt_tokens", "turns", "tools", "took", "errors", "flags")
"""What most people look at; `flag.NAME`, `term.NAME`, `score.NAME` and further columns are understood too."""


class Point(NamedTuple):
    """The value in one step."""

    step: int
    mean: float
    std: float
    n: int
    """How many trajectories, or of `flat` groups, have the value."""


class Curve(NamedTuple):
    """One value of one experiment over its steps."""

    value: str
    project: str
    experiment: str
    run: str | None
    """Which run, where all were asked for; else None, because each step has its own newest run."""
    validate: bool
    points: list[Point]


class Curves(NamedTuple):
    """The answer of `curves_of`."""

    curves: list[Curve]
    without_step: int
    """Trajectories that belong to no step, and therefore to no curve."""
    older_runs: OlderRuns
    passing: list[PassMeaning]
    """What `pass` means in these experiments, if it is among the values."""


def curves_of(
    store: Store, values: Sequence[str], *, term: str | None = None, threshold: float | None = None, **conditions: Any
) -> Curves:
    """The mean of each value in each step.

    Args:
        store: The store.
        values: Some of `VALUES`, `flag.NAME`, `term.NAME`, `score.NAME`, other columns with numbers, or `terms`.
            `pass` is the share of rollouts with a reward that passed, `flat` the share of groups in which all rewards
            are the same, `errors` and `flags` the share of trajectories with any.
        term, threshold: What pass means, as in `Store.groups`.
        **conditions: Those of `Store.trajectories`.

    Raises:
        QueryError: there is no such value.
        FilterError: the filter cannot be understood.
    """
    for value in values:
        _check(store, value)
    answer = store.trajectories(**conditions)
    place = {name: conditions.get(name) for name in ("project", "experiment")}
    rule = resolve_rule(store, term, threshold, **place)
    reading = _Reading(store, answer, rule, conditions)
    curves: list[Curve] = []
    for value in reading.named(values):
        points: dict[_Key, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for key, step, number in reading.flat_groups() if value == "flat" else reading.numbers(value):
            if step is not None and number is not None and math.isfinite(number):
                points[key][step].append(number)
        curves += [
            Curve(value, *key, [_point(step, numbers) for step, numbers in sorted(points[key].items())])
            for key in reading.keys
            if key in points
        ]
    passing = pass_meanings(store, **place, asked=rule) if "pass" in values else []
    drawn = {(curve.project, curve.experiment) for curve in curves}
    meant = [meaning for meaning in passing if (meaning.project, meaning.experiment) in drawn]
    return Curves(curves, reading.without_step, answer.older_runs, meant)


def _check(store: Store, value: str) -> None:
    if value in (*VALUES, *_COLUMNS, *_HEADERS, TERMS):
        return
    if value.startswith(_KEYED) and not value.endswith("."):
        if problem := unknown_name(store._ask, value):
            raise QueryError(f"cannot plot {value}: {problem}")
        return
    raise QueryError(
        f"there is no value {value!r} to plot; there are: {', '.join(VALUES)}, {TERMS}, term.NAME, score.NAME, "
        f"flag.NAME, {', '.join(name for name in _COLUMNS if name not in (*VALUES, *_HEADERS.values()))}"
    )


def _point(step: int, numbers: list[float]) -> Point:
    mean = math.fsum(numbers) / len(numbers)
    spread = math.sqrt(math.fsum((number - mean) ** 2 for number in numbers) / len(numbers))
    return Point(step, mean, spread, len(numbers))


class _Reading:
    """The values of trajectories, each with the curve and the step it belongs to."""

    def __init__(self, store: Store, answer: Result, rule: PassRule | None, conditions: Mapping[str, Any]) -> None:
        self._store, self._table, self._rule, self._conditions = store, answer.arrow(), rule, conditions
        places = zip(*(self._column(name) for name in ("project", "experiment", "run", "validate")))
        self._keys = [self._key(*place) for place in places]
        self._steps = self._column("step")
        self._all_terms: dict[str, Mapping[str, Any]] | None = None
        self.keys = list(dict.fromkeys(self._keys))
        """In the order of listings: the newest experiment last."""
        self.without_step = self._steps.count(None)

    def _key(self, project: str, experiment: str, run: str | None, validate: bool) -> _Key:
        return project, experiment, run if self._conditions.get("all_runs") else None, validate

    def named(self, values: Sequence[str]) -> list[str]:
        """The values, `terms` replaced by each term that occurs."""
        names: list[str] = []
        for value in values:
            if value == TERMS:
                terms = {name for terms in self._terms().values() for name in terms}
                names += [f"term.{name}" for name in sorted(terms)]
            else:
                names.append(value)
        return list(dict.fromkeys(names))

    def numbers(self, value: str) -> Iterable[_Number]:
        """The value of each trajectory."""
        return zip(self._keys, self._steps, self._numbers(value))

    def flat_groups(self) -> Iterable[_Number]:
        """1 for each group in which all rewards are the same, 0 for the others with two rewards or more."""
        conditions = {name: value for name, value in self._conditions.items() if name != "rollout_n"}
        for row in self._store.groups(**conditions):
            if row["scored"] > 1:
                key = self._key(row["project"], row["experiment"], row["run"], row["validate"])
                yield key, row["step"], float(row["zero_variance"])

    def _numbers(self, value: str) -> Sequence[float | None]:
        kind, _, name = value.partition(".")
        if kind == "term":
            terms = self._terms()
            return [_number(terms.get(each, {}).get(name)) for each in self._column("trajectory_id")]
        if kind == "score":
            rows = self._store.sql("SELECT trajectory_id, value FROM latest_scores WHERE name = ?", [name])
            scores = {row["trajectory_id"]: row["value"] for row in rows}
            return [scores.get(each) for each in self._column("trajectory_id")]
        if kind == "flag":
            return [float(name in (flags or ())) for flags in self._column("flags")]
        if value == "flags":
            return [float(bool(flags)) for flags in self._column("flags")]
        if value == "errors":
            return [float(status == "error") for status in self._column("status")]
        if value == "pass":
            once = "" if self._rule is None else f"WITH {', '.join(with_rule(self._rule))} "
            rows = self._store._ask(f"{once}SELECT trajectory_id, passed::DOUBLE AS passed FROM passes")
            verdicts = {row["trajectory_id"]: row["passed"] for row in rows}
            return [verdicts.get(each) for each in self._column("trajectory_id")]
        return self._column(_HEADERS.get(value, value))

    def _column(self, name: str) -> list[Any]:
        column: list[Any] = self._table[name].to_pylist()
        return column

    def _terms(self) -> dict[str, Mapping[str, Any]]:
        """The terms of the newest reward of each trajectory."""
        if self._all_terms is None:
            wanted = set(self._column("trajectory_id"))
            rows = self._store._ask("SELECT trajectory_id, terms FROM _listing WHERE terms IS NOT NULL")
            self._all_terms = {
                row["trajectory_id"]: dict(row["terms"]) for row in rows if row["trajectory_id"] in wanted
            }
        return self._all_terms


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
