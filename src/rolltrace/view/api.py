"""One short function per endpoint: parse, ask `query`, encode. Its name is that of the endpoint in `view.requests`.

They run in worker threads, under a time limit; what they raise becomes a `Problem` in `view.server`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

import rolltrace
from rolltrace import query
from rolltrace._address import address_in
from rolltrace.exchange import select
from rolltrace.query import FilterError, NotFoundError, Op, QueryError, Scope, Store, Trajectory, bounded
from rolltrace.query.model import lists
from rolltrace.query.model import store as stored
from rolltrace.query.model import trajectory as told
from rolltrace.query.model.rows import listing_row, number, passing, short_name, typed
from rolltrace.query.model.trajectory import Comparison
from rolltrace.view import requests
from rolltrace.view.cache import Answer, Loaded
from rolltrace.view.stores import Home, Opened, Stores
from rolltrace.view.writes import Writing

MAX_TOKENS = 50_000
"""How many tokens are sent at once."""
MAX_COMPARED = 8
_MAX_RAW_OPS = 100
_OP_RECORD = (
    "op_id", "name", "kind", "status", "start_ns", "end_ns", "error", "traceback", "policy_version", "finish_reason",
    "worker", "inputs", "outputs", "prompt_text", "response_text",
)  # fmt: skip
_TRACE = ("prompt", "policy_response", "reward_data", "env_state", "extra")
encode = msgspec.json.Encoder().encode


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

    def trajectory(self) -> Trajectory:
        """The one in its path."""
        return self.loaded.trajectory(self.path["trajectory_id"])


def status(asked: Asked) -> stored.Status:
    """The status of all stores that are meant; of one it is its own."""
    first, *others = each = [status_of(opened.store, asked.writing) for _, opened in asked.every()]
    if others:
        refusals = [status.read_only for status in each]
        first.store_name = ", ".join(status.store_name for status in each)
        first.read_only = next(filter(None, refusals)) if all(refusals) else None
    for status in others:
        first.experiments += status.experiments
        first.running += status.running
        first.lost += status.lost
        first.recording |= status.recording
        first.incomplete += status.incomplete
    first.stores = [home.name for home in asked.stores.homes] if asked.stores.several else []
    return first


def status_of(store: Store, writing: Writing) -> stored.Status:
    """The status of one store."""
    status, address = query.store_status(store), address_in(store.path).url
    missing = status.incomplete.missing
    return stored.Status(
        store_name=address.rpartition("/")[2],
        store_path=address,
        version=rolltrace.__version__,
        experiments=status.experiments,
        running=status.running,
        lost=status.lost,
        recording=status.recording,
        incomplete=[stored.Unreadable(os.path.relpath(each.path, store.path), each.reason) for each in missing],
        read_only=writing.refusal(store.path),
        author=query.login_name(),
        labels=list(writing.labels),
        stores=[],
        now_ns=time.time_ns(),
    )


def experiments(asked: Asked) -> stored.Experiments:
    rows = [{**row, "store": name} for name, opened in asked.every() for row in query.experiment_overview(opened.store)]
    if asked.stores.several:
        rows.sort(key=lambda row: -row["end_ns"])
    return typed(stored.Experiments, {"rows": rows})


def experiment(asked: Asked) -> stored.Experiment:
    wanted: requests.ExperimentRequest = asked.arguments
    state = query.experiment_states(asked.store).get((wanted.project, wanted.experiment))
    if state is None:
        raise NotFoundError(f"there is no experiment {wanted.experiment!r} of the project {wanted.project!r}")
    series = query.step_series(asked.store, **msgspec.structs.asdict(wanted))
    runs = asked.store.runs(project=wanted.project, experiment=wanted.experiment).rows()
    named = {"project": wanted.project, "experiment": wanted.experiment, "state": state, "runs": runs}
    means = None if series.passing is None else passing(series.passing)
    return typed(stored.Experiment, {**named, **vars(series), "passing": means})


def groups(asked: Asked) -> lists.Groups:
    wanted: requests.PageRequest = asked.arguments
    page = query.group_page(asked.store, _scope(wanted), **_paging(wanted))
    return typed(lists.Groups, {**vars(page), "passing": [passing(each) for each in page.passing]})


def group_records(asked: Asked) -> lists.GroupRecords:
    return lists.GroupRecords(query.group_record_list(asked.store, _scope(asked.arguments)))


def trajectories(asked: Asked) -> lists.Trajectories:
    wanted: requests.PageRequest = asked.arguments
    page = query.trajectory_page(
        asked.store, _scope(wanted), order=wanted.order, after=wanted.after, limit=wanted.limit
    )
    return typed(lists.Trajectories, {**vars(page), "rows": [listing_row(row) for row in page.rows]})


def sql(asked: Asked) -> lists.Sql:
    wanted: requests.SqlRequest = asked.arguments
    return lists.Sql(query.listing_sql(wanted.listing, _scope(wanted), wanted.order))


def facets(asked: Asked) -> lists.Facets:
    return query.facets_of(asked.store, _scope(asked.arguments))


def filter_check(asked: Asked) -> lists.FilterCheck:
    wanted: requests.FilterCheckRequest = asked.arguments
    try:
        predicate = query.compile_where(written(wanted.where))
    except FilterError as error:
        return lists.FilterCheck(False, **filter_problem(error))
    matching = query.trajectory_page(asked.store, _scope(wanted), limit=1).total if wanted.count else None
    hint = "\n".join(asked.store.unknown_names(predicate)) or None
    return lists.FilterCheck(True, matching=matching, hint=hint)


def filter_problem(error: FilterError) -> dict[str, Any]:
    """Where a filter is wrong; the picture of it that a terminal shows is left out."""
    detail, _, rest = str(error).partition("\n")
    hint = "\n".join(line for line in rest.split("\n")[2:] if line.strip())
    return {"detail": detail, "position": error.position, "length": error.length, "hint": hint or None}


def filter_complete(asked: Asked) -> lists.Completion:
    wanted: requests.FilterCompleteRequest = asked.arguments
    return typed(
        lists.Completion, query.complete_filter(asked.store, wanted.text, wanted.cursor, _scope(wanted, where=None))
    )


def trajectory(asked: Asked) -> told.TrajectoryHead:
    of = asked.trajectory()
    outline = query.outline_of(asked.store, of)
    for home in asked.stores.homes:
        if asked.stores.several and home.name != asked.name:
            samples = query.same_sample(home.opened().store, of, home.name)
            # That of the same experiment is most likely meant.
            outline.elsewhere += sorted(samples, key=lambda each: each.experiment != of.experiment)
    return outline


def conversation(asked: Asked) -> told.Conversation:
    messages = [query.shorten(each) for each in whole_messages(asked)]
    return told.Conversation(messages, len(messages))


def message(asked: Asked) -> told.Message:
    index = requests.whole_number(asked.path["index"])
    messages = whole_messages(asked)
    if index >= len(messages):
        raise NotFoundError(f"there is no message {index}; the conversation has {len(messages)}")
    return messages[index]


def whole_messages(asked: Asked) -> list[told.Message]:
    """What `message` answers, for each message."""
    wanted: requests.ConversationRequest | None = asked.arguments
    return asked.loaded.messages(asked.path["trajectory_id"], None if wanted is None else wanted.seen_by)


def tokens(asked: Asked) -> told.TokenRange:
    wanted: requests.TokensRequest = asked.arguments
    sequence = asked.loaded.tokens(asked.path["trajectory_id"])
    end = len(sequence) if wanted.end is None else wanted.end
    return sequence.range(wanted.start, min(end, wanted.start + MAX_TOKENS))


def op(asked: Asked) -> told.OpDetail:
    op = _op(asked)
    lines = asked.loaded.ops(asked.path["trajectory_id"])
    return query.detail_of(op, next(each for each in lines if each.op_id == str(op.op_id)))


def branch(asked: Asked) -> told.Branch:
    wanted: requests.BranchRequest = asked.arguments
    try:
        path = json.loads(wanted.path)
    except ValueError:
        path = None
    if not isinstance(path, list) or not all(isinstance(key, str | int) for key in path):
        raise QueryError(f"path must be a JSON list of keys and indexes, not {wanted.path[:100]!r}")
    return told.Branch(wanted.part, path, query.branch_of(getattr(_op(asked), wanted.part), path, offset=wanted.offset))


def op_raw(asked: Asked) -> Answer:
    op = _op(asked)
    body = json.dumps(query.whole_value(_op_record(op)), ensure_ascii=False, indent=1).encode()
    return Answer(body, filename=f"op-{op.op_id}.json")


def _op(asked: Asked) -> Op:
    op_id = requests.whole_number(asked.path["op_id"])
    op = next((each for each in asked.trajectory().walk() if each.op_id == op_id), None)
    if op is None:
        raise NotFoundError(f"the trajectory has no op {op_id}")
    return op


def _op_record(op: Op) -> dict[str, Any]:
    """All that was recorded of an op, as plain values."""
    return {each: getattr(op, each) for each in _OP_RECORD}


def transitions(asked: Asked) -> told.Transitions:
    shown: list[told.Transition] = []
    before: Any = None
    for index, row in enumerate(asked.trajectory().transitions):
        trace = row.trace if isinstance(row.trace, dict) else {"extra": row.trace}
        state = trace.get("env_state")
        changes = query.changes_between(before, state) if index else []
        fields = row.fields if isinstance(row.fields, dict) else {}
        values = {name: bounded(trace.get(name)) for name in _TRACE}
        step = told.Transition(
            index=index,
            time_ns=row.time_ns,
            op_id=None if row.op_id is None else str(row.op_id),
            **values,
            reward=number(row.reward),
            changes=[told.Change(each.path, bounded(each.before), bounded(each.after)) for each in changes],
            fields={key: bounded(value) for key, value in fields.items() if value is not None},
            episode_done=row.episode_done,
            stop_reason=row.stop_reason,
            earlier=[_earlier(each) for each in row.earlier],
            amends=row.amends,
            turn=row.turn,
            backfill=row.backfill,
        )
        shown.append(step)
        before = state
    return told.Transitions(shown)


def _earlier(replaced: dict[str, Any]) -> told.Earlier:
    return told.Earlier(
        replaced["time_ns"], {key: bounded(value) for key, value in replaced.items() if key != "time_ns"}
    )


def raw(asked: Asked) -> Answer:
    return Answer(json.dumps(whole_record(asked), ensure_ascii=False).encode())


def whole_record(asked: Asked) -> Any:
    """What `raw` answers, as plain values."""
    trajectory = asked.trajectory()
    plain = trajectory.to_dict()
    # Of a list, `bounded` shows the first ones and counts the others: their payloads need not be read.
    plain["ops"] = [_op_record(each) if at < _MAX_RAW_OPS else None for at, each in enumerate(trajectory.walk())]
    return bounded(plain, total=1_000_000)


def blob(asked: Asked) -> Answer:
    problem: NotFoundError | None = None
    for _, opened in asked.every():
        try:
            image = query.read_image(opened.store, asked.path["hash"])
            return Answer(image.data, image.media_type)
        except NotFoundError as error:
            problem = problem or error
    raise problem or NotFoundError("there is no such image")


def compare(asked: Asked) -> Comparison:
    wanted: requests.CompareRequest = asked.arguments
    ids = [each for each in wanted.ids.split(",") if each.strip()]
    if not 2 <= len(ids) <= MAX_COMPARED:
        raise QueryError(f"compare two to {MAX_COMPARED} trajectories, not {len(ids)}")
    homes = [_home_of(asked, each) for each in ids]
    ids = [each.rpartition(":")[2] for each in ids]
    comparison = query.compare([home.opened().loaded.trajectory(each) for home, each in zip(homes, ids)])
    names = [home.name if asked.stores.several else None for home in homes]
    sequences = [home.opened().loaded.tokens(each) for home, each in zip(homes, ids)]
    return query.side_by_side(comparison, sequences, names)


def _home_of(asked: Asked, trajectory_id: str) -> Home:
    """The store of a trajectory: the one it is named with, else the one that was asked, else the first that has it."""
    if asked.name is not None and ":" not in trajectory_id:
        return asked.stores.named(asked.name)
    return asked.stores.with_trajectory(trajectory_id)


def share(asked: Asked) -> Answer:
    from rolltrace.view.export_html import html_of  # they ask the functions above
    from rolltrace.view.share import MAX_GROUP_SIZE, share_trajectories

    wanted: requests.ShareRequest = asked.arguments
    ids = [each for each in (wanted.ids or "").split(",") if each.strip()]
    stores = {home.name: home for home in (_home_of(asked, each) for each in ids)}
    if len(stores) > 1:
        raise QueryError(f"a file is about one store, and these trajectories are of {', '.join(stores)}")
    store = next(iter(stores.values())).opened().store if stores else asked.store
    plain_ids = [each.rpartition(":")[2] for each in ids]
    selection = select(store, trajectory_ids=plain_ids, limit=MAX_GROUP_SIZE + 1, **vars(_scope(wanted)))
    shared = share_trajectories(store, selection.rows, named=bool(ids))
    name = f"rolltrace-{shared.kind}-{shared.trajectory_ids[0][:8]}.html"
    return Answer(html_of(shared).encode(), "text/html; charset=utf-8", filename=name)


def live(asked: Asked) -> stored.Live:
    """What runs in the stores that are meant, the oldest first."""
    each = [query.pulse_of(opened.store) for _, opened in asked.every()]
    workers = [worker for pulse in each for worker in pulse.workers]
    calls = sum(worker["tool_calls"] for worker in workers)
    rows = [typed(stored.LiveRow, row) for pulse in each for row in pulse.rows]
    for row in rows:
        row.current_op = None if row.current_op is None else short_name(row.current_op)
    return stored.Live(
        rows=sorted(rows, key=lambda row: row.start_ns),
        workers=[typed(stored.LiveWorker, worker) for worker in workers],
        window_s=each[0].window_s,
        trajectories_per_min=sum(pulse.trajectories_per_min for pulse in each),
        tokens_per_min=sum(pulse.tokens_per_min for pulse in each),
        tool_error_rate=sum(worker["tool_errors"] for worker in workers) / calls if calls else None,
        snapshot_age_s=max((age for pulse in each if (age := pulse.snapshot_age_s) is not None), default=None),
        status=status(asked),
    )


def search(asked: Asked) -> lists.Search:
    wanted: requests.SearchRequest = asked.arguments
    return query.search_text(asked.store, wanted.q, _scope(wanted), after=wanted.after, limit=wanted.limit)


def jump(asked: Asked) -> lists.Jump:
    wanted: requests.JumpRequest = asked.arguments
    scope = Scope(project=wanted.project, experiment=wanted.experiment, step=wanted.step)
    candidates: list[lists.JumpCandidate] = []
    for name, opened in asked.every():
        for each in query.jump_targets(opened.store, wanted.q, scope):
            if name is not None:
                each.detail, each.href = f"{each.detail} · {name}", f"/s/{quote(name, safe='')}{each.href}"
            candidates.append(each)
    return lists.Jump(candidates)


def _scope(wanted: requests.ScopeRequest, **other: Any) -> Scope:
    names = ("project", "experiment", "step", "sample_index", "validate", "run", "all_runs", "term", "threshold")
    return Scope(**{**{name: getattr(wanted, name) for name in names}, "where": written(wanted.where), **other})


def _paging(wanted: requests.PageRequest) -> dict[str, Any]:
    return {"order": wanted.order, "after": wanted.after, "limit": wanted.limit}


def written(where: str | None) -> str | None:
    """What stands in a filter bar; an empty one is no filter."""
    return None if where is None or not where.strip() else where


def answer(name: str, asked: Asked) -> Answer:
    """What an endpoint answers: the function above of its name is asked."""
    found: Answer | msgspec.Struct = globals()[name](asked)
    return found if isinstance(found, Answer) else Answer(encode(found))
