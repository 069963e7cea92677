"""One short function per endpoint: parse, ask `query`, encode. Its name is that of the endpoint in `view.endpoints`.

They run in worker threads, under a time limit; what they raise becomes a `Problem` in `view.server`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import rolltrace
from rolltrace._address import address_in
from rolltrace.exchange import select
from rolltrace.query import (
    Comparison,
    FilterError,
    NotFoundError,
    Op,
    QueryError,
    Scope,
    Store,
    TrajectoryOutline,
    bounded,
    branch_of,
    changes_between,
    compile_where,
    complete_filter,
    experiment_overview,
    experiment_states,
    facets_of,
    group_page,
    group_record_list,
    jump_targets,
    listing_sql,
    login_name,
    outline_of,
    pulse_of,
    read_image,
    same_sample,
    search_text,
    side_by_side,
    step_series,
    store_status,
    trajectory_page,
    whole_value,
)
from rolltrace.query import compare as compare_trajectories
from rolltrace.view import requests, shapes, wire
from rolltrace.view.answers import Answer
from rolltrace.view.encoding import encoded, recorded, recorded_whole
from rolltrace.view.lanes import Opened
from rolltrace.view.loaded import Loaded
from rolltrace.view.merged import merged_pulse, merged_status
from rolltrace.view.stores import Home, Stores
from rolltrace.view.writes import Writing

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
    writing: Writing
    """What its pages may write."""
    stores: Stores
    """All that the server shows."""
    name: str | None
    """Of several, the one that it is about; None if it is about all of them, and `store` is the first."""

    def every(self) -> list[tuple[str | None, Opened]]:
        """The stores that it is about; without a name if the server shows one only."""
        if not self.stores.several:
            return [(None, self.stores.homes[0].opened())]
        homes = self.stores.homes if self.name is None else [self.stores.named(self.name)]
        return [(home.name, home.opened()) for home in homes]


def status(asked: Asked) -> Answer:
    return Answer(encoded(wire.Status, _status(asked)))


def _status(asked: Asked) -> dict[str, Any]:
    names = [home.name for home in asked.stores.homes] if asked.stores.several else []
    each = [status_of(opened.store, asked.writing) for _, opened in asked.every()]
    return {**merged_status(each), "stores": names}


def status_of(store: Store, writing: Writing) -> dict[str, Any]:
    """The status of one store."""
    status, address = store_status(store), address_in(store.path).url
    return {
        "store_name": address.rpartition("/")[2],
        "store_path": address,
        "version": rolltrace.__version__,
        "experiments": status.experiments,
        "running": status.running,
        "lost": status.lost,
        "recording": status.recording,
        "incomplete": [
            {"file": os.path.relpath(each.path, store.path), "reason": each.reason}
            for each in status.incomplete.missing
        ],
        "read_only": writing.refusal(store.path),
        "author": login_name(),
        "labels": writing.labels,
        "now_ns": time.time_ns(),
    }


def experiments(asked: Asked) -> Answer:
    rows = [{**row, "store": name} for name, opened in asked.every() for row in experiment_overview(opened.store)]
    if len(asked.every()) > 1:
        rows.sort(key=lambda row: -row["end_ns"])
    return Answer(encoded(wire.Experiments, {"rows": rows}))


def experiment(asked: Asked) -> Answer:
    wanted: requests.ExperimentRequest = asked.arguments
    key = (wanted.project, wanted.experiment)
    state = experiment_states(asked.store).get(key)
    if state is None:
        raise NotFoundError(f"there is no experiment {wanted.experiment!r} of the project {wanted.project!r}")
    series = step_series(
        asked.store, project=wanted.project, experiment=wanted.experiment, run=wanted.run, all_runs=wanted.all_runs,
        term=wanted.term, threshold=wanted.threshold,
    )  # fmt: skip
    runs = asked.store.runs(project=wanted.project, experiment=wanted.experiment).rows()
    named = {"project": wanted.project, "experiment": wanted.experiment, "state": state, "runs": runs}
    passing = None if series.passing is None else shapes.passing(series.passing)
    return Answer(encoded(wire.Experiment, {**named, **vars(series), "passing": passing}))


def groups(asked: Asked) -> Answer:
    wanted: requests.PageRequest = asked.arguments
    page = group_page(asked.store, _scope(wanted), order=wanted.order, after=wanted.after, limit=wanted.limit)
    return Answer(encoded(wire.Groups, {**vars(page), "passing": [shapes.passing(each) for each in page.passing]}))


def group_records(asked: Asked) -> Answer:
    records = group_record_list(asked.store, _scope(asked.arguments))
    return Answer(encoded(wire.GroupRecords, {"records": [shapes.group_record(each) for each in records]}))


def trajectories(asked: Asked) -> Answer:
    wanted: requests.PageRequest = asked.arguments
    page = trajectory_page(asked.store, _scope(wanted), order=wanted.order, after=wanted.after, limit=wanted.limit)
    return Answer(encoded(wire.Trajectories, {**vars(page), "rows": [shapes.listing_row(row) for row in page.rows]}))


def sql(asked: Asked) -> Answer:
    wanted: requests.SqlRequest = asked.arguments
    return Answer(encoded(wire.Sql, {"sql": listing_sql(wanted.listing, _scope(wanted), wanted.order)}))


def facets(asked: Asked) -> Answer:
    facets = facets_of(asked.store, _scope(asked.arguments))
    return Answer(encoded(wire.Facets, {**vars(facets), "passing": [shapes.passing(each) for each in facets.passing]}))


def filter_check(asked: Asked) -> Answer:
    wanted: requests.FilterCheckRequest = asked.arguments
    try:
        predicate = compile_where(written(wanted.where))
    except FilterError as error:
        return Answer(encoded(wire.FilterCheck, {"valid": False, **filter_problem(error)}))
    matching = trajectory_page(asked.store, _scope(wanted), limit=1).total if wanted.count else None
    hint = "\n".join(asked.store.unknown_names(predicate)) or None
    return Answer(encoded(wire.FilterCheck, {"valid": True, "matching": matching, "hint": hint}))


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
                "is_group": outline.is_group,
                "siblings": outline.siblings,
                "group_records": [shapes.group_record(each) for each in outline.group_records],
                "over_steps": outline.over_steps,
                "elsewhere": _elsewhere(asked, outline),
                "outline": [shapes.op(each) for each in outline.ops],
                "scores": scores,
                "labels": outline.labels,
                "findings": [{**each, "detail": shapes.detail(each["detail"])} for each in outline.findings],
                "notes": [{**each, "body": recorded(each["body"])} for each in outline.notes],
                "pruned": None if outline.pruned is None else str(outline.pruned),
                "losses": outline.losses,
                "run": {"run": outline.row["run"], "index": outline.run_index, "count": outline.run_count},
                "has_tokens": outline.token_total > 0,
                "has_transitions": outline.has_transitions,
                "token_total": outline.token_total,
                "reward_range": outline.reward_range,
                "links": outline.links,
            },
        )
    )


def _elsewhere(asked: Asked, outline: TrajectoryOutline) -> list[dict[str, Any]]:
    here = [{**each, "store": None} for each in outline.elsewhere]
    others = [home for home in asked.stores.homes if asked.stores.several and home.name != asked.name]
    for home in others:
        samples = [{**each, "store": home.name} for each in same_sample(home.opened().store, outline.row)]
        here += sorted(samples, key=lambda each: each["experiment"] != outline.row["experiment"])  # most likely meant
    return here


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
    wanted: requests.ConversationRequest | None = asked.arguments
    ops = {op["op_id"]: op for op in asked.loaded.ops(trajectory_id)}
    shown = asked.loaded.messages(trajectory_id, None if wanted is None else wanted.seen_by)
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
        earlier = [shapes.earlier(each) for each in row["earlier"]]
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
    problem: NotFoundError | None = None
    for _, opened in asked.every():
        try:
            image = read_image(opened.store, asked.path["hash"])
            return Answer(image.data, image.media_type)
        except NotFoundError as fault:
            problem = problem or fault
    raise problem or NotFoundError("there is no such image")


def compare(asked: Asked) -> Answer:
    wanted: requests.CompareRequest = asked.arguments
    ids = [each for each in wanted.ids.split(",") if each.strip()]
    if not 2 <= len(ids) <= MOST_COMPARED:
        raise QueryError(f"compare two to {MOST_COMPARED} trajectories, not {len(ids)}")
    homes = [_home_of(asked, each) for each in ids]
    comparison = compare_trajectories(
        [home.opened().loaded.trajectory(each.rpartition(":")[2]) for home, each in zip(homes, ids)]
    )
    names = [home.name if asked.stores.several else None for home in homes]
    return comparison_of(comparison, [home.opened().loaded for home in homes], names)


def comparison_of(comparison: Comparison, loaded: Sequence[Loaded], names: Sequence[str | None]) -> Answer:
    """What `compare` answers: each trajectory with what was read of its store, and its name."""
    read = [(of, each.trajectory_id) for of, each in zip(loaded, comparison.trajectories)]
    shown = side_by_side(comparison, [of.tokens(each) for of, each in read])
    figures = {op["op_id"]: op for of, each in read for op in of.ops(each)}
    difference = shown.first_difference
    rows = [{**vars(row), "turns": [_turn(turn, figures) for turn in row.turns]} for row in shown.rows]
    columns = [
        {
            "row": shapes.listing_row(each.to_dict()),
            "store": names[at],
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


def _home_of(asked: Asked, trajectory_id: str) -> Home:
    """The store of a trajectory: the one it is named with, else the one that was asked, else the first that has it."""
    if asked.name is not None and ":" not in trajectory_id:
        return asked.stores.named(asked.name)
    return asked.stores.with_trajectory(trajectory_id)


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
    stores = {home.name: home for home in (_home_of(asked, each) for each in ids)}
    if len(stores) > 1:
        raise QueryError(f"a file is about one store, and these trajectories are of {', '.join(stores)}")
    store = next(iter(stores.values())).opened().store if stores else asked.store
    plain_ids = [each.rpartition(":")[2] for each in ids]
    selection = select(store, trajectory_ids=plain_ids, limit=MOST_OF_A_GROUP + 1, **vars(_scope(wanted)))
    shared = share_trajectories(store, selection.rows, named=bool(ids))
    name = f"rolltrace-{shared.kind}-{shared.trajectory_ids[0][:8]}.html"
    return Answer(html_of(shared).encode(), "text/html; charset=utf-8", filename=name)


def live(asked: Asked) -> Answer:
    pulse = merged_pulse([pulse_of(opened.store) for _, opened in asked.every()])
    rows = [shapes.live_row(row) for row in pulse.rows]
    return Answer(encoded(wire.Live, {**vars(pulse), "rows": rows, "status": _status(asked)}))


def search(asked: Asked) -> Answer:
    wanted: requests.SearchRequest = asked.arguments
    page = search_text(asked.store, wanted.q, _scope(wanted), after=wanted.after, limit=wanted.limit)
    found = {
        "hits": [shapes.hit(each) for each in page.hits],
        "total": page.page.total,
        "steps": page.steps,
        "next": page.page.next,
        "older_runs": page.page.older_runs,
    }
    return Answer(encoded(wire.Search, found))


def jump(asked: Asked) -> Answer:
    wanted: requests.JumpRequest = asked.arguments
    scope = Scope(project=wanted.project, experiment=wanted.experiment, step=wanted.step)
    candidates = [
        {
            "kind": each.kind,
            "label": each.label,
            "detail": each.detail if name is None else f"{each.detail} · {name}",
            "href": shapes.place_of(each) if name is None else f"/s/{quote(name, safe='')}{shapes.place_of(each)}",
        }
        for name, opened in asked.every()
        for each in jump_targets(opened.store, wanted.q, scope)
    ]
    return Answer(encoded(wire.Jump, {"candidates": candidates}))


def _scope(wanted: requests.ScopeRequest, **other: Any) -> Scope:
    names = ("project", "experiment", "step", "sample_index", "validate", "run", "all_runs", "term", "threshold")
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
        status, experiments, experiment, groups, group_records, trajectories, sql, facets, filter_check,
        filter_complete, trajectory, conversation, message, tokens, op, branch, op_raw, transitions, raw, blob, compare,
        share, live, search, jump,
    )
}  # fmt: skip
"""By the name of their endpoint."""
