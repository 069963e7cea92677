"""A trajectory at a glance: its ops without payloads, its siblings, its sample over the steps, where its flags are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace.errors import NotFoundError
from rolltrace.flags import FLAGS
from rolltrace.query.contents import Pruning, pruning_of
from rolltrace.query.group_records import records_with_ops
from rolltrace.query.groups import find_record, record_rows
from rolltrace.query.paging import cell_of
from rolltrace.query.questions import LOST
from rolltrace.query.reading import summaries
from rolltrace.query.scope import Row
from rolltrace.query.score_views import IS_ROLLOUT
from rolltrace.query.sequence import PackedCall, TokenSequence, policy_calls, sequence_of
from rolltrace.query.trajectory import parents_of
from rolltrace.query.values import as_object, as_value
from rolltrace.tables import PRUNED, links_of

if TYPE_CHECKING:
    import pyarrow as pa

    from rolltrace.query.dataset import Store

_OPS = """
SELECT op_id, parent_id, name, kind, status, start_ns, end_ns, error, prompt_tokens, response_tokens, policy_version,
    finish_reason, thread, worker, list_avg(logprobs) AS logprob_mean, payload_bytes
FROM _spans WHERE trajectory_id = ? ORDER BY start_ns, op_id
"""
_TOKENS = """
SELECT op_id, prompt_tokens, response_tokens, tokens, logprobs, response_mask, text, prompt_chars, piece_chars
FROM _spans_with_text WHERE trajectory_id = ? AND op_id IN (SELECT unnest(?::BIGINT[])) ORDER BY start_ns, op_id
"""
_TOKEN_CALLS = """
SELECT op_id, kind, policy_version, len(tokens) AS size
FROM _spans WHERE trajectory_id = ? AND tokens IS NOT NULL ORDER BY start_ns, op_id
"""
_MOST_AT_ONCE = 6_000_000
"""How many tokens are read at once: together the prompts of a long trajectory are many times its tokens."""
_TOKEN_IDS = """
SELECT op_id, prompt_tokens, response_tokens, tokens, NULL AS logprobs, NULL AS response_mask, NULL AS text,
    NULL AS prompt_chars, NULL AS piece_chars
FROM _spans WHERE trajectory_id = ? AND op_id IN (SELECT unnest(?::BIGINT[])) ORDER BY start_ns, op_id
"""
_FINDINGS = "SELECT flag, op_id, detail FROM flags WHERE trajectory_id = ? ORDER BY time_ns"
_NOTES = "SELECT event, op_id, time_ns, body FROM notes WHERE trajectory_id = ? ORDER BY time_ns"
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
WHERE project = ? AND experiment <> ? AND validate = ? AND sample_index = ? AND NOT superseded
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
_SAME_SAMPLE = _ELSEWHERE.replace("project = ? AND experiment <> ? AND ", "")
_RANGE = """
SELECT min(finite_min) AS least, max(finite_max) AS most FROM _steps
WHERE project = ? AND experiment = ? AND NOT superseded
"""
_MEANINGS = {flag.name: flag.meaning for flag in FLAGS}


@dataclass(frozen=True)
class TrajectoryOutline:
    """What `outline_of` gives."""

    row: Row
    """Its row of the listing, `tags` as a dict."""
    is_group: bool
    """No rollout: a record of its whole group."""
    own: Row
    """traceback, parent_trajectory_id, parent_op_id"""
    children: list[str]
    """Ids of the trajectories begun inside it."""
    siblings: list[Row]
    group_records: list[Row]
    """What was recorded for all siblings together: see `group_record_list`."""
    over_steps: list[Row]
    elsewhere: list[Row]
    """The same sample in other experiments of the project, at the nearest step: experiment, step, trajectory_id."""
    ops: list[Row]
    """Each before its children, with depth, turn, offset_s, duration_s, own_s and flags."""
    scores: list[Row]
    """name, newest, history; without labels"""
    labels: list[Row]
    """Everything that people said, the oldest first, and whether it is what they say now: `counts`."""
    findings: list[Row]
    """flag, meaning, op_id, turn, token, detail"""
    notes: list[Row]
    pruned: Pruning | None
    """When payloads went, and why; None if they are there."""
    losses: list[Row]
    """What was lost in its step, though nobody chose so: reason, count."""
    run_index: int
    run_count: int
    has_transitions: bool
    token_total: int
    """How many tokens its last model call saw and produced."""
    reward_range: tuple[float, float] | None
    """Smallest and largest finite reward of its experiment."""
    links: list[Row]
    """Where vendors show it and its run: name, url"""


class Place(NamedTuple):
    """Where a trajectory is."""

    trajectory_id: str
    step: int | None


def find_trajectory(store: Store, trajectory_id: str) -> Place:
    """The full id and the step of a trajectory, or of a group record; a prefix of its id is enough.

    Raises:
        NotFoundError: no trajectory has this id.
        QueryError: several begin with it.
    """
    try:
        return Place(*store._find(trajectory_id))
    except NotFoundError:
        record = find_record(store, trajectory_id)
        if record is None:
            raise
        return Place(record["trajectory_id"], record["step"])


def outline_of(store: Store, trajectory_id: str) -> TrajectoryOutline:
    """A trajectory, or a group record, without its payloads; a prefix of its id is enough.

    Raises:
        NotFoundError: no trajectory has this id.
        QueryError: several begin with it.
    """
    full_id, step = place = find_trajectory(store, trajectory_id)
    listed = summaries(store, [full_id], step)
    is_group = not listed
    row = next(iter(listed or record_rows(store, step, "trajectory_id = ?", [full_id])), None)
    if row is None:  # pruned since we found it
        raise NotFoundError(f"trajectory {full_id} no longer exists")

    def ask(sql: str, *values: Any, everywhere: bool = False) -> list[Row]:
        return store._ask(sql, values, None if everywhere else step).rows()

    key = (row["project"], row["experiment"], row["step"], row["validate"], str(row["sample_index"]), row["run"])
    has_group = row["sample_index"] is not None
    own = ask(
        "SELECT traceback, parent_trajectory_id, parent_op_id FROM _trajectories WHERE trajectory_id = ? "
        "ORDER BY end_ns DESC NULLS LAST LIMIT 1", full_id,
    )  # fmt: skip
    findings = ask(_FINDINGS, full_id)
    spans = ask(_OPS, full_id)
    ops = _ops(spans, row["start_ns"], findings)
    has_tokens = {op["op_id"] for op in ops if op["prompt_tokens"] is not None or op["response_tokens"] is not None}
    is_among_tokens = any(finding["op_id"] in has_tokens for finding in findings)
    sequence = _layout_of(store, place) if is_among_tokens else TokenSequence()
    notes = [_note(each) for each in ask(_NOTES, full_id)]
    turns = {op["op_id"]: op["turn"] for op in ops}
    runs = [each["run"] for each in store.runs(project=row["project"], experiment=row["experiment"])]
    scores = ask("SELECT * FROM scores WHERE trajectory_id = ? ORDER BY time_ns, worker", full_id)
    sample = (row["rollout_n"], *key[:2], row["validate"], key[4], row["run"], row["run"])
    elsewhere = (*key[:2], row["validate"], key[4], row["step"], row["rollout_n"])
    (bounds,) = ask(_RANGE, *key[:2], everywhere=True)
    return TrajectoryOutline(
        row={**row, "tags": {} if row["tags"] is None else as_object(row["tags"], "tags")},
        own=own[0] if own else {"traceback": None, "parent_trajectory_id": None, "parent_op_id": None},
        children=[
            each["trajectory_id"]
            for each in ask(
                "SELECT DISTINCT trajectory_id, start_ns FROM _trajectories WHERE parent_trajectory_id = ? "
                "ORDER BY start_ns", full_id,
            )
        ],
        is_group=is_group,
        siblings=[cell_of(each) for each in (ask(_SIBLINGS, *key) if has_group else [row] if listed else [])],
        group_records=records_with_ops(store, _SAME_GROUP, [*key], step) if has_group else [],
        elsewhere=ask(_ELSEWHERE, *elsewhere, everywhere=True) if has_group else [],
        over_steps=ask(_OVER_STEPS, *sample, everywhere=True) if has_group else [],
        ops=ops,
        scores=_scores([each for each in scores if each["author"] is None]),
        labels=_labels([each for each in scores if each["author"] is not None]),
        findings=[_finding(each, turns, sequence) for each in findings],
        notes=[note for note in notes if note["event"] != PRUNED],
        pruned=pruning_of(notes),
        losses=ask(
            f"SELECT reason, sum(count)::BIGINT AS count FROM {LOST} WHERE project = ? AND experiment = ? AND "
            "step IS NOT DISTINCT FROM ? GROUP BY reason ORDER BY count DESC", *key[:3],
        ),
        run_index=runs.index(row["run"]) + 1,
        run_count=len(runs),
        has_transitions=bool(ask("SELECT 1 FROM _transitions WHERE trajectory_id = ? LIMIT 1", full_id)),
        token_total=_token_total(ops),
        reward_range=None if bounds["least"] is None else (bounds["least"], bounds["most"]),
        links=[
            {"name": name, "url": url}
            for name, url in links_of(store.path, *key[:2], row["run"], full_id).items()
        ],
    )  # fmt: skip


def same_sample(store: Store, row: Row) -> list[Row]:
    """The sample of a row of another store's listing in all experiments of this one, at the nearest step."""
    if row["sample_index"] is None:
        return []
    values = [row["validate"], str(row["sample_index"]), row["step"], row["rollout_n"]]
    return store._ask(_SAME_SAMPLE, values).rows()


def ops_of(store: Store, place: Place) -> list[Row]:
    """The ops of a trajectory without payloads, as in its outline; times are from the first of them."""
    rows = store._ask(_OPS, [place.trajectory_id], place.step).rows()
    findings = store._ask(_FINDINGS, [place.trajectory_id], place.step).rows()
    return _ops(rows, rows[0]["start_ns"] if rows else 0, findings)


def tokens_of(store: Store, place: Place) -> TokenSequence:
    """The one token sequence of a trajectory: see `query.token_sequence`."""
    return sequence_of(_packed_calls(store, place, _TOKENS))


def _layout_of(store: Store, place: Place) -> TokenSequence:
    """The same with ids alone: where its segments and breaks are, and nothing else is read."""
    return sequence_of(_packed_calls(store, place, _TOKEN_IDS))


def _packed_calls(store: Store, place: Place, sql: str) -> Iterator[PackedCall]:
    calls = _model_calls(store._ask(_TOKEN_CALLS, [place.trajectory_id], place.step).rows())
    versions = {call["op_id"]: call["policy_version"] for call in calls}
    for window in _windows(calls):
        rows = store._ask(sql, [place.trajectory_id, window], place.step).arrow()
        for at in range(rows.num_rows):
            row = {name: rows[name][at] for name in rows.column_names}
            yield _packed(row, versions[row["op_id"].as_py()])


def _windows(calls: list[Row]) -> Iterator[list[int]]:
    """The ids of these calls, as many at a time as may be read at once."""
    window: list[int] = []
    size = 0
    for call in calls:
        if window and size + call["size"] > _MOST_AT_ONCE:
            yield window
            window, size = [], 0
        window.append(call["op_id"])
        size += call["size"]
    if window:
        yield window


def _packed(row: dict[str, pa.Scalar], version: int | None) -> PackedCall:
    ids, at = _packed_list(row["tokens"]), 4 * (row["prompt_tokens"].as_py() or 0)
    text, chars = row["text"].as_py(), row["prompt_chars"].as_py() or 0
    has_prompt, has_response = row["prompt_tokens"].is_valid, row["response_tokens"].is_valid
    return PackedCall(
        row["op_id"].as_py(), version, ids[:at], ids[at:] if has_response else b"", _packed_list(row["piece_chars"]),
        None if text is None or not has_prompt else text[:chars],
        None if text is None or not has_response else text[chars:],
        row["logprobs"].as_py(), row["response_mask"].as_py(),
    )  # fmt: skip


def _packed_list(values: pa.Scalar) -> bytes:
    """The bytes of a list of 32-bit integers."""
    if not values.is_valid:
        return b""
    numbers = values.values
    return memoryview(numbers.buffers()[1])[4 * numbers.offset : 4 * (numbers.offset + len(numbers))].tobytes()


def _model_calls(rows: list[Row]) -> list[Row]:
    """Those of some ops with tokens that make the sequence: model calls, or the first op if there are none."""
    return policy_calls(rows, lambda row: row["kind"])


def _ops(rows: list[Row], start_ns: int, findings: list[Row]) -> list[Row]:
    """The ops as a tree, each before its children."""
    by_id = {row["op_id"]: row for row in rows}
    parents = parents_of(rows, by_id)
    children: dict[int | None, list[Row]] = {}
    for row in rows:
        children.setdefault(parents[row["op_id"]], []).append(row)
    turn = -1
    for row in rows:
        turn += row["kind"] == "llm"
        row["turn"] = turn if turn >= 0 else None
    ordered: list[Row] = []
    waiting = [(row, 0) for row in reversed(children.get(None, []))]
    while waiting:
        row, depth = waiting.pop()
        inside = children.get(row["op_id"], [])
        waiting += [(each, depth + 1) for each in reversed(inside)]
        took = None if row["end_ns"] is None else (row["end_ns"] - row["start_ns"]) / 1e9
        ordered.append(
            {
                **row,
                "parent_id": parents[row["op_id"]],
                "payload_bytes": row["payload_bytes"] or 0,
                "depth": depth,
                "offset_s": (row["start_ns"] - start_ns) / 1e9,
                "duration_s": took,
                "own_s": None if took is None else max(0.0, took - _covered(inside)),
                "flags": sorted({each["flag"] for each in findings if each["op_id"] == row["op_id"]}),
            }
        )
    return ordered


def _token_total(ops: list[Row]) -> int:
    with_tokens = [op for op in ops if op["prompt_tokens"] is not None or op["response_tokens"] is not None]
    calls = policy_calls(with_tokens, lambda op: op["kind"])
    last = max(calls, key=lambda op: op["start_ns"], default=None)
    return 0 if last is None else (last["prompt_tokens"] or 0) + (last["response_tokens"] or 0)


def _covered(ops: list[Row]) -> float:
    """Seconds in which at least one of these ops ran; they may overlap."""
    covered, until = 0, 0
    for op in ops:
        if op["end_ns"] is not None and op["end_ns"] > until:
            covered += op["end_ns"] - max(op["start_ns"], until)
            until = op["end_ns"]
    return covered / 1e9


def _scores(rows: list[Row]) -> list[Row]:
    names = sorted({row["name"] for row in rows}, key=lambda name: (name != "reward", name))
    scores = []
    for name in names:
        history = [
            {**row, "terms": {} if row["terms"] is None else as_object(row["terms"], "terms")}
            for row in rows
            if row["name"] == name
        ]
        scores.append({"name": name, "newest": history[-1], "history": history})
    return scores


def _labels(rows: list[Row]) -> list[Row]:
    newest = {(row["name"], row["author"], row["op_id"]): at for at, row in enumerate(rows)}
    return [
        {**row, "value": row["label"], "counts": row["label"] is not None and at in newest.values()}
        for at, row in enumerate(rows)
    ]


def _note(row: Row) -> Row:
    """A note as it can be shown; one that was damaged may have neither a name nor a body."""
    return {**row, "event": row["event"] or "", "body": as_value(row["body"])}


def _finding(row: Row, turns: dict[int, int | None], sequence: TokenSequence) -> Row:
    detail = as_value(row["detail"])
    return {
        **row,
        "meaning": _MEANINGS.get(row["flag"], ""),
        "turn": turns.get(row["op_id"]),
        "token": sequence.place_of(row["flag"], row["op_id"], detail),
        "detail": detail,
    }
