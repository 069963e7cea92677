"""`rolltrace diff`: two or more trajectories turn by turn, and where they diverge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import counted, number
from rolltrace.cli.command import command, option
from rolltrace.cli.options import (
    COORDINATES,
    IDS,
    JSON,
    PASS,
    STORE_AFTER_IDS,
    STORE_OPTION,
    Options,
    tell_of_older_runs,
)  # fmt: skip
from rolltrace.cli.output import (
    SHORT_ID,
    Column,
    cut,
    field_text,
    json_line,
    paint,
    plain,
    print_table,
    screen_width,
    working,
    wrapped,
)  # fmt: skip
from rolltrace.cli.passing import Passing, read_passing

if TYPE_CHECKING:
    from rolltrace.query import Comparison, Op, Turn, TurnRow

_AROUND = 30
"""How much of what is the same is shown before the first difference and after the last."""
_AROUND_CELL = 6
_MAX_LINES = 40
"""How many lines of one reply or tool call are shown; how many more there are is said."""
_MAX_SAME_LENGTH = 2000
_MAX_CALL_LENGTH = 60
_EXAMPLES = """examples:
  rolltrace diff 3f2a1b2c 9d0e77aa
  rolltrace diff 3f2a1b2c 9d0e77aa 11c0ffee runs/store
  rolltrace diff 3f2a1b2c 9d0e77aa --json | jq .first_diverging_token
  rolltrace diff 3f2a1b2c --step 11 --sample 3 --rollout 0
  rolltrace diff --step 12 --sample 3    all of a sample, each against the best"""


@command(
    "compare trajectories",
    "Align trajectories turn by turn and mark the first turn, token and tool call that differ.",
    IDS,
    COORDINATES,
    PASS,
    STORE_OPTION,
    STORE_AFTER_IDS,
    option("--full", f"do not cut texts of over {_MAX_LINES} lines"),
    JSON,
    epilog=_EXAMPLES,
)
def diff(options: Options) -> int:
    options.check_ids()
    asked = options.coordinates
    is_group = not options.ids and {"step", "sample_index"} <= asked.keys() and "rollout_n" not in asked
    if asked and not is_group and not (options.ids and "rollout_n" in asked):
        options.usage_error("give ids, or --step and --sample of a group, or an id and --step, --sample and --rollout")
    if not asked and len(options.ids) < 2:
        options.usage_error("comparing needs two or more ids, or --step and --sample of a group")
    from rolltrace.query import verdicts_of

    store = options.open_store()
    with working(f"reading {store.path}"):
        if is_group:
            comparison = store.compare_group(asked.pop("step"), asked.pop("sample_index"), **asked)
            tell_of_older_runs(comparison.older_runs)
        else:
            others = store.trajectories(**asked) if asked else ()
            comparison = store.compare([*options.ids, *(row["trajectory_id"] for row in others)])
        ids = [each.trajectory_id for each in comparison.trajectories]
        verdicts = verdicts_of(store, ids, **options.rule)
        meanings = [each for each in read_passing(options, store).meanings if each.title == "pass"]
    meant = {(each.project, each.experiment) for each in meanings}
    known = [each for each in comparison.trajectories if (each.project, each.experiment) in meant]
    verdicts = {each.trajectory_id: verdicts.get(each.trajectory_id) for each in known}
    rules = Passing(meanings).rules([{"project": each.project, "experiment": each.experiment} for each in known])
    if options.json:
        print(json_line({**_fields(comparison), "passed": [verdicts.get(each) for each in ids], "pass_rules": rules}))
    else:
        _print(comparison, verdicts, rules, full=options.full)
    return 0


def _fields(comparison: Comparison) -> dict[str, Any]:
    token, call = comparison.first_diverging_token, comparison.first_diverging_tool_call
    return {
        "trajectory_ids": [each.trajectory_id for each in comparison.trajectories],
        "identical": comparison.identical,
        "first_diverging_turn": comparison.first_diverging_turn,
        "first_diverging_token": None if token is None else vars(token),
        "first_diverging_tool_call": None
        if call is None
        else {**vars(call), "calls": [None if each is None else each._asdict() for each in call.calls]},
        "best": comparison.best,
        "partings": [
            {"turn": parting.turn, "token": None if parting.token is None else vars(parting.token)}
            for parting in comparison.partings
        ],
        "attributes": comparison.attributes,
        "scores": comparison.scores,
        "turns": [
            {"index": row.index, "same": row.same, "turns": [_turn_fields(turn) for turn in row.turns]}
            for row in comparison.turns
        ],
    }


def _turn_fields(turn: Turn | None) -> dict[str, Any] | None:
    if turn is None:
        return None
    pruned = None if turn.pruned is None else str(turn.pruned)
    tools = [{"name": op.name, "inputs": op.inputs, "outputs": op.outputs, "error": op.error} for op in turn.tools]
    return {"op_id": turn.op_id, "text": turn.text, "tokens": turn.tokens, "tools": tools, "pruned": pruned}


def _label(at: int) -> str:
    return chr(ord("A") + at) if at < 26 else f"#{at + 1}"


def _print(comparison: Comparison, verdicts: Mapping[str, bool | None], rules: Sequence[str], *, full: bool) -> None:
    for at, each in enumerate(comparison.trajectories):
        place = f"step {plain(each.step)}  sample {plain(each.sample_index)}  rollout {plain(each.rollout_n)}"
        reward = "" if each.reward is None else f"  reward {number(each.reward)}"
        verdict = verdicts.get(each.trajectory_id)
        reward += "" if verdict is None else "  passed" if verdict else "  not passed"
        name = plain(each.trajectory_id[:SHORT_ID])
        print(f"{paint(_label(at), 'bold')}  {name}  {place}  {plain(each.status)}{reward}")
    for rule in rules:
        print(paint(rule, "dim"))
    print()
    for line in _summary(comparison):
        print(line)
    different = {**{f"score {name}": values for name, values in comparison.scores.items()}, **comparison.attributes}
    if different:
        print()
        cells = [_cells(values) for values in different.values()]
        columns = [Column("differs", [plain(name) for name in different])]
        columns += [
            Column(_label(at), [row[at] for row in cells], stretch=True) for at in range(len(comparison.trajectories))
        ]
        if print_table(columns):
            print(paint("more columns do not fit: --json, or a wider terminal", "dim"))
    print()
    for row in comparison.turns:
        _print_turn(row, comparison, full=full)


def _cells(values: Sequence[Any]) -> list[str]:
    texts = [field_text(value) for value in values]
    return differing_parts(texts, around=_AROUND_CELL) if max(map(len, texts)) > _MAX_CALL_LENGTH // 2 else texts


def _summary(comparison: Comparison) -> list[str]:
    if comparison.identical:
        return ["model and tools did the same in all of them"]
    lines = [
        f"{_label(at)}: {plain(each.pruned)}"
        for at, each in enumerate(comparison.trajectories)
        if each.pruned is not None
    ]
    if comparison.first_diverging_turn is None:
        return [*lines, "nothing else differs, and what was pruned cannot be compared"]
    lines.append(f"first turn that differs: {comparison.first_diverging_turn}")
    token, call = comparison.first_diverging_token, comparison.first_diverging_tool_call
    if token is not None:
        values = ", ".join(
            f"{_label(at)} {_side(value)}" + (f" {_side(text)}" if text is not None else "")
            for at, (value, text) in enumerate(zip_longest(token.values, token.texts))
        )
        lines.append(f"first {token.unit} that differs: {token.index_in_turn} of turn {token.turn} ({values})")
    if call is not None:
        calls = ["none" if each is None else _call(each.name, each.arguments) for each in call.calls]
        parts = differing_parts(calls, around=_AROUND) if max(map(len, calls)) > _MAX_CALL_LENGTH else calls
        values = ", ".join(f"{_label(at)} {cut(each, _MAX_CALL_LENGTH)}" for at, each in enumerate(parts))
        lines.append(f"first tool call that differs: {call.index_in_turn} of turn {call.turn} ({values})")
    if len(comparison.trajectories) > 2:
        lines += [_parting(comparison, at) for at in range(len(comparison.trajectories)) if at != comparison.best]
    return lines


def _parting(comparison: Comparison, at: int) -> str:
    """Where a trajectory diverges from the best one."""
    parting, best = comparison.partings[at], f"{_label(comparison.best)}, the best"
    if parting.turn is None:
        return f"{_label(at)} is the same as {best}"
    place = f"turn {parting.turn}"
    if parting.token is not None and parting.token.turn == parting.turn:
        place += f", {parting.token.unit} {parting.token.index_in_turn}"
    return f"{_label(at)} diverges from {best}, at {place}"


def _side(value: int | str | None) -> str:
    return "ended" if value is None else plain(repr(value)) if isinstance(value, str) else str(value)


def _call(name: str, arguments: Any) -> str:
    shown_arguments = (
        ", ".join(f"{key}={plain(item)}" for key, item in arguments.items()) if isinstance(arguments, dict) else ""
    )
    return plain(f"{name}({shown_arguments})")


def _print_turn(row: TurnRow, comparison: Comparison, *, full: bool) -> None:
    first = row.index == comparison.first_diverging_turn
    mark = "=" if row.same else "≠" if row.known else "?"
    title = f"{mark} turn {row.index}{'  first difference' if first else ''}"
    print(paint(title, "dim" if row.same else "red" if first else "yellow"))
    room = max(40, screen_width() - 6)
    if row.same:
        turn = row.turns[0]
        for line in [] if turn is None else [_reply(turn), *map(_tool, turn.tools)]:
            print("    " + paint(cut(line[:_MAX_SAME_LENGTH], room), "dim"))
        return
    call = comparison.first_diverging_tool_call
    shown = _differing_lines(row.turns)
    for at, lines in enumerate(shown):
        for line_at, line in enumerate(lines):
            differs = call is not None and call.turn == row.index and line_at == call.index_in_turn + 1
            pieces = wrapped(line, room)
            left = 0 if full else len(pieces) - _MAX_LINES
            for piece_at, piece in enumerate(pieces if left <= 0 else pieces[:_MAX_LINES]):
                label = paint(_label(at), "bold") if line_at == 0 and piece_at == 0 else " "
                print(f"  {label} {paint(piece, 'red' if differs else None)}")
            if left > 0:
                print("    " + paint(f"… {counted(left, 'more line')}: --full", "yellow"))


def _differing_lines(turns: Sequence[Turn | None]) -> list[list[str]]:
    """For each trajectory its reply and its tool calls, each from where it begins to differ to where it ends to."""
    present = [turn for turn in turns if turn is not None]
    rows = [differing_parts([_reply(turn) for turn in present], around=_AROUND)]
    texts = {turn.text for turn in present}
    if len(texts) == 1 and len({repr(turn.tokens) for turn in present}) > 1:
        rows[0] = [f"(the same text) tokens {text}" for text in _token_parts(present)]
    most = max(len(turn.tools) for turn in present)
    for at in range(most):
        having = [turn for turn in present if at < len(turn.tools)]
        parts = iter(differing_parts([_tool(turn.tools[at]) for turn in having], around=_AROUND))
        rows.append([next(parts) if at < len(turn.tools) else "" for turn in present])
    of_present = iter(zip(*rows))
    return [["(ended before)"] if turn is None else [line for line in next(of_present) if line] for turn in turns]


def _token_parts(turns: Sequence[Turn]) -> list[str]:
    return differing_parts([" ".join(map(str, turn.tokens or ())) for turn in turns], around=_AROUND)


def _reply(turn: Turn) -> str:
    if turn.pruned is not None:
        return f"({plain(turn.pruned)})"
    return plain(turn.text) if turn.text is not None else f"({len(turn.tokens or ())} tokens, no text)"


def _tool(op: Op) -> str:
    if op.pruned is not None:
        return plain(f"{op.name}({op.pruned})")
    result = f"✗ {plain(op.error)}" if op.error else f"→ {plain(op.outputs)}"
    return f"{_call(op.name, op.inputs)} {result}"


def differing_parts(texts: Sequence[str], *, around: int) -> list[str]:
    """Each text without what all have at the beginning and at the end, but for some letters; `…` stands for the rest.

    Texts that are all the same stay whole.
    """
    if len(set(texts)) < 2:
        return list(texts)
    before = _common_start(texts)
    after = _common_start([text[before:][::-1] for text in texts])
    first, kept_after = max(0, before - around), min(after, around)
    parts = []
    for text in texts:
        end = len(text) - after + kept_after
        parts.append("…" * (first > 0) + text[first:end] + "…" * (end < len(text)))
    return parts


def _common_start(texts: Sequence[str]) -> int:
    """How many letters all texts have in common at the beginning."""
    # The least and the greatest have nothing in common that the others between them have not.
    first, last = min(texts), max(texts)
    return next((at for at, (one, other) in enumerate(zip(first, last)) if one != other), len(first))
