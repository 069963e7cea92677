"""What checks remember of trajectories that are not over yet.

It goes from a writer's segment to its next in the same file as the ops that are open, so it is small: hashes and
numbers, no tokens and no text. A trajectory that ends is forgotten; one that never does, because it ends in another
process, makes room when others need it.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

_MOST_TRAJECTORIES = 8192
"""A worker of a large run has thousands of rollouts open at once."""


class Turn(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A model call that a later one may extend."""

    op_id: int
    end_ns: int
    prompt_tokens: int
    prompt_hash: int
    tokens: int
    """Of prompt and response."""
    hash: int


class Known(msgspec.Struct, array_like=True):
    """What is remembered of one trajectory; each check has fields of its own."""

    turns: dict[str, list[Turn]] = {}
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


_NOTHING = Known()
_decoder = msgspec.msgpack.Decoder(dict[str, Known])


class Past:
    """What is remembered of all trajectories of one writer."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Known] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, trajectory_id: str) -> bool:
        return trajectory_id in self._known

    def of(self, trajectory_id: str) -> Known:
        """What is known of a trajectory; `keep` it after a change."""
        return self._known.get(trajectory_id) or Known()

    def keep(self, trajectory_id: str, known: Known) -> None:
        if known == _NOTHING:
            return
        self._known[trajectory_id] = known
        self._known.move_to_end(trajectory_id)
        if len(self._known) > _MOST_TRAJECTORIES:
            self._known.popitem(last=False)

    def forget(self, trajectory_id: str) -> None:
        self._known.pop(trajectory_id, None)

    @classmethod
    def load(cls, saved: bytes) -> Past:
        """What `dump` saved. What another version saved, and this one cannot read, is forgotten."""
        past = cls()
        try:
            past._known.update(_decoder.decode(saved) if saved else {})
        except msgspec.MsgspecError:
            pass
        return past

    def dump(self) -> bytes:
        return msgspec.msgpack.encode(self._known) if self._known else b""

    def copy(self) -> Past:
        return Past.load(self.dump())
