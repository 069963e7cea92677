"""Results of tools between the op that returned them and the prompt that shows them.

A result is a row as soon as its op ends. The prompt that shows it is paired with that row by the id of the call, the
arguments, what it says, the name of the tool, and at last by order. What an environment returned is kept here too: it
has no row of its own, but says who wrote the user's message that quotes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from rolltrace.messages.given import GivenMessage
from rolltrace.messages.message import Message, as_arguments
from rolltrace.messages.open_context import OpenCall, hash_arguments
from rolltrace.messages.tags import read_tagged_results

MAX_PENDING = 64
MAX_QUOTED_CHARS = 1 << 16
"""Longer results are not searched for in a user's message."""
_MIN_QUOTED_CHARS = 8
_MAX_AROUND_CHARS = 64
"""So much may stand around a result in a user's message that only shows it: `Observation:`, ... With more, the message
says something of its own."""
_MAX_ARGUMENTS = 4
MAX_ARGUMENTS_CHARS = 1 << 14
_RECEIVERS = ("self", "cls")
NO_ROW = -1


class PendingResult(msgspec.Struct, array_like=True):
    """A result that no prompt has shown yet."""

    seq: int
    op_id: int
    name: str
    digest: int
    arguments: list[int] = []
    """Hashes of what may be the arguments that the model gave."""
    call_id: str | None = None


_Test = Callable[[PendingResult, Message, OpenCall | None], bool]


def _same_id(result: PendingResult, message: Message, call: OpenCall | None) -> bool:
    return result.call_id is not None and result.call_id == message.call_id


def _same_arguments(result: PendingResult, message: Message, call: OpenCall | None) -> bool:
    return call is not None and result.name == call.name and call.arguments in result.arguments


def _same_name(result: PendingResult, message: Message, call: OpenCall | None) -> bool:
    return result.name == (message.tool_name or (None if call is None else call.name))


def _any(result: PendingResult, message: Message, call: OpenCall | None) -> bool:
    return result.seq != NO_ROW


class PendingResults:
    """Those of one trajectory."""

    def __init__(self, saved: Sequence[PendingResult] = ()) -> None:
        self.waiting = list(saved)
        self._texts: dict[int, str] = {}
        """Op -> what it returned; only in memory, so after a restart quotes are not recognised."""

    def add(self, result: PendingResult, text: str) -> None:
        self.waiting.append(result)
        text = text.strip()
        if 0 < len(text) <= MAX_QUOTED_CHARS:
            self._texts[result.op_id] = text
        for old in self.waiting[:-MAX_PENDING]:
            self._forget(old)

    def pair(self, given: Sequence[GivenMessage], calls: Sequence[OpenCall], since: int) -> dict[int, PendingResult]:
        """Which of these new messages show which results, by their places.

        Args:
            given: The messages of a prompt that are new.
            calls: The tool calls of the reply before them.
            since: By order alone only results are paired whose row is after this one.
        """
        pairs: dict[int, PendingResult] = {}
        if not self.waiting:
            return pairs
        open_calls = {call.id: call for call in calls if call.id is not None}
        tools = [at for at, each in enumerate(given) if each.role in ("tool", "function")]
        if any(given[at].message.call_id is not None for at in tools):
            self._take(pairs, given, tools, open_calls, _same_id)
            self._take(pairs, given, tools, open_calls, _same_arguments)
        for at in tools:
            if at not in pairs:
                self._take_first(pairs, at, lambda result, at=at: result.digest == given[at].digest)  # type: ignore[misc]
        self._take(pairs, given, tools, open_calls, _same_name, since)
        self._take(pairs, given, tools, open_calls, _any, since)
        for at, each in enumerate(given):
            # Before the first reply a result was asked for by the program: the user's message is the task.
            if each.role == "user" and at not in pairs and since != NO_ROW:
                text = each.message.text
                self._take_first(pairs, at, lambda result, text=text: self._is_quoted(result, text))  # type: ignore[misc]
                if at not in pairs and read_tagged_results(text) is not None:
                    self._take_first(pairs, at, lambda result: result.seq > since)
        return pairs

    def _take(
        self, pairs: dict[int, PendingResult], given: Sequence[GivenMessage], places: list[int],
        calls: dict[str, OpenCall], test: _Test, since: int = NO_ROW,
    ) -> None:  # fmt: skip
        for at in places:
            if at not in pairs:
                message = given[at].message
                call = calls.get(message.call_id) if message.call_id is not None else None
                self._take_first(
                    pairs, at,
                    lambda result, message=message, call=call: result.seq > since and test(result, message, call),  # type: ignore[misc]
                )  # fmt: skip

    def _take_first(self, pairs: dict[int, PendingResult], at: int, test: Callable[[PendingResult], bool]) -> None:
        result = next((each for each in self.waiting if test(each)), None)
        if result is not None:
            pairs[at] = result
            self._forget(result)

    def _forget(self, result: PendingResult) -> None:
        self.waiting.remove(result)
        self._texts.pop(result.op_id, None)

    def _is_quoted(self, result: PendingResult, text: str) -> bool:
        said = self._texts.get(result.op_id)
        if said is None:
            return False
        text = text.strip()
        if len(text) - len(said) > _MAX_AROUND_CHARS:
            return False
        is_long = len(said) >= _MIN_QUOTED_CHARS
        return text.startswith(said) or text.endswith(said) or (is_long and said in text)


def argument_hashes(inputs: Any) -> list[int]:
    """Hashes of what may be the arguments that a model gave to a tool: all that the op was given, or one of these."""
    if not isinstance(inputs, dict):
        return []
    own = {name: value for name, value in inputs.items() if name not in _RECEIVERS}
    inner = [
        value for value in own.values() if isinstance(value, dict) or (isinstance(value, str) and value[:1] == "{")
    ]
    return [hash_arguments(value) for value in [own, *inner[: _MAX_ARGUMENTS - 1]]]


def shown_arguments(inputs: Any) -> str:
    """What a tool was given that no reply is known to have asked for, as JSON text that may be cut."""
    if isinstance(inputs, dict):
        inputs = {name: value for name, value in inputs.items() if name not in _RECEIVERS}
    return as_arguments(inputs)[:MAX_ARGUMENTS_CHARS]


def find_call(calls: Sequence[OpenCall], name: str, arguments: Sequence[int]) -> OpenCall | None:
    """The call that an op answers, if that is certain: by its arguments, or because only one has this name."""
    same = [call for call in calls if call.arguments in arguments and call.name == name]
    same = same or [call for call in calls if call.name == name]
    return same[0] if len(same) == 1 else None
