"""One self-contained HTML page: a trajectory, or several side by side. No scripts, nothing loaded from anywhere.

Traced text is data: it is escaped, control characters are shown and not obeyed, and the page's own policy forbids
everything but its style and the images that are in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, TextIO

from rolltrace._guard import logger
from rolltrace.errors import ConfigError
from rolltrace.exchange.html_images import Images
from rolltrace.exchange.selection import Exported, Selection
from rolltrace.query import COLUMNS, Comparison, Op, Trajectory, compare
from rolltrace.record import to_json

MOST = 16
"""How many trajectories one page compares."""
_LONGEST_TEXT = 100_000
_KEPT = frozenset("\n\t\u200c\u200d")
"""Not printable, and harmless: line ends, and what joins letters and emoji."""
_SHOWN = tuple(column.name for column in COLUMNS if column.on_page)
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 110rem; padding: 0 1.5rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } th, td { text-align: left; vertical-align: top; padding: .2rem 1rem .2rem 0; }
th { font-weight: 600; } td { overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0; font: 13px/1.45 ui-monospace, monospace; }
.message, details { border-left: 3px solid #8888; margin: .5rem 0; padding: .1rem 0 .1rem .8rem; }
.role { font-weight: 600; } .assistant { border-color: #2a7ae2; } .tool { border-color: #d98e04; }
.user { border-color: #2e9e5b; } .error { color: #c0392b; } .quiet { opacity: .65; } summary { cursor: pointer; }
.turn { width: 100%; table-layout: fixed; } .turn td { border-top: 1px solid #8884; padding-right: 1rem; }
.differs > th { color: #c0392b; } img { max-width: 100%; max-height: 30rem; image-rendering: auto; }
"""


def write(selection: Selection, out: TextIO) -> Exported:
    """Write the page.

    Raises:
        ConfigError: nothing was chosen, or more than a page can show.
    """
    count = len(selection.rows)
    if not 0 < count <= MOST:
        chosen = "no trajectory was" if not count else f"{count} trajectories were"
        raise ConfigError(f"{chosen} chosen; a page shows 1 to {MOST}: name them with --trajectory ID")
    images = Images(selection.store.path)
    shown_each = list(selection.each(lambda full: (full.trajectory, list(_page(full.trajectory, images)))))
    trajectories = [trajectory for trajectory, _ in shown_each]
    title = f"{count} trajectories"
    if len(trajectories) == 1:
        title = f"{trajectories[0].name} {trajectories[0].trajectory_id[:8]}"
    body = [line for _, page in shown_each for line in page]
    if len(trajectories) > 1:
        body = [*_compared(trajectories), *(line for each, page in shown_each for line in (_heading(each), *page))]
    out.write(
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width">\n'
        f"<title>{shown(title)}</title><style>{_STYLE}</style></head><body>\n<h1>{shown(title)}</h1>\n"
    )
    out.writelines(body)
    out.write("</body></html>\n")
    return Exported(len(trajectories))


def shown(value: Any) -> str:
    """A value as HTML text."""
    text = value if isinstance(value, str) else json.dumps(to_json(value), ensure_ascii=False, indent=1)
    if len(text) > _LONGEST_TEXT:
        text = f"{text[:_LONGEST_TEXT]}\n... {len(text) - _LONGEST_TEXT} more characters"
    if not text.isprintable():
        text = "".join(
            letter if letter.isprintable() or letter in _KEPT else letter.encode("unicode_escape").decode()
            for letter in text
        )
    return escape(text)


def _page(trajectory: Trajectory, images: Images) -> Iterator[str]:
    columns = [(name, getattr(trajectory, name)) for name in _SHOWN]
    yield _table([(name, [value]) for name, value in columns if value not in (None, [], {})])
    if trajectory.pruned is not None:
        yield f"<p><strong>{shown(str(trajectory.pruned))}</strong></p>\n"
    if trajectory.traceback:
        yield f"<h2>Traceback</h2><pre>{shown(trajectory.traceback)}</pre>\n"
    if trajectory.conversation:
        yield "<h2>Conversation</h2>\n"
        yield from (_message(message, images) for message in trajectory.conversation)
    if trajectory.ops:
        yield "<h2>Ops</h2>\n"
        for op in trajectory.ops:
            yield from _op(op, trajectory.start_ns, images)
    sections: tuple[tuple[str, Sequence[Mapping[str, Any]]], ...] = (
        ("Scores", trajectory.scores),
        ("Transitions", trajectory.transitions),
        ("Notes", trajectory.notes),
    )
    for name, rows in sections:
        if rows:
            yield f"<h2>{name}</h2>\n"
            yield from (f"<pre>{shown(dict(row))}</pre>\n" for row in rows)


def _message(message: dict[str, Any], images: Images | None = None) -> str:
    role = str(message.get("role", ""))
    look = role if role in ("assistant", "tool", "user") else "other"
    named = f" {message['name']}" if message.get("name") else ""
    rest = {key: value for key, value in message.items() if key not in ("role", "name", "content") and value}
    more = f"<pre>{shown(rest)}</pre>" if rest else ""
    content = message.get("content")
    parts = content if isinstance(content, list) else [] if content is None else [content]
    text = "".join(f"<pre>{shown(_short(_part(part)))}</pre>" for part in parts)
    drawn = "" if images is None else images.of(content)
    return f'<div class="message {look}"><span class="role">{shown(role + named)}</span>{text}{drawn}{more}</div>\n'


def _part(part: Any) -> Any:
    """The text of a part of a message, if it is one."""
    return part["text"] if isinstance(part, dict) and isinstance(part.get("text"), str) else part


def _op(op: Op, begin_ns: int, images: Images) -> Iterator[str]:
    took = "" if op.duration_s is None else f", {op.duration_s:.3f} s"
    state = "" if op.status == "ok" else f' <span class="error">{shown(op.status)}</span>'
    at = f"at {(op.start_ns - begin_ns) / 1e9:.3f} s{took}"
    yield f"<details><summary>{shown(op.name)} <span class='quiet'>{shown(op.kind)}, {at}</span>{state}</summary>\n"
    for label, value in (("inputs", op.inputs), ("outputs", op.outputs)):
        if value is not None:
            yield f'<span class="quiet">{label}</span><pre>{shown(_short(value))}</pre>{images.of(value)}\n'
    if op.error:
        yield f'<pre class="error">{shown(op.traceback or op.error)}</pre>\n'
    for child in op.children:
        yield from _op(child, begin_ns, images)
    yield "</details>\n"


def _short(value: Any) -> Any:
    """The value with long lists of numbers cut: they are for programs. Images are drawn beside it."""
    if isinstance(value, str) and value.startswith("data:image/"):
        return f"{value[:40]}... {len(value)} characters"
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, list):
        if len(value) > 32 and isinstance(value[0], int | float):
            return f"[{', '.join(map(str, value[:16]))}, ... {len(value)} numbers]"
        return [_short(item) for item in value]
    return value


def _heading(trajectory: Trajectory) -> str:
    return f"<h1>{shown(trajectory.name)} {shown(trajectory.trajectory_id[:8])}</h1>\n"


def _compared(trajectories: Sequence[Trajectory]) -> list[str]:
    try:
        return list(_comparison(compare(trajectories)))
    except Exception as fault:  # each is still there by itself
        logger.warning("the trajectories cannot be compared: %s: %s", type(fault).__name__, fault)
        return [f"<p>They cannot be compared: {shown(type(fault).__name__)}.</p>\n"]


def _comparison(comparison: Comparison) -> Iterator[str]:
    heads = [each.trajectory_id[:8] for each in comparison.trajectories]
    rewards = [each.reward for each in comparison.trajectories]
    yield "<h2>What differs</h2>\n"
    yield _table([("", heads), ("reward", rewards), *comparison.attributes.items(), *comparison.scores.items()])
    first = comparison.first_diverging_turn
    parting = "They did the same in every turn." if first is None else f"They diverge in turn {first}."
    if first is None and not comparison.identical:
        parting = "Payloads were pruned, so it is not known where they diverge."
    token = comparison.first_diverging_token
    if token is not None:
        parting += f" First different {token.unit}: number {token.index_in_turn} of turn {token.turn}, counted from 0."
    yield f"<h2>Turns</h2><p>{parting}</p>\n<table class='turn'>\n"
    for row in comparison.turns:
        label = f"turn {row.index}: {'the same' if row.same else 'different' if row.known else 'pruned'}"
        yield f"<tr class='{'same' if row.same else 'differs'}'><th colspan='{len(heads)}'>{label}</th></tr><tr>\n"
        for turn in row.turns:
            if turn is None:
                yield "<td class='quiet'>ended before</td>"
                continue
            reply = (turn.text or "") if turn.pruned is None else str(turn.pruned)
            yield f"<td><pre>{shown(reply)}</pre>"
            yield from (
                _message({"role": "tool", "name": tool.name, "content": {"in": tool.inputs, "out": tool.outputs}})
                for tool in turn.tools
            )
            yield "</td>\n"
        yield "</tr>\n"
    yield "</table>\n"


def _table(rows: Sequence[tuple[str, Sequence[Any]]]) -> str:
    lines = (
        f"<tr><th>{shown(name)}</th>{''.join(f'<td>{shown(value)}</td>' for value in values)}</tr>"
        for name, values in rows
    )
    return f"<table>{''.join(lines)}</table>\n"
