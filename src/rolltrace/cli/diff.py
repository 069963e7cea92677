"""`rolltrace diff`: two or more trajectories turn by turn, and where they part."""

from __future__ import annotations

import argparse
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolltrace.cli.output import (
    SHORT_ID,
    Column,
    add_json,
    cut,
    json_line,
    number,
    paint,
    plain,
    print_table,
    screen_width,
    store_of,
    working,
)

if TYPE_CHECKING:
    from rolltrace.query import Comparison
    from rolltrace.query.compare import Turn, TurnRow

_BEFORE = 30
"""How much of what is the same is shown before the first difference."""
_EXAMPLES = """examples:
  rolltrace diff 3f2a1b2c 9d0e77aa
  rolltrace diff 3f2a1b2c 9d0e77aa 11c0ffee --store runs/store
  rolltrace diff 3f2a1b2c 9d0e77aa --json | jq .first_diverging_token
  rolltrace diff --step 12 --sample 3      all rollouts of a sample, each against the best"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "diff",
        help="compare trajectories",
        description="Align trajectories turn by turn and mark the first turn, token and tool call that differ.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="two ids or more; the first letters are enough")
    group = parser.add_argument_group("or a whole group")
    group.add_argument("--step", type=int, metavar="N", help="training step")
    group.add_argument("--sample", metavar="S", help="sample index, a number or a text")
    group.add_argument("--project", metavar="NAME")
    group.add_argument("--experiment", metavar="NAME")
    which = group.add_mutually_exclusive_group()
    which.add_argument("--validate", action="store_true", default=None, help="the validation rollouts")
    which.add_argument("--train", dest="validate", action="store_false", default=None, help="the training rollouts")
    parser.add_argument("--store", help="the store folder (default: ROLLTRACE_STORE, or ~/.rolltrace)")
    add_json(parser)
    parser.set_defaults(run=run, usage_error=parser.error)


def run(options: argparse.Namespace) -> int:
    folders = [each for each in options.ids if "/" in each or (Path(each).is_dir() and len(options.ids) > 2)]
    if folders:
        options.usage_error(f"{folders[0]} is no id; the store is given as --store {folders[0]}")
    of_group = ("step", "sample", "project", "experiment", "validate")
    group = {name: value for name in of_group if (value := getattr(options, name)) is not None}
    if group and (options.ids or not {"step", "sample"} <= group.keys()):
        options.usage_error("give ids, or --step and --sample of a group, which --experiment may narrow down")
    if not group and len(options.ids) < 2:
        options.usage_error("comparing needs two ids or more, or --step and --sample of a group")
    from rolltrace.query import open_store

    store = open_store(store_of(options))
    with working(f"reading {store.path}"):
        if group:
            comparison = store.compare_group(group.pop("step"), group.pop("sample"), **group)
        else:
            comparison = store.compare(options.ids)
    if options.json:
        print(json_line(_fields(comparison)))
    else:
        _print(comparison)
    return 0


def _fields(found: Comparison) -> dict[str, Any]:
    token, call = found.first_diverging_token, found.first_diverging_tool_call
    return {
        "trajectory_ids": [each.trajectory_id for each in found.trajectories],
        "identical": found.identical,
        "first_diverging_turn": found.first_diverging_turn,
        "first_diverging_token": None if token is None else vars(token),
        "first_diverging_tool_call": None
        if call is None
        else {**vars(call), "calls": [None if each is None else each._asdict() for each in call.calls]},
        "best": found.best,
        "partings": [
            {"turn": parting.turn, "token": None if parting.token is None else vars(parting.token)}
            for parting in found.partings
        ],
        "attributes": found.attributes,
        "scores": found.scores,
        "turns": [
            {"index": row.index, "same": row.same, "turns": [_turn_fields(turn) for turn in row.turns]}
            for row in found.turns
        ],
    }


def _turn_fields(turn: Turn | None) -> dict[str, Any] | None:
    if turn is None:
        return None
    tools = [{"name": op.name, "inputs": op.inputs, "outputs": op.outputs, "error": op.error} for op in turn.tools]
    return {"op_id": turn.op_id, "text": turn.text, "tokens": turn.tokens, "tools": tools}


def _label(at: int) -> str:
    return chr(ord("A") + at) if at < 26 else f"#{at + 1}"


def _print(found: Comparison) -> None:
    for at, each in enumerate(found.trajectories):
        place = f"step {plain(each.step)}  sample {plain(each.sample_index)}  rollout {plain(each.rollout_n)}"
        reward = "" if each.reward is None else f"  reward {number(each.reward)}"
        name = plain(each.trajectory_id[:SHORT_ID])
        print(f"{paint(_label(at), 'bold')}  {name}  {place}  {plain(each.status)}{reward}")
    print()
    for line in _summary(found):
        print(line)
    different = {**{f"score {name}": values for name, values in found.scores.items()}, **found.attributes}
    if different:
        print()
        columns = [Column("differs", [plain(name) for name in different])]
        columns += [
            Column(_label(at), [_value(values[at]) for values in different.values()], stretch=True)
            for at in range(len(found.trajectories))
        ]
        if print_table(columns):
            print(paint("more columns do not fit: --json, or a wider terminal", "dim"))
    print()
    for row in found.turns:
        _print_turn(row, found)


def _value(value: Any) -> str:
    return "" if value is None else number(value) if isinstance(value, float) else plain(value)


def _summary(found: Comparison) -> list[str]:
    if found.identical:
        return ["model and tools did the same in all of them"]
    lines = [f"first turn that differs: {found.first_diverging_turn}"]
    token, call = found.first_diverging_token, found.first_diverging_tool_call
    if token is not None:
        values = ", ".join(
            f"{_label(at)} {_side(value)}" + (f" {_side(text)}" if text is not None else "")
            for at, (value, text) in enumerate(zip_longest(token.values, token.texts))
        )
        lines.append(f"first {token.unit} that differs: {token.index_in_turn} of turn {token.turn} ({values})")
    if call is not None:
        values = ", ".join(
            f"{_label(at)} {'none' if each is None else cut(_call(each.name, each.arguments), 60)}"
            for at, each in enumerate(call.calls)
        )
        lines.append(f"first tool call that differs: {call.index_in_turn} of turn {call.turn} ({values})")
    if len(found.trajectories) > 2:
        lines += [_parting(found, at) for at in range(len(found.trajectories)) if at != found.best]
    return lines


def _parting(found: Comparison, at: int) -> str:
    """How far a trajectory goes the way of the best one."""
    parting, best = found.partings[at], f"{_label(found.best)}, the best"
    if parting.turn is None:
        return f"{_label(at)} does the same as {best}"
    place = f"turn {parting.turn}"
    if parting.token is not None and parting.token.turn == parting.turn:
        place += f", {parting.token.unit} {parting.token.index_in_turn}"
    return f"{_label(at)} parts from {best}, at {place}"


def _side(value: int | str | None) -> str:
    return "ended" if value is None else plain(repr(value)) if isinstance(value, str) else str(value)


def _call(name: str, arguments: Any) -> str:
    given = ", ".join(f"{key}={plain(item)}" for key, item in arguments.items()) if isinstance(arguments, dict) else ""
    return plain(f"{name}({given})")


def _print_turn(row: TurnRow, found: Comparison) -> None:
    room = max(40, screen_width() - 6)
    first = row.index == found.first_diverging_turn
    mark = "=" if row.same else "≠"
    title = f"{mark} turn {row.index}{'  first difference' if first else ''}"
    print(paint(title, "dim" if row.same else "red" if first else "yellow"))
    if row.same:
        turn = row.turns[0]
        for line in [] if turn is None else _turn_lines(turn, 0):
            print("    " + paint(cut(line, room), "dim"))
        return
    texts = [turn.text or "" for turn in row.turns if turn is not None]
    shared = next((at for at, letters in enumerate(zip(*texts)) if len(set(letters)) > 1), min(map(len, texts)))
    call = found.first_diverging_tool_call
    for at, turn in enumerate(row.turns):
        lines = ["(ended before)"] if turn is None else _turn_lines(turn, max(0, shared - _BEFORE))
        for line_at, line in enumerate(lines):
            differs = call is not None and call.turn == row.index and line_at == call.index_in_turn + 1
            label = paint(_label(at), "bold") if line_at == 0 else " "
            print(f"  {label} {paint(cut(line, room), 'red' if differs else None)}")


def _turn_lines(turn: Turn, skipped: int) -> list[str]:
    """The reply from where it gets interesting, and the tool calls."""
    text = turn.text if turn.text is not None else f"({len(turn.tokens or ())} tokens, no text)"
    lines = [plain("…" * (skipped > 0) + text[skipped : skipped + 400])]
    for op in turn.tools:
        result = f"✗ {plain(op.error)}" if op.error else f"→ {plain(op.outputs)[:400]}"
        lines.append(f"{cut(_call(op.name, op.inputs), 80)} {result}")
    return lines
