"""`open_store`: ask a store. The one API for notebooks, the command line and the viewer."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rolltrace.errors import ConfigError, QueryError, StoreError
from rolltrace.files import check_store, write_problem
from rolltrace.pass_rule import NOT_CHOSEN, PassMeaning
from rolltrace.query.groups import list_groups, records_in
from rolltrace.query.listing import EXPERIMENTS, HISTORY, LIVE, LOSSES, RUNS, STEPS, UNMATCHED_SCORES, list_trajectories
from rolltrace.query.result import Result
from rolltrace.query.scope import Scope, choose_runs, conditions_of, pass_meanings, resolve_rule, whole
from rolltrace.query.sql_store import SqlStore
from rolltrace.query.views import IS_ROLLOUT, rule_text_sql, with_rule
from rolltrace.record import SampleIndex, score_body
from rolltrace.tables import TableStore, address_in, home_folder, write_pass_rule

if TYPE_CHECKING:
    from rolltrace.capture import TrajectoryHandle
    from rolltrace.query.comparison import Comparison
    from rolltrace.query.trajectory import Trajectory

_WAIT_FOR_SCORE_SEC = 10.0
"""How long who gives a score waits for a drainer at work to take it, so that the next answer has it."""


def open_store(path: str | os.PathLike[str], *, memory_limit: str | None = None, drains: bool = True) -> Store:
    """A store to ask: `open_store("~/.rolltrace").trajectories(step=3, where="reward < 0.5")`.

    Args:
        path: The folder, or an address on object storage: `s3://bucket/prefix`.
        memory_limit: How much memory a question may take, such as `2GB`, and how large an answer of `sql()` may be.
            If not given: four fifths of the machine's memory, and any size.
        drains: See to it that journals are drained; without, answers are about what is in the tables.

    Raises:
        StoreError: there is no store in this folder.
        FormatError: it has another format.
        ConfigError: it is no address of a store.
    """
    folder = home_folder(path)
    check_store(folder, may_be_empty=True)  # a run may be about to begin
    TableStore(address_in(folder)).check_format()
    return Store(folder, memory_limit=memory_limit, drains=drains)


class Store(SqlStore):
    """Answers questions about a store. The first one waits for what was recorded before; later answers are at most
    about three seconds behind."""

    def _repr_html_(self) -> str:
        from rolltrace.query.notebook import store_html

        return store_html(self)

    def experiments(self) -> Result:
        """One row per experiment: how many trajectories and steps, from when to when.

        `trajectories` counts those of the newest run that reached each step, `superseded` the others.
        """
        return self._ask(EXPERIMENTS, plain=True)

    def runs(self, *, experiment: str | None = None, project: str | None = None) -> Result:
        """One row per run of each experiment, the oldest first: how many trajectories and steps, from when to when.

        `superseded` is how many of its trajectories are left out elsewhere, because a newer run reached the same step.
        """
        return self._list("runs", Scope(project, experiment, all_runs=True), RUNS)

    def steps(
        self,
        *,
        experiment: str | None = None,
        project: str | None = None,
        run: str | None = None,
        all_runs: bool = False,
        term: str | None = None,
        threshold: float | None = None,
    ) -> Result:
        """One row per step of each experiment, training and validation apart: counts and rewards.

        `pass_rate` is the share of the rollouts with a reward that passed (`pass_rule` says what that means; `term` and
        `threshold` say it for this answer, as in `groups`), `zero_variance_share` that of the groups with two rewards
        or more in which all are the same: those teach GRPO nothing. Of each step the newest run counts, unless `run`
        names one; with `all_runs`, each run of a step has a row.
        """
        rule = resolve_rule(self, term, threshold, project=project, experiment=experiment)
        before = "" if rule is None else f"WITH {', '.join(with_rule(rule))} "
        scope = Scope(project, experiment, run=run, all_runs=all_runs)
        return self._list("steps", scope, STEPS, before, pass_rule=rule_text_sql(self._engine.pass_rules, rule))

    def _list(self, what: str, scope: Scope, sql: str, before: str = "", **pieces: str) -> Result:
        """The rows that a question with a piece `{where}` has in a scope."""
        where, values = scope.conditions()
        runs = choose_runs("t", scope.run, scope.all_runs)
        question = before + sql.format(where=f"{where} AND {runs.sql}", **pieces)
        answer = self._ask(question, values + runs.parameters, plain=True)
        answer.older_runs = scope.older_runs(self)
        return self._explained(answer, what, scope)

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
        term: str | None = None,
        threshold: float | None = None,
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
            term, threshold: What `passed` and `group.pass_rate` mean in the filter, as in `groups`.

        Raises:
            FilterError: the filter cannot be understood.
            QueryError: there is no such column to sort by, or no reward has the term.
        """
        resolve_rule(self, term, threshold, project=project, experiment=experiment)
        scope = Scope(
            project, experiment, step, sample_index, validate, run, all_runs, where, term, threshold, rollout_n
        )
        answer = list_trajectories(self, scope, order=order, limit=limit, offset=offset, last=last)
        return self._paged(self._explained(answer, "trajectories", scope), limit, offset)

    def trajectory(self, trajectory_id: str) -> Trajectory:
        """One trajectory with its ops, conversation, tokens, scores; a prefix of its id is enough.

        The id of a group record (`group_records`) gives that.

        Raises:
            QueryError: no trajectory has this id, or several begin with it.
        """
        from rolltrace.query.trajectory import read_one  # whoever lists needs no trajectory

        return read_one(self, trajectory_id)

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
        """All rollouts of one sample in one step, without the branches of sub-agents and compactions."""
        scope = Scope(project, experiment, step, sample_index, validate, run, all_runs)
        answer = list_trajectories(self, scope, order="rollout_n,start_ns", also=f"t.{IS_ROLLOUT}")
        return self._explained(answer, "trajectories", scope)

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
        from rolltrace.query.trajectory import read_whole  # whoever lists needs no trajectory

        scope = Scope(project, experiment, step, sample_index, validate, run, all_runs)
        return [each.trajectory for each in read_whole(self, records_in(self, scope), whole("step", step))]

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
        term: str | None = None,
        threshold: float | None = None,
        k: int | Sequence[int] | None = None,
    ) -> Result:
        """One row per group, all rollouts of one sample in one step: rewards, lengths, flags.

        Args:
            step, sample_index, experiment, project, validate, run, all_runs: As in `trajectories`.
            where: A filter: the groups that hold such a trajectory. `group.std = 0` asks about the group itself.
            order: Columns to sort by; `-` before one turns it around: `"-std,step"`.
            limit: How many rows at most.
            term: A rollout has passed if this term of its reward is at least `threshold`, which is 1 if not given.
            threshold: Without a term: a rollout has passed if its reward is at least this. If neither is given, pass
                means what is stored with the experiment (`set_pass`), or else a reward above 0.
            k: One number or several: for each a column `pass@k`, the chance that one of k rollouts passes (estimated
                without bias from those that have a reward; missing where there are fewer than k).

        Raises:
            FilterError: the filter cannot be understood.
            QueryError: there is no such column to sort by, k is no number of rollouts, or no reward has the term.
        """
        scope = Scope(
            project, experiment, step, sample_index, validate, run, all_runs, where, term=term, threshold=threshold
        )
        return list_groups(self, scope, order=order, limit=limit, k=k)

    def history(
        self,
        sample_index: SampleIndex,
        *,
        experiment: str | None = None,
        run: str | None = None,
        all_runs: bool = False,
    ) -> Result:
        """One sample over the steps: how many rollouts, and their rewards."""
        scope = Scope(experiment=experiment, sample_index=sample_index, run=run, all_runs=all_runs)
        return self._list("steps", scope, HISTORY)

    def pass_meanings(
        self,
        *,
        experiment: str | None = None,
        project: str | None = None,
        term: str | None = None,
        threshold: float | None = None,
    ) -> list[PassMeaning]:
        """What pass means in each experiment, the oldest first: `print(meaning.text)` says `pass: correct >= 1`.

        Args:
            experiment, project: Of these alone.
            term, threshold: What it means in an answer that is asked for with these.

        Raises:
            QueryError: no reward has the term, or the threshold is no number.
        """
        rule = resolve_rule(self, term, threshold, project=project, experiment=experiment)
        return pass_meanings(self, project=project, experiment=experiment, asked=rule)

    def set_pass(
        self,
        *,
        term: str | None = None,
        threshold: float | None = None,
        experiment: str | None = None,
        project: str | None = None,
    ) -> list[PassMeaning]:
        """Store what pass means with these experiments, all if none is named, for everybody who asks about them.

        Args:
            term: A rollout has passed if this term of its reward is at least `threshold`, which is 1 if not given.
            threshold: Without a term: a rollout has passed if its reward is at least this. With neither, the choice is
                taken back.
            experiment, project: Which experiments.

        Returns:
            What pass means in them now.

        Raises:
            QueryError: there is no such experiment, no reward of it has the term, or the threshold is no number.
            StoreError: the store cannot be written.
        """
        rule = resolve_rule(self, term, threshold, project=project, experiment=experiment) or NOT_CHOSEN
        meanings = pass_meanings(self, project=project, experiment=experiment)
        if not meanings:
            raise QueryError(self.steps(project=project, experiment=experiment).why_empty())
        if (problem := write_problem(self.path)) is not None:
            raise StoreError(f"the store {str(self.path)!r} can only be read: {problem}")
        for meaning in meanings:
            resolve_rule(self, term, threshold, project=meaning.project, experiment=meaning.experiment)
        for meaning in meanings:
            write_pass_rule(self.path, meaning.project, meaning.experiment, rule)
        self._engine.refresh(now=True)
        return pass_meanings(self, project=project, experiment=experiment)

    def compare(self, trajectory_ids: Sequence[str]) -> Comparison:
        """Two or more trajectories side by side, and where they diverge."""
        from rolltrace.query.comparison import compare

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
        """All rollouts of one sample in one step side by side, and where each diverges from the best of them.

        Raises:
            QueryError: there are fewer than two, or several experiments have this step and sample.
        """
        group = self.group(step, sample_index, experiment=experiment, project=project, validate=validate, run=run)
        rows = group.rows()
        for name in ("project", "experiment", "validate"):
            values = sorted({row[name] for row in rows})
            if len(values) > 1:
                raise QueryError(
                    f"there are several groups with step {step}, sample {sample_index}; choose one with {name}=: "
                    f"{', '.join(repr(value) for value in values)}"
                )
        if len(rows) < 2:
            raise QueryError(
                f"comparing needs two or more rollouts; step {step}, sample {sample_index} has {len(rows) or 'none'}"
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
        from rolltrace.capture import TrajectoryHandle  # none is needed by those who only read
        from rolltrace.drain import write_score
        from rolltrace.query.scoring import addressee, newest_score_ns
        from rolltrace.query.trajectory import Trajectory

        body = score_body(value, terms, reason, name=name, trained_step=trained_step)
        if isinstance(target, Trajectory | TrajectoryHandle):
            target = target.trajectory_id
        about = addressee(self, target, project, experiment, run)
        write_score(self.path, about, name, body, after_ns=newest_score_ns(self, about, name))
        self._engine.refresh(now=True, wait_sec=_WAIT_FOR_SCORE_SEC)

    def label(
        self,
        target: str | TrajectoryHandle | Trajectory | tuple[Any, ...],
        name: str,
        value: str | None = "yes",
        *,
        author: str | None = None,
        turn: int | None = None,
        op_id: int | None = None,
        reason: str | None = None,
        project: str | None = None,
        experiment: str | None = None,
        run: str | None = None,
    ) -> None:
        """Mark a trajectory, or one of its turns, for everybody to see: `store.label(id, "hack", author="me")`.

        A label is a score with an author. What an author says last of a name and place counts; what others say of the
        same stays, and so does the history (`Trajectory.scores`). Filters ask for `label.hack`.

        Args:
            target: As in `score`; the store must have this trajectory.
            name: Of the label. `note` is a note: its value is any text.
            value: What it says, if it is more than that it is there. None takes back what the author said.
            author: Who says so; whoever runs this process if not given.
            turn: The model call it is about, counted from 0; the whole trajectory if not given.
            op_id: The same for any op.
            reason: Why.
            project, experiment, run: As in `score`.

        Raises:
            ConfigError: name, value or author make no sense.
            QueryError: there is no such trajectory, turn or op, several may be meant, or nothing is to be taken back.
            StoreError: the store cannot be written.
        """
        from rolltrace.capture import TrajectoryHandle
        from rolltrace.query.scoring import write_label
        from rolltrace.query.trajectory import Trajectory

        if isinstance(target, Trajectory | TrajectoryHandle):
            target = target.trajectory_id
        write_label(
            self, target, name, value, author=author, turn=turn, op_id=op_id, reason=reason, project=project,
            experiment=experiment, run=run,
        )  # fmt: skip
        self._engine.refresh(now=True, wait_sec=_WAIT_FOR_SCORE_SEC)

    def labels(self, *, experiment: str | None = None, project: str | None = None, step: int | None = None) -> Result:
        """What people say now, one row per label and note: about which trajectory and op, who and when. The oldest
        comes first."""
        where, values = conditions_of(experiment=experiment, project=project, step=step)
        return self._ask(f"SELECT * FROM labels t WHERE {where} ORDER BY time_ns, trajectory_id, name", values)

    def unmatched_scores(self) -> Result:
        """Scores of trajectories that this store does not have: not traced, or not here yet. The oldest comes first."""
        return self._ask(UNMATCHED_SCORES)

    def live(self) -> Result:
        """What runs right now: since how long, in which op, in which process. The oldest comes first.

        Ages are as of when a drainer last looked.
        """
        now_ns = max((host.time_ns for host in self._engine.live), default=time.time_ns())
        return self._ask(LIVE, [now_ns, now_ns])

    def losses(self) -> Result:
        """How many records were not kept, by step and reason."""
        return self._ask(LOSSES)
