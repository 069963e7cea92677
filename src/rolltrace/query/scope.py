"""Which trajectories a question is about: coordinates, runs and a filter, as one value that every question takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace.pass_rule import PassMeaning, PassRule
from rolltrace.query.arguments import conditions_of, whole
from rolltrace.query.filters import compile_where
from rolltrace.query.passes import pass_meanings, resolve_rule, with_rule
from rolltrace.query.runs import NO_OLDER_RUNS, OlderRuns, choose_runs
from rolltrace.query.views import chosen
from rolltrace.record import SampleIndex

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

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

    def selected(self, also: str = "true") -> Selected:
        """As pieces of SQL; `also` is one more condition on a trajectory `t`.

        Raises:
            FilterError: the filter cannot be understood.
        """
        conditions, values = conditions_of(
            project=self.project, experiment=self.experiment, step=self.step, sample_index=self.sample_index,
            rollout_n=self.rollout_n, validate=self.validate,
        )  # fmt: skip
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
        """What pass means in these experiments.

        Raises:
            QueryError: no reward of these has the term.
        """
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
