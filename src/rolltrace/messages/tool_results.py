"""Results of tools between the op that returned them and the prompt that shows them.

A result is a row as soon as its op ends. The prompt that shows it is paired with that row by the id of the call, the
arguments, what it says, the name of the tool, and at last by order. What an environment returned is kept here too: it
has no row of its own, but says who wrote the user's message that quotes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from rolltrace.messages.content import read_tagged_results
from rolltrace.messages.given import GivenMessage, OpenCall, hash_arguments
from rolltrace.messages.message import as_text

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


_Test = Callable[[PendingResult, GivenMessage, OpenCall | None], bool]


_BY_ID: tuple[_Test, ...] = (
    lambda result, given, call: result.call_id is not None and result.call_id == given.message.call_id,
    lambda result, given, call: call is not None and result.name == call.name and call.arguments in result.arguments,
)
"""What pairs a result with a message that names its call: the id, or the arguments."""


def _same_text(result: PendingResult, given: GivenMessage, call: OpenCall | None) -> bool:
    return result.digest == given.digest


_BY_ORDER: tuple[_Test, ...] = (
    lambda result, given, call: result.name == (given.message.tool_name or (None if call is None else call.name)),
    lambda result, given, call: True,
)
"""What pairs a result with a message that may be about another: the name of the tool, or nothing but the order."""


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
        names_calls = any(given[at].message.call_id is not None for at in tools)
        for test in (*(_BY_ID if names_calls else ()), _same_text, *_BY_ORDER):
            after = since if test in _BY_ORDER else NO_ROW
            for at in tools:
                if at not in pairs and self.waiting:
                    call_id = given[at].message.call_id
                    call = None if call_id is None else open_calls.get(call_id)
                    matching = (each for each in self.waiting if each.seq > after and test(each, given[at], call))
                    self._take(next(matching, None), at, pairs)
        # Before the first reply a result was asked for by the program: the user's message is the task.
        for at, each in enumerate(given if since != NO_ROW else ()):
            if each.role == "user":
                text = each.message.text
                result = next((waiting for waiting in self.waiting if self._is_quoted(waiting, text)), None)
                if result is None and read_tagged_results(text) is not None:
                    result = next((waiting for waiting in self.waiting if waiting.seq > since), None)
                self._take(result, at, pairs)
        return pairs

    def _take(self, result: PendingResult | None, at: int, pairs: dict[int, PendingResult]) -> None:
        if result is not None:
            pairs[at] = result
            self._forget(result)

    def _forget(self, result: PendingResult) -> None:
        self.waiting.remove(result)
        self._texts.pop(result.op_id, None)

    def _is_quoted(self, result: PendingResult, text: str) -> bool:
        said = self._texts.get(result.op_id)
        text = text.strip()
        if said is None or len(text) - len(said) > _MAX_AROUND_CHARS:
            return False
        is_long = len(said) >= _MIN_QUOTED_CHARS
        return text.startswith(said) or text.endswith(said) or (is_long and said in text)


def argument_hashes(inputs: Any) -> list[int]:
    """Hashes of what may be the arguments that a model gave to a tool: all that the op was given, or one of these."""
    if not isinstance(inputs, dict):
        return []
    own = {name: value for name, value in inputs.items() if name not in _RECEIVERS}
    inner = [each for each in own.values() if isinstance(each, dict) or (isinstance(each, str) and each[:1] == "{")]
    return [hash_arguments(value) for value in [own, *inner[: _MAX_ARGUMENTS - 1]]]


def shown_arguments(inputs: Any) -> str:
    """What a tool was given that no reply is known to have asked for, as JSON text that may be cut."""
    if isinstance(inputs, dict):
        inputs = {name: value for name, value in inputs.items() if name not in _RECEIVERS}
    return as_text(inputs)[:MAX_ARGUMENTS_CHARS]


def find_call(calls: Sequence[OpenCall], name: str, arguments: Sequence[int]) -> OpenCall | None:
    """The call that an op answers, if that is certain: by its arguments, or because only one has this name."""
    same = [call for call in calls if call.arguments in arguments and call.name == name]
    same = same or [call for call in calls if call.name == name]
    return same[0] if len(same) == 1 else None
