"""The store is the last argument of every command, whatever stands before it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main, parser_of
from rolltrace.cli.main import parse

STORE = "/runs/store"
_WORDS = {
    "id": ["abcd1234"], "ids": ["abcd1234", "1234abcd"], "name": ["reward"], "value": ["0.5"],
    "words": ["abcd1234", "good"], "paths": ["chats.jsonl"], "query": ["select 1"], "trajectory": ["abcd1234"],
    "k": ["1,4"], "certfile": ["a.pem"],
}  # fmt: skip
"""Values of arguments that take no text at all, or no other."""


def _values(action: argparse.Action) -> list[str]:
    if action.nargs == 0:
        return []
    if action.choices:
        return [str(next(iter(action.choices)))]
    return _WORDS.get(action.dest, ["3"])


def _commands(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below and any(action.dest == "store_option" for action in parser._actions):
        yield path, parser
    for action in below:
        for name, each in action.choices.items():
            yield from _commands(each, (*path, name))


_COMMANDS = dict(_commands(parser_of()))


def _cases() -> Iterator[tuple[str, ...]]:
    """Each command with each of its options before the store."""
    for path, parser in _COMMANDS.items():
        positional = [
            word
            for action in parser._actions
            if not action.option_strings and action.dest not in ("store", "stores")
            for word in _values(action)
        ]
        options = [action for action in parser._actions if action.option_strings and action.dest != "help"]
        options = [action for action in options if action.dest != "store_option"]
        required = [action for action in options if action.required]
        required += [next(iter(group._group_actions)) for group in parser._mutually_exclusive_groups if group.required]
        for option in options or [None]:
            exclusive = [group for group in parser._mutually_exclusive_groups if option in group._group_actions]
            also = [
                action
                for action in required
                if action is not option and not any(action in group._group_actions for group in exclusive)
            ]
            given = [word for action in also for word in (action.option_strings[-1], *_values(action))]
            last = [] if option is None else [option.option_strings[-1], *_values(option)]
            yield (*path, *positional, *given, *last)


@pytest.mark.parametrize("words", list(_cases()), ids=" ".join)
def test_the_store_may_follow_any_option(words: tuple[str, ...]) -> None:
    options = parse([*words, STORE])
    if words[0] == "view":
        assert options.stores == [STORE]
    else:
        assert options.named_store() == Path(STORE)


def test_every_command_that_has_a_store_is_looked_at() -> None:
    names = {path[0] for path in _COMMANDS}
    assert {"show", "sql", "diff", "score", "label", "import", "export", "ls", "rm", "prune", "view"} <= names


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """A store, and the ids of two trajectories in it."""
    folder = tmp_path_factory.mktemp("last") / "store"
    rolltrace.init("p", "e", "rolltrace", store=folder, drain="off")
    ids = []
    for n in range(2):
        with rolltrace.rollout_trace_attr(0, step=1, rollout_n=n) as trajectory:
            ids.append(trajectory.id)
    rolltrace.shutdown()
    return str(folder), ids[0], ids[1]


def test_commands_with_words_of_their_own_find_the_store(
    written: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, one, other = written
    chats = tmp_path / "chats.jsonl"
    chats.write_text(json.dumps({"messages": [{"role": "user", "content": "?"}]}) + "\n")
    for words in (
        ["show", one, "--ops"],
        ["sql", "select 1", "--json"],
        ["diff", one, other, "--json"],
        ["score", one, "reward", "-1", "--reason", "fooled"],
        ["label", one, "--author", "me", "good"],
        ["export", "jsonl", "--trajectory", one, other],
        ["import", "chat", str(chats), "--project", "q", "--experiment", "f", "--json"],
    ):
        assert main([*words, store]) == 0, words
    capsys.readouterr()
    assert main(["ls", "--project", "q", "--json", store]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_too_many_arguments_are_still_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["ls", "one", "--json", "two"])
    assert "unrecognized arguments: two" in capsys.readouterr().err
