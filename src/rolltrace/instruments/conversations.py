"""Which conversation a model call goes on with, read off its messages, where nothing else says where it belongs.

A call whose messages begin with those of an earlier call and what the model answered to it is the next turn of that
conversation. Outside any trajectory each conversation becomes a trajectory. In a trajectory whose agent cannot be asked
(`rolltrace proxy`) the first one is that of the agent, and every other one a branch of it: a sub-agent, or the agent
itself after it has compacted what was said.

The system's messages are not compared: agents put the time, or a number of their own, into them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from rolltrace._guard import caught
from rolltrace.capture import TrajectoryHandle, scope
from rolltrace.messages import Message, fingerprint, read_messages, read_reply
from rolltrace.record import Coordinates, TrajectoryEnd, decode_coordinates, decode_value, encode_record

if TYPE_CHECKING:
    from rolltrace.capture import Recorder

MAX_CONVERSATIONS = 4096
"""So many conversations are known at once; the one that was longest silent is forgotten."""
_NO_TAGS = Raw(encode_record({}))
_SYSTEM = ("system", "developer")


class Conversation:
    """The turns of one agent."""

    def __init__(
        self, conversations: Conversations, place: scope.Place, name: str, start_ns: int, *, is_own: bool
    ) -> None:
        self.place = place
        self.last_op_id = 0
        self._conversations = conversations
        self._name = name
        self._start_ns = start_ns
        self._is_own = is_own
        """Its trajectory is ours to describe: nobody else begins and ends it."""
        self.parent: tuple[bytes, int] | None = None
        """The trajectory and the op that it is a branch of."""
        self.prompt: tuple[bytes, ...] = ()
        """The digests of what the model was given last."""
        self.keys: set[tuple[str, bytes]] = set()
        """Under which it is found."""
        self.is_answered = False

    def answered(self, recorder: Recorder, outputs: Raw | None, op_id: int) -> None:
        """A turn has ended, with these outputs if the model gave any. Never raises."""
        try:
            self.last_op_id = op_id
            if outputs is not None:
                self._conversations.answered(self, read_reply(decode_value(outputs)))
            if self._is_own:
                self._describe(recorder)
        except Exception:
            caught("conversation")

    def _describe(self, recorder: Recorder) -> None:
        """Write the trajectory down as it is now. It may have more turns: the newest end counts."""
        handle = self.place._trajectory
        if handle is None:
            return
        trace_id, parent_id = self.parent or (None, 0)
        end_ns = recorder.tick_ns() + handle.wall_offset_ns
        recorder.write(
            TrajectoryEnd(
                handle.trace_id, handle.coordinates, self._name, self._start_ns, end_ns, "ok", None, trace_id,
                parent_id, _NO_TAGS, False, handle.run,
            ),
            handle.step,
        )  # fmt: skip


class Conversations:
    """Those that are going on; for several threads."""

    def __init__(self, root: TrajectoryHandle | None = None, *, is_own_root: bool = False) -> None:
        """`root`: the trajectory of the first one, which the others are branches of; None if each has its own."""
        self._root = root
        self._is_own_root = is_own_root
        self._first: Conversation | None = None
        self._by_key: dict[tuple[str, bytes], list[Conversation]] = {}
        """By digests of whole conversations, the last answer included ("whole"), and of what the model was given last
        ("prompt"), for agents that change what it answered."""
        self._all: OrderedDict[int, Conversation] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, recorder: Recorder, name: str, inputs: Any) -> Conversation | None:
        """The conversation of a call that begins now; None if its inputs hold no messages. Never raises."""
        try:
            digests = _digests(_messages_of(inputs))
            with self._lock:
                conversation = self._find(digests) if digests else self._first
                if conversation is None and (digests or self._root is not None):
                    conversation = self._begin(recorder, name)
                if conversation is not None and digests:
                    self._forget_keys(conversation)
                    conversation.prompt, conversation.is_answered = digests, False
                    self._add_key(conversation, "prompt", digests[-1])
                    self._remember(conversation)
                return conversation
        except Exception:
            caught("conversation")
            return None

    def answered(self, conversation: Conversation, reply: Message | None) -> None:
        """The model gave an answer, or several that are not told apart."""
        with self._lock:
            conversation.is_answered = True
            if reply is not None and conversation.prompt:
                self._add_key(conversation, "whole", _digests([reply], conversation.prompt[-1])[-1])

    def _find(self, digests: tuple[bytes, ...]) -> Conversation | None:
        """The conversation that goes on with these messages."""
        before = digests[-2::-1]
        for digest in before:
            if ("whole", digest) in self._by_key:
                return self._by_key["whole", digest][-1]
        same = self._by_key.get(("prompt", digests[-1]), [])
        again = [each for each in same if self._root is not None or not each.is_answered]
        if again:
            return again[-1]
        for digest in before:
            same = self._by_key.get(("prompt", digest), [])
            if len(same) == 1 or (same and self._root is not None):
                return same[-1]
        return None

    def _begin(self, recorder: Recorder, name: str) -> Conversation:
        root, first = self._root, self._first
        if root is not None and first is None:
            start_ns = recorder.tick_ns() + root.wall_offset_ns
            self._first = Conversation(self, root, "agent", start_ns, is_own=self._is_own_root)
            return self._first
        handle = TrajectoryHandle(recorder, Coordinates() if root is None else decode_coordinates(root.coordinates))
        start_ns = recorder.tick_ns() + handle.wall_offset_ns
        fresh = Conversation(self, handle, name if root is None else "branch", start_ns, is_own=True)
        if root is not None and first is not None:
            handle.run = root.run
            fresh.parent = (root.trace_id, first.last_op_id)
        return fresh

    def _remember(self, conversation: Conversation) -> None:
        self._all[id(conversation)] = conversation
        self._all.move_to_end(id(conversation))
        while len(self._all) > MAX_CONVERSATIONS:
            self._forget_keys(self._all.popitem(last=False)[1])

    def _add_key(self, conversation: Conversation, word: str, digest: bytes) -> None:
        conversation.keys.add((word, digest))
        self._by_key.setdefault((word, digest), []).append(conversation)

    def _forget_keys(self, conversation: Conversation) -> None:
        for key in conversation.keys:
            same = [each for each in self._by_key.pop(key) if each is not conversation]
            if same:
                self._by_key[key] = same
        conversation.keys.clear()


def _messages_of(inputs: Any) -> list[Message]:
    """What a model is given in the requests of OpenAI's, Anthropic's and Gemini's protocols."""
    for name in ("messages", "input", "prompt", "contents", "text"):
        value = inputs.get(name) if isinstance(inputs, dict) else None
        if isinstance(value, str):
            return [Message("user", value)]
        messages = read_messages(list(value)) if isinstance(value, list | tuple) else None
        if messages is not None:
            return messages
    return []


def _digests(messages: list[Message], before: bytes = b"") -> tuple[bytes, ...]:
    """For each message a digest of all up to it."""
    digests = []
    for message in messages:
        if message.role not in _SYSTEM:
            before = blake2b(before + fingerprint(message).to_bytes(8, "little"), digest_size=16).digest()
            digests.append(before)
    return tuple(digests)
