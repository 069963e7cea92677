"""One short function per endpoint: parse, ask `query`, encode. Its name is that of the endpoint in `view.endpoints`.

They run in worker threads, under a time limit; what they raise becomes a `Problem` in `view.server`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import rolltrace
from rolltrace.exchange import select
from rolltrace.query import (
    Comparison,
    FilterError,
    NotFoundError,
    Op,
    QueryError,
    Scope,
    Store,
    bounded,
    branch_of,
    changes_between,
    compile_where,
    complete_filter,
    experiment_overview,
    experiment_states,
    facets_of,
    group_page,
    jump_targets,
    listing_sql,
    outline_of,
    pulse_of,
    read_image,
    search_text,
    side_by_side,
    step_series,
    store_status,
    trajectory_page,
    whole_value,
)
from rolltrace.view import requests, shapes, wire
from rolltrace.view.answers import Answer
from rolltrace.view.encoding import encoded, recorded, recorded_whole
from rolltrace.view.loaded import Loaded

MOST_TOKENS = 50_000
"""How many tokens are sent at once."""
MOST_COMPARED = 8
_MOST_RAW_OPS = 100


class Asked(NamedTuple):
    """One request."""

    store: Store
    loaded: Loaded
    arguments: Any
    """Of the endpoint's request type."""
    path: Mapping[str, str]
    """The parameters in its path."""


def status(asked: Asked) -> Answer:
    return Answer(encoded(wire.Status, _status(asked.store)))


def _status(store: Store) -> dict[str, Any]:
    status = store_status(store)
    return {
        "store_name": store.path.name,
        "store_path": str(store.path),
        "version": rolltrace.__version__,
        "experiments": status.experiments,
        "running": status.running,
        "lost": status.lost,
        "recording": status.recording,
        "incomplete": [
            {"file": str(each.path.relative_to(store.path)), "reason": each.reason}
            for each in status.incomplete.missing
        ],
        "read_only": not os.access(store.path, os.W_OK),
        "now_ns": time.time_ns(),
    }


def experiments(asked: Asked) -> Answer:
    return Answer(encoded(wire.Experiments, {"rows": experiment_overview(asked.store)}))


def experiment(asked: Asked) -> Answer:
    wanted: requests.ExperimentRequest = asked.arguments
    key = (wanted.project, wanted.experiment)
    state = experiment_states(asked.store).get(key)
    if state is None:
        raise NotFoundError(f"there is no experiment {wanted.experiment!r} of the project {wanted.project!r}")
    series = step_series(
        asked.store, project=wanted.project, experiment=wanted.experiment, run=wanted.run, all_runs=wanted.all_runs
    )
    runs = asked.store.runs(project=wanted.project, experiment=wanted.experiment).rows()
    named = {"project": wanted.project, "experiment": wanted.experiment, "state": state, "runs": runs}
    return Answer(encoded(wire.Experiment, {**named, **vars(series)}))


def groups(asked: Asked) -> Answer:
    wanted: requests.PageRequest = asked.arguments
    page = group_page(asked.store, _scope(wanted), order=wanted.order, after=wanted.after, limit=wanted.limit)
    return Answer(encoded(wire.Groups, page))


def trajectories(asked: Asked) -> Answer:
    wanted: requests.PageRequest = asked.arguments
    page = trajectory_page(asked.store, _scope(wanted), order=wanted.order, after=wanted.after, limit=wanted.limit)
    return Answer(encoded(wire.Trajectories, {**vars(page), "rows": [shapes.listing_row(row) for row in page.rows]}))


def sql(asked: Asked) -> Answer:
    wanted: requests.SqlRequest = asked.arguments
    return Answer(encoded(wire.Sql, {"sql": listing_sql(wanted.listing, _scope(wanted), wanted.order)}))


def facets(asked: Asked) -> Answer:
    return Answer(encoded(wire.Facets, facets_of(asked.store, _scope(asked.arguments))))


def filter_check(asked: Asked) -> Answer:
    wanted: requests.FilterCheckRequest = asked.arguments
    try:
        compile_where(written(wanted.where))
    except FilterError as error:
        return Answer(encoded(wire.FilterCheck, {"valid": False, **filter_problem(error)}))
    matching = trajectory_page(asked.store, _scope(wanted), limit=1).total if wanted.count else None
    return Answer(encoded(wire.FilterCheck, {"valid": True, "matching": matching}))


def filter_problem(error: FilterError) -> dict[str, Any]:
    """Where a filter is wrong; the picture of it that a terminal shows is left out."""
    detail, _, rest = str(error).partition("\n")
    hint = "\n".join(line for line in rest.split("\n")[2:] if line.strip())
    return {"detail": detail, "position": error.position, "length": error.length, "hint": hint or None}


def filter_complete(asked: Asked) -> Answer:
    wanted: requests.FilterCompleteRequest = asked.arguments
    return Answer(
        encoded(wire.Completion, complete_filter(asked.store, wanted.text, wanted.cursor, _scope(wanted, where=None)))
    )


def trajectory(asked: Asked) -> Answer:
    outline = outline_of(asked.store, asked.path["trajectory_id"])
    scores = [
        {**score, "newest": _score(score["newest"]), "history": [_score(each) for each in score["history"]]}
        for score in outline.scores
    ]
    return Answer(
        encoded(
            wire.TrajectoryHead,
            {
                **outline.own,
                "row": shapes.listing_row(outline.row),
                "children": outline.children,
                "siblings": outline.siblings,
                "over_steps": outline.over_steps,
                "elsewhere": outline.elsewhere,
                "outline": [shapes.op(each) for each in outline.ops],
                "scores": scores,
                "findings": [{**each, "detail": shapes.detail(each["detail"])} for each in outline.findings],
                "notes": [{**each, "body": recorded(each["body"])} for each in outline.notes],
                "pruned": None if outline.pruned is None else str(outline.pruned),
                "losses": outline.losses,
                "run": {"run": outline.row["run"], "index": outline.run_index, "count": outline.run_count},
                "has_tokens": outline.token_total > 0,
                "has_transitions": outline.has_transitions,
                "token_total": outline.token_total,
                "reward_range": outline.reward_range,
            },
        )
    )


def _score(score: dict[str, Any]) -> dict[str, Any]:
    return {**score, "terms": {name: recorded(value) for name, value in score["terms"].items()}}


def conversation(asked: Asked) -> Answer:
    messages = _messages(asked, shapes.LONGEST_TEXT)
    return Answer(encoded(wire.Conversation, {"messages": messages, "total": len(messages)}))


def whole_messages(asked: Asked) -> list[Answer]:
    """What `message` answers, for each message."""
    return [Answer(encoded(wire.Message, each)) for each in _messages(asked, None)]


def message(asked: Asked) -> Answer:
    index = _whole(asked.path["index"])
    messages = _messages(asked, None)
    if index >= len(messages):
        raise NotFoundError(f"there is no message {index}; the conversation has {len(messages)}")
    return Answer(encoded(wire.Message, messages[index]))


def _messages(asked: Asked, most: int | None) -> list[dict[str, Any]]:
    trajectory_id = asked.path["trajectory_id"]
    ops = {op["op_id"]: op for op in asked.loaded.ops(trajectory_id)}
    shown = asked.loaded.messages(trajectory_id)
    return [shapes.message(index, each, ops, most) for index, each in enumerate(shown)]


def tokens(asked: Asked) -> Answer:
    wanted: requests.TokensRequest = asked.arguments
    sequence = asked.loaded.tokens(asked.path["trajectory_id"])
    end = len(sequence) if wanted.end is None else wanted.end
    end = min(end, wanted.start + MOST_TOKENS)
    return Answer(encoded(wire.TokenRange, shapes.token_range(sequence, wanted.start, end)))


def op(asked: Asked) -> Answer:
    op = _op(asked)
    outline = next(each for each in asked.loaded.ops(asked.path["trajectory_id"]) if each["op_id"] == op.op_id)
    return op_detail(op, outline)


def op_detail(op: Op, outline: dict[str, Any]) -> Answer:
    """An op and its line of the outline."""
    payload = {"inputs": recorded(op.inputs), "outputs": recorded(op.outputs)}
    return Answer(encoded(wire.OpDetail, {**outline, **payload, "op": shapes.op(outline), "traceback": op.traceback}))


def branch(asked: Asked) -> Answer:
    wanted: requests.BranchRequest = asked.arguments
    try:
        path = json.loads(wanted.path)
    except ValueError:
        path = None
    if not isinstance(path, list) or not all(isinstance(key, str | int) for key in path):
        raise QueryError(f"path must be a JSON list of keys and indexes, not {wanted.path[:100]!r}")
    return op_branch(_op(asked), wanted.part, path, wanted.offset)


def op_branch(op: Op, part: str, path: list[str | int], offset: int = 0) -> Answer:
    """What stands at a path of an op's inputs or outputs."""
    value = branch_of(getattr(op, part), path, offset=offset)
    return Answer(encoded(wire.Branch, {"part": part, "path": path, "value": recorded_whole(value)}))


def op_raw(asked: Asked) -> Answer:
    op = _op(asked)
    body = json.dumps(whole_value(shapes.op_record(op)), ensure_ascii=False, indent=1).encode()
    return Answer(body, filename=f"op-{op.op_id}.json")


def _op(asked: Asked) -> Op:
    op_id = _whole(asked.path["op_id"])
    op = next(
        (each for each in asked.loaded.trajectory(asked.path["trajectory_id"]).walk() if each.op_id == op_id), None
    )
    if op is None:
        raise NotFoundError(f"the trajectory has no op {op_id}")
    return op


def transitions(asked: Asked) -> Answer:
    rows: list[dict[str, Any]] = []
    before: Any = None
    for index, row in enumerate(asked.loaded.trajectory(asked.path["trajectory_id"]).transitions):
        trace = row["trace"] if isinstance(row["trace"], dict) else {"extra": row["trace"]}
        state = trace.get("env_state")
        changes = changes_between(before, state) if index else []
        shown = [change._replace(before=recorded(change.before), after=recorded(change.after)) for change in changes]
        fields = row["fields"] if isinstance(row["fields"], dict) else {}
        names = ("prompt", "policy_response", "reward_data", "env_state", "extra")
        values = {name: recorded(trace.get(name)) for name in names}
        present = {key: recorded(value) for key, value in fields.items() if value is not None}
        earlier = [{key: recorded(value) for key, value in each.items()} for each in row["earlier"]]
        rows.append({**row, **values, "index": index, "changes": shown, "fields": present, "earlier": earlier})
        before = state
    return Answer(encoded(wire.Transitions, {"transitions": rows}))


def raw(asked: Asked) -> Answer:
    trajectory = asked.loaded.trajectory(asked.path["trajectory_id"])
    plain = trajectory.to_dict()
    # Of a list, `bounded` shows the first ones and counts the others: their payloads need not be read.
    plain["ops"] = [shapes.op_record(each) if at < _MOST_RAW_OPS else None for at, each in enumerate(trajectory.walk())]
    return Answer(json.dumps(bounded(plain, total=1_000_000), ensure_ascii=False).encode())


def blob(asked: Asked) -> Answer:
    image = read_image(asked.store.path, asked.path["hash"])
    return Answer(image.data, image.media_type)


def compare(asked: Asked) -> Answer:
    wanted: requests.CompareRequest = asked.arguments
    ids = [each for each in wanted.ids.split(",") if each.strip()]
    if not 2 <= len(ids) <= MOST_COMPARED:
        raise QueryError(f"compare two to {MOST_COMPARED} trajectories, not {len(ids)}")
    return comparison_of(asked, asked.store.compare(ids))


def comparison_of(asked: Asked, comparison: Comparison) -> Answer:
    """What `compare` answers."""
    trajectory_ids = [each.trajectory_id for each in comparison.trajectories]
    shown = side_by_side(comparison, [asked.loaded.tokens(each) for each in trajectory_ids])
    figures = {op["op_id"]: op for each in trajectory_ids for op in asked.loaded.ops(each)}
    difference = shown.first_difference
    rows = [{**vars(row), "turns": [_turn(turn, figures) for turn in row.turns]} for row in shown.rows]
    columns = [
        {
            "row": shapes.listing_row(each.to_dict()),
            "turns": each.turns,
            "parts_at_turn": comparison.partings[at].turn,
        }
        for at, each in enumerate(comparison.trajectories)
    ]
    return Answer(
        encoded(
            wire.Comparison,
            {
                "columns": columns,
                "rows": rows,
                "best": comparison.best,
                "identical": comparison.identical,
                "first_diverging_turn": comparison.first_diverging_turn,
                "first_difference": None
                if difference is None
                else {**vars(difference), "sequence_index": shown.places, "pieces": difference.texts},
                "attributes": [_differing(*each) for each in comparison.attributes.items()],
                "scores": [_differing(*each) for each in comparison.scores.items()],
            },
        )
    )


def _turn(turn: Any, figures: dict[int, Any]) -> dict[str, Any] | None:
    if turn is None:
        return None
    messages = [shapes.message(index, each, figures) for index, each in enumerate(turn.messages)]
    return {**turn._asdict(), "messages": messages}


def _differing(name: str, values: list[Any]) -> dict[str, Any]:
    return {"name": name, "values": [recorded(value) for value in values]}


def share(asked: Asked) -> Answer:
    from rolltrace.view.page_file import html_of  # they ask the functions above
    from rolltrace.view.share import MOST_OF_A_GROUP, share_trajectories

    wanted: requests.ShareRequest = asked.arguments
    ids = [each for each in (wanted.ids or "").split(",") if each.strip()]
    selection = select(asked.store, trajectory_ids=ids, limit=MOST_OF_A_GROUP + 1, **vars(_scope(wanted)))
    shared = share_trajectories(asked.store, selection.rows, named=bool(ids))
    name = f"rolltrace-{shared.kind}-{shared.trajectory_ids[0][:8]}.html"
    return Answer(html_of(shared).encode(), "text/html; charset=utf-8", filename=name)


def live(asked: Asked) -> Answer:
    pulse = pulse_of(asked.store)
    rows = [shapes.live_row(row) for row in pulse.rows]
    return Answer(encoded(wire.Live, {**vars(pulse), "rows": rows, "status": _status(asked.store)}))


def search(asked: Asked) -> Answer:
    wanted: requests.SearchRequest = asked.arguments
    page = search_text(asked.store, wanted.q, _scope(wanted), after=wanted.after, limit=wanted.limit)
    hits = [shapes.hit(each) for each in page.hits]
    return Answer(encoded(wire.Search, {"hits": hits, "next": page.page.next, "older_runs": page.page.older_runs}))


def jump(asked: Asked) -> Answer:
    wanted: requests.JumpRequest = asked.arguments
    targets = jump_targets(
        asked.store, wanted.q, Scope(project=wanted.project, experiment=wanted.experiment, step=wanted.step)
    )
    candidates = [
        {"kind": each.kind, "label": each.label, "detail": each.detail, "href": shapes.place_of(each)}
        for each in targets
    ]
    return Answer(encoded(wire.Jump, {"candidates": candidates}))


def _scope(wanted: requests.Scope, **other: Any) -> Scope:
    names = ("project", "experiment", "step", "sample_index", "validate", "run", "all_runs")
    return Scope(**{**{name: getattr(wanted, name) for name in names}, "where": written(wanted.where), **other})


def written(where: str | None) -> str | None:
    """What stands in a filter bar; an empty one is no filter."""
    return None if where is None or not where.strip() else where


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise QueryError(f"a whole number is needed, not {text[:60]!r}")
    return int(text)


HANDLERS: dict[str, Callable[[Asked], Answer]] = {
    each.__name__: each
    for each in (
        status, experiments, experiment, groups, trajectories, sql, facets, filter_check, filter_complete, trajectory,
        conversation, message, tokens, op, branch, op_raw, transitions, raw, blob, compare, share, live, search, jump,
    )
}  # fmt: skip
"""By the name of their endpoint."""
