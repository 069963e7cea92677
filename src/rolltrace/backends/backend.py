"""What a backend is: plain synchronous code that gives finished trajectories to one vendor.

Threads, retries, positions, budgets and counting are the sender's, not its own. What it is given may have been given
before, after a crash: it derives the vendor's ids from ours, so that a repeat replaces and never doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from rolltrace.query import Trajectory


_MAX_REASON_CHARS = 500


class Refused(NamedTuple):
    """A trajectory that the vendor will never take, and why."""

    trajectory_id: str
    reason: str


T = TypeVar("T")


def convert_each(
    trajectories: Iterable[Trajectory], convert: Callable[[Trajectory], T], refused: dict[str, str]
) -> Iterator[tuple[Trajectory, T]]:
    """Each with what a vendor takes for it. One that cannot be converted goes to `refused`, with the reason: sending it
    again would not help, and it is no reason to hold up the others."""
    for trajectory in trajectories:
        try:
            converted = convert(trajectory)
        except Exception as error:
            refused[trajectory.trajectory_id] = f"cannot be converted: {type(error).__name__}: {error}"[
                :_MAX_REASON_CHARS
            ]
            continue
        yield trajectory, converted


class RefusedRequest(Exception):
    """The vendor will not take this, however often it is sent: because of one piece of it, or as too much at once."""


class Piece(NamedTuple):
    """A part of a request, and whose it is."""

    trajectory_id: str
    body: Any
    size_bytes: int


def deliver(
    pieces: Iterable[Piece],
    post: Callable[[list[Any]], None],
    max_bytes: Callable[[], int],
    max_pieces: int | None = None,
) -> dict[str, str]:
    """Send these in requests that are not too large; gives the trajectories with something refused, and why.

    `post` sends the bodies of one request, or raises `RefusedRequest`: it is halved until the culprit stands alone.
    """
    refused: dict[str, str] = {}
    batch: list[Piece] = []
    size = 0
    for piece in pieces:
        if batch and (size + piece.size_bytes > max_bytes() or len(batch) == max_pieces):
            refused |= _deliver_batch(batch, post)
            batch, size = [], 0
        batch.append(piece)
        size += piece.size_bytes
    return refused | (_deliver_batch(batch, post) if batch else {})


def _deliver_batch(batch: Sequence[Piece], post: Callable[[list[Any]], None]) -> dict[str, str]:
    try:
        post([piece.body for piece in batch])
    except RefusedRequest as error:
        if len(batch) == 1:
            return {batch[0].trajectory_id: str(error)}
        half = len(batch) // 2
        return _deliver_batch(batch[:half], post) | _deliver_batch(batch[half:], post)
    return {}


class Backend(Protocol):
    """One vendor. The class is the entry point; it is made with no arguments and reads the vendor's own environment
    variables (`MLFLOW_TRACKING_URI`, `WANDB_API_KEY`, ...).

    Raises, from any method:
        rolltrace.errors.BackendError: it cannot work until somebody does something: a wrong key, a missing setting.
            The sender stops and shows the message.
        rolltrace.errors.OutageError: the vendor asked to be left alone; the sender waits as long as it said.
        Any other exception: an outage. The sender waits and tries again.
    """

    def send(self, trajectories: Sequence[Trajectory]) -> Sequence[Refused]:
        """Give these to the vendor, ops and scores included. When it returns, the vendor has them.

        Gives back the ones that the vendor will never take, however often they are sent; usually none.
        """
        ...

    def update(self, trajectories: Sequence[Trajectory]) -> None:
        """These were sent before and have newer scores now: bring those up to date."""
        ...

    def close(self) -> None:
        """No more calls will come."""
        ...

    # A backend may also have `links(trajectory) -> dict[str, str]`: where its vendor shows a trajectory that it was
    # given, and its run, by name. The viewer links there. `{id}` in an address stands for our id, `{uuid}` for the same
    # with dashes: they are kept once per run.
