"""What a check sees and says, and what checks remember of trajectories that are not over yet.

That is saved from batch to batch, so it is small: hashes and numbers, no tokens and no text. A trajectory that ends is
forgotten; one that never does, because it ends in another process, makes room when others need it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from rolltrace.messages import Message, read_replies

_TAKEN = {"$column": "response_ids"}
"""What stands in the place of token ids that have become a column."""


class Finding(NamedTuple):
    """A problem that a check found."""

    flag: str
    detail: Mapping[str, Any] | None = None
    op_id: int | None = None
    """The op that has it, when that is not the one that was looked at."""


class OpFacts:
    """An op as a check sees it."""

    __slots__ = ("_replies", "fields", "inputs", "is_model_call", "outputs")

    def __init__(self, fields: Mapping[str, Any], inputs: Any, outputs: Any) -> None:
        self.fields = fields
        """Its row of `spans`; token columns as Arrow arrays."""
        self.inputs = inputs
        self.outputs = outputs
        self._replies: list[Message] | None = None
        kind = fields["kind"]
        self.is_model_call: bool = kind == "llm" or (
            kind == "other" and fields.get("response_tokens") is not None and _gives_back(outputs, depth=1)
        )
        """Whether a model answered in it: it is said to, or it gives back token ids.

        Ops of no declared kind count, because verl's own decorator has none; what only takes tokens, such as a parser
        of tool calls, does not.
        """

    @property
    def replies(self) -> list[Message]:
        """What a model answered in it."""
        if self._replies is None:
            self._replies = read_replies(self.outputs)
        return self._replies

    @property
    def response_ids_count(self) -> int | None:
        """How many ids of response tokens there are; None if they are not known, or only as a number."""
        return None if self.fields.get("tokens") is None else self.fields.get("response_tokens")


def _gives_back(outputs: Any, depth: int) -> bool:
    """Whether response tokens were taken out of the outputs, or out of the one completion in them."""
    if isinstance(outputs, list) and len(outputs) == 1:
        outputs = outputs[0]
    if not isinstance(outputs, dict):
        return False
    inside = [value for value in outputs.values() if isinstance(value, dict | list)]
    return _TAKEN in inside or (depth > 0 and any(_gives_back(value, depth - 1) for value in inside))


def raw(array: pa.Array) -> memoryview:
    """The bytes of an array of numbers, not copied."""
    buffer = array.buffers()[1]
    if buffer is None:
        return memoryview(b"")
    width = array.type.bit_width // 8
    return memoryview(buffer)[array.offset * width : (array.offset + len(array)) * width]


_MAX_TRAJECTORIES = 8192
"""A worker of a large run has thousands of rollouts open at once."""


class PastTurn(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A model call that a later one may extend."""

    op_id: int
    end_ns: int
    prompt_tokens: int
    prompt_hash: int
    tokens: int
    """Of prompt and response."""
    hash: int


class TrajectoryPast(msgspec.Struct, array_like=True):
    """What is remembered of one trajectory; each check has fields of its own."""

    turns: dict[str, list[PastTurn]] = {}
    """prefix_break: by the name of the op."""
    policy_version: int | None = None
    """mixed_policy: the newest."""
    policies_told: bool = False
    has_image: bool = False
    """image_missing: there is one, nothing more to look for."""
    placeholder: str = ""
    placeholder_op: int = 0
    image_told: bool = False
    text_seen: int = 0
    """How many characters of the decoded prompt were searched."""


_NOTHING = TrajectoryPast()
_decoder = msgspec.msgpack.Decoder(dict[str, TrajectoryPast])


class Past:
    """What is remembered of all trajectories of one writer."""

    def __init__(self) -> None:
        self._by_trajectory: OrderedDict[str, TrajectoryPast] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_trajectory)

    def __contains__(self, trajectory_id: str) -> bool:
        return trajectory_id in self._by_trajectory

    def waits_for_image(self, trajectory_id: str) -> bool:
        """Whether a prompt of the trajectory has a placeholder for an image that was not seen yet."""
        past = self._by_trajectory.get(trajectory_id)
        return past is not None and past.placeholder != ""

    def of(self, trajectory_id: str) -> TrajectoryPast:
        """What is known of a trajectory; `keep` it after a change."""
        return self._by_trajectory.get(trajectory_id) or TrajectoryPast()

    def keep(self, trajectory_id: str, past: TrajectoryPast) -> None:
        if past == _NOTHING:
            return
        self._by_trajectory[trajectory_id] = past
        self._by_trajectory.move_to_end(trajectory_id)
        if len(self._by_trajectory) > _MAX_TRAJECTORIES:
            self._by_trajectory.popitem(last=False)

    def forget(self, trajectory_id: str) -> None:
        self._by_trajectory.pop(trajectory_id, None)

    @classmethod
    def load(cls, saved: bytes) -> Past:
        """What `dump` saved. What another version saved, and this one cannot read, is forgotten."""
        past = cls()
        try:
            past._by_trajectory.update(_decoder.decode(saved) if saved else {})
        except msgspec.MsgspecError:
            pass
        return past

    def dump(self) -> bytes:
        return msgspec.msgpack.encode(self._by_trajectory) if self._by_trajectory else b""
