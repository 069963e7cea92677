"""What was recorded about a trajectory besides its ops: scores, transitions, notes, findings. One type for each.

Each is also a mapping of its fields, as the rows of the tables are: `score.value` and `score["value"]` are the same,
and `dict(score)` is the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


class _Fields(Mapping[str, Any]):
    """A dataclass that can be read as a mapping of its fields."""

    __dataclass_fields__: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dataclass_fields__)

    def __len__(self) -> int:
        return len(self.__dataclass_fields__)


@dataclass(frozen=True, eq=False)
class Score(_Fields):
    """One value that was given under a name; the newest of a name counts."""

    name: str
    """reward, advantage, fate, note, or any other."""
    value: float | None
    """The number; None if it is a label."""
    terms: dict[str, Any] | None = None
    """The parts it is made of."""
    time_ns: int = 0
    """When it was given, nanoseconds since 1970."""
    label: str | None = None
    """Text instead of a number: a fate, a label, a note."""
    reason: str | None = None
    trained_step: int | None = None
    """Of a fate: the step that trained on the trajectory."""
    author: str | None = None
    """Of a label or note: who gave it."""
    op_id: int | None = None
    """Of a label or note on a turn: its op."""

    @property
    def shown(self) -> float | str | None:
        """The label, or else the number."""
        return self.value if self.label is None else self.label


@dataclass(frozen=True, eq=False)
class Transition(_Fields):
    """One environment step."""

    op_id: int | None
    """The op in which it was recorded."""
    time_ns: int
    """Nanoseconds since 1970."""
    trace: Any
    """prompt, policy_response, reward_data, env_state, extra, as far as they were recorded."""
    reward: float | None = None
    fields: dict[str, Any] | None = None
    """Everything else that was recorded: metrics, logs, ..."""
    episode_done: bool | None = None
    """None if that was not recorded."""
    stop_reason: str | None = None
    backfill: bool | None = None
    """It was added after the rollout, and no step was recorded before it."""
    amends: bool = False
    """It changes a step that is not there."""
    turn: int | None = None
    """Which one."""
    earlier: list[dict[str, Any]] = field(default_factory=list)
    """What amendments replaced, the oldest first: `time_ns`, when, and each value as it was before."""


@dataclass(frozen=True, eq=False)
class Note(_Fields):
    """A note, or a change of tags."""

    event: str
    """`note` or `tag`."""
    op_id: int | None
    """The op in which it was made."""
    time_ns: int
    """Nanoseconds since 1970."""
    body: Any
    """Of a note: `text` and `fields`. Of a change of tags: the tags."""

    @property
    def text(self) -> str:
        """The text of a note."""
        return str(self.body.get("text", "")) if isinstance(self.body, dict) else str(self.body)

    @property
    def fields(self) -> dict[str, Any]:
        """What was recorded with the text of a note, such as its author."""
        fields = self.body.get("fields") if isinstance(self.body, dict) else None
        return fields if isinstance(fields, dict) else {}


@dataclass(frozen=True, eq=False)
class Finding(_Fields):
    """A problem that a check found."""

    flag: str
    """Its name, as in `Trajectory.flags`."""
    op_id: int | None
    """The op that has it; None if it is the trajectory's."""
    time_ns: int
    """When that op or the trajectory began, nanoseconds since 1970."""
    detail: Any
    """What was seen."""


def labels_of(scores: list[Score]) -> list[Score]:
    """What people say now: of each name, author and place the newest, oldest first, without what was taken back."""
    newest = {(score.name, score.author, score.op_id): score for score in scores if score.author is not None}
    return sorted((each for each in newest.values() if each.label is not None), key=lambda each: each.time_ns)


def human_notes(notes: list[Note], scores: list[Score]) -> list[Note]:
    """All notes in their order: those made during the rollout, and the scores named `note` that were given later.

    An author's note on the same trajectory or turn takes the place of the one before; without an author all are shown.
    """
    shown_scores = [score for score in scores if score.author is None and score.shown is not None] + labels_of(scores)
    given_later = [
        Note("note", score.op_id, score.time_ns, {"text": score.shown, "fields": _fields_of(score)})
        for score in shown_scores
        if score.name == "note"
    ]
    recorded = [note for note in notes if note.event == "note"]
    return sorted([*recorded, *given_later], key=lambda note: note.time_ns)


def _fields_of(note: Score) -> dict[str, Any]:
    return {"reason": note.reason} if note.author is None else {"author": note.author}
