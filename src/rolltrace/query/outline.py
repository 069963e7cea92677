"""A trajectory at a glance: its ops without payloads, its siblings, its sample over the steps, where its flags are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from rolltrace.flags import FLAGS
from rolltrace.query.events import Finding
from rolltrace.query.groups import record_rows, with_ops
from rolltrace.query.listing import LOST
from rolltrace.query.model import lists
from rolltrace.query.model import trajectory as model
from rolltrace.query.model.rows import listing_row, number, short_name, typed
from rolltrace.query.op import Op
from rolltrace.query.paging import cell_of
from rolltrace.query.scope import Row
from rolltrace.query.sequence import TokenSequence, policy_calls
from rolltrace.query.trajectory import Trajectory
from rolltrace.query.values import as_object, bounded
from rolltrace.query.views import IS_ROLLOUT
from rolltrace.tables import links_of

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

_OVER_STEPS = f"""
SELECT step, run, count(*) AS size, avg(reward) FILTER (isfinite(reward)) AS mean,
    first(trajectory_id ORDER BY reward DESC, rollout_n, start_ns) FILTER (isfinite(reward)) AS best,
    first(trajectory_id ORDER BY rollout_n IS NOT DISTINCT FROM ? DESC, rollout_n, start_ns) AS same_rollout
FROM _listing t
WHERE project = ? AND experiment = ? AND validate = ? AND sample_index = ? AND (NOT superseded OR run = ?)
    AND {IS_ROLLOUT}
GROUP BY step, run
QUALIFY row_number() OVER (PARTITION BY step ORDER BY run IS NOT DISTINCT FROM ? DESC) = 1
ORDER BY step
"""
_ELSEWHERE = """
SELECT experiment, step, trajectory_id FROM _listing t
WHERE {others} AND validate = ? AND sample_index = ? AND NOT superseded
QUALIFY row_number() OVER (
    PARTITION BY experiment
    ORDER BY abs(step - ?) NULLS LAST, rollout_n IS NOT DISTINCT FROM ? DESC, rollout_n, start_ns
) = 1
ORDER BY max(start_ns) OVER (PARTITION BY experiment) DESC LIMIT 8
"""
_SAME_GROUP = (
    "project = ? AND experiment = ? AND step IS NOT DISTINCT FROM ? AND validate = ? AND sample_index = ? "
    "AND run IS NOT DISTINCT FROM ?"
)
_SIBLINGS = f"SELECT * FROM _listing t WHERE {_SAME_GROUP} AND {IS_ROLLOUT} ORDER BY rollout_n NULLS LAST, start_ns"
_RANGE = """
SELECT min(finite_min) AS least, max(finite_max) AS most FROM _steps
WHERE project = ? AND experiment = ? AND NOT superseded
"""
_SCORES = "SELECT * FROM scores WHERE trajectory_id = ? ORDER BY time_ns, worker"
_LOSSES = f"""
SELECT reason, sum(count)::BIGINT AS count FROM {LOST}
WHERE project = ? AND experiment = ? AND step IS NOT DISTINCT FROM ? GROUP BY reason ORDER BY count DESC
"""
_CHILDREN = """
SELECT DISTINCT trajectory_id, start_ns FROM _trajectories WHERE parent_trajectory_id = ? ORDER BY start_ns
"""
_MEANINGS = {flag.name: flag.meaning for flag in FLAGS}
T = TypeVar("T")


def outline_of(store: Store, trajectory: Trajectory | str) -> model.TrajectoryHead:
    """A trajectory, or a group record, without its payloads; of its id, a prefix is enough.

    Raises:
        NotFoundError: no trajectory has this id.
        QueryError: several begin with it.
    """
    of = store.trajectory(trajectory) if isinstance(trajectory, str) else trajectory
    step = of.step
    row = listing_row(of.to_row())

    def ask(kind: type[T], sql: str, *values: Any, everywhere: bool = False) -> list[T]:
        return [typed(kind, each) for each in store._ask(sql, values, None if everywhere else step)]

    sample = str(of.sample_index)
    key = (of.project, of.experiment, step, of.validate, sample, of.run)
    has_group = of.sample_index is not None
    siblings = store._ask(_SIBLINGS, key, step).rows() if has_group else [] if of.is_group else [of.to_row()]
    ops = ops_of(of)
    runs = [each["run"] for each in store.runs(project=of.project, experiment=of.experiment)]
    at_steps = (of.rollout_n, *key[:2], of.validate, sample, of.run, of.run)
    (bounds,) = store._ask(_RANGE, key[:2])
    children = store._ask(_CHILDREN, [of.trajectory_id], step)
    has_transitions = store._ask("SELECT 1 FROM _transitions WHERE trajectory_id = ? LIMIT 1", [of.trajectory_id], step)
    scores = store._ask(_SCORES, [of.trajectory_id], step).rows()
    links = links_of(store.path, *key[:2], of.run, of.trajectory_id)
    token_total = _token_total(of)
    return model.TrajectoryHead(
        row=row,
        traceback=of.traceback,
        parent_trajectory_id=of.parent_trajectory_id,
        parent_op_id=None if of.parent_op_id is None else str(of.parent_op_id),
        children=[each["trajectory_id"] for each in children],
        is_group=of.is_group,
        siblings=[typed(lists.Cell, cell_of(each)) for each in siblings],
        group_records=with_ops(store, record_rows(store, _SAME_GROUP, key, step), step) if has_group else [],
        over_steps=ask(model.SampleStep, _OVER_STEPS, *at_steps, everywhere=True) if has_group else [],
        elsewhere=same_sample(store, of),
        outline=ops,
        scores=_scores([each for each in scores if each["author"] is None]),
        labels=_labels([each for each in scores if each["author"] is not None]),
        findings=_findings(of, ops),
        notes=[
            model.Note(each.time_ns, None if each.op_id is None else str(each.op_id), each.event, bounded(each.body))
            for each in of.notes
        ],
        pruned=None if of.pruned is None else str(of.pruned),
        losses=ask(model.Loss, _LOSSES, *key[:3]),
        run=model.RunPosition(of.run, runs.index(of.run) + 1, len(runs)),
        has_tokens=token_total > 0,
        has_transitions=bool(len(has_transitions)),
        token_total=token_total,
        reward_range=None if bounds["least"] is None else [bounds["least"], bounds["most"]],
        links=[model.Link(name, url) for name, url in links.items()],
    )


def same_sample(store: Store, of: Trajectory, name: str | None = None) -> list[model.Elsewhere]:
    """The sample of a trajectory in the other experiments of its project, at the nearest step; with the name of
    another store, in all experiments of that."""
    if of.sample_index is None:
        return []
    place = [] if name is not None else [of.project, of.experiment]
    others = "project = ? AND experiment <> ?" if name is None else "true"
    values = [*place, of.validate, str(of.sample_index), of.step, of.rollout_n]
    rows = store._ask(_ELSEWHERE.format(others=others), values)
    return [typed(model.Elsewhere, {**row, "store": name}) for row in rows]


def ops_of(trajectory: Trajectory) -> list[model.OutlineOp]:
    """The ops of a trajectory without payloads, each before its children."""
    turns: dict[int, int | None] = {}
    turn = -1
    for op in sorted(trajectory.walk(), key=lambda op: (op.start_ns, op.op_id)):
        turn += op.kind == "llm"
        turns[op.op_id] = turn if turn >= 0 else None
    flags, means = trajectory.op_flags, trajectory.logprob_means
    outline: list[model.OutlineOp] = []
    waiting: list[tuple[Op, str | None, int]] = [(op, None, 0) for op in reversed(trajectory.ops)]
    while waiting:
        op, parent_id, depth = waiting.pop()
        op_id = str(op.op_id)
        waiting += [(each, op_id, depth + 1) for each in reversed(op.children)]
        took = op.duration_s
        outline.append(
            model.OutlineOp(
                op_id=op_id,
                parent_id=parent_id,
                depth=depth,
                turn=turns[op.op_id],
                name=short_name(op.name),
                kind=op.kind,  # type: ignore[arg-type] # one of these
                status=op.status,
                offset_s=(op.start_ns - trajectory.start_ns) / 1e9,
                duration_s=took,
                own_s=None if took is None else max(0.0, took - _covered(op.children)),
                error=op.error,
                prompt_tokens=op.prompt_tokens,
                response_tokens=op.response_tokens,
                logprob_mean=number(means.get(op.op_id)),
                policy_version=op.policy_version,
                finish_reason=op.finish_reason,
                payload_bytes=op.payload_bytes or 0,
                flags=flags.get(op.op_id, []),
            )
        )
    return outline


def detail_of(op: Op, line: model.OutlineOp) -> model.OpDetail:
    """An op with its payload, and its line of the outline."""
    return model.OpDetail(
        line, bounded(op.inputs), bounded(op.outputs), op.traceback, op.thread, op.worker, op.start_ns, op.end_ns
    )


def _token_total(trajectory: Trajectory) -> int:
    having = [op for op in trajectory.walk() if op.prompt_tokens is not None or op.response_tokens is not None]
    last = max(policy_calls(having, lambda op: op.kind), key=lambda op: op.start_ns, default=None)
    return 0 if last is None else (last.prompt_tokens or 0) + (last.response_tokens or 0)


def _covered(ops: list[Op]) -> float:
    """Seconds in which at least one of these ops ran; they may overlap."""
    covered, until = 0, 0
    for op in ops:
        if op.end_ns is not None and op.end_ns > until:
            covered += op.end_ns - max(op.start_ns, until)
            until = op.end_ns
    return covered / 1e9


def _scores(rows: list[Row]) -> list[model.Score]:
    """Those of each name, `reward` first."""
    by_name: dict[str, list[model.ScoreValue]] = {}
    for row in sorted(rows, key=lambda row: (row["name"] != "reward", row["name"])):
        value = typed(model.ScoreValue, {**row, "terms": {}})
        terms = {} if row["terms"] is None else as_object(row["terms"], "terms")
        value.terms = {name: bounded(each) for name, each in terms.items()}
        by_name.setdefault(row["name"], []).append(value)
    return [model.Score(name, values[-1], values) for name, values in by_name.items()]


def _labels(rows: list[Row]) -> list[model.Label]:
    newest = {(row["name"], row["author"], row["op_id"]): at for at, row in enumerate(rows)}
    return [
        typed(
            model.Label,
            {**row, "value": row["label"], "counts": row["label"] is not None and at in newest.values()},
        )
        for at, row in enumerate(rows)
    ]


def _findings(trajectory: Trajectory, ops: list[model.OutlineOp]) -> list[model.Finding]:
    by_id = {op.op_id: op for op in ops}
    found = trajectory.found
    lines = [by_id.get(str(each.op_id)) for each in found]
    is_among_tokens = any(op and (op.prompt_tokens is not None or op.response_tokens is not None) for op in lines)
    sequence = trajectory.token_sequence() if is_among_tokens else TokenSequence()
    return [_finding(each, op, sequence) for each, op in zip(found, lines)]


def _finding(finding: Finding, op: model.OutlineOp | None, sequence: TokenSequence) -> model.Finding:
    op_id, detail = None if finding.op_id is None else str(finding.op_id), finding.detail
    token = sequence.place_of(finding.flag, op_id, detail)
    if isinstance(detail, dict):  # ids of ops are text, here too
        detail = {key: str(item) if key.endswith("op_id") else item for key, item in detail.items()}
    meaning = _MEANINGS.get(finding.flag, "")
    return model.Finding(finding.flag, meaning, op_id, None if op is None else op.turn, token, bounded(detail))
