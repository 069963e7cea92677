"""What checks remember of trajectories that are not over yet.

It goes from a writer's segment to its next in the same file as the ops that are open, so it is small: hashes and
numbers, no tokens and no text. A trajectory that ends is forgotten; one that never does, because it ends in another
process, makes room when others need it.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

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
