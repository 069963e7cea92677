"""What a notebook shows of a store, a trajectory, an op, a comparison. All traced text is escaped, and cut where it is
long; there are no scripts, no styles and no links. It is a few kB, since a notebook keeps what it shows in its file;
`rolltrace.view(...)` shows everything.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rolltrace.errors import RolltraceError
from rolltrace.query.columns import COLUMNS
from rolltrace.query.values import bounded
from rolltrace.record import plain_text

if TYPE_CHECKING:
    from rolltrace.query.comparison import Comparison
    from rolltrace.query.dataset import Store
    from rolltrace.query.op import Op
    from rolltrace.query.trajectory import Trajectory

_MAX_OPS = 50
_MAX_CHARS = 400
_MAX_PAYLOAD_CHARS = 4_000
_MAX_EXPERIMENTS = 20
_MORE = "<p><code>rolltrace.view(...)</code> shows all of it.</p>"
_EMPTY: tuple[Any, ...] = (None, [], {}, False)


def text_html(value: Any, most: int = _MAX_CHARS) -> str:
    """A value as HTML text on one line."""
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return html.escape(plain_text(text if len(text) <= most else text[: most - 1] + "…"))


def table_html(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with a head."""
    head = "".join(f"<th>{text_html(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{text_html(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def store_html(store: Store) -> str:
    """Where a store is, and its experiments."""
    title = f"<p><b>rolltrace store</b> {text_html(store.path)}</p>"
    try:
        experiments = store.experiments()
    except RolltraceError as error:
        return f"{title}<p>{text_html(error)}</p>"
    if not len(experiments):
        return f"{title}<p>no trajectories yet</p>"
    columns = [name for name in experiments.columns if not name.endswith("_ns")]
    rows = [[row[name] for name in columns] for row in experiments[-_MAX_EXPERIMENTS:]]
    left_out = len(experiments) - len(rows)
    more = f"<p>{left_out} older experiments are not shown</p>" if left_out else ""
    return f"{title}{table_html(columns, rows)}{more}"


def trajectory_html(trajectory: Trajectory) -> str:
    """The columns of a trajectory that say something, and its ops without their payloads."""
    values = [(column.name, getattr(trajectory, column.name)) for column in COLUMNS if column.on_page]
    facts = "".join(
        f"<tr><th>{text_html(name)}</th><td>{text_html(value)}</td></tr>"
        for name, value in values
        if not any(value is each or (type(value) is type(each) and value == each) for each in _EMPTY)
    )
    notes = "".join(f"<li>note: {text_html(note.text)}</li>" for note in trajectory.human_notes[-5:])
    return (
        f"<p>{_heading(trajectory)}</p><table><tbody>{facts}</tbody></table>"
        f"{f'<ul>{notes}</ul>' if notes else ''}{_tree(trajectory.walk())}{_MORE}"
    )


def op_html(op: Op) -> str:
    """An op with the beginning of its inputs and outputs, and what it called."""
    parts = [f"<p>{_line(op)}</p>"]
    for label, value in (("inputs", op.inputs), ("outputs", op.outputs)):
        if value is not None:
            text = json.dumps(bounded(value, total=_MAX_PAYLOAD_CHARS), ensure_ascii=False, indent=1)
            shown = text if len(text) <= _MAX_PAYLOAD_CHARS else f"{text[:_MAX_PAYLOAD_CHARS]}…"
            lines = "\n".join(plain_text(line) for line in shown.split("\n"))
            parts.append(f"<p>{label}</p><pre>{html.escape(lines)}</pre>")
    children = islice(op.walk(), 1, None)
    return "".join(parts) + (_tree(children) if op.children else "")


def comparison_html(comparison: Comparison) -> str:
    """What differs between some trajectories, and from which turn on."""
    trajectories = comparison.trajectories
    rows: list[tuple[str, list[Any]]] = [("reward", [each.reward for each in trajectories])]
    rows += [*comparison.attributes.items(), *comparison.scores.items()]
    rows.append(("diverges in turn", [each.turn for each in comparison.partings]))
    first = comparison.first_diverging_turn
    if first is not None:
        verdict = f"They diverge in turn {first}."
    elif comparison.identical:
        verdict = "Model and tools did the same in every turn."
    else:
        verdict = "Payloads were pruned, so it is not known where they diverge."
    token = comparison.first_diverging_token
    if token is not None:
        verdict += f" First different {token.unit}: number {token.index_in_turn} of turn {token.turn}, counted from 0."
    heads = ["", *(each.trajectory_id[:8] for each in trajectories)]
    table = table_html(heads, [[name, *values] for name, values in rows])
    return f"<p><b>{len(trajectories)} trajectories compared.</b> {verdict}</p>{table}{_MORE}"


def _heading(trajectory: Trajectory) -> str:
    name = f"<b>{text_html(trajectory.name)}</b> <code>{text_html(trajectory.trajectory_id)}</code>"
    reward = "" if trajectory.reward is None else f", reward {text_html(trajectory.reward)}"
    return f"{name} {text_html(trajectory.status)}{reward}"


def _line(op: Op) -> str:
    took = "" if op.duration_s is None else f", {op.duration_s:.3f} s"
    error = "" if op.error is None else f": {text_html(op.error)}"
    return f"<b>{text_html(op.name)}</b> {text_html(op.kind)}{took}, {text_html(op.status)}{error}"


def _tree(ops: Iterable[Op]) -> str:
    lines = [f"<li>{_line(op)}</li>" for op in islice(ops, _MAX_OPS + 1)]
    if len(lines) > _MAX_OPS:
        lines[_MAX_OPS:] = [f"<li>… the first {_MAX_OPS} ops are shown</li>"]
    return f"<ol>{''.join(lines)}</ol>" if lines else "<p>no ops</p>"
