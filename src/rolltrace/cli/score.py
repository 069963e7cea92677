"""`rolltrace score`: give a trajectory a reward, a label or a note, by hand."""

from __future__ import annotations

import argparse
from typing import Any

from rolltrace.cli.options import add_store, store_of
from rolltrace.cli.output import plain, working

_EXAMPLES = """examples:
  rolltrace score 3f2a1b2c note "guesses the answer, then explains it"
  rolltrace score 3f2a1b2c reward 0 --reason "the judge was fooled"
  rolltrace score 3f2a1b2c fate filtered --reason "too long" --store runs/store
  rolltrace ls --where "label.note ~ 'guesses'"

The newest value of a name counts; rolltrace show has the history."""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "score",
        help="give a trajectory a reward, a label or a note",
        description="Give a trajectory a score, a label or a note. Every reader of the store sees it at once.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("id", metavar="ID", help="the id of the trajectory, or a prefix of it")
    parser.add_argument("name", metavar="NAME", help="reward, advantage, fate, note, or any other")
    parser.add_argument("value", metavar="VALUE", help="a number, or text")
    parser.add_argument("--reason", metavar="TEXT", help="why")
    parser.add_argument("--trained-step", type=int, metavar="N", help="of a fate: the step that trained on it")
    parser.add_argument("--text", action="store_true", help="VALUE is text even if it looks like a number")
    add_store(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from rolltrace.query import open_store

    value = options.value if options.text else _value(options.value)
    store = open_store(store_of(options, to_write=True))
    with working(f"reading {store.path}"):
        store.score(options.id, options.name, value, reason=options.reason, trained_step=options.trained_step)
    print(f"{plain(options.id)}: {plain(options.name)} is {plain(value)}")
    return 0


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
