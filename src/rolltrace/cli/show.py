"""`rolltrace show`: one trajectory: its tree of ops and its conversation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from rolltrace._amounts import ago, counted, duration, number
from rolltrace.cli.command import command, one_of, option
from rolltrace.cli.options import COORDINATES, IDS, JSON, STORE_AFTER_IDS, STORE_OPTION, Options
from rolltrace.cli.output import (
    cut,
    json_line,
    paint,
    paint_status,
    plain,
    plain_lines,
    print_rows,
    screen_width,
    working,
)  # fmt: skip
from rolltrace.cli.show_transitions import print_transitions
from rolltrace.errors import ConfigError, NotFoundError

if TYPE_CHECKING:
    from rolltrace.query import Op, OpTokens, Score, Store, Trajectory

_LINES = 12
"""How much of a message is shown without --full."""
_TOKENS = 12
_MAX_PART_LENGTH = 500
"""Of a part of a message that is no text: an image may be in it."""
_OPS = 50
"""Of how many ops inputs and outputs are shown without --full."""
_FINDINGS = 20
_HISTORY = 5
"""How many earlier values of a score are shown; --json has all."""
_ROLE_COLOURS = {"system": "dim", "user": "cyan", "assistant": "green", "tool": "yellow"}
_EXAMPLES = """examples:
  rolltrace show 3f2a1b2c                  a prefix of an id is enough
  rolltrace show --step 12 --sample 3 --rollout 0
  rolltrace show 3f2a1b2c --conversation --full | less
  rolltrace show 3f2a1b2c runs/store --json | jq .reward"""


@command(
    "show one trajectory",
    "Show one trajectory: its coordinates and scores, the tree of its ops, its conversation.",
    IDS,
    COORDINATES,
    STORE_OPTION,
    STORE_AFTER_IDS,
    one_of(
        option("--ops", "the tree of ops only; with --json, one line per op"),
        option("--conversation", "the conversation only; with --json, a line per message"),
        option("--tokens", "the tokens of every model call; with --json, a line per call"),
        option("--transitions", "the environment steps only; with --json, a line per step"),
    ),
    option("--seen-by TURN", "the conversation as the model call of this turn saw it, from 0", type=click.INT),
    option("--full", "do not cut long values; tracebacks of ops too"),
    JSON,
    epilog=_EXAMPLES,
)
def show(options: Options) -> int:
    if len(options.ids) + bool(options.coordinates) != 1:
        options.usage_error("name one trajectory: by its id, or by --step, --sample and --rollout")
    store = options.open_store()
    with working(f"reading {store.path}"):
        trajectory = store.trajectory(options.ids[0] if options.ids else _find_id(store, options))
    if options.json:
        _print_json(trajectory, options)
        return 0
    everything = not (options.ops or options.conversation or options.tokens or options.transitions)
    if not options.conversation:
        _print_header(trajectory, options.full, transitions_follow=everything or options.transitions)
    if everything or options.ops:
        _print_section("ops")
        _print_ops(trajectory, options.full)
    if options.transitions or (everything and trajectory.transitions):
        _print_section("transitions")
        print_transitions(trajectory, options.full)
    if everything or options.conversation:
        if everything:
            _print_section("conversation")
        _print_conversation(trajectory, options.full, options.seen_by)
    if options.tokens:
        _print_section("tokens")
        for tokens in trajectory.tokens:
            _print_tokens(tokens, options.full)
        if trajectory.pruned is not None:
            print("  " + paint(plain(trajectory.pruned), "yellow"))
        elif not trajectory.tokens:
            print("  none")
    return 0


def _find_id(store: Store, options: Options) -> str:
    """The only trajectory that has these coordinates."""
    listing = store.trajectories(**options.coordinates)
    rows = listing.rows()
    if not rows:
        raise NotFoundError(listing.why_empty())
    if len(rows) > 1:
        missing = [f"--{name}" for name in ("step", "sample", "rollout") if getattr(options, name) is None]
        how = f"add {' or '.join(missing or ['--train, --validate', '--experiment'])}, or see: rolltrace ls"
        raise ConfigError(f"{len(rows)} trajectories are meant, and one is shown: {how}")
    return str(rows[0]["trajectory_id"])


def _print_json(trajectory: Trajectory, options: Options) -> None:
    if options.ops:
        print_rows({"depth": depth, **_op_fields(op)} for op, depth, _ in _with_depth(trajectory))
    elif options.conversation:
        print_rows(_conversation(trajectory, options.seen_by))
    elif options.tokens:
        print_rows(tokens._asdict() for tokens in trajectory.tokens)
    elif options.transitions:
        print_rows(dict(each) for each in trajectory.transitions)
    else:
        everything = {
            **trajectory.to_dict(),
            "ops": [_op_tree(op) for op in trajectory.ops],
            "tokens": [tokens._asdict() for tokens in trajectory.tokens],
            "conversation": _conversation(trajectory, options.seen_by),
        }
        print(json_line(everything))


def _op_fields(op: Op) -> dict[str, Any]:
    shown = {each.name: getattr(op, each.name) for each in fields(op) if each.name != "children"}
    return {**shown, "duration_s": op.duration_s, "pruned": None if op.pruned is None else str(op.pruned)}


def _op_tree(op: Op) -> dict[str, Any]:
    return {**_op_fields(op), "children": [_op_tree(child) for child in op.children]}


def _print_section(title: str) -> None:
    print(f"\n{paint(title, 'bold')}")


def _print_header(t: Trajectory, full: bool, *, transitions_follow: bool) -> None:
    status = plain(t.status)
    print(f"{paint(plain(t.trajectory_id), 'bold')}  {plain(t.name)}  {paint(status, paint_status(status) or 'green')}")
    place = [f"{plain(t.project)} / {plain(t.experiment)}"]
    place += [
        f"{label} {plain(value)}"
        for label, value in (("step", t.step), ("sample", t.sample_index), ("rollout", t.rollout_n))
        if value is not None
    ]
    print("  " + "  ".join(place + ["validation"] * t.validate))
    begun = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(t.start_ns / 1e9))
    took = f"took {duration(t.duration_s)}" if t.duration_s is not None else "no end"
    print(f"  began {begun} ({ago(t.start_ns)}), {took}, worker {plain(t.worker)}")
    tools = counted(t.tool_calls, "tool call") + (f" ({t.tool_errors} failed)" if t.tool_errors else "")
    work = ["a record of the whole group, no rollout"] if t.is_group else [counted(t.turns, "turn"), tools]
    work += [
        f"{count} {what} tokens"
        for count, what in ((t.prompt_tokens, "prompt"), (t.response_tokens, "response"))
        if count is not None
    ]
    for name in ("cached", "reasoning"):
        counts = [count for op in t.walk() if (count := getattr(op, f"{name}_tokens")) is not None]
        work += [f"{sum(counts)} {name} tokens"] if any(counts) else []
    if t.policy_version_min is not None:
        both = t.policy_version_min, t.policy_version_max
        work.append(f"policy {both[0]}" if both[0] == both[1] else f"policies {both[0]} to {both[1]}")
    print("  " + ", ".join(work))
    _print_scores(t)
    _print_labels(t)
    if t.flags:
        print(f"  flags {paint(plain(', '.join(t.flags)), 'yellow')}")
        _print_findings(t, full)
    if t.tags:
        print("  tags " + ", ".join(f"{plain(key)}={plain(value)}" for key, value in t.tags.items()))
    if t.parent_trajectory_id:
        print(f"  inside {plain(t.parent_trajectory_id)}")
    if t.transitions:
        print(f"  {counted(len(t.transitions), 'transition')}{'' if transitions_follow else ' (see --transitions)'}")
    _print_notes(t, full)
    if t.pruned is not None:
        print("  " + paint(plain(t.pruned), "yellow"))
    if t.error:
        print("  " + paint(f"error {plain(t.error)}", "red"))
    if t.traceback:
        _print_traceback(t.traceback, full)


def _print_traceback(traceback: str, full: bool, before: str = "  ") -> None:
    """As it was recorded; without --full its last lines, which say where it was raised."""
    lines = plain_lines(traceback.rstrip("\n"))
    shown = lines if full else lines[-_LINES:]
    if len(shown) < len(lines):
        print(paint(f"{before}… {counted(len(lines) - len(shown), 'earlier line')}; all of it: --full", "dim"))
    for line in shown:
        print(f"{before}{line}".rstrip())


def _print_scores(t: Trajectory) -> None:
    """The newest of each name; what was said before it stands behind it."""
    history: dict[str, list[Score]] = {}
    for score in t.scores:
        if score.name != "note" and score.author is None:
            history.setdefault(score.name, []).append(score)
    for name, (*before, newest) in history.items():
        terms = ", ".join(f"{plain(key)} {plain(value)}" for key, value in (newest.terms or {}).items())
        line = f"  {plain(name)} {paint(_score_text(newest), 'bold')}{f'  ({terms})' if terms else ''}"
        if newest.trained_step is not None:
            line += f"  in step {newest.trained_step}"
        if newest.reason is not None:
            line += f"  because: {plain(newest.reason)}"
        if before:
            earlier = ", ".join(_score_text(score) for score in before[-_HISTORY:])
            line += paint(f"  before: {'… ' * (len(before) > _HISTORY)}{earlier}", "dim")
        print(line)
    if t.staleness is not None:
        print(f"  staleness {t.staleness}")


def _print_labels(t: Trajectory) -> None:
    names = {op.op_id: op.name for op in t.walk()}
    for label in t.given_labels:
        if label.name != "note":
            value = "" if label.label == "yes" else f" = {plain(label.label)}"
            place = "" if label.op_id is None else f"  on {plain(names.get(label.op_id, label.op_id))}"
            why = "" if label.reason is None else f"  because: {plain(label.reason)}"
            by = f"by {plain(label.author)}, {ago(label.time_ns)}"
            print(f"  label {paint(f'{plain(label.name)}{value}', 'bold')}  {by}{place}{why}")


def _score_text(score: Score) -> str:
    if score.label is not None:
        return plain(score.label)
    return "none" if score.value is None else number(score.value)


def _print_notes(t: Trajectory, full: bool) -> None:
    notes = t.human_notes
    for note in notes if full else notes[-_HISTORY:]:
        more = ", ".join(f"{plain(key)} {plain(value)}" for key, value in note.fields.items() if value is not None)
        print(f"  note {plain(note.text) if full else cut(plain(note.text), 300)}{f'  ({more})' if more else ''}")
    if not full and len(notes) > _HISTORY:
        print(paint(f"  {counted(len(notes) - _HISTORY, 'earlier note')}: --full", "dim"))


def _print_findings(t: Trajectory, full: bool) -> None:
    """What the checks saw, and where; a flag with neither is said by its name."""
    names = {op.op_id: op.name for op in t.walk()}
    detailed = [each for each in t.findings if each.op_id is not None or each.detail]
    for finding in detailed if full else detailed[:_FINDINGS]:
        op = f" in {plain(names.get(finding.op_id, '?'))}" if finding.op_id is not None else ""
        detail = _short(finding.detail, full)
        print(f"    {paint(plain(finding.flag), 'yellow')}{op}{f': {detail}' if detail else ''}")
    if not full and len(detailed) > _FINDINGS:
        print(paint(f"    … {len(detailed) - _FINDINGS} more; all of them: --full", "dim"))


def _with_depth(trajectory: Trajectory) -> Iterator[tuple[Op, int, str]]:
    """Every op before its children, with its depth and the lines of the tree before it."""
    waiting: list[tuple[Op, int, str, str]] = [(op, 0, "", "") for op in reversed(trajectory.ops)]
    while waiting:
        op, depth, before, below = waiting.pop()
        yield op, depth, before
        last = len(op.children) - 1
        waiting += [
            (child, depth + 1, below + ("└─ " if at == last else "├─ "), below + ("   " if at == last else "│  "))
            for at, child in reversed(list(enumerate(op.children)))
        ]


def _print_ops(trajectory: Trajectory, full: bool) -> None:
    if not trajectory.ops:
        print("  none")
    count = sum(1 for _ in trajectory.walk())
    covered = _covered(trajectory)
    for shown, (op, _, branch) in enumerate(_with_depth(trajectory)):
        if not full and shown >= _OPS:
            print(paint(f"  {branch}", "dim") + _without_payload(op))
            continue
        name, kind = plain(op.name), "" if op.kind == "other" else f" {plain(op.kind)}"
        took = "" if op.duration_s is None else f" {duration(op.duration_s)}"
        status = "" if op.status == "ok" else f" {plain(op.status)}"
        inputs, result = f" ({_short(op.inputs, full)})", ""
        if op.error is not None:
            result = f" ✗ {plain(op.error)}"
        elif op.outputs is not None:
            result = f" → {_short(op.outputs, full)}"
        if op.pruned is not None:
            inputs, result = f" ({plain(op.pruned)})", "" if op.error is None else result
        if not full:
            room = max(40, screen_width() - len(f"  {branch}{name}{kind}{took}{status}"))
            result = cut(result, room - min(len(inputs), room // 2))
            inputs = cut(inputs, room - len(result))
        head = f"  {paint(branch, 'dim')}{paint(name, 'bold')}{paint(kind, 'cyan')}{paint(took, 'dim')}"
        print(f"{head}{paint(status, paint_status(status))}{inputs}{paint(result, 'red' if op.error else None)}")
        if full and op.traceback and op.op_id not in covered:
            _print_traceback(op.traceback, full, before="      ")
    if not full and count > _OPS:
        print(paint(f"  inputs and outputs of the first {_OPS} ops are shown; of all {count}: --full", "dim"))


def _covered(trajectory: Trajectory) -> set[int]:
    """The ops whose traceback is the end of another one that is shown: that of the op around, or of the trajectory."""
    around = [(trajectory.error, trajectory.ops), *((op.error, op.children) for op in trajectory.walk())]
    return {op.op_id for error, ops in around for op in ops if error is not None and op.error == error}


def _without_payload(op: Op) -> str:
    """One of many ops: how long it took and how much went in and out. Reading all of them would take long."""
    took = "" if op.duration_s is None else f" {duration(op.duration_s)}"
    status = "" if op.status == "ok" else f" {plain(op.status)}"
    tokens = [
        f"{count} {what}"
        for count, what in ((op.prompt_tokens, "prompt"), (op.response_tokens, "response"))
        if count is not None
    ]
    head = f"{paint(plain(op.name), 'bold')}{'' if op.kind == 'other' else paint(f' {plain(op.kind)}', 'cyan')}"
    counts = f" {', '.join(tokens)} tokens" if tokens else ""
    error = paint(f" ✗ {plain(op.error)}", "red") if op.error is not None else ""
    return f"{head}{paint(took, 'dim')}{paint(status, paint_status(status))}{counts}{error}"


def _short(value: Any, full: bool) -> str:
    """Arguments and results on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{plain(key)}={_short_item(item, full)}" for key, item in value.items())
    return "" if value is None else _short_item(value, full)


def _short_item(value: Any, full: bool) -> str:
    if not full and isinstance(value, list) and len(value) > _TOKENS and isinstance(value[0], int | float):
        return f"[{len(value)} numbers]"
    if isinstance(value, str):
        return plain(value if full else value[:300])
    return plain(value) if full else cut(plain(value), 60)


def _conversation(trajectory: Trajectory, seen_by: int | None) -> list[dict[str, Any]]:
    return trajectory.conversation if seen_by is None else trajectory.seen_by(seen_by)


def _print_conversation(trajectory: Trajectory, full: bool, seen_by: int | None) -> None:
    from rolltrace.query import as_produced

    rows = as_produced(trajectory.messages) if seen_by is None else trajectory.messages_seen_by(seen_by)
    if trajectory.pruned is not None:
        print("  " + paint(plain(trajectory.pruned), "yellow"))
    elif not rows:
        print("  none")
    for row in rows:
        if row.kind == "rewrite":
            print(paint(f"-- {row.read_rewrite()} --", "dim"))
            continue
        message = row.to_message().to_chat()
        role = plain(message.get("role", "?"))
        name = f" {plain(message['name'])}" if message.get("name") else ""
        print(paint(f"[{role}{name}]", _ROLE_COLOURS.get(role, "bold")))
        _print_lines(list(_message_lines(message)), full)


def _message_lines(message: dict[str, Any]) -> Iterator[str]:
    thoughts = message.get("reasoning_content")
    if isinstance(thoughts, str):
        yield from (f"thinks {line}" for line in plain_lines(thoughts))
    content = message.get("content")
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            part = part["text"]
        if part is not None:
            yield from plain_lines(part) if isinstance(part, str) else [cut(plain(part), _MAX_PART_LENGTH)]
    calls = message.get("tool_calls")
    yield from (f"calls {plain(call)}" for call in calls) if isinstance(calls, list) else ()


def _print_lines(lines: list[str], full: bool) -> None:
    most = 4 * screen_width()
    shown = lines if full else [cut(line, most) for line in lines[:_LINES]]
    for line in shown:
        print(f"  {line}".rstrip())
    if not full and (len(lines) > _LINES or any(before != after for before, after in zip(lines, shown))):
        more = f"{counted(len(lines) - _LINES, 'more line')}; " if len(lines) > _LINES else ""
        print(paint(f"  … {more}all of it: --full", "dim"))


def _print_tokens(tokens: OpTokens, full: bool) -> None:
    print(paint(plain(tokens.name), "bold"))
    for label in ("prompt_ids", "response_ids", "logprobs", "response_mask"):
        values = getattr(tokens, label)
        if values is None:
            continue
        shown = values if full else values[:_TOKENS]
        text = " ".join(number(value) for value in shown) + (" …" if len(shown) < len(values) else "")
        print(f"  {label:<13} {len(values):>7}  {text}")
        pieces = getattr(tokens, label.replace("_ids", "_pieces"), None) if label.endswith("_ids") else None
        if pieces:
            shown = pieces if full else pieces[:_TOKENS]
            text = " ".join(plain(repr(piece)) for piece in shown) + (" …" if len(shown) < len(pieces) else "")
            print(f"  {'':<13} {'':>7}  {text}")
