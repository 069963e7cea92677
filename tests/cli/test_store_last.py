"""The store is the last argument of every command, whatever stands before it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.cli.command import Command, Option
from tests.cli.parsing import all_commands, parse

STORE = "/runs/store"
_WORDS = {
    "id": ["abcd1234"], "ids": ["abcd1234", "1234abcd"], "words": ["abcd1234", "good"], "paths": ["chats.jsonl"],
    "query": ["select 1"], "k": ["1,4"], "certfile": ["a.pem"],
}  # fmt: skip
"""Values of arguments that take no text at all, or no other."""


def _values(param: click.Parameter) -> list[str]:
    if isinstance(param, click.Option) and param.is_flag:
        return []
    return _WORDS.get(param.name or "", ["3"])


_COMMANDS = {
    tuple(context.command_path.split()[1:]): command
    for context, command in all_commands()
    if isinstance(command, Command) and any(param.name == "store_option" for param in command.params)
}


def _cases() -> Iterator[tuple[str, ...]]:
    """Each command with each of its options before the store."""
    for path, command in _COMMANDS.items():
        positional = [
            word
            for param in command.params
            if isinstance(param, click.Argument) and param.name not in ("store", "stores", "program")
            for word in _values(param)
        ]
        options = [param for param in command.params if isinstance(param, Option) and param.name != "store_option"]
        required = [param for param in options if param.required]
        required += {param.rivals: param for param in options if param.is_one_required}.values()
        for option in options or [None]:
            also = [
                each for each in required if option is None or (each is not option and each.rivals != option.rivals)
            ]
            if option is not None and option.rivals == "":
                also = [each for each in required if each is not option]
            given = [word for each in also for word in (each.opts[-1], *_values(each))]
            for name in () if option is None else (option.opts[-1], *option.secondary_opts):
                yield (*path, *positional, *given, name, *([] if option is None else _values(option)))
            if option is None:
                yield (*path, *positional, *given)


@pytest.mark.parametrize("words", [words for words in _cases() if words[0] != "run"], ids=" ".join)
def test_the_store_may_follow_any_option(words: tuple[str, ...]) -> None:
    options = parse([*words, STORE])
    if words[0] == "view":
        assert options.stores == [STORE]
    else:
        assert options.named_store() == Path(STORE)


def test_every_command_that_has_a_store_is_looked_at() -> None:
    names = {" ".join(path) for path in _COMMANDS}
    assert {"show", "sql", "diff", "label", "import auto", "export jsonl", "ls", "store rm", "store prune"} <= names
    assert {"view", "proxy", "demo", "live", "store journal dump"} <= names


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
        ["label", one, "--score", "reward=-1", "--reason", "fooled"],
        ["label", one, "--author", "me", "good"],
        ["export", "jsonl", one, other],
        ["import", "chat", str(chats), "--project", "q", "--experiment", "f", "--json"],
    ):
        assert main([*words, store]) == 0, words
    capsys.readouterr()
    assert main(["ls", "--project", "q", "--json", store]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_too_many_arguments_are_still_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["ls", "one", "--json", "two"])
    assert "unexpected extra argument (two)" in capsys.readouterr().err
