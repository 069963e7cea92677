"""Which trajectories a question is about: coordinates, runs, a filter and what pass means, as pieces of SQL.

An experiment that is started again, or goes on from a checkpoint, may have several attempts at one step. The older ones
are `superseded`: kept, counted, and left out of answers unless somebody asks for them. Training and validation are
looked at apart. Values become parameters, names are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace.errors import ConfigError, QueryError
from rolltrace.pass_rule import NOT_CHOSEN, PassMeaning, PassRule
from rolltrace.query.filters import compile_where
from rolltrace.query.views import chosen, with_rule
from rolltrace.record import SampleIndex, coordinate
from rolltrace.settings import nearest

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store


def conditions_of(of: str = "t", *, sample_index: SampleIndex | None = None, **wanted: Any) -> tuple[str, list[Any]]:
    conditions, values = ["true"], []
    if sample_index is not None:
        wanted["sample_index"] = str(coordinate(sample_index))
    for column, value in wanted.items():
        if value is not None:
            conditions.append(f"{of}.{column} = ?")
            values.append(whole(column, value) if column in ("step", "rollout_n") else value)
    return " AND ".join(conditions), values


def whole(name: str, value: Any) -> int:
    number = coordinate(value)
    if not isinstance(number, int) or (name in ("limit", "offset", "last") and number < 0):
        raise QueryError(f"{name} must be a whole number, not {value!r}")
    return number


def numbers_of_rollouts(k: int | Sequence[int] | None) -> list[int]:
    numbers = [] if k is None else list(k) if isinstance(k, Sequence) and not isinstance(k, str) else [k]
    if any(isinstance(each, bool) or not isinstance(each, int) or each < 1 for each in numbers):
        raise QueryError(f"k must be a number of rollouts, or several such as [1, 4, 8]; not {k!r:.60}")
    return list(dict.fromkeys(numbers))


def column_of(name: str, columns: Sequence[str], headers: Mapping[str, str], cannot: str) -> str:
    """The column of this name or header; `cannot` begins the message if there is none."""
    column = headers.get(name, name) if name not in columns else name
    if column not in columns:
        public = [each for each in columns if not each.startswith("_")]
        near = get_close_matches(column, [*public, *headers], 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(public)}"
        raise QueryError(f"{cannot} {name!r}; {hint}")
    return column


def sorted_by(text: str) -> list[tuple[str, bool]]:
    """The names in `-reward,step`, each with whether it is turned around."""
    words = [word.strip() for word in text.split(",")]
    return [(word.removeprefix("-").strip(), word.startswith("-")) for word in words]


def order_of(
    text: str, what: str, columns: Sequence[str], last: Sequence[str], headers: Mapping[str, str] = MappingProxyType({})
) -> str:
    terms = []
    for name, turned in sorted_by(text):
        column = column_of(name, columns, headers, f"{what} cannot be sorted by")
        direction = "DESC" if turned else "ASC"
        if column == "sample_index":  # numbers as numbers, and before other texts
            terms.append(f"try_cast(t.sample_index AS BIGINT) {direction} NULLS LAST")
        terms.append(f't."{column}" {direction} NULLS LAST')
    return ", ".join([*terms, *(f"t.{column}" for column in last)])


RUN_FIELDS = frozenset({"run", "superseded"})
"""A filter on one of these decides itself which runs it means."""


class RunChoice(NamedTuple):
    """A choice of runs, as a condition on trajectories or groups."""

    sql: str
    parameters: list[Any]
    hides: bool
    """Older attempts are left out."""


def choose_runs(of: str, run: str | None, all_runs: bool, filtered_by: Sequence[str] = ()) -> RunChoice:
    """The condition that a choice of runs stands for.

    Args:
        of: The alias of the table in the question.
        run: Only this one.
        all_runs: All of them.
        filtered_by: The fields that a filter asks about.
    """
    if run is not None and all_runs:
        raise QueryError(f"choose one: run={run!r} or all_runs=True")
    if run is not None:
        if not isinstance(run, str):
            raise QueryError(f"run must be the id of a run, a text; not {run!r:.60}")
        return RunChoice(f"{of}.run = ?", [run], hides=False)
    if all_runs or not RUN_FIELDS.isdisjoint(filtered_by):
        return RunChoice("true", [], hides=False)
    return RunChoice(f"NOT {of}.superseded", [], hides=True)


class OlderRuns(NamedTuple):
    """What an answer leaves out, because a newer run reached the same step."""

    trajectories: int
    runs: int

    def __str__(self) -> str:
        trajectories = "1 trajectory" if self.trajectories == 1 else f"{self.trajectories} trajectories"
        runs = "an older run" if self.runs == 1 else f"{self.runs} older runs"
        return f"{trajectories} of {runs} hidden"


NO_OLDER_RUNS = OlderRuns(0, 0)

_BINARY = """
SELECT project, experiment, count(reward) > 0 AND count(*) FILTER (reward <> 0 AND reward <> 1) = 0 AS is_binary
FROM _listing t WHERE {where} GROUP BY project, experiment ORDER BY min(start_ns), project, experiment
"""
_TERMS = """
SELECT DISTINCT unnest(map_keys(terms)) AS term FROM _listing t WHERE terms IS NOT NULL AND {where} ORDER BY term
"""


def resolve_rule(store: Store, term: Any, threshold: Any, **place: Any) -> PassRule | None:
    """The rule that a question brings; None if it brings none."""
    try:
        rule = PassRule.of(term, threshold)
    except ConfigError as error:
        raise QueryError(str(error)) from None
    if not rule.is_chosen:
        return None
    if rule.term is not None and (problem := _term_problem(store, rule.term, place)) is not None:
        raise QueryError(problem)
    return rule


def pass_meanings(
    store: Store, *, project: str | None = None, experiment: str | None = None, asked: PassRule | None = None
) -> list[PassMeaning]:
    """What pass means in each experiment, the oldest first; `asked` instead of what is stored."""
    where, values = conditions_of(project=project, experiment=experiment)
    rules = store._engine.pass_rules
    meanings = []
    for row in store._ask(_BINARY.format(where=where), values, plain=True):
        key = row["project"], row["experiment"]
        rule = asked or rules.get(key, NOT_CHOSEN)
        problem = None
        if asked is None and rule.term is not None:
            problem = _term_problem(store, rule.term, {"project": key[0], "experiment": key[1]})
        meanings.append(PassMeaning(*key, rule, bool(row["is_binary"]), problem))
    return meanings


def verdicts_of(
    store: Store, trajectory_ids: Sequence[str], *, term: str | None = None, threshold: float | None = None
) -> dict[str, bool | None]:
    """Which of these trajectories passed; None for one without a reward."""
    if not trajectory_ids:
        return {}
    pieces = with_rule(resolve_rule(store, term, threshold))
    once = f"WITH {', '.join(pieces)} " if pieces else ""
    ids = ", ".join("?" * len(trajectory_ids))
    rows = store._ask(f"{once}SELECT trajectory_id, passed FROM passes WHERE trajectory_id IN ({ids})", trajectory_ids)
    return {row["trajectory_id"]: row["passed"] for row in rows}


def _term_problem(store: Store, term: str, place: Mapping[str, Any]) -> str | None:
    """Why a term cannot be what pass means; None if it can, or if there is no reward with terms yet."""
    known = (term, *place.values())
    if known in store._known_terms:
        return None
    where, values = conditions_of(**place)
    names = [row["term"] for row in store._ask(_TERMS.format(where=where), values, plain=True)]
    if term in names:
        store._known_terms.add(known)
        return None
    of = " of " + " / ".join(str(name) for name in place.values() if name) if any(place.values()) else ""
    if not names:
        return f"no reward{of} has the term {term!r}: none has any terms; choose a threshold on the reward"
    near = nearest(term, names)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"no reward{of} has the term {term!r}; {hint}there are: {', '.join(names)}"


Row = dict[str, Any]
_OLDER = "SELECT count(*) AS n, count(DISTINCT coalesce(t.run, '')) AS runs FROM {rows}"


@dataclass(frozen=True)
class Scope:
    """Trajectories that meet all conditions; without any, all of the newest runs. As in `Store.trajectories`."""

    project: str | None = None
    experiment: str | None = None
    step: int | None = None
    sample_index: SampleIndex | None = None
    validate: bool | None = None
    run: str | None = None
    all_runs: bool = False
    where: str | None = None
    term: str | None = None
    """What pass means, with `threshold`, instead of what is stored with the experiments."""
    threshold: float | None = None

    rollout_n: int | None = None

    def conditions(self, of: str = "t") -> tuple[str, list[Any]]:
        """The coordinates as SQL about rows `of`, and its values."""
        return conditions_of(
            of, project=self.project, experiment=self.experiment, step=self.step, sample_index=self.sample_index,
            rollout_n=self.rollout_n, validate=self.validate,
        )  # fmt: skip

    def selected(self, also: str = "true") -> Selected:
        """As pieces of SQL; `also` is one more condition on a trajectory `t`."""
        conditions, values = self.conditions()
        predicate = compile_where(self.where)
        runs = choose_runs("t", self.run, self.all_runs, predicate.fields)
        before, rows = chosen(f"{conditions} AND {also} AND {runs.sql}", predicate.sql)
        if (rule := self.rule) is not None:
            before = with_rule(rule, before)
        step = None if self.step is None else whole("step", self.step)
        return Selected(before, rows, [*values, *runs.parameters, *predicate.parameters], step)

    @property
    def rule(self) -> PassRule | None:
        """The rule that `term` and `threshold` make; None if there are neither."""
        rule = PassRule.of(self.term, self.threshold)
        return rule if rule.is_chosen else None

    def passing(self, store: Store) -> list[PassMeaning]:
        """What pass means in these experiments."""
        place = {"project": self.project, "experiment": self.experiment}
        return pass_meanings(store, **place, asked=resolve_rule(store, self.term, self.threshold, **place))

    @property
    def hides_older_runs(self) -> bool:
        """Whether what a newer run has superseded is left out."""
        return choose_runs("t", self.run, self.all_runs, compile_where(self.where).fields).hides

    def older_runs(self, store: Store) -> OlderRuns:
        """What is left out because a newer run reached the same step."""
        if not self.hides_older_runs:
            return NO_OLDER_RUNS
        (row,) = replace(self, all_runs=True).selected("t.superseded").ask(store, _OLDER)
        return OlderRuns(row["n"], row["runs"])


class Selected(NamedTuple):
    """The trajectories of a scope: `SELECT ... FROM {rows}`, in which they are called `t`."""

    before: list[str]
    rows: str
    parameters: list[Any]
    step: int | None

    def complete(self, sql: str, *more: Any, before: tuple[str, ...] = ()) -> tuple[str, list[Any]]:
        """A statement and its parameters.

        `{rows}` in it stands for the trajectories, once. A question that needs them several times reads the table
        `selected` instead. `more` are the values of its own `?`, `before` further pieces of its WITH.
        """
        once = [*self.before]
        if "{rows}" not in sql:
            once.append(f"selected AS MATERIALIZED (SELECT t.* FROM {self.rows})")
        once += before
        clause = f"WITH {', '.join(once)} " if once else ""
        return clause + sql.replace("{rows}", self.rows), [*self.parameters, *more]

    def ask(self, store: Store, sql: str, *more: Any, before: tuple[str, ...] = ()) -> list[Row]:
        """The rows of a question; the arguments are those of `complete`."""
        return store._ask(*self.complete(sql, *more, before=before), self.step, plain=True).rows()
