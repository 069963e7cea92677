"""`open_store`: ask a store. The one API for notebooks, the command line and the viewer."""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from rolltrace.capture import TrajectoryHandle
from rolltrace.errors import ConfigError, NotFoundError, QueryError
from rolltrace.journal import check_store
from rolltrace.query.arguments import conditions_of, numbers_of_rollouts, order_of, whole
from rolltrace.query.columns import GROUP_FILTER_HEADERS, GROUP_HEADERS, TRAJECTORY_COLUMNS, TRAJECTORY_HEADERS
from rolltrace.query.compare import Comparison, compare
from rolltrace.query.engine import Engine, Stored
from rolltrace.query.filters import Predicate, compile_where
from rolltrace.query.group_records import records_where
from rolltrace.query.group_views import GROUP_COLUMNS, GROUP_KEY, SAME_GROUP, groups_select, pass_columns
from rolltrace.query.incomplete import Incomplete, Teller
from rolltrace.query.nothing import Asked, explain
from rolltrace.query.pages import (
    DEFAULT_ORDER,
    LAST_ORDER,
    Page,
    Wanted,
    count_question,
    cut_steps,
    listing_question,
    steps_question,
)
from rolltrace.query.questions import EXPERIMENTS, LIVE, LOSSES, RUNS, STEPS, UNMATCHED_SCORES
from rolltrace.query.reading import read_whole, summaries
from rolltrace.query.result import IS_INT, Result
from rolltrace.query.runs import OlderRuns, RunChoice, choose_runs
from rolltrace.query.scoring import addressee_of, addressee_of_row, newest_score_ns, write_score
from rolltrace.query.trajectory import Trajectory
from rolltrace.query.views import NEWEST, VIEWS, chosen
from rolltrace.record import SampleIndex, score_body
from rolltrace.store import Partition, check_version

_SHORTEST_PREFIX = 4
_PRAGMA = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*pragma\b", re.IGNORECASE | re.DOTALL)
_GROUP_ORDER = "project,experiment,step,validate,sample_index"


def open_store(path: str | os.PathLike[str], *, memory_limit: str | None = None) -> Store:
    """A store to ask: `open_store("~/.rolltrace").trajectories(step=3, where="reward < 0.5")`.

    Args:
        path: The folder.
        memory_limit: How much memory a question may take, such as `2GB`; four fifths of the machine's if not given.

    Raises:
        StoreError: there is no store in this folder.
        FormatError: it was written by a newer rolltrace.
    """
    folder = Path(os.path.abspath(os.path.expanduser(os.fspath(path))))
    check_store(folder, may_be_empty=True)  # a run may be about to begin
    check_version(folder)
    return Store(folder, memory_limit=memory_limit)


class Store:
    """Answers questions about a store. What it says is never more than two seconds old, live journals included, unless
    more waits in these than can be read in a second: see `unread_bytes`."""

    def __init__(self, path: Path, *, memory_limit: str | None = None) -> None:
        self.path = path
        self._engine = Engine(path, memory_limit=memory_limit)
        self._teller = Teller(path)

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def _repr_html_(self) -> str:
        from rolltrace.query.notebook import store_html

        return store_html(self)

    def close(self) -> None:
        """Give back memory and open files. A question after that opens them again."""
        self._engine.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def experiments(self) -> Result:
        """One row per experiment: how many trajectories and steps, from when to when.

        `trajectories` counts those of the newest run that reached each step, `superseded` the others.
        """
        return self._ask(EXPERIMENTS)

    def runs(self, *, experiment: str | None = None, project: str | None = None) -> Result:
        """One row per run of each experiment, the oldest first: how many trajectories and steps, from when to when.

        `superseded` is how many of its trajectories are left out elsewhere, because a newer run reached the same step.
        """
        where, values = conditions_of(experiment=experiment, project=project)
        return self._explained(
            self._ask(RUNS.format(where=where), values), "runs", {"experiment": experiment, "project": project}
        )

    def steps(
        self,
        *,
        experiment: str | None = None,
        project: str | None = None,
        run: str | None = None,
        all_runs: bool = False,
    ) -> Result:
        """One row per step of each experiment, training and validation apart: counts and rewards.

        `pass_rate` is the share of rewards above 0, `zero_variance_share` that of the groups with two rewards or more
        in which all are the same: those teach GRPO nothing. Of each step the newest run counts, unless `run` names one;
        with `all_runs`, each run of a step has a row.
        """
        where, values = conditions_of(experiment=experiment, project=project)
        runs = choose_runs("t", run, all_runs)
        found = self._ask(STEPS.format(where=f"{where} AND {runs.sql}"), values + runs.parameters)
        asked = {"experiment": experiment, "project": project, "run": run}
        older = f"(SELECT *, unnest(range(trajectories)) FROM _steps) t WHERE {where}"
        return self._explained(self._with_older_runs(found, runs, older, values), "steps", asked)

    def trajectories(
        self,
        *,
        step: int | None = None,
        sample_index: SampleIndex | None = None,
        rollout_n: int | None = None,
        validate: bool | None = None,
        experiment: str | None = None,
        project: str | None = None,
        run: str | None = None,
        all_runs: bool = False,
        where: str | None = None,
        order: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        last: int | None = None,
    ) -> Result:
        """One row per trajectory that meets all conditions, by default the newest experiment and step last.

        Args:
            step: Training step.
            sample_index: Which dataset sample; 3 and "3" are the same.
            rollout_n: Which rollout of the sample.
            validate: True for validation only, False for training only.
            experiment: Name of the experiment.
            project: Name of the project.
            run: Only this run; `runs()` lists them.
            all_runs: Not only the newest run that reached each step, but older attempts too.
            where: A filter such as `reward < 0.5 and tool = 'search'` (docs/reference/filter.md).
            order: Columns to sort by, the first counts most; `-` before one turns it around: `"-reward,step"`.
            limit: How many rows at most.
            offset: How many rows to leave out before; with `last`, how many of the newest.
            last: Only so many of the newest, those that are last in the default order; `order` then sorts them.

        Raises:
            FilterError: the filter cannot be understood.
            QueryError: there is no such column to sort by.
        """
        conditions, values = conditions_of(
            step=step, sample_index=sample_index, rollout_n=rollout_n, validate=validate, experiment=experiment,
            project=project,
        )  # fmt: skip
        predicate = compile_where(where)
        runs = choose_runs("t", run, all_runs, predicate.fields)
        limit, last = (None if each is None else whole(name, each) for name, each in (("limit", limit), ("last", last)))
        offset = whole("offset", offset or 0)
        ordered = order_of(
            order or DEFAULT_ORDER, "trajectories", (*TRAJECTORY_COLUMNS, NEWEST), LAST_ORDER, TRAJECTORY_HEADERS
        )
        only = None if step is None else whole("step", step)
        wanted = Wanted(conditions, values, runs, predicate, only)
        is_plain = where is None and sample_index is None and rollout_n is None
        page = Page(ordered, limit, offset, last)
        if is_plain and order is None and (limit is not None or last is not None):
            answer = self._ask_page(wanted, page)
        else:
            answer = self._ask(*listing_question(wanted, page), only)
        answer._has_tags = True
        answer._count = lambda: self._count(wanted, is_plain=is_plain)
        before, found = chosen(conditions, predicate.sql)
        if is_plain:
            before, found = [], f"(SELECT *, unnest(range(trajectories)) FROM _steps) t WHERE {conditions}"
        answer = self._with_older_runs(answer, runs, found, values + predicate.parameters, before, only)
        asked = {
            "project": project, "experiment": experiment, "step": step, "sample_index": sample_index,
            "rollout_n": rollout_n, "validate": validate, "run": run,
        }  # fmt: skip
        return self._paged(self._explained(answer, "trajectories", asked, predicate), limit, offset)

    def _ask_page(self, wanted: Wanted, page: Page) -> Result:
        """Some rows in the usual order, from the steps that have them; the others are only counted."""
        steps = self._ask(*steps_question(wanted), wanted.step).rows()
        cut = cut_steps(steps, page)
        scope = self.scope_of(cut.steps)
        if scope is None:
            return self._ask(*listing_question(wanted, page), wanted.step)
        return self._ask(*listing_question(wanted, cut.page, cut.newest), scope)

    def _count(self, wanted: Wanted, *, is_plain: bool) -> int:
        sql, values = count_question(wanted, is_plain=is_plain)
        (row,) = self._ask(sql, values, wanted.step).rows()
        return int(row["n"] or 0)

    def trajectory(self, trajectory_id: str) -> Trajectory:
        """One trajectory with its ops, conversation, tokens, scores; the first letters of its id are enough.

        The id of a group record (`group_records`) gives that.

        Raises:
            QueryError: no trajectory has this id, or several begin with it.
        """
        try:
            full_id, step = self._find(trajectory_id)
        except NotFoundError:
            record = self._group_record(trajectory_id)
            if record is None:
                raise
            return record
        found = next(read_whole(self, summaries(self, [full_id], step), step), None)
        if found is None:  # pruned since we found it
            raise NotFoundError(f"there is no trajectory {full_id} any more")
        return found.trajectory

    def group(
        self,
        step: int,
        sample_index: SampleIndex,
        *,
        experiment: str | None = None,
        project: str | None = None,
        validate: bool | None = None,
        run: str | None = None,
        all_runs: bool = False,
    ) -> Result:
        """All rollouts of one sample in one step."""
        return self.trajectories(
            step=step, sample_index=sample_index, experiment=experiment, project=project, validate=validate, run=run,
            all_runs=all_runs, order="rollout_n,start_ns",
        )  # fmt: skip

    def group_records(
        self,
        step: int,
        sample_index: SampleIndex,
        *,
        experiment: str | None = None,
        project: str | None = None,
        validate: bool | None = None,
        run: str | None = None,
        all_runs: bool = False,
    ) -> list[Trajectory]:
        """What was recorded for all rollouts of one sample in one step together (`rollout_trace_group`), oldest first.

        Each reads as a trajectory does, with ops, notes and tags; it is no rollout, and no other answer counts it.
        """
        conditions, values = conditions_of(
            step=step, sample_index=sample_index, experiment=experiment, project=project, validate=validate, run=run
        )
        found = records_where(self, conditions, values, whole("step", step))
        if run is not None or all_runs:
            return found
        rollouts = self.group(step, sample_index, experiment=experiment, project=project, validate=validate).rows()
        shown = {(row["project"], row["experiment"], row["validate"], row["run"]) for row in rollouts}
        of_these = [each for each in found if (each.project, each.experiment, each.validate, each.run) in shown]
        return of_these if shown else found

    def _group_record(self, prefix: str) -> Trajectory | None:
        """The group record whose id begins so, if there is one."""
        wanted = prefix.strip().lower()
        bounds = [wanted.ljust(32, "0"), wanted.ljust(32, "f")]
        found = records_where(self, "trajectory_id BETWEEN ? AND ?", bounds, None)
        return found[0] if len(found) == 1 else None

    def groups(
        self,
        *,
        step: int | None = None,
        sample_index: SampleIndex | None = None,
        experiment: str | None = None,
        project: str | None = None,
        validate: bool | None = None,
        run: str | None = None,
        all_runs: bool = False,
        where: str | None = None,
        order: str | None = None,
        limit: int | None = None,
        threshold: float = 0.0,
        k: int | Sequence[int] | None = None,
    ) -> Result:
        """One row per group, all rollouts of one sample in one step: rewards, lengths, flags.

        Args:
            step, sample_index, experiment, project, validate, run, all_runs: As in `trajectories`.
            where: A filter: the groups that hold such a trajectory. `group.std = 0` asks about the group itself.
            order: Columns to sort by; `-` before one turns it around: `"-std,step"`.
            limit: How many rows at most.
            threshold: A reward above it counts as passed.
            k: One number or several: for each a column `pass@k`, the chance that one of k rollouts passes (estimated
                without bias from those that have a reward; missing where there are fewer than k).

        Raises:
            FilterError: the filter cannot be understood.
            QueryError: there is no such column to sort by, or k is no number of rollouts.
        """
        if isinstance(threshold, bool) or not isinstance(threshold, int | float):
            raise QueryError(f"threshold must be a number, not {threshold!r}")
        chances = pass_columns(numbers_of_rollouts(k))
        conditions, values = conditions_of(
            "g", step=step, sample_index=sample_index, experiment=experiment, project=project, validate=validate
        )
        # Under the name of the view, so that a filter on `group.pass_rate` means this threshold too.
        before, parameters = [f"groups AS MATERIALIZED ({groups_select('?::DOUBLE')})"], [float(threshold)]
        filtered_by: Sequence[str] = ()
        predicate = None
        if where is not None:
            predicate = compile_where(where, GROUP_FILTER_HEADERS)
            filtered_by = predicate.fields
            more, found = chosen("true", predicate.sql, views=("latest_scores",))
            before += [*more, f"matching AS (SELECT DISTINCT {', '.join(GROUP_KEY)} FROM {found})"]
            parameters += predicate.parameters
            conditions += f" AND EXISTS (SELECT 1 FROM matching t WHERE {SAME_GROUP})"
        runs = choose_runs("g", run, all_runs, filtered_by)
        columns = [f"g.{name}" for name in (*GROUP_COLUMNS, IS_INT)]
        columns += [f'{sql} AS "{name}"' for name, sql in chances.items()]
        sortable = (*GROUP_COLUMNS, *chances)
        ordered = order_of(order or _GROUP_ORDER, "groups", sortable, GROUP_KEY, GROUP_HEADERS)
        paging = "" if limit is None else f" LIMIT {whole('limit', limit)}"
        sql = (
            f"WITH {', '.join(before)} SELECT * FROM ("
            f"SELECT {', '.join(columns)} FROM groups g WHERE {conditions} AND {runs.sql}) t ORDER BY {ordered}{paging}"
        )
        only = None if step is None else whole("step", step)
        answer = self._ask(sql, [*parameters, *values, *runs.parameters], only)
        older = f"(SELECT run, superseded, unnest(range(size)) FROM groups g WHERE {conditions}) t WHERE true"
        answer = self._with_older_runs(answer, runs, older, [*parameters, *values], before, only)
        asked = {
            "project": project, "experiment": experiment, "step": step, "sample_index": sample_index,
            "validate": validate, "run": run,
        }  # fmt: skip
        return self._paged(self._explained(answer, "groups", asked, predicate), limit, 0)

    def history(
        self,
        sample_index: SampleIndex,
        *,
        experiment: str | None = None,
        run: str | None = None,
        all_runs: bool = False,
    ) -> Result:
        """One sample over the steps: how many rollouts, and their rewards."""
        where, values = conditions_of(sample_index=sample_index, experiment=experiment)
        runs = choose_runs("t", run, all_runs)
        columns = ", ".join((*GROUP_COLUMNS, IS_INT))
        answer = self._ask(
            f"SELECT {columns} FROM _groups t WHERE {where} AND {runs.sql} "
            "ORDER BY project, experiment, step NULLS LAST, validate",
            values + runs.parameters,
        )
        asked = {"sample_index": sample_index, "experiment": experiment, "run": run}
        return self._explained(self._with_older_runs(answer, runs, f"_listing t WHERE {where}", values), "steps", asked)

    def compare(self, trajectory_ids: Sequence[str]) -> Comparison:
        """Two or more trajectories side by side, and where they part."""
        if isinstance(trajectory_ids, str):
            raise ConfigError("compare needs a list of trajectory ids, not one")
        return compare([self.trajectory(each) for each in trajectory_ids])

    def compare_group(
        self,
        step: int,
        sample_index: SampleIndex,
        *,
        experiment: str | None = None,
        project: str | None = None,
        validate: bool | None = None,
        run: str | None = None,
    ) -> Comparison:
        """All rollouts of one sample in one step side by side, and where each parts from the best of them.

        Raises:
            QueryError: there are fewer than two, or several experiments have this step and sample.
        """
        group = self.group(step, sample_index, experiment=experiment, project=project, validate=validate, run=run)
        rows = group.rows()
        for name in ("project", "experiment", "validate"):
            found = sorted({row[name] for row in rows})
            if len(found) > 1:
                raise QueryError(
                    f"several groups are step {step}, sample {sample_index}; choose one with {name}=: "
                    f"{', '.join(repr(value) for value in found)}"
                )
        if len(rows) < 2:
            raise QueryError(
                f"comparing needs two rollouts or more; step {step}, sample {sample_index} has {len(rows) or 'none'}"
                + (f": {group.why_empty()}" if not rows else f" in the store {str(self.path)!r}")
            )
        return replace(self.compare([row["trajectory_id"] for row in rows]), older_runs=group.older_runs)

    def score(
        self,
        target: str | TrajectoryHandle | Trajectory | tuple[Any, ...],
        name: str,
        value: Any,
        *,
        terms: Mapping[str, Any] | None = None,
        reason: str | None = None,
        trained_step: int | None = None,
        project: str | None = None,
        experiment: str | None = None,
        run: str | None = None,
    ) -> None:
        """Give a trajectory of this store a score, as `rolltrace.score` does, but with tracing off: after the run.

        Made for people and a few scores at a time. To score thousands, turn tracing on and call `rolltrace.score`.

        Args:
            target: The id of a trajectory (its first letters are enough), the trajectory itself, or its coordinates,
                `(step, sample_index, rollout_n)` or `(step, sample_index, rollout_n, validate)`.
            name: `reward`, `fate`, `note` or any other.
            value: A number, or text, which becomes a label.
            terms: The parts it is made of.
            reason: Why.
            trained_step: Of a fate, the step that trained on it.
            project, experiment: What coordinates belong to, if the store has several that they may mean.
            run: The run that they belong to, if not the newest one that has them.

        Raises:
            ConfigError: target, name, value or terms make no sense.
            QueryError: no trajectory has this id, several begin with it, or several experiments have these coordinates.
            StoreError: the store cannot be written.
        """
        body = score_body(value, terms, reason, name=name, trained_step=trained_step)
        if isinstance(target, Trajectory | TrajectoryHandle):
            target = target.trajectory_id
        about = None
        if isinstance(target, str):
            try:
                full_id, _ = self._find(target)
                about = addressee_of_row(*self._ask("SELECT * FROM _rows WHERE trajectory_id = ?", [full_id]))
            except QueryError:
                if project is None or experiment is None:
                    raise  # most likely a slip of the hand; an experiment that is named may have it yet
        about = about or addressee_of(self._ask, target, project, experiment, run)
        write_score(self.path, about, name, body, after_ns=newest_score_ns(self._ask, about, name))
        self._engine.refresh(now=True)

    def unmatched_scores(self) -> Result:
        """Scores of trajectories that this store does not have: not traced, or not here yet. The oldest comes first."""
        return self._ask(UNMATCHED_SCORES)

    def live(self) -> Result:
        """What runs right now: since how long, in which op, in which process. The oldest comes first."""
        now_ns = time.time_ns()
        return self._ask(LIVE, [now_ns, now_ns])

    def parts(self) -> Stored:
        """How many Parquet parts there are, with how many rows of each table; journals are not counted."""
        return self._engine.stored()

    def losses(self) -> Result:
        """How many records were not kept, by step and reason."""
        return self._ask(LOSSES)

    def damaged(self, *, thorough: bool = False) -> list[tuple[Path, str]]:
        """Files that cannot be read, and why. `thorough` compares the checksum of every page of every part."""
        return self._engine.damaged(thorough=thorough)

    @property
    def incomplete(self) -> Incomplete:
        """What the store has and its answers so far lack, because it could not be read; false if nothing."""
        return self._engine.incomplete()

    def version(self, step: int | None = None) -> str:
        """A text that is another one as soon as an answer about this step, or about all, may be another one."""
        return self._engine.version(step)

    def refresh(self) -> None:
        """Look for new data now, and not only when the last look is a second old, and at all of it, however much."""
        self._engine.refresh(now=True, everything=True)

    @property
    def unread_bytes(self) -> int:
        """How much of the journals is not in the answers yet, because more was written than a question can wait for.

        It is read by the questions that follow, or by a drainer, which was started; `refresh()` reads it now.
        """
        return self._engine.unread_bytes

    def sql(
        self, text: str, parameters: Sequence[Any] | dict[str, Any] | None = None, *, step: int | None = None
    ) -> Result:
        """The answer to one SELECT over the views; see `query.views` for what there is.

        Args:
            text: The statement.
            parameters: The values of its `?`, or by name of its `$name`.
            step: Look only at what belongs to this step, which is faster than a condition in the statement.

        Raises:
            QueryError: the statement is wrong, or does more than read the views.
        """
        try:
            found = duckdb.extract_statements(text)
        except duckdb.Error as fault:
            raise QueryError(str(fault)) from None
        # Some versions of DuckDB call a PRAGMA that gives a table a SELECT.
        is_pragma = len(found) == 1 and _PRAGMA.match(text) is not None
        if len(found) != 1 or found[0].type != duckdb.StatementType.SELECT or is_pragma:
            what = "PRAGMA" if is_pragma else found[0].type.name if len(found) == 1 else f"{len(found)} statements"
            raise QueryError(
                f"sql() only reads: give it one SELECT, WITH, FROM, DESCRIBE or SUMMARIZE, not {what}; "
                f"there are {', '.join(VIEWS)}"
            )
        return self._ask(text, parameters or (), step)

    def _ask(
        self,
        sql: str,
        parameters: Sequence[Any] | dict[str, Any] = (),
        scope: int | frozenset[Path] | None = None,
    ) -> Result:
        answer = Result(self._engine.query(sql, parameters, scope))
        answer.incomplete = self._engine.incomplete()
        self._teller.tell(answer.incomplete)
        return answer

    def _explained(
        self, answer: Result, what: str, asked: Mapping[str, Any], predicate: Predicate | None = None
    ) -> Result:
        """The answer, which can say why it is empty."""
        named = [Asked(name, value) for name, value in asked.items() if value is not None]
        filtered = bool(named) or (predicate is not None and bool(predicate.fields))
        if predicate is not None:
            named += itertools.starmap(Asked, predicate.values)
        answer._explain = lambda: explain(self._ask, self.path, what, named, filtered=filtered)
        return answer

    def _paged(self, answer: Result, limit: int | None, offset: int) -> Result:
        """The answer, which blames the paging where it may be empty for that."""
        if limit == 0 or offset:
            answer._explain = lambda: f"no rows of the store {str(self.path)!r} with limit {limit} and offset {offset}"
        return answer

    def _with_older_runs(
        self,
        answer: Result,
        runs: RunChoice,
        older: str,
        parameters: list[Any],
        before: Sequence[str] = (),
        step: int | None = None,
    ) -> Result:
        """The answer, which says how much of `older`, trajectories `t` of all runs, it leaves out."""
        if runs.hides and self._ask("SELECT 1 FROM _steps WHERE superseded LIMIT 1", (), step).rows():
            once = f"WITH {', '.join(before)} " if before else ""
            sql = (
                f"{once}SELECT count(*) AS n, count(DISTINCT coalesce(t.run, '')) AS runs FROM {older} AND t.superseded"
            )
            (row,) = self._ask(sql, parameters, step).rows()
            answer.older_runs = OlderRuns(row["n"], row["runs"])
        return answer

    def scope_of(self, rows: Iterable[Mapping[str, Any]]) -> frozenset[Path] | None:
        """The folders of the steps of these rows of a listing; None if that cannot be told."""
        return self._engine.scope_of({Partition(row["project"], row["experiment"], row["step"]) for row in rows})

    def full_id(self, prefix: str) -> str:
        """The id of the trajectory that begins so.

        Raises:
            QueryError: no trajectory has this id, or several begin with it.
        """
        return self._find(prefix)[0]

    def _find(self, prefix: str) -> tuple[str, int | None]:
        """The full id that begins so, and its step."""
        wanted = prefix.strip().lower() if isinstance(prefix, str) else ""
        if not re.fullmatch(rf"[0-9a-f]{{{_SHORTEST_PREFIX},32}}", wanted):
            raise QueryError(
                "a trajectory id is 32 hexadecimal digits, or the first of them, "
                f"at least {_SHORTEST_PREFIX}; not {prefix!r}"
            )
        rows = self._ask(
            "SELECT trajectory_id, step FROM _rows WHERE trajectory_id BETWEEN ? AND ? ORDER BY 1 LIMIT 9",
            [wanted.ljust(32, "0"), wanted.ljust(32, "f")],
        ).rows()
        ids = [row["trajectory_id"] for row in rows]
        if not ids:
            full = wanted if len(wanted) == 32 else f"{wanted}..."
            raise NotFoundError(f"no trajectory has the id {full} in the store {str(self.path)!r}")
        if len(ids) > 1:
            candidates = [*ids[:8], *["..."] * (len(ids) > 8)]
            raise QueryError(f"several trajectories begin with {wanted}: {', '.join(candidates)}")
        return ids[0], rows[0]["step"]
